// SPDX-License-Identifier: BSD-3-Clause
// Messages that leave in parts, because the transport takes less at once.
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "unit/session/net.hpp"

using namespace session_test;

namespace {

constexpr std::size_t kPart = 2048;
constexpr std::size_t kBody = kPart - Header::kSize;
constexpr std::size_t kMost = na::session::kUsualMessage - Header::kSize;

Node side(Net& net, std::uint16_t port, std::size_t part = kPart) {
    return Node(net, port, 0, {}, {}, "192.0.2.1", part);
}

std::unique_ptr<Node> new_side(Net& net, std::uint16_t port) {
    return std::make_unique<Node>(net, port, 0, na::InitInfo{}, na::session::Traits{}, "192.0.2.1",
                                  kPart);
}

std::string text_of(std::size_t size, unsigned seed = 0) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) {
        text[i] = static_cast<char>('a' + (i * 7 + i / 251 + seed) % 26);
    }
    return text;
}

// After so many further parts the transport takes no more.
void stop_after(Node& side, unsigned parts) {
    side->loses = [&side, parts, n = 0U](const Header& h) mutable {
        if ((h.is_data() || h.kind == Kind::more) && ++n == parts) {
            side->refuses = true;
        }
        return false;
    };
}

// What a stranger may say in a session: `from` has it, and says nothing else.
void say(Node& to, const Node& from, Header h, std::size_t size) {
    for (const auto& [key, link] : from.transport->links()) {
        h.cookie = link->out_cookie;
    }
    Bytes bytes(Header::kSize + size, std::byte{'x'});
    h.write(bytes.data());
    to->inbox.push_back(std::move(bytes));
}

}  // namespace

TEST_CASE("messages of all lengths arrive whole") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    const Lane lane = GENERATE(Lane::unexpected, Lane::expected);
    const bool copies = GENERATE(false, true);
    a->copies = copies;
    std::vector<std::size_t> sizes = {0, 1, kMost - 1, kMost};
    for (std::size_t n = 1; n <= 2; ++n) {
        for (const int more : {-1, 0, 1, 2}) {
            sizes.push_back(n * kBody + static_cast<std::size_t>(more));
        }
    }
    for (const std::size_t size : sizes) {
        CAPTURE(size);
        const std::string text = text_of(size);
        const unsigned before = a->sent[static_cast<std::size_t>(Kind::more)];
        TestOp op;
        REQUIRE(a.send(op, b, text, lane, 7));
        REQUIRE(settle([&] { return op.done && b.messages.size() == 1; }, a, b));
        CHECK(op.status == Status::success);
        CHECK(b.messages[0].lane == lane);
        CHECK(b.messages[0].tag == 7);
        CHECK(b.messages[0].text == text);
        // No part more than it takes; and the sender's bytes are as they were.
        CHECK(a->sent[static_cast<std::size_t>(Kind::more)] - before ==
              (size <= kBody ? 0 : (size - 1) / kBody));
        CHECK(std::string(reinterpret_cast<const char*>(op.buffer.data()) + Header::kSize, size) ==
              text);
        b.messages.clear();
    }
    CHECK(a->largest_sent == kPart);
    CHECK(b->stat("session_received") == sizes.size());
    CHECK(b.drops.empty());
}

TEST_CASE("the side that takes less at once decides") {
    Net net;
    Node a = side(net, 1000, 0);
    Node b = side(net, 2000);
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.send(op, b, text));
    REQUIRE(b.send(op, a, text));
    REQUIRE(settle([&] { return a.messages.size() == 1 && b.messages.size() == 1; }, a, b));
    CHECK(a->largest_sent == kPart);
    CHECK(b->largest_sent == kPart);
    CHECK(a.messages[0].text == text);
    CHECK(b.messages[0].text == text);
}

TEST_CASE("messages to oneself leave in parts, too") {
    Net net;
    Node a = side(net, 1000);
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.send(op, a, text));
    REQUIRE(settle([&] { return a.messages.size() == 1; }, a));
    CHECK(a.messages[0].text == text);
}

