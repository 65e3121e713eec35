// SPDX-License-Identifier: BSD-3-Clause
// Contexts of a peer: which there are, and what comes of messages to others.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "na/session/peer.hpp"
#include "unit/session/net.hpp"

using namespace session_test;

namespace {

constexpr auto kAsk = static_cast<std::size_t>(Kind::ask);
constexpr auto kHello = static_cast<std::size_t>(Kind::hello);

// Posts until the answer is another than "not now".
template <typename... Nodes>
Status outcome(TestOp& op, std::uint8_t target, Node& from, Node& to, Nodes&... others) {
    Posted posted = Posted::again();
    op.op.target_id = target;
    const bool in_time = settle(
        [&] {
            posted = from.post(op, to, "x");
            return posted.what != Posted::What::again;
        },
        from, to, others...);
    return in_time ? posted.status : Status::timeout;
}

na::session::Contexts told(std::uint64_t life, std::uint64_t edition,
                           std::initializer_list<int> ids) {
    na::session::Contexts c{.life = life, .edition = edition, .open = {}};
    for (const int id : ids) {
        c.open.add(static_cast<std::uint8_t>(id));
    }
    return c;
}

}  // namespace

TEST_CASE("contexts have sessions of their own") {
    Net net;
    Node a(net, 1000), b0(net, 2000), b1(b0, 1);
    TestOp op;
    REQUIRE(a.send(op, b0, "zero"));
    op.op.target_id = 1;
    REQUIRE(a.send(op, b1, "one"));
    REQUIRE(settle([&] { return b0.messages.size() + b1.messages.size() == 2; }, a, b0, b1));
    CHECK(b0.messages.at(0).text == "zero");
    CHECK(b1.messages.at(0).text == "one");
    CHECK(a->stat("session_links") == 2);
    CHECK(a->sent[kAsk] == 0);  // it has said that there are two
}

TEST_CASE("a context that opens after its class was met is reached") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    TestOp op;
    CHECK(outcome(op, 3, a, first) == Status::hostunreach);
    Node late(first, 3);
    // At once, whatever was found a moment ago.
    CHECK(outcome(op, 3, a, first, late) == Status::success);
    REQUIRE(settle([&] { return late.messages.size() == 1; }, a, late));
    CHECK(a->sent[kAsk] == 2);
    // From now on it is known.
    CHECK(outcome(op, 3, a, first, late) == Status::success);
    CHECK(a->sent[kAsk] == 2);
    CHECK(a.lost.empty());
}

TEST_CASE("an answer from before a post says nothing about it") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    TestOp early, op;
    early.op.target_id = op.op.target_id = 3;
    CHECK(a.post(early, first, "x").what == Posted::What::again);
    first.progress();  // "no"
    Node late(first, 3);
    // The first was canceled meanwhile.
    CHECK(outcome(op, 3, a, first, late) == Status::success);
    CHECK(settle([&] { return late.messages.size() == 1; }, a, late));
}

TEST_CASE("a post does not take the answer that one before it was canceled without") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    TestOp op;
    op.op.target_id = 3;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    SECTION("the answer is under way") {
        first.progress();  // "no"
    }
    SECTION("the answer is here") {
        first.progress();
        a.progress();
    }
    a->withdrawn(op.op);
    Node late(first, 3);
    CHECK(outcome(op, 3, a, first, late) == Status::success);
    CHECK(settle([&] { return late.messages.size() == 1; }, a, late));
}

TEST_CASE("a question asked during a greeting ends no post that came after it") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    auto second = std::make_unique<Node>(first, 2);
    auto other = std::make_unique<Node>(net, 2002);  // is reached there from now on
    TestOp early, op;
    REQUIRE(meet(a, first));  // and hears of the second
    early.op.target_id = op.op.target_id = 2;
    CHECK(a.post(early, first, "x").what == Posted::What::again);
    second.reset();
    REQUIRE(settle([&] { return a->sent[kAsk] == 1; }, a, *other));
    first.progress();  // "no"
    other.reset();
    second = std::make_unique<Node>(first, 2);
    CHECK(outcome(op, 2, a, first, *second) == Status::success);
    CHECK(settle([&] { return second->messages.size() == 1; }, a, *second));
    CHECK(a.lost_contexts.empty());
}

