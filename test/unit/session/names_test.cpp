// SPDX-License-Identifier: BSD-3-Clause
// Peers that are reached under another name than their own: they listen at all addresses of their
// machine, or their addresses hold only within a network.
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "unit/session/net.hpp"

using namespace session_test;

namespace {

// `node` is reached at `address`, too.
void also_at(Net& net, const Address& address, Node& node) {
    net[address.raw(0)] = node.transport.get();
}

// Posts to a peer by an identity until it is taken.
Status outcome(TestOp& op, Node& from, const Address& address, Node& to, std::string_view text) {
    Posted posted = Posted::again();
    const bool in_time = settle(
        [&] {
            posted = from.post(op, from.peer(address.identity()), text, Lane::unexpected, 0);
            return posted.what != Posted::What::again;
        },
        from, to);
    return in_time ? posted.status : Status::timeout;
}

}  // namespace

TEST_CASE("who listens at all addresses is reached at each") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    const Address loopback = address_of(2000, "127.0.0.1");
    also_at(net, loopback, *b);
    TestOp op, answer, again;
    REQUIRE(outcome(op, a, loopback, *b, "call") == Status::success);
    REQUIRE(settle([&] { return b->messages.size() == 1; }, a, *b));
    CHECK(a->stat("session_links") == 1);

    SECTION("answers come over the same session, from who was called") {
        REQUIRE(b->send(answer, a, "answer"));
        REQUIRE(settle([&] { return a.messages.size() == 1; }, a, *b));
        CHECK(a.messages[0].text == "answer");
        CHECK(a.messages[0].source == "mem://" + loopback.text());
        CHECK(a->stat("session_links") == 1);
        CHECK((*b)->stat("session_links") == 1);
    }
    SECTION("its other contexts are asked for, and news believed") {
        op.op.target_id = 3;
        CHECK(outcome(op, a, loopback, *b, "nobody") == Status::hostunreach);
        CHECK(a->sent[static_cast<std::size_t>(Kind::ask)] == 1);
    }
    SECTION("its restart is noticed") {
        b->transport->killed = true;
        b = std::make_unique<Node>(net, 2000);
        also_at(net, loopback, *b);
        TestOp answer_to;
        answer_to.op.kind = na::OpKind::recv_expected;
        answer_to.op.peer = &a.peer(loopback.identity());
        a->awaits(answer_to.op, true);
        REQUIRE(settle([&] { return a.lost.size() == 1; }, a, *b));
        REQUIRE(outcome(again, a, loopback, *b, "to the new one") == Status::success);
        REQUIRE(settle([&] { return b->messages.size() == 1; }, a, *b));
        CHECK(b->messages[0].text == "to the new one");
    }
}

TEST_CASE("nobody is believed to be somebody with another port") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    const Address other = address_of(3000);
    also_at(net, other, b);
    TestOp op;
    CHECK(a.post(op, a.peer(other.identity()), "x", Lane::unexpected, 0).what ==
          Posted::What::again);
    CHECK(settle([&] { return a.was_dropped("a welcome in another name"); }, a, b));
    CHECK(a.post(op, a.peer(other.identity()), "x", Lane::unexpected, 0).what ==
          Posted::What::again);
    CHECK(b.messages.empty());
}

TEST_CASE("where two processes connect once, calls by a second name end", "[patient]") {
    Net net;
    na::session::Traits traits;
    traits.connects_once = GENERATE(true, false);
    Node a(net, 1000, 0, {}, traits), b(net, 2000);
    const Address loopback = address_of(2000, "127.0.0.1");
    also_at(net, loopback, b);
    TestOp op, other, again;
    REQUIRE(outcome(op, a, loopback, b, "call") == Status::success);
    REQUIRE(settle([&] { return b.messages.size() == 1; }, a, b));
    a->loses = [](const Header& h) { return h.kind == Kind::hello; };
    CHECK(a.post(other, b, "by its own name").what == Posted::What::again);
    if (traits.connects_once) {
        REQUIRE(settle([&] { return !a.lost.empty(); }, a, b));
        CHECK(a.lost[0] == "mem://" + b.local.address.text());
    } else {
        // It may stand still, as anybody may.
        CHECK_FALSE(support::until_for(
            std::chrono::seconds(3), [&] { return !a.lost.empty(); }, [&] { a.progress(); }));
    }
    REQUIRE(outcome(again, a, loopback, b, "again") == Status::success);
    REQUIRE(settle([&] { return b.messages.size() == 2; }, a, b));
}

TEST_CASE("link-local addresses are behind one's own interface") {
    // Interface 1 here is 2 there; each sees the other behind its own.
    const auto behind = [](std::string_view ip, std::uint32_t scope, std::uint16_t port) {
        auto address = *na::util::IpAddress::parse(ip);
        address.scope = scope;
        return Address::of_ip({.address = address, .port = port});
    };
    Net net;
    Node a(net, behind("fe80::a", 1, 1000)), b(net, behind("fe80::b", 2, 2000));
    also_at(net, behind("fe80::b", 1, 2000), b);
    also_at(net, behind("fe80::a", 2, 1000), a);
    TestOp op, answer;
    REQUIRE(outcome(op, a, behind("fe80::b", 1, 2000), b, "call") == Status::success);
    REQUIRE(settle([&] { return b.messages.size() == 1; }, a, b));
    CHECK(b.messages[0].source == "mem://" + behind("fe80::a", 2, 1000).text());
    REQUIRE(outcome(answer, b, behind("fe80::a", 2, 1000), a, "answer") == Status::success);
    REQUIRE(settle([&] { return a.messages.size() == 1; }, a, b));
    CHECK(a->stat("session_links") == 1);
    CHECK(b->stat("session_links") == 1);
}
