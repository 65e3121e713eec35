// SPDX-License-Identifier: BSD-3-Clause
// Waiting for callbacks that are due; trigger() itself, in the header, is the only place that runs
// them.
#include <chrono>

#include "hg/context.hpp"
#include "hg/pass.hpp"

namespace hg {

using na::Status;

// `asked`: of the gate, read before the thread entered.
void Context::await_callback(unsigned timeout_ms, std::uint32_t asked) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    std::unique_lock lock(trigger_mutex_);
    trigger_waiters_.fetch_add(1, std::memory_order_seq_cst);
    trigger_signal_.wait_until(lock, deadline,
                               [&] { return !done_.empty() || gate_.asked() != asked; });
    trigger_waiters_.fetch_sub(1, std::memory_order_relaxed);
}

Status Context::trigger_otherwise(unsigned timeout_ms, unsigned max_count, unsigned& count) {
    if (max_count == 0) {
        count = 0;
        return Status::success;
    }
    if (!threaded_) {
        return trigger_inside(max_count, count);
    }
    const std::uint32_t asked = gate_.asked();
    const na::util::Inside inside(gate_);
    if (!inside) {
        count = 0;
        return Status::busy;
    }
    if (timeout_ms != 0 && done_.empty()) {
        await_callback(timeout_ms, asked);
    }
    return trigger_inside(max_count, count);
}

Status Context::trigger_inside(unsigned max_count, unsigned& count) {
    if (max_count == 0) {
        count = 0;
        return Status::success;
    }
    return gathers_ ? trigger_gathering(max_count, count) : trigger_together(max_count, count);
}

// trigger() where others may do the same, or complete something.
Status Context::trigger_together(unsigned max_count, unsigned& count) {
    na::util::Ran ran(&count);
    do {
        auto* due = static_cast<Completion*>(done_.pop());
        if (due == nullptr) [[unlikely]] {
            if (ran.number != 0 || done_.empty()) {
                break;
            }
            na::util::cpu_relax();  // another thread is just about to add it
            continue;
        }
        ++ran.number;
        due->run(*due);
    } while (ran.number < max_count);
    return ran.number == 0 ? Status::timeout : Status::success;
}

// trigger() of a context whose callbacks may send what waits for other callbacks.
Status Context::trigger_gathering(unsigned max_count, unsigned& count) {
    if (done_.empty()) {
        count = 0;
        return Status::timeout;
    }
    Pass pass(*this);
    na::util::Ran ran(&count);
    while (ran.number < max_count) {
        auto* due = static_cast<Completion*>(done_.pop());
        if (due == nullptr) {
            if (ran.number != 0 || done_.empty()) {
                break;
            }
            na::util::cpu_relax();  // another thread is just about to add it
            continue;
        }
        ++ran.number;
        pass.begin(max_count - ran.number);
        due->run(*due);
        pass.end();
    }
    return ran.number == 0 ? Status::timeout : Status::success;
}

Completion* Context::take_callback() noexcept {
    while (!done_.empty()) {
        if (na::CompletionQueue::Node* node = done_.pop(); node != nullptr) {
            return static_cast<Completion*>(node);
        }
        na::util::cpu_relax();
    }
    return nullptr;
}

void Context::flush() noexcept {
    for (const Port* port : {net_.get(), sm_.get()}) {
        if (port != nullptr && port->na().gathered()) {
            port->na().flush();
        }
    }
    // Handles that have answered wait for their next request; after the next poll would be late.
    if (!work_.empty()) {
        run_work();
    }
    settle();
}

void Context::announce() noexcept {
    if (!threaded_) {
        attention_ = true;
        return;
    }
    waiter_.wake_sleepers();  // with the fence that orders what was pushed before the look at who
                              // waits
    if (trigger_waiters_.load(std::memory_order_relaxed) != 0) {
        const std::lock_guard guard(trigger_mutex_);
        trigger_signal_.notify_all();
    }
}

}  // namespace hg
