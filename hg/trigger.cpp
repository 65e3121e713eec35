// SPDX-License-Identifier: BSD-3-Clause
// Waiting for callbacks that are due; trigger() itself, in the header, is the only place that runs
// them.
#include <chrono>

#include "hg/context.hpp"

namespace hg {

void Context::await_callback(unsigned timeout_ms) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    std::unique_lock lock(trigger_mutex_);
    trigger_waiters_.fetch_add(1, std::memory_order_seq_cst);
    trigger_signal_.wait_until(lock, deadline, [this] { return !done_.empty(); });
    trigger_waiters_.fetch_sub(1, std::memory_order_relaxed);
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

void Context::announce() noexcept {
    if (!threaded_) {
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
