// SPDX-License-Identifier: BSD-3-Clause
// Peers that were let in and write anything into the shared memory. Worth running under the address
// sanitizer.
#include <atomic>
#include <cstring>
#include <thread>

#include <poll.h>

#include <catch2/catch.hpp>

#include "support/until.hpp"
#include "unit/sm/exchange.hpp"
#include "unit/sm/fake_peer.hpp"
#include "unit/sm/node.hpp"

using namespace sm_test;
using namespace na::sm;

namespace {

template <typename Body>
struct Forged {
    Head head;
    Body body;
};

struct Nothing {
    std::uint64_t filler = 0;
};

}  // namespace

TEST_CASE("hostile: each message that no correct peer writes ends its connection") {
    Node server(spec(100000));
    Node friendly;
    check_alive(server, friendly);
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    std::vector<std::byte> memory(100);
    auto region = server.region(memory.data(), memory.size());
    const std::uint64_t key = static_cast<const Region&>(*region).key;

    SECTION("an unknown kind") {
        peer.write(Forged<Nothing>{{static_cast<Kind>(200), 0, 0, 0}, {}});
    }
    SECTION("no kind") {
        peer.write(Forged<Nothing>{{Kind::none, 0, 0, 0}, {}});
    }
    SECTION("inline: too long") {
        peer.write(Forged<Nothing>{{Kind::inline_message, 0, kInlineBytes + 1, 0}, {}});
    }
    SECTION("inline: far too long") {
        peer.write(Forged<Nothing>{{Kind::inline_message, 0, 0xffff, 0}, {}});
    }
    SECTION("inline: no such lane") {
        peer.write(Forged<Nothing>{{Kind::inline_message, 2, 1, 0}, {}});
    }
    SECTION("inject: no such buffer") {
        peer.write(Forged<Inject>{{Kind::inject, 0, 0, 0}, {8, 100}});
    }
    SECTION("inject: far outside") {
        peer.write(Forged<Inject>{{Kind::inject, 0, 0, 0}, {0xffffffffU, 100}});
    }
    SECTION("inject: longer than a buffer") {
        peer.write(Forged<Inject>{{Kind::inject, 0, 0, 0}, {7, 4097}});
    }
    SECTION("inject: empty") {
        peer.write(Forged<Inject>{{Kind::inject, 0, 0, 0}, {7, 0}});
    }
    SECTION("inject: no such lane") {
        peer.write(Forged<Inject>{{Kind::inject, 255, 0, 0}, {0, 1}});
    }
    SECTION("iov: no such slot") {
        peer.write(Forged<Iov>{{Kind::iov, 0, kSlots, 0}, {1, 5000}});
    }
    SECTION("iov: no bytes") {
        peer.write(Forged<Iov>{{Kind::iov, 0, 0, 0}, {1, 0}});
    }
    SECTION("iov: no such lane") {
        peer.write(Forged<Iov>{{Kind::iov, 9, 0, 0}, {1, 1}});
    }
    SECTION("bounce: no such slot") {
        peer.write(Forged<Announce>{{Kind::bounce, 0, 0xffff, 0}, {5000}});
    }
    SECTION("bounce: no bytes") {
        peer.write(Forged<Announce>{{Kind::bounce, 0, 0, 0}, {0}});
    }
    SECTION("bounce: a slot in use") {
        peer.write(Forged<Announce>{{Kind::bounce, 0, 0, 0}, {5000}});
        peer.write(Forged<Announce>{{Kind::bounce, 0, 0, 0}, {5000}});
    }
    SECTION("bounce: more than was announced") {
        peer.write(Forged<Announce>{{Kind::bounce, 0, 0, 0}, {5000}});
        peer.write(Forged<Inject>{{Kind::data, 0, 0, 0}, {0, 4096}});
        peer.write(Forged<Inject>{{Kind::data, 0, 0, 0}, {1, 905}});
    }
    SECTION("data for nothing") {
        peer.write(Forged<Inject>{{Kind::data, 0, 3, 0}, {0, 1}});
    }
    SECTION("data for a get") {
        peer.write(Forged<RemoteRange>{{Kind::get, 0, 3, 0}, {key, 0, 100}});
        peer.write(Forged<Inject>{{Kind::data, 0, 3, 0}, {0, 1}});
    }
    SECTION("ack of nothing") {
        peer.write(Forged<Nothing>{{Kind::ack, 0, 0, 0}, {}});
    }
    SECTION("ack: no such slot") {
        peer.write(Forged<Nothing>{{Kind::ack, 0, 64, 0}, {}});
    }
    SECTION("ack: no such status") {
        peer.write(Forged<Nothing>{{Kind::ack, 200, 0, 0}, {}});
    }
    SECTION("put: no bytes") {
        peer.write(Forged<RemoteRange>{{Kind::put, 0, 0, 0}, {key, 0, 0}});
    }
    SECTION("put: a slot in use") {
        peer.write(Forged<RemoteRange>{{Kind::put, 0, 0, 0}, {key, 0, 100}});
        peer.write(Forged<RemoteRange>{{Kind::get, 0, 0, 0}, {key, 0, 100}});
    }
    SECTION("put: more than was announced") {
        peer.write(Forged<RemoteRange>{{Kind::put, 0, 0, 0}, {key, 0, 100}});
        peer.write(Forged<Inject>{{Kind::data, 0, 0, 0}, {0, 101}});
    }
    SECTION("get: no such slot") {
        peer.write(Forged<RemoteRange>{{Kind::get, 0, 1000, 0}, {key, 0, 100}});
    }
    SECTION("reply to nothing") {
        peer.write(Forged<Inject>{{Kind::reply, 0, 0, 0}, {0, 1}});
    }
    SECTION("reply: no such slot") {
        peer.write(Forged<Inject>{{Kind::reply, 0, 99, 0}, {0, 1}});
    }
    SECTION("abort of nothing") {
        peer.write(Forged<Nothing>{{Kind::abort, 0, 0, 0}, {}});
    }
    SECTION("abort: no such slot") {
        peer.write(Forged<Nothing>{{Kind::abort, 0, 0xffff, 0}, {}});
    }

    REQUIRE(settle([&] { return server->complaints.size() == 1 && server->lost.size() == 1; },
                   server, friendly));
    CHECK(server->landing == 0);
    for (const Message& m : server->messages) {
        CHECK(m.status == Status::hostunreach);  // what had been announced
    }
    server->messages.clear();
    CHECK(settle([&] { return server->stat("sm_connections") == 1; }, server));
    check_alive(server, friendly);
}

