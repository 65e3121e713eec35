// SPDX-License-Identifier: BSD-3-Clause
// The only place that runs user callbacks.
#include <chrono>

#include "hg/context.hpp"

namespace hg {

using na::Status;

Status Context::trigger(unsigned timeout_ms, unsigned max_count, unsigned& count) {
    count = 0;
    if (max_count == 0) {
        return Status::success;
    }
    // Without threads nobody could add anything while this one waits.
    if (done_.empty() && timeout_ms != 0 && threaded_) {
        const auto deadline =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
        std::unique_lock lock(trigger_mutex_);
        trigger_waiters_.fetch_add(1, std::memory_order_seq_cst);
        trigger_signal_.wait_until(lock, deadline, [this] { return !done_.empty(); });
        trigger_waiters_.fetch_sub(1, std::memory_order_relaxed);
    }
    while (count < max_count) {
        na::CompletionQueue::Node* node = done_.pop();
        if (node == nullptr) {
            if (count != 0 || done_.empty()) {
                break;
            }
            na::util::cpu_relax();  // another thread is just about to add it
            continue;
        }
        auto& completion = static_cast<Completion&>(*node);
        completion.run(completion);
        ++count;
    }
    return count == 0 ? Status::timeout : Status::success;
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
