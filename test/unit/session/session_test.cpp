// SPDX-License-Identifier: BSD-3-Clause
// Sessions between engines: how they begin, carry messages, and end.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "unit/session/net.hpp"

using namespace session_test;

namespace {

std::size_t held(Node& n) {
    return n->stat("session_held");
}

bool done(const TestOp& op) {
    return op.done;
}

}  // namespace

TEST_CASE("messages of both lanes arrive, from whom they are") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    TestOp op;
    REQUIRE(a.send(op, b, "one", Lane::unexpected, 7));
    REQUIRE(a.send(op, b, "two", Lane::expected, 8));
    REQUIRE(settle([&] { return b.messages.size() == 2; }, a, b));
    CHECK(b.messages[0].text == "one");
    CHECK(b.messages[0].lane == Lane::unexpected);
    CHECK(b.messages[0].tag == 7);
    CHECK(b.messages[0].source == "mem://192.0.2.1:1000");
    CHECK(b.messages[1].text == "two");
    CHECK(b.messages[1].lane == Lane::expected);
    // The answer uses the same session.
    REQUIRE(b.send(op, a, "three"));
    REQUIRE(settle([&] { return a.messages.size() == 1; }, a, b));
    CHECK(a->stat("session_begun") == 1);
    CHECK(b->stat("session_begun") == 1);
    CHECK(a->stat("session_links") == 1);
    CHECK(b->sent[static_cast<std::size_t>(Kind::hello)] == 0);
    CHECK(b.references == 1);
}

TEST_CASE("one may talk to oneself") {
    Net net;
    Node a(net, 1000);
    TestOp op;
    REQUIRE(a.send(op, a, "me"));
    REQUIRE(settle([&] { return a.messages.size() == 1; }, a));
    CHECK(a.messages[0].text == "me");
    CHECK(a->sent[static_cast<std::size_t>(Kind::hello)] == 0);
}

TEST_CASE("who greet each other at once have one session") {
    for (const bool larger_first : {false, true}) {
        Net net;
        Node a(net, larger_first ? 2000 : 1000), b(net, larger_first ? 1000 : 2000);
        TestOp x, y;
        CHECK(a.post(x, b, "x").what == Posted::What::again);
        CHECK(b.post(y, a, "y").what == Posted::What::again);
        REQUIRE(a.send(x, b, "x"));
        REQUIRE(b.send(y, a, "y"));
        REQUIRE(settle([&] { return a.messages.size() == 1 && b.messages.size() == 1; }, a, b));
        CHECK(a->stat("session_begun") == 1);
        CHECK(b->stat("session_begun") == 1);
        CHECK(a.lost.empty());
        CHECK(b.lost.empty());
    }
}

TEST_CASE("a greeting that is lost is repeated") {
    const Kind kind = GENERATE(Kind::hello, Kind::welcome);
    Net net;
    Node a(net, 1000), b(net, 2000);
    int losses = 0;
    const auto first = [&](const Header& h) { return h.kind == kind && losses++ == 0; };
    a->loses = first;
    b->loses = first;
    TestOp op;
    REQUIRE(a.send(op, b, "there"));
    REQUIRE(settle([&] { return b.messages.size() == 1; }, a, b));
    CHECK(losses >= 1);
    CHECK(a->stat("session_begun") == 1);
}

TEST_CASE("who gave way to a greeting that led nowhere greets again") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    TestOp x, y;
    CHECK(b.post(y, a, "y").what == Posted::What::again);
    CHECK(a.post(x, b, "x").what == Posted::What::again);
    b.progress();  // gives way to the smaller one
    b->inbox.clear();
    a->inbox.clear();
    net.erase(a.local.address.raw(0));
    a->killed = true;
    a.transport.reset();  // which dies
    Node again(net, 1000);
    REQUIRE(b.send(y, again, "y"));
    REQUIRE(settle([&] { return again.messages.size() == 1; }, again, b));
}

