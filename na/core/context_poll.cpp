// SPDX-License-Identifier: BSD-3-Clause
// Progress of a context that has more to do than its plugin, and what comes before a sleep.
#include <mutex>

#include "na/core/context.hpp"

namespace na::inline impl {

using plugin::Posted;
using State = Operation::State;

std::size_t Context::poll_with_care() noexcept {
    if (!lock_.try_lock()) {
        return 0;
    }
    waiter_.disarm();
    if (outbox_.waiting() != 0) [[unlikely]] {
        outbox_.flush();
    }
    match_.begin_poll();
    const std::size_t events = plugin_->progress();
    if (!retry_.empty() || match_.backlog()) [[unlikely]] {
        after_poll();
    }
    if (!lock_.enabled()) {
        attention_.store(needs_attention(), std::memory_order_relaxed);
    }
    lock_.unlock();
    cls_.reap();
    return events;
}

// What the next poll finds to do, but for what the plugin does. Addresses to be reaped: this poll
// does it.
bool Context::needs_attention() const noexcept {
    return waiter_.armed() || outbox_.waiting() != 0 || match_.needs_poll() || !retry_.empty();
}

void Context::after_poll() noexcept {
    if (!retry_.empty()) {
        retry();
    }
    if (match_.backlog()) {
        if (match_.turns().enabled()) {
            match_.turns().learn();
        }
        match_.deliver_held();
    }
}

Turns& Context::take_by_turns() noexcept {
    const std::lock_guard guard(lock_);
    match_.turns().enable(lock_.enabled());
    return match_.turns();
}

void Context::leave() noexcept {
    if (lock_.enabled()) {
        waiter_.leave([this] { return arm_plugin(); });
    }
}

void Context::retry() noexcept {
    retry_.drain([this](RetryQueue::Waiting& waiting) { retry(waiting); });
}

void Context::retry(RetryQueue::Waiting& waiting) noexcept {
    for (;;) {
        if (waiting.full()) {
            outbox_.join(waiting);
        }
        Operation* op = waiting.pop_front();
        if (op == nullptr) {
            return;
        }
        op->set_state(State::posted);
        const Posted answer = to_plugin(*op);
        switch (answer.what) {
            case Posted::What::again:
                op->set_state(State::queued);
                waiting.push_front(*op);
                waiting.set_full(answer.is_full());
                return;
            case Posted::What::pending:
                outbox_.left(*op);
                ++posted_;
                break;
            case Posted::What::done:
                outbox_.left(*op);
                end(*op, Outcome{.status = Status::success, .size = op->length});
                break;
            case Posted::What::failed:
                if (answer.status != Status::msgsize || !outbox_.part(*op, waiting)) {
                    end(*op, Outcome{.status = answer.status});
                }
                break;
        }
    }
}

bool Context::arm() noexcept {
    if (waiter_.fd() < 0) {
        return false;
    }
    waiter_.set_armed();
    attend();  // the next poll ends it
    return completions_.empty() && arm_plugin() && completions_.empty();
}

// True: nothing to do now, and what comes will make the plugin's descriptor readable.
bool Context::arm_plugin() noexcept {
    const std::lock_guard guard(lock_);
    attend();
    return (retry_.empty() || cls_.caps().wakes_on_credit) && outbox_.waiting() == 0 &&
           !match_.deliverable() && !match_.room() && !match_.starved() && plugin_->arm();
}

Status Context::wait(unsigned timeout_ms) noexcept {
    return wait(timeout_ms, [] { return false; });
}

}  // namespace na::inline impl
