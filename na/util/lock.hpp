// SPDX-License-Identifier: BSD-3-Clause
// The lock of the data path: a spin lock that can be switched off for single-threaded use, and that
// yields instead of burning a time slice when its holder was preempted.
#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

namespace na::util {

inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

#ifndef NDEBUG
// Of debug builds: finds two threads inside what is switched off for one. The program promised that
// no two threads are in such a class at a time; the report says so and ends the process.
class OneThread {
 public:
    void enter() noexcept;
    void leave() noexcept;

 private:
    std::atomic<std::uintptr_t> inside_{0};  // the thread, 0: none
    std::uint32_t depth_ = 0;                // of that thread
};
#else
class OneThread {
 public:
    static void enter() noexcept {}
    static void leave() noexcept {}
};
#endif

// Satisfies Lockable. Off: lock() and unlock() are one predictable branch each, no atomic
// operation.
class OptionalLock {
 public:
    explicit OptionalLock(bool enabled) noexcept : enabled_(enabled) {}
    OptionalLock(const OptionalLock&) = delete;
    OptionalLock& operator=(const OptionalLock&) = delete;

    void lock() noexcept {
        if (!enabled_) {
            alone_.enter();
        } else if (held_.exchange(true, std::memory_order_acquire)) {
            wait();
        }
    }
    bool try_lock() noexcept {
        if (!enabled_) {
            alone_.enter();
            return true;
        }
        return !held_.load(std::memory_order_relaxed) &&
               !held_.exchange(true, std::memory_order_acquire);
    }
    void unlock() noexcept {
        if (enabled_) {
            held_.store(false, std::memory_order_release);
        } else {
            alone_.leave();
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
    [[no_unique_address]] OneThread alone_;
};

}  // namespace na::util
