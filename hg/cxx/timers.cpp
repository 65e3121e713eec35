// SPDX-License-Identifier: BSD-3-Clause
#include "hg/cxx/timers.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "na/util/standard_fds.hpp"

namespace hg::detail {
namespace {

std::int64_t ns(Clock::time_point t) noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

}  // namespace

Timers::~Timers() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

bool Timers::open_descriptor() noexcept {
    fd_ = na::util::above_standard(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    return fd_ >= 0;
}

Timers::Added Timers::add(Timer& timer) {
    const std::lock_guard guard(lock_);
    if (closed_) [[unlikely]] {
        return Added::closed;
    }
    heap_.push_back(&timer);
    timer.position = heap_.size() - 1;
    up(timer.position);
    publish();
    return heap_.front() == &timer ? Added::first : Added::later;
}

bool Timers::remove(Timer& timer) noexcept {
    const std::lock_guard guard(lock_);
    if (timer.position == SIZE_MAX) {
        return false;
    }
    take_out(timer.position);
    publish();
    return true;
}

void Timers::expire_until(Clock::time_point now) noexcept {
    if (ns(now) < next_.load(std::memory_order_relaxed)) {
        return;
    }
    const std::lock_guard guard(lock_);
    fire_until(now, true);
}

void Timers::expire_all() noexcept {
    const std::lock_guard guard(lock_);
    closed_ = true;
    fire_until(Clock::time_point::max(), false);
}

// Under the lock.
void Timers::fire_until(Clock::time_point now, bool passed) noexcept {
    while (!heap_.empty() && heap_.front()->when <= now) {
        Timer& timer = *heap_.front();
        take_out(0);
        timer.fire(timer, passed);
    }
    if (fd_ >= 0) {
        std::uint64_t fired = 0;
        if (::read(fd_, &fired, sizeof fired) > 0) {
            armed_ = kNone;
        }
    }
    publish();
}

unsigned Timers::until(std::int64_t next, unsigned ms) noexcept {
    const std::int64_t left = next - ns(Clock::now());
    if (left <= 0) {
        return 0;
    }
    // Rounded up: not to wake before it is due.
    return static_cast<unsigned>(std::min<std::int64_t>(ms, (left + 999'999) / 1'000'000));
}

// --- the heap; under the lock
// ----------------------------------------------------------------------------------------

void Timers::move(std::size_t to, Timer* timer) noexcept {
    heap_[to] = timer;
    timer->position = to;
}

void Timers::up(std::size_t at) noexcept {
    Timer* timer = heap_[at];
    while (at != 0 && timer->when < heap_[(at - 1) / 2]->when) {
        move(at, heap_[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    move(at, timer);
}

void Timers::down(std::size_t at) noexcept {
    Timer* timer = heap_[at];
    for (;;) {
        std::size_t child = 2 * at + 1;
        if (child >= heap_.size()) {
            break;
        }
        if (child + 1 < heap_.size() && heap_[child + 1]->when < heap_[child]->when) {
            ++child;
        }
        if (timer->when <= heap_[child]->when) {
            break;
        }
        move(at, heap_[child]);
        at = child;
    }
    move(at, timer);
}

void Timers::take_out(std::size_t at) noexcept {
    heap_[at]->position = SIZE_MAX;
    Timer* last = heap_.back();
    heap_.pop_back();
    if (at < heap_.size()) {
        move(at, last);
        up(at);
        down(last->position);
    }
}

// Tells those who look without the lock, and the descriptor where it would fire too late. Firing
// too early costs one look.
void Timers::publish() noexcept {
    const std::int64_t next = heap_.empty() ? kNone : ns(heap_.front()->when);
    next_.store(next, std::memory_order_relaxed);
    if (fd_ >= 0 && next < armed_) {
        armed_ = next;
        const std::int64_t at = std::max<std::int64_t>(next, 1);
        const itimerspec when{
            .it_interval = {},
            .it_value = {.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000}};
        (void)timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
    }
}

}  // namespace hg::detail
