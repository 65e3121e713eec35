// SPDX-License-Identifier: BSD-3-Clause
// Memory runs out, at every place where the engine asks for some: what is under way may be lost,
// the rest goes on.
#include <string>

#include <catch2/catch.hpp>

#include "unit/session/net.hpp"

using namespace session_test;

namespace {

// IPv6: such names are longer than what strings hold without memory.
constexpr const char* kOne = "2001:db8::1";
constexpr const char* kOther = "2001:db8::2";

constexpr long kSteps = 40;  // more than are taken

// What was begun with too little memory ends well when there is some again.
void require_well(Node& a, Node& b) {
    allocations_left = kPlenty;
    TestOp op;
    const std::size_t before = b.messages.size();
    REQUIRE(a.send(op, b, "still here"));
    REQUIRE(settle([&] { return b.messages.size() > before; }, a, b));
    CHECK(b.messages.back().text == "still here");
    const std::size_t answers = a.messages.size();
    REQUIRE(b.send(op, a, "and so am I"));
    REQUIRE(settle([&] { return a.messages.size() > answers; }, a, b));
}

void turn(Node& a, Node& b, long steps) {
    for (int i = 0; i < 8; ++i) {
        allocations_left = steps;
        a.progress();
        allocations_left = steps;
        b.progress();
        allocations_left = kPlenty;
    }
}

}  // namespace

TEST_CASE("memory runs out while two meet") {
    for (long steps = 0; steps < kSteps; ++steps) {
        INFO(steps << " allocations");
        Net net;
        Node a(net, 1000, 0, {}, {}, kOne), b(net, 2000, 0, {}, {}, kOther);
        TestOp op;
        allocations_left = steps;
        const Posted posted = a.post(op, b, "x");
        allocations_left = kPlenty;
        CHECK((posted.what == Posted::What::again || posted.status == Status::nomem));
        turn(a, b, steps);
        require_well(a, b);
    }
}

TEST_CASE("memory runs out while both greet at once") {
    for (long steps = 0; steps < kSteps; ++steps) {
        INFO(steps << " allocations");
        Net net;
        Node a(net, 1000, 0, {}, {}, kOne), b(net, 2000, 0, {}, {}, kOther);
        TestOp x, y;
        CHECK(a.post(x, b, "x").what == Posted::What::again);
        CHECK(b.post(y, a, "y").what == Posted::What::again);
        turn(a, b, steps);
        require_well(a, b);
        require_well(b, a);
    }
}

TEST_CASE("memory runs out while messages come, and are kept") {
    for (long steps = 0; steps < kSteps; ++steps) {
        INFO(steps << " allocations");
        Net net;
        Node a(net, 1000, 0, {}, {}, kOne), b(net, 2000, 0, {}, {}, kOther);
        require_well(a, b);
        b.room = false;
        TestOp op;
        for (std::size_t i = 0; i < a.local.window; ++i) {
            CHECK(a.post(op, b, "x").what == Posted::What::done);
            turn(a, b, steps);
        }
        b.room = true;
        turn(a, b, steps);
        require_well(a, b);
    }
}

TEST_CASE("memory runs out while a peer goes, and is forgotten") {
    for (long steps = 0; steps < kSteps; ++steps) {
        INFO(steps << " allocations");
        Net net;
        Node a(net, 1000, 0, {}, {}, kOne);
        {
            Node b(net, 2000, 0, {}, {}, kOther);
            require_well(a, b);
            b.transport.reset();  // says good-bye
            allocations_left = steps;
            a.progress();
            a->drop(a.peer(b));
            allocations_left = kPlenty;
        }
        a.peers.clear();
        a.progress();
        CHECK(a->stat("session_links") == 0);
        CHECK(a.references == 0);
        Node again(net, 2000, 0, {}, {}, kOther);
        require_well(a, again);
    }
}