TEST_CASE("credit bounds what is kept, and comes back") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    b.room = false;
    TestOp op;
    const std::size_t window = a.local.window;
    for (std::size_t i = 0; i < window; ++i) {
        REQUIRE(a.send(op, b, std::to_string(i)));
    }
    REQUIRE(settle([&] { return held(b) == window; }, a, b));
    CHECK(a.post(op, b, "too many").what == Posted::What::again);
    CHECK(a->stat("session_no_credit") >= 1);
    // The other lane has its own.
    REQUIRE(a.send(op, b, "expected", Lane::expected));
    b.room = true;
    REQUIRE(settle([&] { return b.messages.size() == window + 1; }, a, b));
    std::size_t next = 0;
    for (const Message& m : b.messages) {
        if (m.lane == Lane::unexpected) {
            CHECK(m.text == std::to_string(next++));
        }
    }
    REQUIRE(a.send(op, b, "more"));
    CHECK(b->sent[static_cast<std::size_t>(Kind::credit)] >= 1);
    CHECK(b.drops.empty());
}

TEST_CASE("many messages one way need few messages of the engine") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    TestOp op;
    const unsigned n = 10U * a.local.window;
    for (unsigned i = 0; i < n; ++i) {
        REQUIRE(a.send(op, b, "x"));
    }
    REQUIRE(settle([&] { return b.messages.size() == n; }, a, b));
    CHECK(b->sent[static_cast<std::size_t>(Kind::credit)] <= 20);
}

TEST_CASE("more newcomers than there is room for all get their turn") {
    Net net;
    Node server(net, 1000, 0, {}, {.max_strangers = 4});
    server->way_takes = std::chrono::milliseconds(30);
    constexpr int kClients = 64;
    std::vector<std::unique_ptr<Node>> clients;
    std::vector<TestOp> ops(kClients);
    std::vector<bool> sent(kClients);
    for (int i = 0; i < kClients; ++i) {
        clients.push_back(std::make_unique<Node>(net, static_cast<std::uint16_t>(2000 + i)));
    }
    REQUIRE(settle(
        [&] {
            for (std::size_t i = 0; i < kClients; ++i) {
                sent[i] =
                    sent[i] || clients[i]->post(ops[i], server, "x").what == Posted::What::done;
                for (int n = 0; n < 64; ++n) {  // so that it looks at the clock
                    clients[i]->progress();
                }
            }
            return server.messages.size() == kClients;
        },
        server));
    CHECK(server->stat("session_begun") == kClients);
}

TEST_CASE("a transport that has no room yet is tried again") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    TestOp op;
    a->refuses = true;
    for (int i = 0; i < 100; ++i) {
        CHECK(a.post(op, b, "x").what == Posted::What::again);
        a.progress();
    }
    CHECK(a->stat("session_begun") == 0);
    a->refuses = false;
    REQUIRE(a.send(op, b, "x"));
    REQUIRE(settle([&] { return b.messages.size() == 1; }, a, b));
}

TEST_CASE("who cannot be reached is lost, but not within the post") {
    Net net;
    Node a(net, 1000);
    TestOp op;
    {
        Node b(net, 2000);
        a.peer(b);
        b->killed = true;
        CHECK(net.size() == 2);
        net.erase(b.local.address.raw(0));
        CHECK(a.post(op, b, "x").what == Posted::What::again);
    }
    CHECK(a.lost.empty());
    a.progress();
    CHECK(a.lost == std::vector<std::string>{"mem://192.0.2.1:2000"});
}

TEST_CASE("an operation ends with its request, and may be canceled before") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    a->copies = true;
    TestOp first;
    REQUIRE(a.send(first, b, "first"));
    REQUIRE(settle([&] { return done(first); }, a, b));
    CHECK(first.status == Status::success);
    a->stuck = true;
    TestOp second;
    CHECK(a.post(second, b, "second").what == Posted::What::pending);
    a->cancel(second.op);
    CHECK(second.done);
    CHECK(second.status == Status::success);  // for it will arrive
    a->stuck = false;
    REQUIRE(settle([&] { return b.messages.size() == 2; }, a, b));
    CHECK(b.messages[1].text == "second");
}

TEST_CASE("what is pending ends with the peer") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    a->copies = true;
    TestOp op;
    REQUIRE(a.send(op, b, "before"));
    REQUIRE(settle([&] { return b.messages.size() == 1; }, a, b));
    a->stuck = true;
    TestOp pending;
    CHECK(a.post(pending, b, "never").what == Posted::What::pending);
    const unsigned left = a->left;
    b.transport.reset();  // says good-bye
    a->stuck = false;     // (what was under way is nobody's)
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    CHECK(done(pending));
    CHECK(a->ends == 1);
    CHECK(a->left > left);
}

