// SPDX-License-Identifier: BSD-3-Clause
// The deadlines and sleeps of an engine, in a heap. Whoever makes progress calls expire() before it
// sleeps, and sleeps no longer than until next(). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "hg/detail/core.hpp"
#include "na/util/lock.hpp"

namespace hg::detail {

class Timers {
 public:
    explicit Timers(bool threaded) noexcept : lock_(threaded) {}
    ~Timers();

    enum class Added : std::uint8_t {
        first,  // the earliest now: whoever sleeps has to know
        later,
        closed,  // not added: expire_all() was here
    };
    // Throws std::bad_alloc.
    Added add(Timer& timer);
    // Afterwards it does not fire, and is not firing. False: it was not there.
    bool remove(Timer& timer) noexcept;
    // Fires what is due.
    void expire() noexcept {
        if (next_.load(std::memory_order_relaxed) != kNone) [[unlikely]] {
            expire_until(Clock::now());
        }
    }
    // Fires everything before its time, and takes no more: who comes late would wait for nobody.
    void expire_all() noexcept;
    // At most `ms`, and until the next one is due.
    unsigned until_next(unsigned ms) const noexcept {
        const std::int64_t next = next_.load(std::memory_order_relaxed);
        return next == kNone ? ms : until(next, ms);
    }

    // A timerfd that fires with the earliest, for who sleeps on descriptors; opened once, before
    // there is any timer. -1: there is none.
    bool open_descriptor() noexcept;
    int descriptor() const noexcept { return fd_; }

 private:
    static constexpr std::int64_t kNone = INT64_MAX;

    static unsigned until(std::int64_t next, unsigned ms) noexcept;
    void expire_until(Clock::time_point now) noexcept;
    void fire_until(Clock::time_point now, bool passed) noexcept;
    void move(std::size_t to, Timer* timer) noexcept;
    void up(std::size_t at) noexcept;
    void down(std::size_t at) noexcept;
    void take_out(std::size_t at) noexcept;
    void publish() noexcept;

    na::util::OptionalLock lock_;
    // Guarded by lock_.
    std::vector<Timer*> heap_;
    bool closed_ = false;
    int fd_ = -1;
    std::int64_t armed_ = kNone;  // what the descriptor is set to

    std::atomic<std::int64_t> next_{kNone};  // nanoseconds of Clock
};

}  // namespace hg::detail
