// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf/result.hpp"

#include <poll.h>

#include <catch2/catch.hpp>
#include <deque>
#include <memory>

#include "tools/perf/run.hpp"

using namespace perf;

namespace {

// A result is too large for some stacks.
std::unique_ptr<Result> empty() {
    return std::make_unique<Result>();
}

// Operations that end one after the other, each when its lane takes a turn.
class Queue;
class Queued final : public Slot {
 public:
    explicit Queued(Queue& queue) : queue_(queue) {}
    void end() { finished(nullptr); }

 private:
    Outcome start() override;
    Queue& queue_;
};
class Queue final : public Lane {
 public:
    explicit Queue(unsigned in_flight) {
        for (unsigned i = 0; i < in_flight; ++i) {
            slots.push_back(std::make_unique<Queued>(*this));
        }
    }
    bool turn(unsigned /*timeout_ms*/) override {
        if (started.empty()) {
            return false;
        }
        poll(nullptr, 0, pause_ms);
        Queued* slot = started.front();
        started.pop_front();
        slot->end();
        return true;
    }
    bool must_not_sleep() override { return true; }
    int descriptor() const override { return -1; }

    std::deque<Queued*> started;
    int pause_ms = 0;
};
Outcome Queued::start() {
    queue_.started.push_back(this);
    return nullptr;
}

Lanes one_lane(unsigned in_flight, int pause_ms) {
    auto lane = std::make_unique<Queue>(in_flight);
    lane->pause_ms = pause_ms;
    Lanes lanes;
    lanes.push_back(std::move(lane));
    return lanes;
}

}  // namespace

TEST_CASE("the median is that of the operations, not of blocks, nor of time") {
    const auto result = empty();
    // As many operations in each: what takes longer has longer blocks.
    for (int i = 0; i < 1000; ++i) {
        result->add_block(32 * (i % 5 < 2 ? 100e3 : 200e3), 32);
    }
    CHECK(result->median_ns() == Approx(200e3));
    CHECK(result->undisturbed_ns() == Approx(100e3));

    // As much time in each: what takes longer has fewer operations in a block.
    const auto other = empty();
    for (int i = 0; i < 1000; ++i) {
        i % 5 < 2 ? other->add_block(250e3, 2500) : other->add_block(250e3, 1250);
    }
    CHECK(other->median_ns() == Approx(100));

    // A block in which nothing could happen for long.
    const auto disturbed = empty();
    disturbed->add_block(32 * 100.0, 32);
    disturbed->add_block(1e9, 1);
    CHECK(disturbed->median_ns() == Approx(100));
    CHECK(disturbed->percentile_ns(1) == Approx(1e9));
}

TEST_CASE("without blocks the median is that of the operations that were timed") {
    const auto result = empty();
    result->operations = 3;
    result->elapsed_ns = 1'002'000;
    for (const std::uint64_t ns : {1000U, 1000U, 1'000'000U}) {
        result->latency.add(ns);
    }
    CHECK_FALSE(result->has_blocks());
    CHECK(result->median_ns() == Approx(1000).epsilon(0.02));
    result->in_flight = 4;  // of the time that one took four have ended
    CHECK(result->median_ns() == Approx(250).epsilon(0.02));
}

TEST_CASE("processes at the same time: rates add up") {
    const auto one = empty();
    const auto other = empty();
    one->add_block(3200, 32);
    other->add_block(9600, 32);
    one->merge(*other);
    CHECK(one->block_operations[0] == Approx(64));
    CHECK(one->median_ns() == Approx(75));
    CHECK(one->in_flight == 2);
}

TEST_CASE("a block of a run has as many operations as one of a floor, or more") {
    for (const unsigned in_flight : {1U, 8U, 16U}) {
        const Lanes lanes = one_lane(in_flight, 1);
        Driving driving;
        driving.busy = true;
        Run run(lanes, driving);
        const auto result = std::make_unique<Result>(run.measure({100, 0}));
        CAPTURE(in_flight);
        CHECK(result->operations == std::uint64_t{100} * in_flight);
        REQUIRE(result->has_blocks());
        for (std::size_t i = 0; i < result->blocks; ++i) {
            CHECK(result->block_operations[i] >= static_cast<float>(kBlockOperations));
            CHECK(result->block_operations[i] >= static_cast<float>(4 * in_flight));
        }
    }
}

TEST_CASE("the end of a run is seen after each turn where turns are long") {
    const Lanes lanes = one_lane(1, 50);
    Driving driving;
    driving.busy = true;
    Run run(lanes, driving);
    const auto result = std::make_unique<Result>(run.measure({0, 0.01}));
    CHECK(result->good);
    CHECK(result->operations <= 2);
}