TEST_CASE("hostile: puts and gets by forged keys, offsets and lengths") {
    Node server;
    Node friendly;
    check_alive(server, friendly);
    std::vector<std::byte> memory(10000, std::byte{7});
    auto whole = server.region(memory.data(), memory.size());
    auto readable = server.region(memory.data(), memory.size(), Access::read);
    auto writable = server.region(memory.data(), memory.size(), Access::write);
    const auto key = [](const auto& r) { return static_cast<const Region&>(*r).key; };
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    Producer unused;
    Consumer answers;
    answers.attach(peer.in());
    const auto ask = [&](Kind kind, const RemoteRange& range) {
        peer.write(Forged<RemoteRange>{{kind, 0, 5, 0}, range});
        for (std::uint64_t left = kind == Kind::put ? range.length : 0; left != 0;) {
            const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, 4096));
            peer.write(Forged<Inject>{{Kind::data, 0, 5, 0}, {0, n}});
            left -= n;
        }
        REQUIRE(settle([&] { return answers.ready(); }, server, friendly));
        const Head h = answers.front<Head>();
        answers.consume(1);
        answers.publish();
        REQUIRE(h.kind == Kind::ack);
        REQUIRE(h.value == 5);
        return static_cast<Status>(h.aux);
    };
    CHECK(ask(Kind::get, {key(whole) + 1, 0, 10}) == Status::noentry);
    CHECK(ask(Kind::get, {0, 0, 10}) == Status::noentry);
    CHECK(ask(Kind::put, {key(readable), 0, 10}) == Status::permission);
    CHECK(ask(Kind::get, {key(writable), 0, 10}) == Status::permission);
    CHECK(ask(Kind::get, {key(whole), 0, 10001}) == Status::overflow);
    CHECK(ask(Kind::get, {key(whole), 10001, 1}) == Status::overflow);
    CHECK(ask(Kind::get, {key(whole), UINT64_MAX, 2}) == Status::overflow);
    CHECK(ask(Kind::get, {key(whole), 1, UINT64_MAX}) == Status::overflow);
    CHECK(ask(Kind::get, {key(whole), (std::uint64_t{1} << 32) + 1, 10}) == Status::overflow);
    CHECK(ask(Kind::put, {key(whole), 9999, 2}) == Status::overflow);
    CHECK(std::count(memory.begin(), memory.end(), std::byte{7}) == 10000);
    std::memset(peer.region.mapping.at<std::byte>(peer.hello.geometry.pool_offset(0)), 9, 4096);
    CHECK(ask(Kind::put, {key(whole), 5000, 5000}) == Status::success);
    CHECK(std::count(memory.begin(), memory.end(), std::byte{9}) == 5000);
    CHECK(server->complaints.empty());
    check_alive(server, friendly);
}

