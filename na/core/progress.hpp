// SPDX-License-Identifier: BSD-3-Clause
// Waiting: poll, spin for a bounded and adapting time, arm, sleep on one descriptor. Shared by NA
// and RPC contexts.
//
// The descriptor is an epoll set of the sources' descriptors plus an eventfd, through which other
// threads make a sleeper look again. Several threads may drive one Waiter at a time; each sleeps
// for itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "na/result.hpp"

namespace na::inline impl {

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
    // On all that another Waiter sleeps on. Not on its descriptor: the kernel refuses sets within
    // sets beyond a depth of five, which libraries beneath and the event loops of users need for
    // themselves.
    Status add(const Waiter& other);
    void remove(int source_fd) noexcept;

    // For sources that have no descriptor: without open(), a thread that waits sleeps for a while
    // between polls, longer the longer nothing comes, up to a millisecond.
    void nap_between_polls() noexcept { naps_ = true; }

    int fd() const noexcept { return epoll_; }

    // A thread sleeps, or is about to after its last arm(): something must be done to wake it.
    bool sleeping() const noexcept { return sleepers_.load(std::memory_order_seq_cst) != 0; }
    // Somebody sleeps, in drive() or on fd(), on an arm() that polling by this thread has undone
    // since.
    bool relied_on() const noexcept {
        return sleeping() || owed_.load(std::memory_order_relaxed) != nullptr;
    }
    // Makes sleepers look again, now or at their next sleep; an external user of fd() too, when
    // `armed`.
    void wake() noexcept;
    // wake(), if there is a sleeper. What the sleeper must see has to be stored (seq_cst or before
    // a fence) already.
    void wake_sleepers() noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_relaxed) != 0 ||
            armed_.load(std::memory_order_relaxed) != nullptr) {
            wake();
        }
    }
    // Somebody has said set_armed(), or counts on it, since the last disarm().
    bool armed() const noexcept {
        return armed_.load(std::memory_order_relaxed) != nullptr ||
               owed_.load(std::memory_order_relaxed) != nullptr;
    }
    // For users who sleep on fd() themselves: from here to the next disarm() wake_sleepers()
    // signals the descriptor.
    void set_armed() noexcept { armed_.store(this_thread(), std::memory_order_seq_cst); }
    // Before each poll, which ends the effect of an arm(). Remembers whether another thread counts
    // on that arm().
    void disarm() noexcept {
        if (armed()) {
            disarm_slow();
        }
    }
    // A thread that stops polling passes its duty on: if others sleep, the sources must be armed
    // for them, or one of them must look. drive() does it itself.
    template <typename Arm>
    void leave(Arm&& arm) noexcept {
        if (relied_on()) [[unlikely]] {
            const void* who = owed_.exchange(nullptr, std::memory_order_relaxed);
            if (who != nullptr) {
                armed_.store(
                    who,
                    std::memory_order_seq_cst);  // it shall look itself, and take the signal back
            }
            if (who != nullptr || !arm()) {
                wake();
            }
        }
    }

    // Until ready() or the timeout (ms): poll(); if nothing came, spin; arm(); sleep. Answers
    // success or timeout.
    //   poll():  one round of progress;  ready(): something for the caller;  arm(): safe to sleep
    //   on fd() now.
    template <typename Poll, typename Ready, typename Arm>
    Status drive(unsigned timeout_ms, Poll&& poll, Ready&& ready, Arm&& arm) {
        const Status s = drive_until(timeout_ms, poll, ready, arm);
        leave(arm);
        return s;
    }

    std::uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }
    std::uint64_t wakes() const noexcept { return wakes_.load(std::memory_order_relaxed); }

 private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::int64_t kMinSpinNs = 1'000;
    static constexpr std::int64_t kMaxSpinNs = 50'000;
    // A yield that takes that long has let others run.
    static constexpr std::chrono::nanoseconds kOthersRan{2'000};
    // Between yields while spinning: the least after one that has, twice as long after each other.
    static constexpr std::int64_t kMinYieldNs = 2'000;
    static constexpr std::int64_t kMaxYieldNs = 16'000;
    static constexpr std::chrono::microseconds kMinNap{8};
    static constexpr std::chrono::microseconds kMaxNap{1024};

    template <typename Poll, typename Ready, typename Arm>
    Status drive_until(unsigned timeout_ms, Poll& poll, Ready& ready, Arm& arm) {
        poll();
        if (ready()) {
            return Status::success;
        }
        if (timeout_ms == 0) {
            return Status::timeout;
        }
        const auto start = Clock::now();
        const auto deadline = start + std::chrono::milliseconds(timeout_ms);
        auto nap = kMinNap;
        for (;;) {
            if (spin(deadline, poll, ready)) {
                return Status::success;
            }
            auto now = Clock::now();
            if (now >= deadline) {
                return Status::timeout;
            }
            if (epoll_ < 0) {
                if (naps_) {
                    pause(nap);
                    nap = nap < kMaxNap ? nap * 2 : nap;
                }
                continue;
            }
            sleepers_.fetch_add(1, std::memory_order_seq_cst);
            bool woken_up = true;
            if (!ready() && arm() && !ready()) {
                woken_up = sleep(deadline - now);
                const auto woken = Clock::now();
                learn(woken - now);
                now = woken;
            }
            // The last one takes the signal back: one that is only about to sleep must still find
            // it. (One that comes when the time is over ends the next sleep at once, and goes
            // then.)
            if (sleepers_.fetch_sub(1, std::memory_order_acq_rel) == 1 && woken_up) {
                drain();
            }
            poll();
            if (ready()) {
                // There may be more than this caller takes, and a signal taken back for a sleeper
                // who came meanwhile.
                if (sleepers_.load(std::memory_order_seq_cst) != 0) {
                    wake();
                }
                return Status::success;
            }
            if (now >= deadline) {
                return Status::timeout;  // nothing has come in all that time: no reason to spin
            }
        }
    }

    // Spins at most spin_ns_, which doubles after a success, halves after a failure, and jumps up
    // after a sleep shorter than a spin could have been: a context under steady traffic stays
    // awake, an idle one sleeps at once.
    template <typename Poll, typename Ready>
    bool spin(Clock::time_point deadline, Poll& poll, Ready& ready) {
        const std::int64_t budget =
            epoll_ < 0 && !naps_ ? kMaxSpinNs : spin_ns_.load(std::memory_order_relaxed);
        if (budget <= kMinSpinNs && epoll_ >= 0) {
            return false;  // whoever waits has just polled, and some polls are system calls
        }
        const auto start = Clock::now();
        auto next_yield =
            start + std::chrono::nanoseconds(yield_ns_.load(std::memory_order_relaxed));
        // Polls between looks at the clock, which takes longer than some.
        for (int polls = budget > kMinSpinNs ? 16 : 1;; polls = polls < 16 ? polls * 2 : polls) {
            for (int i = 0; i < polls; ++i) {
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
                if (epoll_ < 0 && !naps_) {
                    yield();
                }
                return false;
            }
            // What is waited for may need this processor: another thread, or the peer's process.
            if (now >= next_yield) {
                yield();
                const auto after = Clock::now();
                const std::int64_t every =
                    after - now > kOthersRan
                        ? kMinYieldNs
                        : std::min(yield_ns_.load(std::memory_order_relaxed) * 2, kMaxYieldNs);
                yield_ns_.store(every, std::memory_order_relaxed);
                next_yield = after + std::chrono::nanoseconds(every);
            }
        }
    }
    void adapt(bool hit, std::int64_t budget) noexcept {
        const std::int64_t next = hit ? budget * 2 : budget / 2;
        spin_ns_.store(next < kMinSpinNs   ? kMinSpinNs
                       : next > kMaxSpinNs ? kMaxSpinNs
                                           : next,
                       std::memory_order_relaxed);
    }
    // A sleep this short should have been a spin.
    void learn(Clock::duration slept) noexcept {
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(slept).count();
        if (ns < kMaxSpinNs) {
            spin_ns_.store(kMaxSpinNs, std::memory_order_relaxed);
        }
    }
    bool sleep(Clock::duration at_most) noexcept;  // false: nothing but the time woke it
    void drain() noexcept;
    void disarm_slow() noexcept;
    static void yield() noexcept;
    void pause(std::chrono::microseconds length) noexcept;
    static const void* this_thread() noexcept;

    int epoll_ = -1;
    std::vector<int> sources_;
    int event_ = -1;
    bool naps_ = false;
    std::atomic<std::int64_t> yield_ns_{kMinYieldNs};
    std::atomic<std::int64_t> spin_ns_{20'000};
    std::atomic<std::uint32_t> sleepers_{0};
    std::atomic<const void*> armed_{nullptr};  // the thread that sleeps on fd() by itself
    std::atomic<const void*> owed_{
        nullptr};  // the same, after another thread's poll has disarmed it
    std::atomic<std::uint64_t> sleeps_{0};
    std::atomic<std::uint64_t> wakes_{0};
};

}  // namespace na::inline impl
