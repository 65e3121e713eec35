// SPDX-License-Identifier: BSD-3-Clause
// What the plugin keeps with an operation while it is posted, in Op::scratch, and lists of such
// operations.
#pragma once

#include <cstdint>

#include "na/plugin.hpp"

namespace na::sm {

class Connection;

enum class Stage : std::uint8_t {
    idle,
    copying,    // put or get: moved piece by piece by Context::copy_some()
    queued,     // in the queue of a connection, nothing written yet
    streaming,  // at the front of that queue, some of its data is in the ring
    waiting,    // in a slot: the peer will answer
};

struct OpState {
    Connection* connection;
    std::uint64_t done;  // bytes moved
    Stage stage;
    std::uint8_t slot;
};

inline OpState& state_of(Op& op) noexcept {
    return *static_cast<OpState*>(op.scratch);
}

// Linked by Op::next and Op::prev.
class OpList {
 public:
    bool empty() const noexcept { return head_ == nullptr; }
    Op* front() const noexcept { return head_; }
    void push_back(Op& op) noexcept {
        op.next = nullptr;
        op.prev = tail_;
        (tail_ != nullptr ? tail_->next : head_) = &op;
        tail_ = &op;
    }
    void insert_before(Op& next, Op& op) noexcept {
        op.next = &next;
        op.prev = next.prev;
        (next.prev != nullptr ? next.prev->next : head_) = &op;
        next.prev = &op;
    }
    void remove(Op& op) noexcept {
        (op.prev != nullptr ? op.prev->next : head_) = op.next;
        (op.next != nullptr ? op.next->prev : tail_) = op.prev;
        op.next = op.prev = nullptr;
    }

 private:
    Op* head_ = nullptr;
    Op* tail_ = nullptr;
};

}  // namespace na::sm