TEST_CASE("a context that closes while another one is greeted ends nothing that goes there") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    auto second = std::make_unique<Node>(first, 1);
    TestOp op;
    REQUIRE(outcome(op, 1, a, *second) == Status::success);  // is all that a has met
    REQUIRE(settle([&] { return second->messages.size() == 1; }, a, *second));
    op.op.target_id = 0;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    second.reset();
    CHECK(outcome(op, 0, a, first) == Status::success);
    CHECK(settle([&] { return first.messages.size() == 1; }, a, first));
    CHECK(a.lost.empty());
    CHECK(a.lost_contexts == std::vector<std::uint8_t>{1});
}

TEST_CASE("an edition that was made up is believed until the next answer only") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    auto told_by = first.local.roster.told();
    told_by.edition = ~std::uint64_t{0};
    static_cast<na::session::Peer&>(a.peer(first)).learn(told_by);
    Node late(first, 3);
    TestOp op;
    CHECK(outcome(op, 3, a, first, late) == Status::success);
    CHECK(settle([&] { return late.messages.size() == 1; }, a, late));
}

TEST_CASE("receives end with the posts that a denied greeting leaves behind") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    auto second = std::make_unique<Node>(first, 2);
    Node other(net, 2002);
    TestOp op, receive;
    REQUIRE(meet(a, first));
    receive.op.target_id = op.op.target_id = 2;
    a.await(receive, first);
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    second.reset();
    CHECK(outcome(op, 2, a, first, other) == Status::hostunreach);
    CHECK(settle([&] { return a.lost_contexts == std::vector<std::uint8_t>{2}; }, a, first, other));
    CHECK(a.lost.empty());
}

TEST_CASE("an older answer that comes later does not hide that a context is there") {
    Net net;
    Node a(net, 1000), first(net, 2000), fifth(first, 5);
    TestOp op;
    REQUIRE(meet(a, first));
    REQUIRE(outcome(op, 5, a, first, fifth) == Status::success);
    REQUIRE(settle([&] { return fifth.messages.size() == 1; }, a, first, fifth));
    op.op.target_id = 3;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    fifth.progress();  // "no"
    Node late(first, 3);
    first.progress();  // "yes"
    REQUIRE(a->inbox.size() == 2);
    std::swap(a->inbox[0], a->inbox[1]);
    a.progress();
    CHECK(a->sent[kHello] == 2);
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    CHECK(a->sent[kHello] == 3);  // at once
    CHECK(outcome(op, 3, a, first, fifth, late) == Status::success);
    CHECK(a->sent[kAsk] == 2);  // one over each session
}

TEST_CASE("a peer that is gone is lost though others listen at its ports", "[patient]") {
    Net net;
    Node a(net, 1000), first(net, 2000), other(net, 2002);
    TestOp op;
    REQUIRE(meet(a, first));
    static_cast<na::session::Peer&>(a.peer(first)).learn(told(1, 1, {0, 2}));
    op.op.target_id = 2;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    first->killed = true;
    first.transport.reset();
    Node another(net, 2000);
    for (const auto& [key, link] : a->links()) {
        if (link->target == 0) {
            a->parted(*link);  // the library notices
        }
    }
    CHECK(a.lost.empty());  // that context alone may have closed
    CHECK(settle([&] { return a.lost.size() == 1; }, a));
    CHECK(a.lost_contexts == std::vector<std::uint8_t>{0});
}

