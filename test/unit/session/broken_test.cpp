// SPDX-License-Identifier: BSD-3-Clause
// Connections that break between two who live, and take what was in them along.
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "unit/session/net.hpp"

using namespace session_test;

namespace {

constexpr std::int64_t kPatience = 100'000'000;  // ns

na::session::Traits trusting_nobody() {
    na::session::Traits traits;
    traits.overtaking = kPatience;
    return traits;
}

struct Pair {
    Net net;
    Node a{net, 1000, 0, {}, trusting_nobody()};
    Node b{net, 2000, 0, {}, trusting_nobody()};
};

// The n-th message of a lane from now on is lost.
auto loses_one(Kind kind, unsigned n = 1) {
    return [=, seen = 0U](const Header& h) mutable { return h.kind == kind && ++seen == n; };
}

// Longer than it may be missing.
void wait(Pair& p) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(4 * kPatience);
    settle([&] { return std::chrono::steady_clock::now() >= end; }, p.a, p.b);
}

}  // namespace

TEST_CASE("a request that was lost ends who waits for its answer") {
    Pair p;
    REQUIRE(meet(p.a, p.b));
    TestOp receive, request;
    p.a.await(receive, p.b);
    p.a->loses = loses_one(Kind::unexpected);
    REQUIRE(p.a.send(request, p.b, "lost"));
    REQUIRE(settle([&] { return !p.a.lost.empty(); }, p.a, p.b));
    CHECK(p.b->stat("session_broken") == 1);
    CHECK(p.a->stat("session_broken") == 0);
    // And they meet again.
    REQUIRE(meet(p.a, p.b));
    CHECK(p.b.messages.back().text == "x");
    wait(p);
    CHECK(p.a.lost.size() == 1);
    CHECK(p.b->stat("session_broken") == 1);
}

TEST_CASE("an answer that was lost ends who waits for it") {
    Pair p;
    REQUIRE(meet(p.a, p.b));
    TestOp receive, answer;
    p.a.await(receive, p.b);
    p.b->loses = loses_one(Kind::expected);
    REQUIRE(p.b.send(answer, p.a, "lost", Lane::expected));
    REQUIRE(settle([&] { return !p.a.lost.empty(); }, p.a, p.b));
    CHECK(p.a->stat("session_broken") == 1);
    // The other side is told, though it waits for nothing.
    REQUIRE(settle([&] { return !p.b.lost.empty(); }, p.a, p.b));
    CHECK(p.b->stat("session_broken") == 0);
    REQUIRE(meet(p.b, p.a));
}

TEST_CASE("what has come, and waits for room, comes before the end of what was lost") {
    Pair p;
    REQUIRE(meet(p.a, p.b));
    TestOp receive, held, lost;
    p.a.await(receive, p.b);
    p.a.room = false;
    REQUIRE(p.b.send(held, p.a, "held", Lane::expected));
    p.b->loses = loses_one(Kind::expected);
    REQUIRE(p.b.send(lost, p.a, "lost", Lane::expected));
    REQUIRE(settle([&] { return p.a->stat("session_broken") == 1; }, p.a, p.b));
    wait(p);
    CHECK(p.a.lost.empty());
    CHECK(p.a->stat("session_broken") == 1);
    p.a.room = true;
    REQUIRE(settle([&] { return !p.a.lost.empty(); }, p.a, p.b));
    REQUIRE(p.a.messages.size() == 1);
    CHECK(p.a.messages[0].text == "held");
    REQUIRE(settle([&] { return !p.b.lost.empty(); }, p.a, p.b));
    REQUIRE(meet(p.a, p.b));
    REQUIRE(meet(p.b, p.a));
}

TEST_CASE("a loss is found though others come all the time") {
    Pair p;
    REQUIRE(meet(p.a, p.b));
    TestOp receive;
    p.a.await(receive, p.b);
    p.a->loses = loses_one(Kind::unexpected, 3);
    std::size_t sent = 0;
    REQUIRE(support::until([&] { return !p.b.lost.empty(); },
                           [&] {
                               TestOp op;
                               sent += p.a.post(op, p.b, "x").what == Posted::What::done ? 1 : 0;
                               p.a.progress();
                               p.b.progress();
                           }));
    CHECK(sent > 3);
    CHECK(p.b->stat("session_broken") == 1);
    REQUIRE(settle([&] { return !p.a.lost.empty(); }, p.a, p.b));
}

TEST_CASE("nothing is missing that was overtaken, however much comes") {
    Pair p;
    REQUIRE(meet(p.a, p.b));
    REQUIRE(meet(p.b, p.a));
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(6 * kPatience);
    // At each time one message has been overtaken by others, each for less than the patience.
    Bytes late;
    std::size_t sent = 0;
    auto came = std::chrono::steady_clock::now();
    settle(
        [&] {
            TestOp op;
            if (p.a.post(op, p.b, std::to_string(sent)).what != Posted::What::done) {
                return false;
            }
            ++sent;
            const auto now = std::chrono::steady_clock::now();
            if (late.empty() || now - came > std::chrono::nanoseconds(kPatience / 4)) {
                Bytes next = std::move(p.b->inbox.back());
                p.b->inbox.pop_back();
                if (!late.empty()) {
                    p.b->inbox.push_back(std::move(late));
                }
                late = std::move(next);
                came = now;
            }
            return now >= end;
        },
        p.a, p.b);
    p.b->inbox.push_back(std::move(late));
    REQUIRE(settle([&] { return p.b.messages.size() == sent + 1; }, p.a, p.b));
    wait(p);
    CHECK(p.b.lost.empty());
    CHECK(p.b->stat("session_broken") == 0);
    CHECK(p.b->stat("session_lost") == 0);
}

TEST_CASE("who claims to have sent what did not come has no session for long") {
    Pair p;
    REQUIRE(meet(p.a, p.b));
    Bytes bytes;
    p.a->loses = [&](const Header& h) {
        bytes.resize(Header::kSize);
        Header made_up = h;
        made_up.sent[1] = 0x7fff;
        made_up.write(bytes.data());
        return true;
    };
    TestOp op;
    REQUIRE(p.a.send(op, p.b, "x"));
    REQUIRE(bytes.size() == Header::kSize);
    Header h;
    REQUIRE(h.read(bytes));
    h.kind = Kind::credit;
    h.write(bytes.data());
    p.b->inbox.push_back(bytes);
    p.a->loses = nullptr;
    REQUIRE(settle([&] { return !p.b.lost.empty() && !p.a.lost.empty(); }, p.a, p.b));
    CHECK(p.b->stat("session_broken") == 1);
    REQUIRE(meet(p.a, p.b));
}

TEST_CASE("a transport that tells what it has lost is trusted") {
    Net net;
    Node a(net, 1000), b(net, 2000);
    REQUIRE(meet(a, b));
    TestOp op;
    a->loses = loses_one(Kind::unexpected);
    REQUIRE(a.send(op, b, "lost"));
    REQUIRE(a.send(op, b, "two"));
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(4 * kPatience);
    settle([&] { return std::chrono::steady_clock::now() >= end; }, a, b);
    CHECK(b.messages.back().text == "two");
    CHECK(b.lost.empty());
    CHECK(b->stat("session_broken") == 0);
}
