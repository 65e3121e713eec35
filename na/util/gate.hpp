// SPDX-License-Identifier: BSD-3-Clause
// Counts who is inside an object, so that its end is refused meanwhile. Entering costs the thread
// that entered first two ordinary stores and a comparison, any other thread an atomic operation; as
// in BiasedLock, the side that seldom acts, close(), pays for the fence.
//
// Invariants:
//  - depth_ is written by the owner only. owner_ is written once, from 0.
//  - Whoever enters counts itself, then looks at closing_; close() sets closing_, runs a fence on
//    every processor of this process, then looks at the counts. So one of both sees the other.
#pragma once

#include <atomic>
#include <cstdint>

#include "na/util/biased_lock.hpp"

namespace na::util {

class Gate {
 public:
    Gate() = default;
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    // Any thread, also one that is inside already. False: the object is about to end, the caller is
    // not inside and touches nothing any more. True: leave() follows, on this thread.
    bool enter() noexcept {
        const std::uintptr_t me = this_thread();
        if (owner_.load(std::memory_order_relaxed) != me) [[unlikely]] {
            return enter_otherwise(me);
        }
        depth_.store(depth_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (closing_.load(std::memory_order_acquire)) [[unlikely]] {
            leave();
            return false;
        }
        return true;
    }
    void leave() noexcept {
        if (owner_.load(std::memory_order_relaxed) == this_thread()) [[likely]] {
            depth_.store(depth_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
        } else {
            others_.fetch_sub(1, std::memory_order_release);
        }
    }

    // Refuses every thread that enters from now on. False: a thread is inside, perhaps the
    // caller's, or another thread has closed the gate; nothing has changed but asked().
    bool close() noexcept;
    void reopen() noexcept { closing_.store(false, std::memory_order_release); }
    // After close(): until those who were refused have left.
    void drain() noexcept;
    // Changes each time close() found somebody inside. A thread that will sleep inside reads it
    // before enter(), and leaves when it has changed: close() may find the thread right after.
    std::uint32_t asked() const noexcept { return asked_.load(std::memory_order_seq_cst); }

 private:
    // Not 0, no other thread's while this one lives.
    static std::uintptr_t this_thread() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
        return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#else
        thread_local const char mark = 0;
        return reinterpret_cast<std::uintptr_t>(&mark);
#endif
    }
    bool enter_otherwise(std::uintptr_t me) noexcept;
    bool empty() const noexcept {
        return depth_.load(std::memory_order_acquire) == 0 &&
               others_.load(std::memory_order_seq_cst) == 0;
    }

    std::atomic<std::uintptr_t> owner_{0};  // the thread that entered first; 0: none, or no fence
    std::atomic<std::uint32_t> depth_{0};   // how often the owner is inside
    std::atomic<std::uint32_t> others_{0};  // how often other threads are
    std::atomic<bool> closing_{false};
    std::atomic<std::uint32_t> asked_{0};
};

// Inside for a scope, where `gate` lets one in.
class Inside {
 public:
    explicit Inside(Gate& gate) noexcept : gate_(gate.enter() ? &gate : nullptr) {}
    ~Inside() {
        if (gate_ != nullptr) {
            gate_->leave();
        }
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    explicit operator bool() const noexcept { return gate_ != nullptr; }

 private:
    Gate* const gate_;
};

}  // namespace na::util
