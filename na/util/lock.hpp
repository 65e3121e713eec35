// SPDX-License-Identifier: BSD-3-Clause
// The lock of the data path: a spin lock that can be switched off for single-threaded use, and that
// yields instead of burning a time slice when its holder was preempted.
#pragma once

#include <atomic>

#include <sched.h>

namespace na::util {

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Satisfies Lockable. Off: lock() and unlock() are one predictable branch each, no atomic
// operation.
class OptionalLock {
 public:
    explicit OptionalLock(bool enabled) noexcept : enabled_(enabled) {}
    OptionalLock(const OptionalLock&) = delete;
    OptionalLock& operator=(const OptionalLock&) = delete;

    void lock() noexcept {
        if (enabled_ && held_.exchange(true, std::memory_order_acquire)) {
            wait();
        }
    }
    bool try_lock() noexcept {
        return !enabled_ || (!held_.load(std::memory_order_relaxed) &&
                             !held_.exchange(true, std::memory_order_acquire));
    }
    void unlock() noexcept {
        if (enabled_) {
            held_.store(false, std::memory_order_release);
        }
    }
    bool enabled() const noexcept { return enabled_; }

 private:
    void wait() noexcept {
        do {
            for (int i = 0; held_.load(std::memory_order_relaxed); ++i) {
                if (i < 100) {
                    cpu_relax();
                } else {
                    sched_yield();
                }
            }
        } while (held_.exchange(true, std::memory_order_acquire));
    }

    const bool enabled_;
    std::atomic<bool> held_{false};
};

}  // namespace na::util