TEST_CASE("a peer that closes says so") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    REQUIRE(meet(a, *b));
    b.reset();
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    CHECK(a.lost.at(0) == "mem://192.0.2.1:2000");
    CHECK(a->stat("session_lost") == 1);
}

TEST_CASE("what a peer says just before it ends comes before the news of that") {
    const bool closes = GENERATE(true, false);
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    REQUIRE(meet(a, *b));
    TestOp waits;
    a.await(waits, *b);
    // Between the poll and the look that follows it.
    a->nobody_there = [&] {
        if (b != nullptr) {
            TestOp answer;
            CHECK(b->send(answer, a, "answer", Lane::expected, 3));
            (*b)->killed = !closes;
            b.reset();
        }
        return true;
    };
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    REQUIRE(a.messages.size() == 1);
    CHECK(a.messages.front().text == "answer");
    CHECK(a->ends == 1);
}

TEST_CASE("a peer that has ended is lost though others talk all the time") {
    Net net;
    Node a(net, 1000);
    Node c(net, 3000);
    auto b = std::make_unique<Node>(net, 2000);
    REQUIRE(meet(a, *b));
    REQUIRE(meet(c, a));
    TestOp waits;
    a.await(waits, *b);
    (*b)->killed = true;
    b.reset();
    a->nobody_there = [] { return true; };
    REQUIRE(support::until([&] { return !a.lost.empty(); },
                           [&] {
                               TestOp op;
                               CHECK(c.send(op, a, "x"));
                               a.progress();
                           }));
    CHECK(a.lost.at(0) == "mem://192.0.2.1:2000");
}

TEST_CASE("what a peer has sent before it closed, or before its connection broke, comes first") {
    enum class End { goodbye, broken, both };
    const End end = GENERATE(End::goodbye, End::broken, End::both);
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    TestOp op;
    REQUIRE(a.send(op, *b, "question"));
    REQUIRE(settle([&] { return b->messages.size() == 1; }, a, *b));
    a.room = false;
    TestOp answer;
    REQUIRE(b->send(answer, a, "answer", Lane::expected, 3));
    (*b)->killed = end == End::broken;
    b.reset();
    // The goodbye is heard, and waits.
    REQUIRE(settle([&] { return a->inbox.empty() && a->stat("session_held") == 1; }, a));
    if (end != End::goodbye) {
        a->parted(*a->links().begin()->second);  // the library notices
        CHECK(a->ends == 1);                     // what goes to it does not wait
    }
    a.progress();
    CHECK(a.lost.empty());
    a.room = true;
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    REQUIRE(a.messages.size() == 1);
    CHECK(a.messages.front().text == "answer");
}

TEST_CASE("what a peer has sent before nothing gets to it any more comes first") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    REQUIRE(meet(a, *b));
    // It asks whether we are there, says something, and is gone when that is answered.
    TestOp waits;
    b->await(waits, a);
    REQUIRE(settle([&] { return (*b)->sent[static_cast<std::size_t>(Kind::check)] == 1; }, *b));
    TestOp last;
    REQUIRE(b->post(last, a, "last").what == Posted::What::done);
    const Bytes late = a->inbox.back();  // not handed over yet
    a->inbox.pop_back();
    (*b)->killed = true;
    b.reset();
    REQUIRE(settle([&] { return a->inbox.empty(); }, a));
    CHECK(a.lost.empty());
    a->inbox.push_back(late);
    REQUIRE(settle([&] { return a.messages.size() == 1; }, a));
    CHECK(a.lost.empty());
    CHECK(a.messages.front().text == "last");
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
}

TEST_CASE("requests that there is no room for do not hold up the end of their peer") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    a.room = false;
    TestOp op;
    REQUIRE(b->send(op, a, "request"));
    REQUIRE(settle([&] { return a->stat("session_held") == 1; }, a, *b));
    b.reset();
    REQUIRE(settle([&] { return a.lost.size() == 1; }, a));
    CHECK(a.messages.empty());
    a.room = true;
    REQUIRE(settle([&] { return a.messages.size() == 1; }, a));
}

TEST_CASE("a peer that comes back is another one, and is reached again") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    REQUIRE(meet(a, *b));
    (*b)->killed = true;
    b.reset();
    Node successor(net, 2000);
    // An expected receive waits: the peer is asked, and does not know.
    TestOp op, receive;
    a.await(receive, successor);
    REQUIRE(settle([&] { return !a.lost.empty(); }, a, successor));
    a->awaits(receive.op, false);
    CHECK(a->stat("session_checks") >= 1);
    CHECK(successor->sent[static_cast<std::size_t>(Kind::reset)] >= 1);
    REQUIRE(a.send(op, successor, "again"));
    REQUIRE(settle([&] { return successor.messages.size() == 1; }, a, successor));
}