TEST_CASE("a class whose messages are very long leaves them to the library") {
    Net net;
    na::InitInfo info;
    info.max_unexpected = 2 * kPart + 1;
    Node a(net, 1000, 0, info, {}, "192.0.2.1", kPart);
    Node b(net, 2000, 0, info, {}, "192.0.2.1", kPart);
    const std::string text = text_of(2 * kPart + 1 - Header::kSize);
    TestOp op;
    REQUIRE(a.send(op, b, text));
    REQUIRE(settle([&] { return b.messages.size() == 1; }, a, b));
    CHECK(b.messages[0].text == text);
    CHECK(a->sent[static_cast<std::size_t>(Kind::more)] == 0);
}

TEST_CASE("what has begun goes on when there is room again, before anything else") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(a, b));
    const unsigned parts = GENERATE(1U, 2U);
    const bool copies = GENERATE(false, true);
    a->copies = copies;
    stop_after(a, parts);
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.post(op, b, text).what == Posted::What::pending);
    op.buffer.assign(op.buffer.size(), std::byte{});  // it has been copied
    a->loses = nullptr;
    TestOp after, behind;
    CHECK(a.post(after, b, "after").what == Posted::What::again);
    CHECK(a.post(behind, b, text, Lane::expected).what == Posted::What::again);
    a.progress();
    b.progress();
    CHECK_FALSE(op.done);
    CHECK(b.messages.size() == 1);
    a->refuses = false;
    REQUIRE(a.send(behind, b, text, Lane::expected));
    REQUIRE(a.send(after, b, "after"));
    REQUIRE(settle([&] { return op.done && behind.done && b.messages.size() == 4; }, a, b));
    CHECK(op.status == Status::success);
    CHECK(b.messages[1].text == text);
    CHECK(b.messages[2].lane == Lane::expected);
    CHECK(b.messages[2].text == text);
    CHECK(b.messages[3].text == "after");
    CHECK(b.drops.empty());
}

TEST_CASE("what has begun arrives, though it is canceled") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(a, b));
    stop_after(a, 1);
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.post(op, b, text).what == Posted::What::pending);
    a->cancel(op.op);
    CHECK(op.done);
    CHECK(op.status == Status::success);
    a->loses = nullptr;
    a->refuses = false;
    REQUIRE(settle([&] { return b.messages.size() == 2; }, a, b));
    CHECK(b.messages[1].text == text);
}

TEST_CASE("what has begun ends with its peer") {
    Net net;
    Node a = side(net, 1000);
    auto b = new_side(net, 2000);
    REQUIRE(meet(a, *b));
    stop_after(a, 1);
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.post(op, *b, text).what == Posted::What::pending);
    b->progress();
    b.reset();
    REQUIRE(settle([&] { return op.done; }, a));
    CHECK(op.status == Status::hostunreach);
    a->loses = nullptr;
    a->refuses = false;
    // Nothing of it comes to who is there now.
    Node successor = side(net, 2000);
    REQUIRE(a.send(op, successor, text));
    REQUIRE(settle([&] { return op.done && successor.messages.size() == 1; }, a, successor));
    CHECK(successor.messages[0].text == text);
    CHECK(successor.drops.empty());
}

TEST_CASE("a message whose rest finds nobody ends the session") {
    Net net;
    Node a = side(net, 1000);
    auto b = new_side(net, 2000);
    REQUIRE(meet(a, *b));
    a->loses = [&](const Header& h) {
        if (h.is_data()) {
            (*b)->killed = true;
            b.reset();
            return true;
        }
        return false;
    };
    TestOp op;
    CHECK(a.post(op, *b, text_of(kMost)).what == Posted::What::failed);
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
}

TEST_CASE("a session ends in the middle of a message, and the next one begins anew") {
    Net net;
    auto a = new_side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(*a, b));
    stop_after(*a, 2);
    TestOp op;
    REQUIRE(a->post(op, b, text_of(kMost, 1)).what == Posted::What::pending);
    b.progress();
    (*a)->killed = true;
    a.reset();
    Node again = side(net, 1000);
    const std::string text = text_of(kMost, 2);
    REQUIRE(again.send(op, b, text));
    REQUIRE(settle([&] { return b.messages.size() == 2; }, again, b));
    CHECK(b.messages[1].text == text);
    CHECK(b.drops.empty());
}

