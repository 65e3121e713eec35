// SPDX-License-Identifier: BSD-3-Clause
// Peers that greet wrongly, or answer wrongly.
#include <cstring>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include "na/util/log.hpp"
#include "support/two_process.hpp"
#include "unit/sm/fake_peer.hpp"
#include "unit/sm/node.hpp"

using namespace sm_test;
using na::sm::Answer;
using na::sm::Control;
using na::sm::Received;
using na::sm::UniqueFd;
using na::sm::Verdict;

namespace {

// The endpoint still serves others.
void check_alive(Node& server) {
    Node client;
    TestOp op;
    const std::size_t before = server->messages.size();
    REQUIRE(client.try_send(op, server.uri(), Lane::unexpected, 1, "x", 1).what ==
            Posted::What::done);
    REQUIRE(settle([&] { return server->messages.size() == before + 1; }, server, client));
    REQUIRE(server.try_send(op, client.uri(), Lane::expected, 1, "y", 1).what ==
            Posted::What::done);
    REQUIRE(settle([&] { return client->messages.size() == 1; }, server, client));
}

int plain_memory(std::size_t bytes, int seals) {
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(ftruncate(fd, static_cast<off_t>(bytes)) == 0);
    REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

}  // namespace

TEST_CASE("handshake: a correct one") {
    Node server;
    {
        FakePeer peer;
        peer.join(server.uri(), [&] { server.poll(); });
        CHECK(server->stat("sm_accepted") == 1);
        CHECK(server->complaints.empty());
    }
    CHECK(settle([&] { return server->lost.size() == 1; }, server));
}

TEST_CASE("handshake: greetings that are refused") {
    Node server;
    server.poll();
    const std::size_t files = open_files();
    Verdict expected = Verdict::malformed;
    {
        FakePeer peer;
        const std::size_t region = peer.hello.geometry.region_bytes();
        constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
        UniqueFd other;
        SECTION("no magic") {
            peer.hello.magic = 1;
        }
        SECTION("not a greeting") {
            peer.hello.control = Control::answer;
        }
        SECTION("another version") {
            peer.hello.version = 77;
            expected = Verdict::version;
        }
        SECTION("buffers of no size") {
            peer.hello.geometry.buffer_bytes = 0;
        }
        SECTION("buffers without end") {
            peer.hello.geometry.buffer_bytes = 0xffffffc0U;
        }
        SECTION("no buffers") {
            peer.hello.geometry.buffer_count = 0;
        }
        SECTION("too many buffers") {
            peer.hello.geometry.buffer_count = 0xffffffffU;
        }
        SECTION("another geometry than the region's") {
            peer.hello.geometry.buffer_count = 9;
        }
        SECTION("a bit outside of the map") {
            peer.hello.bit = na::sm::kReadyBits;
        }
        SECTION("no name") {
            peer.hello.name_length = 0;
        }
        SECTION("a name without end") {
            peer.hello.name_length = 0xffff;
        }
        SECTION("a name with a slash") {
            std::memcpy(peer.hello.name, "a/b", 3);
        }
        SECTION("a name with a zero") {
            peer.hello.name[1] = 0;
        }
        SECTION("another context") {
            peer.hello.target_context = 3;
        }
        SECTION("no descriptors") {
            peer.fds.clear();
        }
        SECTION("too few descriptors") {
            peer.fds.pop_back();
        }
        SECTION("too small a region") {
            peer.fds[0] = peer.status.fd.get();
        }
        SECTION("an unsealed region") {
            other.reset(plain_memory(region, 0));
            peer.fds[0] = other.get();
        }
        SECTION("a region that can shrink") {
            other.reset(plain_memory(region, F_SEAL_GROW | F_SEAL_SEAL));
            peer.fds[0] = other.get();
        }
        SECTION("a region whose seals can change") {
            other.reset(plain_memory(region, F_SEAL_SHRINK | F_SEAL_GROW));
            peer.fds[0] = other.get();
        }
        SECTION("a region that cannot be written") {
            other.reset(plain_memory(region, kSeals | F_SEAL_WRITE));
            peer.fds[0] = other.get();
        }
        SECTION("a status page of the wrong size") {
            other.reset(plain_memory(100, kSeals));
            peer.fds[1] = other.get();
        }
        SECTION("a ready map that can only be read") {
            peer.fds[2] = peer.status.fd.get();
        }
        SECTION("permits of the wrong size") {
            peer.fds[3] = peer.status.fd.get();
        }
        SECTION("descriptors of something else") {
            const auto [which, path] = GENERATE(
                std::pair{0, "/dev/null"}, std::pair{1, "/dev/zero"},
                std::pair{2, "/proc/self/exe"}, std::pair{0, "/proc/self/exe"}, std::pair{0, "/"});
            other.reset(open(path, O_RDONLY | O_CLOEXEC));
            peer.fds[static_cast<std::size_t>(which)] = other.get();
        }
        SECTION("a socket instead of memory") {
            peer.fds[0] = -1;
        }
        SECTION("the name of another process") {
            std::memcpy(peer.hello.name, "1-0", 3);
            peer.hello.name_length = 3;
            expected = Verdict::identity;
        }
        SECTION("a name where somebody else listens") {
            std::memcpy(peer.hello.name, "nobody-at-all", 13);
            peer.hello.name_length = 13;
            expected = Verdict::identity;
        }
        SECTION("no room") {
            server.full = true;
            expected = Verdict::limit;
        }
        peer.connect(server.uri());
        if (!peer.fds.empty() && peer.fds[0] < 0) {
            peer.fds[0] = peer.socket.get();
        }
        peer.greet();
        const Received r = peer.wait([&] { server.poll(); });
        Answer answer{};
        REQUIRE(r.get(answer));
        CHECK(answer.verdict == expected);
        CHECK(r.fd_count == 0);
        CHECK(peer.wait([&] { server.poll(); }).what == Received::What::hang_up);
    }
    server.full = false;
    CHECK(server->complaints.size() == 1);
    CHECK(server->messages.empty());
    CHECK(server->lost.empty());
    CHECK(server->stat("sm_connections") == 0);
    CHECK(open_files() == files);
    check_alive(server);
}

TEST_CASE("handshake: bytes of all kinds") {
    Node server;
    support::Random random(support::options().seed);
    const std::size_t files = open_files();
    for (int i = 0; i < 400; ++i) {
        FakePeer peer;
        peer.connect(server.uri());
        switch (random.below(4)) {
            case 0:
                break;  // hangs up without a word
            case 1: {
                const auto bytes = support::payload(1 + random.below(2000), random.next());
                na::sm::send_message(peer.socket.get(), bytes.data(), bytes.size());
                break;
            }
            case 2: {
                // A greeting cut short, or with bytes behind it.
                std::vector<std::byte> bytes(sizeof peer.hello + 20);
                std::memcpy(bytes.data(), &peer.hello, sizeof peer.hello);
                std::size_t n = 1 + random.below(bytes.size());
                if (n == sizeof peer.hello) {
                    ++n;
                }
                na::sm::send_message(peer.socket.get(), bytes.data(), n, peer.fds);
                break;
            }
            default: {
                // A greeting with some bytes changed; it may still be a good one.
                auto* bytes = reinterpret_cast<unsigned char*>(&peer.hello);
                for (std::uint64_t n = 1 + random.below(6); n != 0; --n) {
                    bytes[random.below(sizeof peer.hello)] =
                        static_cast<unsigned char>(random.next());
                }
                peer.greet();
            }
        }
        for (int n = 0; n < 3; ++n) {
            server.poll();
        }
    }
    CHECK(settle([&] { return server->stat("sm_connections") == 0 && open_files() == files; },
                 server));
    check_alive(server);
}

TEST_CASE("handshake: many that connect and say nothing") {
    Node server;
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 400; ++i) {
        auto c = na::sm::connect_socket(na::sm::socket_name(server.uri().substr(5), 0));
        REQUIRE(c.how == na::sm::Connected::yes);
        silent.push_back(std::move(c.socket));
        server.poll();
    }
    check_alive(server);
    // Those that were thrown out are told, and see the end.
    std::size_t out = 0;
    for (UniqueFd& fd : silent) {
        Received answer;
        Answer told{};
        receive_message(fd.get(), answer);
        if (answer.get(told)) {
            CHECK(told.verdict == Verdict::limit);
            receive_message(fd.get(), answer);
            out += answer.what == Received::What::hang_up;
        }
    }
    CHECK(out >= 200);
    CHECK(out < 400);
}