TEST_CASE("nobody was ever met and context 0 is not there: the greeting of another ends",
          "[patient]") {
    Net net;
    Node a(net, 1000);
    Node gone(net, 2000), other(net, 2002);
    gone.transport.reset();
    TestOp op;
    op.op.target_id = 2;
    CHECK(a.post(op, gone, "x").what == Posted::What::again);
    const auto begun = std::chrono::steady_clock::now();
    CHECK(settle([&] { return !a.lost.empty() || !a.lost_contexts.empty(); }, a, other));
    // Its context may have stood still for a while.
    CHECK(std::chrono::steady_clock::now() - begun > std::chrono::seconds(10));
    CHECK(other.messages.empty());
}

TEST_CASE("the last words of a context that closes are well-formed") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    TestOp op;
    op.op.target_id = 3;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    first->refuses = true;
    first.progress();  // the answer to that cannot leave
    first->refuses = false;
    first.transport.reset();
    REQUIRE(settle([&] { return a.lost.size() == 1; }, a));
    CHECK(a->stat("session_bad_input") == 0);
}

// Whoever retries himself posts several in turn, and not the oldest only.
TEST_CASE("posts that come in turn to a context that is not there end all") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    TestOp ops[2];
    bool ended[2] = {false, false};
    REQUIRE(settle(
        [&] {
            for (int i = 0; i < 2; ++i) {
                ops[i].op.target_id = 3;
                if (!ended[i]) {
                    const Posted posted = a.post(ops[i], first, "x");
                    ended[i] =
                        posted.what == Posted::What::failed && posted.status == Status::hostunreach;
                }
            }
            return ended[0] && ended[1];
        },
        a, first));
    CHECK(a->sent[kAsk] == 2);
}

TEST_CASE("a context that closes is gone until it opens again") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    auto second = std::make_unique<Node>(first, 2);
    TestOp op;
    REQUIRE(meet(a, first));
    REQUIRE(outcome(op, 2, a, first, *second) == Status::success);
    REQUIRE(settle([&] { return second->messages.size() == 1; }, a, *second));
    second.reset();
    REQUIRE(settle([&] { return a.lost_contexts.size() == 1; }, a));
    SECTION("nobody is there") {
        CHECK(a.post(op, first, "x").what == Posted::What::again);
        CHECK(settle([&] { return a.lost_contexts.size() == 2; }, a, first));
    }
    SECTION("another program has its place") {
        Node other(net, 2002);
        CHECK(a.post(op, first, "x").what == Posted::What::again);
        CHECK(settle([&] { return a.lost_contexts.size() == 2; }, a, first, other));
        CHECK(outcome(op, 2, a, first, other) == Status::hostunreach);
        CHECK(other.messages.empty());
    }
    second = std::make_unique<Node>(first, 2);
    CHECK(outcome(op, 2, a, first, *second) == Status::success);
    CHECK(settle([&] { return second->messages.size() == 1; }, a, *second));
    CHECK(a.lost.empty());
}

TEST_CASE("a context below others that is not there is told from the program at its place",
          "[patient]") {
    Net net;
    Node a(net, 1000), first(net, 2000), last(first, 7), other(net, 2001);
    TestOp op;
    SECTION("after the class was met") {
        REQUIRE(meet(a, first));
        CHECK(outcome(op, 1, a, first, last, other) == Status::hostunreach);
        CHECK(other->stat("session_bad_input") == 0);  // nothing has come there
    }
    SECTION("after another of its contexts was met") {
        REQUIRE(outcome(op, 7, a, first, last) == Status::success);
        CHECK(outcome(op, 1, a, first, last, other) == Status::hostunreach);
    }
    SECTION("by who knows nobody there") {
        op.op.target_id = 1;
        CHECK(a.post(op, first, "x").what == Posted::What::again);
        REQUIRE(settle([&] { return !a.lost_contexts.empty(); }, a, first, last, other));
        CHECK(a.lost_contexts == std::vector<std::uint8_t>{1});
    }
    CHECK(a.lost.empty());
    CHECK(other.messages.empty());
    // The others go on.
    CHECK(outcome(op, 0, a, first, last) == Status::success);
    CHECK(outcome(op, 7, a, first, last) == Status::success);
}