TEST_CASE("hostile: memory of another program than the one that greeted is not read") {
    const bool replaced = GENERATE(false, true);
    Node server(spec(100000));
    Node friendly;
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    if (replaced) {
        ++peer.nonce;  // as after an exec, or in a later process with that number
    }
    const std::vector<std::byte> secret(50'000, std::byte{7});
    peer.out().claims[0] = static_cast<std::uint32_t>(Claim::offered);
    peer.write(Forged<Iov>{{Kind::iov, 0, 0, 0},
                           {reinterpret_cast<std::uintptr_t>(secret.data()), secret.size()}});
    REQUIRE(settle([&] { return !server->messages.empty(); }, server));
    const auto& data = server->messages.front().data;
    CHECK(ok(server->messages.front().status) == !replaced);
    CHECK((std::count(data.begin(), data.end(), std::byte{7}) == 0) == replaced);
    check_alive(server, friendly);
}

TEST_CASE("hostile: a large message beyond all limits costs nothing") {
    Node server;
    Node friendly;
    check_alive(server, friendly);
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    peer.write(Forged<Announce>{{Kind::bounce, 0, 0, 0}, {UINT64_MAX}});
    peer.out().claims[1] = static_cast<std::uint32_t>(Claim::offered);
    peer.write(Forged<Iov>{{Kind::iov, 0, 1, 0}, {0, UINT64_MAX}});
    REQUIRE(settle([&] { return server->complaints.size() == 2; }, server));
    CHECK(server->lost.empty());
    check_alive(server, friendly);
}

TEST_CASE("hostile: a consumer that lies about what it read") {
    Node server;
    Node friendly;
    check_alive(server, friendly);
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    peer.write(Forged<Nothing>{{Kind::inline_message, 0, 8, 1}, {}});
    REQUIRE(settle([&] { return !server->messages.empty(); }, server));
    const std::string uri = server->messages[0].source;
    peer.in().consumer.consumed = 0x7fffffff;
    TestOp op;
    Posted p = Posted::done();
    // Found when the ring seems full.
    for (std::uint32_t i = 0; i <= kRingLines && p.what == Posted::What::done; ++i) {
        p = server.try_send(op, uri, Lane::expected, i, "x", 1);
    }
    CHECK(p.what == Posted::What::failed);
    REQUIRE(
        settle([&] { return server->lost.size() == 1 && server->complaints.size() == 1; }, server));
    server->messages.clear();
    check_alive(server, friendly);
}

TEST_CASE("hostile: bits and flags of others") {
    Node server;
    Node friendly;
    check_alive(server, friendly);
    FakePeer peer;
    peer.connect(server.uri());
    peer.greet();
    Received r = peer.wait([&] { server.poll(); });
    REQUIRE(r.fd_count == kAnswerFds);
    // The status page is the owner's.
    CHECK_FALSE(map_peer_memory(r.fds[0].get(), kPageBytes, true));
    auto ready = map_peer_memory(r.fds[1].get(), kPageBytes, true);
    REQUIRE(ready);
    auto* map = ready->at<ReadyMap>(0);
    // All bits: costs time, nothing else.
    for (auto& leaf : map->leaf) {
        leaf = ~std::uint64_t{0};
    }
    map->summary = ~std::uint64_t{0};
    check_alive(server, friendly);
    // Other peers' bits taken away: they are heard all the same, awake or asleep.
    std::vector<std::unique_ptr<Node>> peers;
    TestOp op;
    for (int i = 0; i < 20; ++i) {
        peers.push_back(std::make_unique<Node>());
        REQUIRE(peers.back()->try_send(op, server.uri(), Lane::unexpected, 1, "x", 1).what ==
                Posted::What::done);
        REQUIRE(settle([&] { return !server->messages.empty(); }, server, *peers.back()));
        server->messages.clear();
    }
    for (auto& p : peers) {
        p->poll();
        REQUIRE(p->try_send(op, server.uri(), Lane::unexpected, 2, "x", 1).what ==
                Posted::What::done);
        map->summary = 0;
        for (auto& leaf : map->leaf) {
            leaf = 0;
        }
        CHECK_FALSE(server->plugin->arm());
    }
    CHECK(settle([&] { return server->messages.size() == peers.size(); }, server));
}

TEST_CASE("hostile: a receiver that claims a large message and keeps it") {
    Node server(spec(100000));
    Node friendly(spec(100000));
    check_alive(server, friendly);
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    peer.out().producer.attach = static_cast<std::uint32_t>(Attach::yes);
    const std::string uri = "sm://" + std::string(peer.hello.name, peer.hello.name_length);
    const auto data = support::payload(50000, 1);
    const auto claim = [&](std::uint16_t slot) -> std::atomic<std::uint32_t>& {
        return peer.in().claims[slot];
    };
    TestOp op;
    const auto offer = [&] {
        REQUIRE(server.try_send(op, uri, Lane::expected, 1, data.data(), data.size()).what ==
                Posted::What::pending);
        server.poll();
        REQUIRE(claim(0) == static_cast<std::uint32_t>(Claim::offered));
    };
    const auto answer = [&](Status status) {
        peer.write(Forged<Nothing>{{Kind::ack, static_cast<std::uint8_t>(status), 0, 0}, {}});
        for (int i = 0; i < 100; ++i) {
            server.poll();
        }
    };
    SECTION("canceled while it is read: at once, whatever the peer says later") {
        offer();
        claim(0) = static_cast<std::uint32_t>(Claim::reading);
        server->plugin->cancel(op);
        REQUIRE(op.done());
        CHECK(op.how.status == Status::canceled);
        CHECK(claim(0) == static_cast<std::uint32_t>(Claim::revoked));
        answer(Status::success);
        CHECK(op.ended == 1);
        CHECK(server->complaints.empty());
        offer();  // its place is free again
        answer(Status::success);
        CHECK(op.done());
    }
    SECTION("canceled when the peer has it: a success") {
        offer();
        claim(0) = static_cast<std::uint32_t>(Claim::taken);
        server->plugin->cancel(op);
        REQUIRE(op.done());
        CHECK(op.how.status == Status::success);
        CHECK(op.how.size == data.size());
        answer(Status::success);
        CHECK(op.ended == 1);
    }
    SECTION("canceled with nonsense in the claim") {
        offer();
        claim(0) = 77;
        server->plugin->cancel(op);
        REQUIRE(op.done());
        CHECK(op.how.status == Status::canceled);
    }
    SECTION("all places taken by silent claims: others wait, and can be canceled") {
        std::vector<TestOp> ops(kSlots + 3);
        for (auto& o : ops) {
            REQUIRE(server.try_send(o, uri, Lane::expected, 1, data.data(), data.size()).what ==
                    Posted::What::pending);
            server.poll();
        }
        for (std::uint16_t i = 0; i < kSlots; ++i) {
            claim(i) = static_cast<std::uint32_t>(Claim::reading);
        }
        for (auto& o : ops) {
            server->plugin->cancel(o);
            CHECK(o.done());
        }
    }
    SECTION("answers that only the owner of the operation can give, or nobody") {
        const Status status = GENERATE(Status::canceled, Status::again, Status::timeout,
                                       Status::hostunreach, Status::other_error);
        offer();
        answer(status);
        REQUIRE(op.done());
        CHECK(op.how.status == Status::hostunreach);
        CHECK(server->complaints.size() == 1);
    }
    check_alive(server, friendly);
}

TEST_CASE("hostile: a large message that is taken back while it is read is not delivered") {
    Node server(spec(100000));
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    Consumer answers;
    answers.attach(peer.in());
    const auto data = support::payload(50000, 1);
    peer.out().claims[0] = static_cast<std::uint32_t>(Claim::offered);
    server->on_arrive = [&] {
        CHECK(peer.out().claims[0] == static_cast<std::uint32_t>(Claim::reading));
        peer.out().claims[0] = static_cast<std::uint32_t>(Claim::revoked);
    };
    const bool refused = GENERATE(false, true);
    server->refuse = refused;
    peer.write(Forged<Iov>{{Kind::iov, 1, 0, 9},
                           {reinterpret_cast<std::uintptr_t>(data.data()), data.size()}});
    if (refused) {
        // Taken back in the moment in which the core had no room for it.
        REQUIRE(settle([&] { return answers.ready(); }, server));
        CHECK(server->messages.empty());
    } else {
        REQUIRE(settle([&] { return answers.ready() && server->messages.size() == 1; }, server));
        CHECK(server->messages[0].status == Status::fault);
    }
    CHECK(server->complaints.empty());
    CHECK(server->lost.empty());
}

TEST_CASE("hostile: a message whose producer stops half-way lets the others sleep") {
    Node server;
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    peer.write(Forged<Nothing>{{Kind::inline_message, 0, 100, 1}, {}});
    for (int i = 0; i < 100; ++i) {
        server.poll();
    }
    REQUIRE(server->plugin->arm());
    pollfd fd{.fd = server->plugin->wait_fd(), .events = POLLIN, .revents = 0};
    CHECK(poll(&fd, 1, 20) == 0);
    // It goes on, and gives notice like after every message.
    peer.write(Forged<Nothing>{{}, {}});
    peer.knock();
    CHECK(support::uninterrupted([&] { return poll(&fd, 1, 5000); }) == 1);
    REQUIRE(settle([&] { return server->messages.size() == 1; }, server));
    // Complete before the sleep: no sleep.
    peer.write(Forged<Nothing>{{Kind::inline_message, 0, 100, 1}, {}});
    for (int i = 0; i < 100; ++i) {
        server.poll();
    }
    peer.write(Forged<Nothing>{{}, {}});
    CHECK_FALSE(server->plugin->arm());
}

TEST_CASE("hostile: who empties the ring as fast as it is filled takes no more than its turn") {
    Node server;
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    std::vector<std::byte> memory(32 << 20);
    auto region = server.region(memory.data(), memory.size());
    std::atomic<std::uint32_t> taken{0};
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        Consumer answers;
        answers.attach(peer.in());
        while (!stop) {
            while (answers.ready()) {
                answers.consume(1);
                answers.publish();
                ++taken;
            }
        }
    });
    peer.write(Forged<RemoteRange>{{Kind::get, 0, 0, 0},
                                   {static_cast<const Region&>(*region).key, 0, memory.size()}});
    std::uint32_t most = 0;
    std::uint32_t n = 0;  // lines written so far
    const auto written = [&] {
        while (peer.in().lines[n % kRingLines].sequence.load() > n / kRingLines) {
            ++n;
        }
        return n;
    };
    const bool all = settle([&] {
        const std::uint32_t before = written();
        server.poll();
        most = std::max(most, written() - before);
        return taken == memory.size() / 4096;
    });
    stop = true;
    reader.join();
    CHECK(all);
    CHECK(most <= 64);
    CHECK(most > 0);
}