TEST_CASE("a successor that greets ends the session with the former one") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    REQUIRE(meet(*b, a));
    (*b)->killed = true;
    b.reset();
    Node successor(net, 2000);
    TestOp op;
    REQUIRE(successor.send(op, a, "y"));
    REQUIRE(settle([&] { return a.messages.size() == 2; }, a, successor));
    CHECK(a.lost.size() == 1);
    CHECK(a.references == 1);
    CHECK(a->stat("session_links") == 1);
}

TEST_CASE("what a former session left is delivered, and costs its successor nothing") {
    Net net;
    Node a(net, 1000);
    auto b = std::make_unique<Node>(net, 2000);
    TestOp op;
    a.room = false;
    const std::size_t window = a.local.window;
    for (std::size_t i = 0; i < window; ++i) {
        REQUIRE(b->send(op, a, "old"));
    }
    REQUIRE(settle([&] { return held(a) == window; }, a, *b));
    const bool dies = GENERATE(true, false);
    (*b)->killed = dies;
    b.reset();
    Node successor(net, 2000);
    for (std::size_t i = 0; i < window; ++i) {
        REQUIRE(successor.send(op, a, "new"));
    }
    REQUIRE(settle([&] { return held(a) == 2 * window; }, a, successor));
    CHECK(a.drops.empty());
    a.room = true;
    REQUIRE(settle([&] { return a.messages.size() == 2 * window; }, a, successor));
    CHECK(a.messages.front().text == "old");
    CHECK(a.messages[window - 1].text == "old");
    CHECK(a.messages[window].text == "new");
    CHECK(a.messages.back().text == "new");
    // The credit is what it would be otherwise: a window, and no more.
    a.room = false;
    for (std::size_t i = 0; i < window; ++i) {
        REQUIRE(successor.send(op, a, "newer"));
    }
    REQUIRE(settle([&] { return held(a) == 3 * window; }, a, successor));
    CHECK(successor.post(op, a, "too many").what == Posted::What::again);
    CHECK(a.drops.empty());
}

TEST_CASE("links go with what they were for") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    REQUIRE(meet(a, b));
    // A session that stands is kept: the peer may use it still.
    a->drop(a.peer(b));
    CHECK(a->stat("session_links") == 1);
    REQUIRE(meet(b, a));
    b.transport.reset();
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
    a->drop(a.peer(b));
    CHECK(a->stat("session_links") == 0);
    CHECK(a.references == 0);
}

TEST_CASE("a peer that there is no room for has no session") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    b.crowded = true;
    TestOp op;
    CHECK(a.post(op, b, "x").what == Posted::What::again);
    REQUIRE(settle([&] { return b.was_dropped("a peer that there is no room to know"); }, a, b));
    CHECK(b->stat("session_begun") == 0);
    CHECK(b.messages.empty());
}

TEST_CASE("a greeting whose way comes to nothing goes another way once") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    int sent = 0;
    a->loses = [&](const Header& h) { return h.kind == Kind::hello && ++sent == 1; };
    TestOp op;
    CHECK(a.post(op, b, "x").what == Posted::What::again);
    na::session::Link& link = *a->links().begin()->second;
    const bool at_once = GENERATE(false, true);  // a second greeting has met the same end
    link.doomed = at_once;
    CHECK(a->begins_anew(link));
    CHECK(a->left == 1);
    CHECK_FALSE(a->begins_anew(link));
    REQUIRE(a.send(op, b, "x"));
    CHECK(settle([&] { return b.messages.size() == 1; }, a, b));
    CHECK(a.lost.empty());
    // What was sent in a session may have got there.
    CHECK_FALSE(a->begins_anew(link));
}

TEST_CASE("a greeting that took long does not begin anew") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    TestOp op;
    CHECK(a.post(op, b, "x").what == Posted::What::again);
    na::session::Link& link = *a->links().begin()->second;
    link.asked_at -= 2 * 1000 * na::session::kMs;
    CHECK_FALSE(a->begins_anew(link));
    CHECK(a->left == 0);
}
