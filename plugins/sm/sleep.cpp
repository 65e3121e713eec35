// SPDX-License-Identifier: BSD-3-Clause
// Going to sleep without missing anything: say so, fence, then look once more (notify.cpp has the
// other half).
#include <algorithm>

#include "plugins/sm/context.hpp"

namespace na::sm {
namespace {

// When to try a peer again whose backlog is full.
constexpr std::int64_t kConnectRetry = 1'000'000;
// The same for peers that wait for files, or for their answer.
constexpr std::int64_t kAcceptRetry = 10'000'000;

}  // namespace

void Context::disarm() noexcept {
    stand_down();
    connect_blocked_ = false;
    // What woke us, if it was a socket, is to be taken off it, in this same poll.
    next_events_ = 0;
    countdown_ = 0;
}

void Context::stand_down() noexcept {
    chores_ &= ~kArmed;
    status_->sleep.store(status_->sleep.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
    for (Connection* c : starved_) {
        c->is_starved = false;
        c->want_credit(false);
    }
    starved_.clear();
    for (Connection* c : work_) {
        c->want_credit(false);
    }
}

// Sockets need no look here: what waits in them keeps wait_fd() readable.
bool Context::arm() {
    if (domain_.sleepless()) {
        return false;  // peers rely on it
    }
    // What is to be buried, but for what waits until the core has room for its last words.
    if (std::any_of(dying_.begin(), dying_.end(), [](const Connection* c) {
            return c->state != Connection::State::draining || !c->stalled();
        })) {
        return false;
    }
    if ((chores_ & kArmed) != 0) {
        return true;
    }
    if (connect_blocked_) {
        set_timer(kConnectRetry);
    } else if (!unanswered_.empty() || muted_until_ != 0) {
        set_timer(kAcceptRetry);
    }
    chores_ |= kArmed;
    for (Connection* c : starved_) {
        c->want_credit(true);
    }
    for (Connection* c : work_) {
        c->want_credit(true);
    }
    status_->sleep.store(status_->sleep.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
    full_fence();
    if (anything_ready()) {
        stand_down();
        return false;
    }
    return true;
}

bool Context::anything_ready() noexcept {
    if (ready_->summary.load(std::memory_order_relaxed) != 0 || copies_can_run()) {
        return true;
    }
    for (Connection* c : starved_) {
        if (c->got_credit()) {
            return true;
        }
    }
    for (Connection* c : work_) {
        if (c->unblocked()) {
            return true;
        }
    }
    // All rings, and not the ready map alone: a peer could have taken another one's bit away.
    return std::any_of(slots_.begin(), slots_.end(), [](const std::unique_ptr<Connection>& c) {
        return c != nullptr && c->state == Connection::State::open && c->deliverable();
    });
}

}  // namespace na::sm