TEST_CASE("a class without context 0 is not taken for dead", "[patient]") {
    Net net;
    Node a(net, 1000), silent(net, 2000, 2);
    TestOp op;
    op.op.target_id = 2;
    CHECK(a.post(op, silent, "x").what == Posted::What::again);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
    while (std::chrono::steady_clock::now() < end) {
        a.progress();
    }
    CHECK(a->stat("session_links") == 2);  // context 0 was looked for
    CHECK(a.lost.empty());
    CHECK(a.lost_contexts.empty());
    CHECK(outcome(op, 2, a, silent) == Status::success);
    // Who wants context 0 itself hears that it is not there.
    op.op.target_id = 0;
    CHECK(a.post(op, silent, "x").what == Posted::What::again);
    CHECK(settle([&] { return a.lost_contexts == std::vector<std::uint8_t>{0}; }, a, silent));
}

TEST_CASE("a context that a peer did not have is not waited for when the peer is gone",
          "[patient]") {
    Net net;
    Node a(net, 1000), first(net, 2000), other(net, 2003);
    REQUIRE(meet(a, first));
    first.transport.reset();
    REQUIRE(settle([&] { return a.lost.size() == 1; }, a));
    TestOp op;
    op.op.target_id = 3;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    CHECK(settle([&] { return a.lost.size() == 2; }, a, other));
    CHECK(other.messages.empty());
}

TEST_CASE("a context that opens late is reached though its siblings stand still") {
    Net net;
    Node a(net, 1000), first(net, 2000);
    REQUIRE(meet(a, first));
    Node late(first, 3);
    TestOp op;
    op.op.target_id = 3;
    REQUIRE(a.send(op, late, "x"));
    CHECK(settle([&] { return late.messages.size() == 1; }, a, late));
}

TEST_CASE("a context of several whose link ends while it is asked for others ends no others") {
    Net net;
    Node a(net, 1000), first(net, 2000), third(first, 2);
    auto second = std::make_unique<Node>(first, 1);
    TestOp op;
    REQUIRE(meet(a, first));
    REQUIRE(outcome(op, 1, a, first, *second) == Status::success);
    op.op.target_id = 3;
    CHECK(a.post(op, first, "x").what == Posted::What::again);
    second.reset();
    CHECK(outcome(op, 3, a, first) == Status::hostunreach);
    CHECK(a.lost.empty());
}

TEST_CASE("of oneself it is known which contexts there are") {
    Net net;
    Node a(net, 1000);
    TestOp op;
    op.op.target_id = 2;
    CHECK(a.post(op, a, "x").status == Status::hostunreach);
    Node second(a, 2);
    CHECK(outcome(op, 2, a, second) == Status::success);
    CHECK(settle([&] { return second.messages.size() == 1; }, a, second));
    CHECK(a->sent[kAsk] == 0);
}

TEST_CASE("what a peer has told of its contexts is not replaced by what it told before") {
    na::session::Peer peer(address_of(2000), "mem", 1);
    CHECK(peer.has_context(255));  // it has told nothing
    peer.learn(told(7, 5, {0, 3}));
    CHECK(peer.has_context(3));
    CHECK_FALSE(peer.has_context(1));
    peer.learn(told(7, 6, {0}));
    peer.learn(told(7, 5, {0, 3}));
    CHECK_FALSE(peer.has_context(3));  // it was closed since
    peer.learn(told(7, 8, {0, 1, 2}));
    peer.learn(told(7, 6, {0}));
    CHECK(peer.has_context(2));
    // An edition that was made up is believed until the next answer.
    peer.learn(told(7, ~std::uint64_t{0}, {0}));
    peer.hears(told(7, 9, {0, 1, 2}));
    CHECK(peer.has_context(2));
    // Another process is there now.
    peer.learn(told(8, 0, {0}));
    CHECK_FALSE(peer.has_context(2));
}
