// SPDX-License-Identifier: BSD-3-Clause
// What closing waits for.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "na/util/fd.hpp"
#include "spies.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

using namespace std::chrono_literals;
using support::until;

namespace {

// What a process that was killed has left of its endpoint, and a class that may find it when it
// closes.
struct Closing {
    Closing() {
        const pid_t dead = fork();
        if (dead == 0) {
            _exit(0);
        }
        waitpid(dead, nullptr, 0);
        side.emplace("ofi+shm");  // it looks, too, when it opens
        path = "/dev/shm/" + std::to_string(dead) + "-7";
        const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        REQUIRE(fd >= 0);
        close(fd);
    }
    ~Closing() { unlink(path.c_str()); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    // It is there, and nobody has looked whose it is; or it was found dead, and goes later.
    bool left() const {
        struct stat file {};
        return stat(path.c_str(), &file) == 0 && (file.st_mode & S_ISVTX) == 0;
    }

    std::optional<Side> side;
    std::string path;
};

std::size_t descriptors() {
    using std::filesystem::directory_iterator;
    return static_cast<std::size_t>(
        std::distance(directory_iterator("/proc/self/fd"), directory_iterator()));
}

// Sends something to a side of this process, which knows the other then.
void meet(Side& from, Side& to) {
    const na::Buffer out = from.domain.make_buffer(8).value();
    const na::Buffer in = to.domain.make_buffer(8).value();
    na::Operation send(from.context), receive(to.context);
    bool sent = false, received = false;
    to.context
        .recv_unexpected(receive, in, [&](na::Status s, const na::Message&) { received = ok(s); })
        .value();
    from.context
        .send_unexpected(send, from.domain.lookup(to.domain.uri()).value(), 1, out.first(1),
                         [&](na::Status s) { sent = ok(s); })
        .value();
    PARTY_REQUIRE(until([&] { return sent && received; },
                        [&] {
                            from.pump();
                            to.pump();
                        }));
}

}  // namespace

// rxm tells of connections by a descriptor that stays readable when it has taken them up: who waits
// for that to end waits in vain, and polls all the while.
TEST_CASE("a class that somebody has connected to closes without waiting", "[ofi][closing]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+tcp;ofi_rxm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    listened().clear();
    Side server(protocol);
    Side client(protocol);
    REQUIRE(listened().size() == 2);
    const na::Buffer in = server.domain.make_buffer(8).value();
    const na::Buffer out = client.domain.make_buffer(8).value();
    na::Operation receive(server.context), send(client.context);
    bool received = false, sent = false;
    REQUIRE(server.context.recv_unexpected(
        receive, in, [&](na::Status s, const na::Message&) { received = ok(s); }));
    REQUIRE(client.context.send_unexpected(send, client.domain.lookup(server.domain.uri()).value(),
                                           1, out.first(1), [&](na::Status s) { sent = ok(s); }));
    REQUIRE(until([&] { return sent && received; },
                  [&] {
                      client.pump();
                      server.pump();
                  }));
    for (int i = 0; i < 100; ++i) {
        client.pump();
        server.pump();
    }
    const std::size_t before = listened()[0]->reads;
    CHECK(server.context.close(10s));
    server.context = {};
    server.domain = {};
    CHECK(listened()[0]->reads - before < 100);
    CHECK(client.context.close(10s));
}

// Probes of peers that wait for it are such connections. libfabric forgets them, with their
// descriptors.
TEST_CASE("a class hangs up on who has connected and said nothing when it closes",
          "[ofi][closing]") {
    const std::string protocol =
        GENERATE(as<std::string>{}, "ofi+tcp", "ofi+tcp;ofi_rxm", "ofi+sockets");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    { const Side first(protocol + "://127.0.0.1:0"); }  // what libfabric keeps for good
    std::vector<na::util::UniqueFd> callers(5);
    for (auto& caller : callers) {
        caller.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    }
    const std::size_t before = descriptors();
    {
        Side server(protocol + "://127.0.0.1:0");
        const std::string uri = server.domain.uri();
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons(static_cast<std::uint16_t>(std::stoi(uri.substr(uri.rfind(':') + 1))));
        const std::size_t open = descriptors();
        for (auto& caller : callers) {
            REQUIRE(connect(caller.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
        }
        REQUIRE(
            until([&] { return descriptors() >= open + callers.size(); }, [&] { server.pump(); }));
        CHECK(server.context.close(10s));
    }
    for (const auto& caller : callers) {
        pollfd set{caller.get(), POLLIN, 0};
        CHECK(poll(&set, 1, 10'000) == 1);
    }
    CHECK(descriptors() == before);
}

// On a busy machine somebody may be in the gate for long, without being stopped there.
TEST_CASE("a class of shared memory that closes waits for who makes a segment", "[ofi][closing]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    Closing closing;
    // For much longer than who opens waits.
    GateSpy gate([](std::chrono::nanoseconds since) { return since < 200ms ? EWOULDBLOCK : 0; });
    // (Real ones of other processes may be in it, too.)
    closing.side.reset();
    CHECK(gate.tries.back() - gate.tries.front() >= 200ms);
    CHECK_FALSE(closing.left());
}

// Who judges would take what is there for a dead one's, or for the former one's.
TEST_CASE("who makes a segment waits for who judges", "[ofi][closing]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    const int folder = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(folder >= 0);
    std::atomic<bool> judged{false};
    const auto judge = [&] {
        judged = false;
        REQUIRE(flock(folder, LOCK_EX) == 0);
        return std::thread([&] {
            std::this_thread::sleep_for(50ms);
            judged = true;
            flock(folder, LOCK_UN);
        });
    };
    std::thread first = judge();
    std::optional<Side> side("ofi+shm");
    CHECK(judged);
    first.join();
    std::thread second = judge();
    side->context = {};
    CHECK(judged);
    second.join();
    close(folder);
}

TEST_CASE("a class of shared memory closes although somebody is stopped while he makes a segment",
          "[ofi][closing]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    Closing closing;
    // Each try takes long, as naps do on a busy machine.
    GateSpy gate([](std::chrono::nanoseconds) {
        std::this_thread::sleep_for(10ms);
        return EWOULDBLOCK;
    });
    closing.side.reset();
    CHECK(gate.tries.back() - gate.tries.front() >= 980ms);
    CHECK(gate.tries.size() <= 102);  // a second
    CHECK(closing.left());
}

TEST_CASE("a lock that cannot be had at all is not waited for", "[ofi][closing]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    Closing closing;
    GateSpy gate([](std::chrono::nanoseconds) { return ENOLCK; });
    closing.side.reset();
    CHECK(gate.tries.size() == 1);
    CHECK(closing.left());
}

// libfabric 1.17 crashes where it looks for what a greeting names, and nothing is there.
TEST_CASE("the segment of who has greeted somebody is there while he closes", "[ofi][closing]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    support::Party greeted(support::Party::As::process, [](support::Link& link) {
        Side side("ofi+shm");
        link.put(side.domain.uri());
        link.take();
        link.barrier([&] { side.pump(); });
    });
    Side side("ofi+shm");
    const std::string uri = side.domain.uri();
    const std::string path = "/dev/shm/" + uri.substr(uri.rfind('/') + 1);
    REQUIRE(access(path.c_str(), F_OK) == 0);
    const na::Buffer out = side.domain.make_buffer(8).value();
    na::Operation send(side.context);
    bool sent = false;
    const na::Address peer = side.domain.lookup(greeted.link().take_text()).value();
    REQUIRE(side.context.send_unexpected(send, peer, 1, out.first(1),
                                         [&](na::Status) { sent = true; }));
    int removals = 0;
    int missing = 0;
    const RemovalSpy spy([&] {
        ++removals;
        missing += access(path.c_str(), F_OK) == 0 ? 0 : 1;
    });
    CHECK(side.context.close(10s));
    CHECK(sent);
    CHECK(removals == 1);
    CHECK(missing == 0);
    greeted.link().put("look");
    greeted.link().barrier([] {});
    CHECK(greeted.join().empty());
}

// The neighbour writes its answer into what libfabric had for the class.
TEST_CASE("a class closes before a neighbour has looked at its put", "[ofi][closing]") {
    if (!can_open("ofi+shm")) {
        support::skip("ofi+shm cannot be opened here");
        return;
    }
    const bool opens_again = GENERATE(false, true);
    CAPTURE(opens_again);
    const std::string name = "ofi+shm://owes-" + std::to_string(getpid());
    support::Party party(support::Party::As::process, [&](support::Link&) {
        std::optional<Side> idle(std::in_place, "ofi+shm");
        std::optional<Side> side(std::in_place, name);
        meet(*side, *idle);
        std::array<char, 64> theirs{};
        std::optional<na::Memory> target =
            idle->domain.register_memory(theirs, na::Access::read_write).value();
        {
            std::array<char, 64> mine{};
            const na::Memory source =
                side->domain.register_memory(mine, na::Access::read_write).value();
            na::Operation put(side->context);
            bool ended = false;
            side->context
                .put(put, side->domain.lookup(idle->domain.uri()).value(), source.range(0, 8),
                     side->domain.decode_memory(target->encode()).value().at(0),
                     [&](na::Status) { ended = true; })
                .value();
            side->context.cancel(put);
            PARTY_REQUIRE(until([&] { return ended; }, [&] { side->pump(); }));
        }
        PARTY_REQUIRE(side->context.close(10s));
        side.reset();
        if (opens_again) {
            const auto early = na::Domain::listen(name);
            PARTY_REQUIRE(!early);
            PARTY_REQUIRE(early.status() == na::Status::addrinuse);
        }
        for (int i = 0; i < 1000; ++i) {
            idle->pump();
        }
        if (opens_again) {
            target.reset();
            idle.reset();
            idle.emplace("ofi+shm");
            side.emplace(name);
            meet(*side, *idle);
            meet(*idle, *side);
        }
    });
    CHECK(party.join().empty());
}
