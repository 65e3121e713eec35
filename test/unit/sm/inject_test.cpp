// SPDX-License-Identifier: BSD-3-Clause
// Messages without an operation, and peers that never sleep.
#include <limits>

#include <catch2/catch.hpp>

#include "unit/sm/exchange.hpp"
#include "unit/sm/fake_peer.hpp"

namespace na::sm {

struct ContextProbe {
    // The only connection's ring.
    static void cool_and_put_off_sweep(Context& context) {
        context.cool(*context.slots_.front());
        context.next_events_ = std::numeric_limits<std::int64_t>::max();
    }
};

}  // namespace na::sm

using namespace sm_test;

TEST_CASE("inject: in order with what is posted") {
    NoAttach off;  // large ones take several steps
    Node a(spec(100000));
    Node b(spec(100000));
    auto data = support::payload(100000, 3);
    const auto inject = [&](std::uint32_t tag, std::size_t size, Lane lane = Lane::unexpected) {
        return a->plugin->inject(a.peer(b.uri()), {0, lane}, tag, std::span(data).first(size));
    };
    // Nobody there yet: posting connects.
    CHECK_FALSE(inject(0, 8));
    exchange(a, b, {1}, Lane::unexpected);
    const std::size_t most = a.domain->caps().inject;
    REQUIRE(most >= 8);

    TestOp small;
    TestOp large;
    // Nor before it has answered.
    REQUIRE(settle([&] { return inject(0, most); }, a, b));
    CHECK(inject(1, 0));
    REQUIRE(a.try_send(small, b.uri(), Lane::unexpected, 2, data.data(), 8).what ==
            Posted::What::done);
    CHECK(inject(3, 1));
    CHECK_FALSE(inject(99, most + 1));
    // Not past a large one that is still on its way; the other lane goes on.
    REQUIRE(a.try_send(large, b.uri(), Lane::unexpected, 4, data.data(), 100000).what ==
            Posted::What::pending);
    CHECK_FALSE(inject(99, 8));
    CHECK(inject(7, 8, Lane::expected));
    REQUIRE(settle([&] { return large.done() && b->messages.size() == 6; }, a, b));
    CHECK(inject(5, 8));
    REQUIRE(settle([&] { return b->messages.size() == 7; }, a, b));
    std::uint32_t next = 0;
    for (const Message& m : b->messages) {
        CHECK(support::mismatch(m.data, 3) < 0);
        if (m.lane == Lane::expected) {
            CHECK(m.tag == 7);
        } else {
            CHECK(m.tag == next++);
        }
    }
    CHECK(next == 6);

    // The ring is full.
    b->messages.clear();
    std::uint32_t sent = 0;
    while (inject(sent, 8)) {
        ++sent;
    }
    CHECK(sent >= 8);
    CHECK(sent <= na::sm::kRingLines);
    REQUIRE(settle([&] { return b->messages.size() == sent; }, a, b));
    CHECK(b->complaints.empty());
}

TEST_CASE("inject: nothing that the peer does not take, or when it is gone") {
    Node a(spec(4096));
    auto b = std::make_unique<Node>(spec(4096));
    exchange(a, *b, {1}, Lane::unexpected);
    const std::string name = b->uri();
    std::byte data[8] = {};
    REQUIRE(settle(
        [&] {
            return a->plugin->inject(a.peer(name), {0, Lane::unexpected}, 0, data);
        },
        a, *b));
    CHECK_FALSE(a->plugin->inject(a.peer(name), {1, Lane::unexpected}, 0, data));
    b.reset();
    REQUIRE(settle([&] { return !a->lost.empty(); }, a));
    CHECK_FALSE(a->plugin->inject(a.peer(name), {0, Lane::unexpected}, 0, data));
}

TEST_CASE("inject: a peer that never sleeps is called without a fence") {
    auto busy = spec();
    busy.info.no_block = true;
    Node server(busy);
    CHECK_FALSE(server->plugin->arm());
    std::vector<std::unique_ptr<Node>> clients;
    for (int i = 0; i < 12; ++i) {
        clients.push_back(i % 2 == 0 ? std::make_unique<Node>(busy) : std::make_unique<Node>());
    }
    take_turns(server, clients);
}

// A producer that needs no fence may see that its ring is polled, while its message is still on the
// way when the ring has ceased to be. Nothing tells of that message; the sweep over all rings,
// which would find it some time, is put off.
TEST_CASE("inject: a ring that went cold is looked at again a while later") {
    auto busy = spec();
    busy.info.no_block = true;
    Node server(busy);
    FakePeer producer;
    producer.join(server.uri(), [&] { server.poll(); });
    auto& context = static_cast<na::sm::Context&>(*server->plugin);
    for (int i = 0; i < 10; ++i) {
        server.poll();
    }
    const auto told = server->stat("sm_ready_polls");
    for (std::uint32_t round = 0; round < 100; ++round) {
        na::sm::ContextProbe::cool_and_put_off_sweep(context);
        REQUIRE(producer.out().consumer.hot == 0);
        producer.write(na::sm::Head{na::sm::Kind::inline_message, 0, 0, round});
        REQUIRE(settle([&] { return server->messages.size() == 1; }, server));
        CHECK(server->messages.front().tag == round);
        CHECK(server->stat("sm_ready_polls") == told);
        server->messages.clear();
        // Heard again, it is polled again.
        REQUIRE(producer.out().consumer.hot == 1);
    }
    CHECK(server->complaints.empty());
}

// The message at the front of a hot ring is taken out of turn: the poll must not take it again.
TEST_CASE("inject: what the core refused at first is taken once") {
    Node a;
    Node b;
    exchange(a, b, {1}, Lane::unexpected);
    exchange(b, a, {1}, Lane::unexpected);
    TestOp op;
    char refused[] = "refused";
    for (std::uint32_t round = 0; round < 600; ++round) {
        b->messages.clear();
        b->refuse = true;
        // Now and then the ring looks full, until send() looks again.
        REQUIRE((a->plugin->inject(a.peer(b.uri()), {0, Lane::unexpected}, round,
                                   std::as_writable_bytes(std::span(refused))) ||
                 a.try_send(op, b.uri(), Lane::unexpected, round, "refused", 8).what ==
                     Posted::What::done));
        b.poll();
        b->refuse = false;
        for (int i = 0; i < 3; ++i) {
            b.poll();
        }
        REQUIRE(b->messages.size() == 1);
        CHECK(b->messages.front().tag == round);
        REQUIRE(b->complaints.empty());
    }
}