TEST_CASE("handshake: one peer that connects again and again") {
    Node server;
    std::vector<std::unique_ptr<FakePeer>> peers;
    int in = 0;
    for (int i = 0; i < 20; ++i) {
        peers.push_back(std::make_unique<FakePeer>());
        peers.back()->connect(server.uri());
        peers.back()->greet();
        Answer answer{};
        REQUIRE(peers.back()->wait([&] { server.poll(); }).get(answer));
        in += answer.verdict == Verdict::accepted;
    }
    CHECK(in == 4);
    check_alive(server);
    peers.clear();
    CHECK(settle([&] { return server->stat("sm_connections") == 0; }, server));
}

TEST_CASE("handshake: one process under many names") {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    support::Party other(support::Party::As::process, [](support::Link& link) {
        const std::string server = link.take_text();
        Node node;
        TestOp op;
        PARTY_REQUIRE(node.try_send(op, server, Lane::unexpected, 1, "x", 1).what ==
                      Posted::What::done);
        link.put("sent");
        while (!link.readable()) {
            node.poll();
        }
    });
    rlimit fewer = limit;
    fewer.rlim_cur = 400;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &fewer) == 0);
    {
        Node server;
        std::vector<UniqueFd> sockets;
        int in = 0;
        for (int i = 0; i < 120; ++i) {
            FakePeer peer(std::to_string(getpid()) + "-" + std::to_string(4'000'000'000 + i));
            peer.connect(server.uri());
            peer.greet();
            Answer answer{};
            REQUIRE(peer.wait([&] { server.poll(); }).get(answer));
            in += answer.verdict == Verdict::accepted;
            sockets.push_back(std::move(peer.socket));
        }
        CHECK(in == 100);  // a quarter of the files
        // That is no other's problem.
        other.link().put(server.uri());
        REQUIRE(settle([&] { return server->messages.size() == 1; }, server));
        sockets.clear();
        REQUIRE(settle([&] { return server->stat("sm_connections") == 1; }, server));
        check_alive(server);
        other.link().put("end");
        CHECK(other.join().empty());
    }
    setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("handshake: after it, nonsense on the socket") {
    Node server;
    support::Random random(support::options().seed);
    const std::size_t files = open_files();
    for (int i = 0; i < 300; ++i) {
        FakePeer peer;
        peer.join(server.uri(), [&] { server.poll(); });
        for (int n = 0; n < 3; ++n) {
            auto bytes = support::payload(2 + random.below(300), random.next());
            const auto control = static_cast<std::uint32_t>(random.below(8));
            if (bytes.size() >= 4 && random.below(4) != 0) {
                std::memcpy(bytes.data(), &control, sizeof control);
                if (random.below(2) == 0) {
                    bytes.resize(sizeof(na::sm::MapMessage));
                }
            }
            na::sm::send_message(peer.socket.get(), bytes.data(), bytes.size(),
                                 std::span(peer.fds).first(random.below(4)));
        }
        server.poll();
    }
    CHECK(settle([&] { return server->stat("sm_connections") == 0 && open_files() == files; },
                 server));
    check_alive(server);
}

TEST_CASE("handshake: wrong answers") {
    Node client;
    client.poll();
    const std::size_t files = open_files();
    {
        // Somebody else's socket at the name of an endpoint.
        const std::string name = std::to_string(getpid()) + "-4000000001";
        auto listener = na::sm::bind_socket(na::sm::socket_name(name, 0), 10);
        REQUIRE(listener);
        TestOp op;
        REQUIRE(client.try_send(op, "sm://" + name, Lane::unexpected, 1, "x", 1).what ==
                Posted::What::done);
        UniqueFd socket(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
        REQUIRE(socket);
        FakePeer pages;
        Answer answer{};
        answer.control = Control::answer;
        answer.version = na::sm::kLayoutVersion;
        answer.magic = na::sm::kHelloMagic;
        std::vector<int> fds = {pages.status.fd.get(), pages.ready.fd.get(),
                                pages.permits.fd.get()};
        bool refused = true;
        Status status = Status::hostunreach;
        SECTION("correct") {
            refused = false;
        }
        SECTION("no magic") {
            answer.magic = 0;
        }
        SECTION("another version") {
            answer.version = 9;
        }
        SECTION("refused by a living peer") {
            // Never hostunreach, which a membership service takes for the peer's death.
            std::tie(answer.verdict, status) =
                GENERATE(std::pair{Verdict::version, Status::protonosupport},
                         std::pair{Verdict::identity, Status::permission},
                         std::pair{Verdict::limit, Status::busy},
                         std::pair{Verdict::malformed, Status::protocol_error},
                         std::pair{Verdict::user, Status::permission},
                         std::pair{Verdict::files, Status::busy},
                         std::pair{Verdict::namespaces, Status::addrnotavail},
                         std::pair{static_cast<Verdict>(1000), Status::protocol_error});
        }
        SECTION("a bit outside of the map") {
            answer.bit = na::sm::kReadyBits;
        }
        SECTION("no descriptors") {
            fds.clear();
        }
        SECTION("the wrong descriptors") {
            fds[1] = fds[0];
        }
        SECTION("too many descriptors") {
            fds.push_back(fds[0]);
        }
        SECTION("a goodbye") {
            answer.control = Control::bye;
        }
        SECTION("a greeting") {
            answer.control = Control::hello;
        }
        SECTION("hung up") {
            socket.reset();
        }
        if (socket) {
            na::sm::send_message(socket.get(), &answer, sizeof answer, fds);
        }
        if (refused) {
            REQUIRE(settle([&] { return client->lost.size() == 1; }, client));
            CHECK(client->lost[0].second == status);
            if (status != Status::hostunreach) {
                CHECK(na::log::last_error().find(name + ": it is alive") != std::string::npos);
            }
        } else {
            // An answer is welcome once.
            CHECK(settle(
                [&] {
                    client->poll();
                    return client->stat("sm_connections") == 1;
                },
                client));
            na::sm::send_message(socket.get(), &answer, sizeof answer, fds);
            CHECK(settle([&] { return client->lost.size() == 1; }, client));
        }
    }
    CHECK(open_files() == files);
    check_alive(client);
}