TEST_CASE("hostile: random lines, flags and positions") {
    Node server(spec(100000));
    Node friendly(spec(100000));
    check_alive(server, friendly);
    support::Random random(support::options().seed);
    std::vector<std::byte> memory(20000);
    auto region = server.region(memory.data(), memory.size());
    const std::uint64_t key = static_cast<const Region&>(*region).key;
    const std::size_t files = open_files();
    std::uint64_t survived = 0;
    for (int round = 0; round < 600; ++round) {
        FakePeer peer;
        peer.join(server.uri(), [&] { server.poll(); });
        Consumer answers;
        answers.attach(peer.in());
        TestOp ops[3];
        bool posted[3] = {};
        std::vector<std::byte> data(60000);
        if (random.below(2) == 0) {
            // Something of the server's waits for this peer.
            for (int i = 0; i < 3; ++i) {
                posted[i] =
                    server
                        .try_send(ops[i],
                                  "sm://" + std::string(peer.hello.name, peer.hello.name_length),
                                  Lane::expected, 1, data.data(), data.size())
                        .what == Posted::What::pending;
            }
        }
        for (std::uint64_t n = 1 + random.below(40); n != 0; --n) {
            struct {
                Head head;
                std::uint64_t body[6];
            } line{};
            line.head.kind = static_cast<Kind>(random.below(11));
            line.head.aux = static_cast<std::uint8_t>(random.below(2));
            line.head.value =
                static_cast<std::uint16_t>(random.below(random.below(8) == 0 ? 300 : 4));
            line.head.tag = static_cast<std::uint32_t>(random.next());
            for (auto& word : line.body) {
                switch (random.below(6)) {
                    case 0:
                        word = random.next();
                        break;
                    case 1:
                        word = random.below(70000);
                        break;
                    case 2:
                        word = key;
                        break;
                    case 3:
                        word = reinterpret_cast<std::uintptr_t>(data.data());
                        break;
                    case 4:
                        word = random.below(8) | random.below(4097) << 32;
                        break;  // a buffer and a length
                    default:
                        word = random.below(100);
                        break;
                }
            }
            std::byte bytes[kLinePayload] = {};
            std::memcpy(bytes, &line, sizeof line);
            peer.write_line(bytes, sizeof bytes);
            if (random.below(4) == 0) {
                peer.out().claims[random.below(kSlots)] =
                    static_cast<std::uint32_t>(random.below(5));
                peer.in().claims[random.below(kSlots)] =
                    static_cast<std::uint32_t>(random.below(5));
            }
            if (random.below(16) == 0) {
                peer.in().consumer.consumed = static_cast<std::uint32_t>(
                    random.below(random.below(2) == 0 ? 10 : UINT32_MAX));
            }
            if (random.below(16) == 0) {
                peer.out().producer.attach = static_cast<std::uint32_t>(random.below(5));
            }
            while (answers.ready() && random.below(3) != 0) {
                answers.consume(1);
                answers.publish();
            }
            if (random.below(3) == 0) {
                server.poll();
            }
            survived += server->lost.empty();
        }
        for (int i = 0; i < 20; ++i) {
            server.poll();
        }
        peer.socket.reset();
        REQUIRE(settle([&] { return server->stat("sm_connections") == 1; }, server));
        for (int i = 0; i < 3; ++i) {
            CHECK((!posted[i] || ops[i].done()));
        }
        REQUIRE(server->landing == 0);
        server->messages.clear();
        server->lost.clear();
        server->complaints.clear();
    }
    CHECK(survived > 100);
    CHECK(open_files() <= files);
    check_alive(server, friendly);
}
