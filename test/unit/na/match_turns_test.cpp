// SPDX-License-Identifier: BSD-3-Clause
// Messages without a receive are handed out by turns of their peers; those of a muted peer stay.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "match_fixture.hpp"

using namespace match_test;

namespace {

// The tags that come out of `n` receives, in order.
std::vector<std::uint32_t> take(Fixture& f, unsigned n) {
    std::vector<std::uint32_t> tags;
    std::vector<std::unique_ptr<TestOp>> ops;
    for (unsigned i = 0; i < n; ++i) {
        ops.push_back(std::make_unique<TestOp>(f));
        f.post(*ops.back());
    }
    f.queue.deliver_held();
    for (auto& op : ops) {
        if (op->outcomes.empty()) {
            f.queue.cancel(**op);
        } else {
            tags.push_back(op->outcomes[0].tag);
        }
        release(*op);
    }
    return tags;
}

}  // namespace

TEST_CASE("peers have turns, and each one its order", "[match_queue][turns]") {
    Fixture f;
    for (std::uint32_t i = 0; i < 10; ++i) {
        f.message(f.x.get(), 100 + i);
    }
    f.message(f.y.get(), 1);
    f.message(f.y.get(), 2);
    CHECK(take(f, 6) == std::vector<std::uint32_t>{100, 1, 101, 2, 102, 103});
    CHECK(take(f, 10) == std::vector<std::uint32_t>{104, 105, 106, 107, 108, 109});
    CHECK(f.queue.held() == 0);
}

TEST_CASE("a message that is being written holds its peer up, and no other",
          "[match_queue][turns]") {
    Fixture f;
    Landing* slow = f.begin(f.x.get(), 100);
    Landing* later = f.begin(f.x.get(), 101);
    REQUIRE(slow != nullptr);
    REQUIRE(later != nullptr);
    f.message(f.y.get(), 1);
    CHECK(take(f, 3) == std::vector<std::uint32_t>{1});
    f.finish(slow);
    f.finish(later);
    CHECK(take(f, 3) == std::vector<std::uint32_t>{100, 101});
}

TEST_CASE("no more messages are handed out than may wait above", "[match_queue][turns]") {
    Fixture f;
    f.queue.turns().enable(GENERATE(false, true));
    const auto most = static_cast<std::ptrdiff_t>(f.queue.turns().most());
    std::vector<std::unique_ptr<TestOp>> ops;
    for (std::ptrdiff_t i = 0; i < 2 * most; ++i) {
        ops.push_back(std::make_unique<TestOp>(f));
        f.post(*ops.back());
    }
    const auto count = [&] {
        return std::count_if(ops.begin(), ops.end(),
                             [](const auto& op) { return !op->outcomes.empty(); });
    };
    counted = &f.queue;
    for (std::ptrdiff_t i = 0; i < most + 10; ++i) {
        f.message(f.x.get(), static_cast<std::uint32_t>(100 + i));
    }
    CHECK(count() == most);
    CHECK(f.queue.deliverable());  // nobody may sleep on it
    f.queue.turns().begun();
    CHECK(count() == most);  // only a poll hands out
    f.queue.deliver_held();
    CHECK(count() == most + 1);
    for (std::ptrdiff_t i = 0; i < most; ++i) {
        f.queue.turns().begun();
    }
    f.queue.deliver_held();
    CHECK(count() == most + 10);
    counted = nullptr;
    for (auto& op : ops) {
        if (op->outcomes.empty()) {
            f.queue.cancel(**op);
        }
        release(*op);
    }
}

TEST_CASE("what may wait above follows the time that one takes", "[match_queue][turns]") {
    using namespace std::chrono_literals;
    na::Turns turns;
    turns.enable(false);
    std::chrono::steady_clock::time_point now{};
    const auto work = [&](std::chrono::nanoseconds each) {
        turns.learn(now);
        for (unsigned i = 0; i < 16; ++i) {
            turns.given();
            turns.begun();
        }
        now += 16 * each;
        turns.learn(now);
    };
    work(1ms);
    CHECK(turns.most() == na::Turns::kLeast);
    for (int i = 0; i < 10; ++i) {
        work(1us);
    }
    CHECK(turns.most() == na::Turns::kMost);
    // A rest between two floods says nothing.
    turns.forget();
    now += 10s;
    work(1us);
    CHECK(turns.most() == na::Turns::kMost);
}

TEST_CASE("messages of a muted peer are held in order, up to a part of the room",
          "[match_queue][turns]") {
    constexpr std::uint64_t kLimit = 128;
    Fixture f(kLimit);
    f.message(f.x.get(), 100);
    REQUIRE(f.queue.mute(*f.x.get()));
    unsigned held = 1;
    while (Landing* landing = f.begin(f.x.get(), 100 + held)) {
        f.finish(landing);
        ++held;
    }
    CHECK(held == kLimit / 4);
    f.message(f.y.get(), 1);
    CHECK(take(f, 4) == std::vector<std::uint32_t>{1});
    // The other lane is open.
    TestOp ack(f);
    f.post_expected(ack, f.x.get(), 7);
    f.message(f.x.get(), 7, 8, Lane::expected);
    CHECK(got(ack, 7));
    f.queue.unmute(*f.x.get());
    const std::vector<std::uint32_t> tags = take(f, held);
    REQUIRE(tags.size() == held);
    for (std::uint32_t i = 0; i < held; ++i) {
        CHECK(tags[i] == 100 + i);
    }
    CHECK(f.queue.held() == 0);
}

TEST_CASE("what is held of a muted peer goes with its connection", "[match_queue][turns]") {
    Fixture f;
    REQUIRE(f.queue.mute(*f.x.get()));
    f.message(f.x.get(), 100);
    Landing* half = f.begin(f.x.get(), 101);
    REQUIRE(half != nullptr);
    f.message(f.y.get(), 1);
    f.queue.drop_muted(*f.x.get());
    f.finish(half, Status::hostunreach);
    f.queue.unmute(*f.x.get());
    CHECK(take(f, 3) == std::vector<std::uint32_t>{1});
    CHECK(f.queue.held() == 0);
}