TEST_CASE("a message in parts waits for room like others") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(a, b));
    b.room = false;
    const std::string texts[] = {text_of(kMost, 1), text_of(kBody + 1, 2), "short"};
    TestOp op;
    for (const std::string& text : texts) {
        REQUIRE(a.send(op, b, text));
    }
    REQUIRE(settle([&] { return b->stat("session_held") == 3; }, a, b));
    b.room = true;
    REQUIRE(settle([&] { return b.messages.size() == 4; }, a, b));
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(b.messages[i + 1].text == texts[i]);
    }
}

TEST_CASE("without memory for the rest the sender hears it, and the session ends") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(a, b));
    stop_after(a, 1);
    const std::string text = text_of(kMost);
    TestOp op;
    op.buffer.reserve(kMost + Header::kSize);
    allocations_left = 0;
    const Posted posted = a.post(op, b, text);
    allocations_left = kPlenty;
    CHECK(posted.what == Posted::What::failed);
    a->loses = nullptr;
    a->refuses = false;
    REQUIRE(settle([&] { return !a.lost.empty(); }, a));
}

TEST_CASE("without memory for a message in parts it is dropped, and said, and others come") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(a, b));
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.send(op, b, text));
    const std::deque<Bytes> parts = std::exchange(b->inbox, {});
    REQUIRE(parts.size() > 1);
    b->inbox.push_back(parts.front());
    allocations_left = 0;
    b.progress();
    allocations_left = kPlenty;
    b->inbox.insert(b->inbox.end(), parts.begin() + 1, parts.end());
    b.progress();
    CHECK(b.messages.size() == 1);
    CHECK(b.drops.size() == 1);
    REQUIRE(a.send(op, b, text));
    REQUIRE(settle([&] { return b.messages.size() == 2; }, a, b));
    CHECK(b.messages[1].text == text);
}

TEST_CASE("parts that belong to no message are dropped and counted") {
    Net net;
    Node a = side(net, 1000);
    Node b = side(net, 2000);
    REQUIRE(meet(a, b));
    const auto data = [](std::uint32_t rest, std::uint32_t tag = 1) {
        return Header{.tag = tag, .kind = Kind::unexpected, .rest = rest};
    };
    const auto more = [](std::uint32_t rest, std::uint32_t tag = 1) {
        return Header{.tag = tag, .kind = Kind::more, .rest = rest};
    };
    unsigned bad = 0;
    SECTION("without a beginning") {
        say(b, a, more(0), 10);
        say(b, a, more(100), 10);
        bad = 2;
    }
    SECTION("of another message") {
        say(b, a, data(10), 10);
        say(b, a, more(0, 2), 10);
        say(b, a, more(0), 10);  // too late
        bad = 2;
    }
    SECTION("longer, or shorter, than was said") {
        say(b, a, data(10), 10);
        say(b, a, more(0), 11);
        say(b, a, data(10), 10);
        say(b, a, more(0), 9);
        say(b, a, data(20), 10);
        say(b, a, more(11), 10);
        say(b, a, data(20), 10);
        say(b, a, more(UINT32_MAX), 10);
        bad = 4;
    }
    SECTION("empty") {
        say(b, a, data(10), 10);
        say(b, a, more(10), 0);
        bad = 1;
    }
    SECTION("of a message larger than is taken") {
        say(b, a, data(static_cast<std::uint32_t>(kMost)), 1);
        say(b, a, data(UINT32_MAX), 10);
        bad = 2;
    }
    SECTION("with another message in the middle") {
        say(b, a, data(10), 10);
        say(b, a, data(0), 10);
        say(b, a, more(0), 10);
        bad = 2;
    }
    b.progress();
    CHECK(b->stat("session_bad_input") == bad);
    CHECK(b.drops.size() == bad);
    CHECK(b.messages.size() == 1);
    const std::string text = text_of(kMost);
    TestOp op;
    REQUIRE(a.send(op, b, text));
    REQUIRE(settle([&] { return b.messages.size() == 2; }, a, b));
    CHECK(b.messages[1].text == text);
}
