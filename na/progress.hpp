// SPDX-License-Identifier: BSD-3-Clause
// Waiting: poll, spin for a bounded and adapting time, arm, sleep on one descriptor. Shared by NA and RPC contexts.
//
// The descriptor is an epoll set of the sources' descriptors plus an eventfd, through which other threads make a sleeper
// look again. Several threads may drive one Waiter at a time; each sleeps for itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "na/result.hpp"

namespace na {

class Waiter {
 public:
    Waiter() = default;
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter();

    // Makes the descriptors. Without open() the Waiter only polls: fd() is -1, wake() does nothing.
    Status open();
    // Sleep on this too. The descriptor stays its owner's.
    Status add(int source_fd);
    void remove(int source_fd) noexcept;

    int fd() const noexcept { return epoll_; }

    // A thread sleeps, or is about to after its last arm(): something must be done to wake it.
    bool sleeping() const noexcept { return sleepers_.load(std::memory_order_seq_cst) != 0; }
    // Makes sleepers look again, now or at their next sleep; an external user of fd() too, when `armed`.
    void wake() noexcept;
    // wake(), if there is a sleeper. What the sleeper must see has to be stored (seq_cst or before a fence) already.
    void wake_sleepers() noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_relaxed) != 0 || armed_.load(std::memory_order_relaxed)) {
            wake();
        }
    }
    // For users who sleep on fd() themselves: from here to the next disarm() wake_sleepers() signals the descriptor.
    void set_armed() noexcept { armed_.store(true, std::memory_order_seq_cst); }
    void disarm() noexcept {
        if (armed_.load(std::memory_order_relaxed)) {
            armed_.store(false, std::memory_order_relaxed);
            drain();
        }
    }

    // Until ready() or the timeout (ms): poll(); if nothing came, spin; arm(); sleep. Answers success or timeout.
    //   poll():  one round of progress;  ready(): something for the caller;  arm(): safe to sleep on fd() now.
    template <typename Poll, typename Ready, typename Arm>
    Status drive(unsigned timeout_ms, Poll&& poll, Ready&& ready, Arm&& arm) {
        poll();
        if (ready()) {
            return Status::success;
        }
        if (timeout_ms == 0) {
            return Status::timeout;
        }
        const auto start = Clock::now();
        const auto deadline = start + std::chrono::milliseconds(timeout_ms);
        for (;;) {
            if (spin(deadline, poll, ready)) {
                return Status::success;
            }
            const auto now = Clock::now();
            if (now >= deadline) {
                return Status::timeout;
            }
            if (epoll_ < 0) {
                continue;
            }
            sleepers_.fetch_add(1, std::memory_order_seq_cst);
            if (!ready() && arm() && !ready()) {
                sleep(deadline - now);
            }
            sleepers_.fetch_sub(1, std::memory_order_relaxed);
            poll();
            if (ready()) {
                return Status::success;
            }
        }
    }

    std::uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }
    std::uint64_t wakes() const noexcept { return wakes_.load(std::memory_order_relaxed); }

 private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::int64_t kMinSpinNs = 1'000;
    static constexpr std::int64_t kMaxSpinNs = 50'000;

    // Spins at most spin_ns_, which doubles after a success near its end and halves after a failure: a context under
    // steady traffic stays awake, an idle one sleeps after a microsecond.
    template <typename Poll, typename Ready>
    bool spin(Clock::time_point deadline, Poll& poll, Ready& ready) {
        const auto start = Clock::now();
        const std::int64_t budget = epoll_ < 0 ? kMaxSpinNs : spin_ns_.load(std::memory_order_relaxed);
        for (;;) {
            for (int i = 0; i < 16; ++i) {
                poll();
                if (ready()) {
                    adapt(true, budget);
                    return true;
                }
            }
            const auto now = Clock::now();
            if (now >= deadline) {
                return false;
            }
            if (now - start >= std::chrono::nanoseconds(budget)) {
                adapt(false, budget);
                if (epoll_ < 0) {
                    yield();
                }
                return false;
            }
        }
    }
    void adapt(bool hit, std::int64_t budget) noexcept {
        const std::int64_t next = hit ? budget * 2 : budget / 2;
        spin_ns_.store(next < kMinSpinNs ? kMinSpinNs : next > kMaxSpinNs ? kMaxSpinNs : next,
                       std::memory_order_relaxed);
    }
    void sleep(Clock::duration at_most) noexcept;
    void drain() noexcept;
    static void yield() noexcept;

    int epoll_ = -1;
    int event_ = -1;
    std::atomic<std::int64_t> spin_ns_{20'000};
    std::atomic<std::uint32_t> sleepers_{0};
    std::atomic<bool> armed_{false};
    std::atomic<std::uint64_t> sleeps_{0};
    std::atomic<std::uint64_t> wakes_{0};
};

}  // namespace na
