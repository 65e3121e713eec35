// SPDX-License-Identifier: BSD-3-Clause
// A match queue, two peers, and messages whose bytes follow from their tags.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "core_fixture.hpp"
#include "na/core/match_queue.hpp"
#include "support/payload.hpp"

namespace match_test {

using namespace core_test;
using na::Address;
using na::Counters;
using na::Landing;
using na::Lane;
using na::MatchQueue;
using na::Operation;
using na::OpKind;
using na::Outcome;
using na::Status;

// What has ended, whichever operation it was; for whoever clears it.
inline std::vector<Outcome> in_order;

// Whose turns count what ends, while there is one.
inline MatchQueue* counted = nullptr;

inline void ended(void*, Operation& op, const Outcome& outcome) noexcept {
    if (counted != nullptr && outcome.status == Status::success) {
        counted->turns().given();
    }
    in_order.push_back(outcome);
    if (outcome.last) {
        na::OperationProbe::set_state(op, Operation::State::idle);
    }
    TestOp::of(op).outcomes.push_back(outcome);
}

struct Fixture : Core {
    explicit Fixture(std::uint64_t messages = 1000, std::uint64_t bytes = 1'000'000)
        : queue({.max_unexpected = 4096,
                 .max_expected = 4096,
                 .held_messages = messages,
                 .held_bytes = bytes},
                counters, ended, nullptr),
          x(address("x")),
          y(address("y")) {}

    void post(TestOp& op, std::size_t size = 4096) {
        op->kind = OpKind::recv_unexpected;
        prepare(op, nullptr, 0, size);
        queue.post_unexpected(*op);
    }
    void post_multi(TestOp& op, std::size_t size) {
        op->kind = OpKind::multi_recv_unexpected;
        prepare(op, nullptr, 0, size);
        queue.post_unexpected(*op);
    }
    void post_expected(TestOp& op, Address* from, std::uint32_t tag, std::size_t size = 4096) {
        fill_expected(op, from, tag, size);
        queue.post_expected(*op);
    }
    // Filled in, not posted.
    void fill(TestOp& op) {
        op->kind = OpKind::recv_unexpected;
        prepare(op, nullptr, 0, 4096);
    }
    void fill_expected(TestOp& op, Address* from, std::uint32_t tag, std::size_t size = 4096) {
        op->kind = OpKind::recv_expected;
        prepare(op, from, tag, size);
    }
    Landing* begin(Address* from, std::uint32_t tag, std::size_t size = 8,
                   Lane lane = Lane::unexpected) {
        return queue.arrive(lane, *from, tag, size);
    }
    void finish(Landing* landing, Status status = Status::success) {
        if (landing->data != nullptr && landing->size != 0 && status == Status::success) {
            support::fill(landing->data, landing->size, landing->got_tag);
        }
        queue.finish(*landing, status);
    }
    void message(Address* from, std::uint32_t tag, std::size_t size = 8,
                 Lane lane = Lane::unexpected) {
        Landing* landing = begin(from, tag, size, lane);
        REQUIRE(landing != nullptr);
        finish(landing);
    }

    Counters counters;
    MatchQueue queue;
    na::AddressRef x;
    na::AddressRef y;

 private:
    void prepare(TestOp& op, Address* from, std::uint32_t tag, std::size_t size) {
        buffers.push_back(std::make_unique<std::vector<std::byte>>(size));
        op->buffer = buffers.back()->data();
        op->length = size;
        op->tag = tag;
        na::OperationProbe::set_address(*op, from);
        op.outcomes.clear();
    }
    std::vector<std::unique_ptr<std::vector<std::byte>>> buffers;
};

inline void release(TestOp& op) {
    for (Outcome& o : op.outcomes) {
        if (o.source != nullptr) {
            std::exchange(o.source, nullptr)->unref();
        }
    }
}

inline bool got(TestOp& op, std::uint32_t tag, std::size_t size = 8) {
    if (op.outcomes.size() != 1 || op.outcomes[0].status != Status::success ||
        op.outcomes[0].tag != tag || op.outcomes[0].size != size) {
        return false;
    }
    const bool intact = support::mismatch(op->buffer, size, tag) == -1;
    release(op);
    return intact;
}

}  // namespace match_test
