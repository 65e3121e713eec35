// SPDX-License-Identifier: BSD-3-Clause
// One poll: the hot rings, the ready map, and now and then everything else.
#include <algorithm>
#include <bit>

#include <time.h>

#include "na/util/lock.hpp"
#include "plugins/sm/context.hpp"
#include "plugins/sm/receive_ready.hpp"

namespace na::sm {
namespace {

// How often the sockets are looked at: under traffic, and when nothing has come for a while. A peer
// that is only held up by the scheduler should not make us spend system calls on waiting for it.
constexpr std::int64_t kBusyInterval = 1'000'000;
constexpr std::int64_t kIdleInterval = 20'000;
constexpr std::int64_t kIdleAfter = 10'000'000;
// The clock is read every so many polls, less often the faster they follow each other.
constexpr std::int64_t kClockInterval = 5'000;
constexpr std::uint32_t kMaxClockEvery = 256;
// Cold rings looked at per look at the sockets, in case a peer has tampered with the ready map.
constexpr std::uint32_t kSweepStep = 64;
// A hot ring may be displaced when it had nothing for so many polls.
constexpr std::uint32_t kIdlePolls = 64;
// One that had nothing for so many is not polled any more.
constexpr std::uint32_t kColdPolls = 1 << 14;
// Looks, kClockInterval apart at least, after which a ring that was cooled is looked at once more.
constexpr std::uint8_t kCooling = 2;

}  // namespace

// What is rare is out of line; and the poll that finds nothing looks at one word for each thing
// that there may be.
std::size_t Context::progress() {
    if (--countdown_ == 0 || chores_ != 0) [[unlikely]] {
        return full_poll();
    }
    if (Hot* hot = hot_; hot < hot_end_) {
        do {
            __builtin_prefetch(hot->with);
            if (hot->word->load(std::memory_order_acquire) == hot->expected) {
                return busy_poll(hot);
            }
        } while (++hot < hot_end_);
        if (pauses_ != 0) {
            --pauses_;
            util::cpu_relax();
        }
    }
    return ready_->summary.load(std::memory_order_relaxed) == 0 ? 0 : full_poll();
}

// `from` has something.
std::size_t Context::busy_poll(Hot* from) noexcept {
    pauses_ = kPauses;
    std::size_t events = receive_from(*from);
    if (++from < hot_end_) [[unlikely]] {
        events += receive_hot(from);
    }
    if (ready_->summary.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        events += receive_ready();
    }
    if (chores_ != 0) [[unlikely]] {
        events += chores();
    }
    return events;
}

std::size_t Context::full_poll() noexcept {
    if ((chores_ & kArmed) != 0) [[unlikely]] {
        disarm();
    }
    std::size_t events = receive_hot(hot_);
    if (ready_->summary.load(std::memory_order_relaxed) != 0) [[unlikely]] {
        events += receive_ready();
    }
    if (countdown_ == 0) [[unlikely]] {
        events += tick();
    }
    if (chores_ != 0) [[unlikely]] {
        events += chores();
    }
    return events;
}

// A ring may leave the list, which moves another one to its place: that one is polled next time.
inline std::size_t Context::receive_hot(Hot* from) noexcept {
    std::size_t events = 0;
    for (Hot* hot = from; hot < hot_end_; ++hot) {
        if (hot->word->load(std::memory_order_acquire) == hot->expected) {
            events += receive_from(*hot);
        }
    }
    return events;
}

inline std::size_t Context::receive_from(Hot& hot) noexcept {
    Connection& c = *hot.connection;
    Connection::Watch watch;
    const std::size_t n = c.receive_ready(kBudget, watch);
    if (n == 0) [[unlikely]] {
        return 0;  // its first line only, or no room for it: still what we watch
    }
    hot.word = watch.word;
    hot.expected = watch.expected;
    hot.with = c.with(watch);
    hot.used = polls();
    return n;
}

std::size_t Context::receive_cold(Connection& c) noexcept {
    if (c.state == Connection::State::closed || !c.rx().ready()) {
        return 0;
    }
    if (c.hot_index >= 0) {
        Hot& hot = hot_[c.hot_index];
        if (hot.used == polls()) {
            look_again(c);  // it has had its turn, and there is more
            return 0;
        }
        return receive_from(hot);
    }
    const std::size_t n = c.receive(kBudget);
    heat(c);
    return n;
}

std::size_t Context::receive_ready() noexcept {
    ++stats_.ready_polls;
    std::size_t events = 0;
    for (std::uint64_t words = ready_->summary.exchange(0); words != 0; words &= words - 1) {
        const auto w = static_cast<std::uint32_t>(std::countr_zero(words));
        std::uint64_t bits = ready_->leaf[w].exchange(0);
        full_fence();
        for (; bits != 0; bits &= bits - 1) {
            const std::uint32_t bit = w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
            for (std::size_t n = bit; n < slots_.size(); n += kReadyBits) {
                if (slots_[n] != nullptr) {
                    events += receive_cold(*slots_[n]);
                }
            }
        }
    }
    return events;
}

void Context::look_again(Connection& c) noexcept {
    const std::uint32_t bit = c.number % kReadyBits;
    ready_->leaf[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64));
    ready_->summary.fetch_or(std::uint64_t{1} << (bit / 64));
}

// --- hot rings
// -------------------------------------------------------------------------------------

// Makes a ring that just had something hot, if there is room, or a hot one that has been idle.
void Context::heat(Connection& c) noexcept {
    if (c.state != Connection::State::open || c.hot_index >= 0) {
        return;
    }
    const std::uint32_t now_polls = polls();
    if (hot_end_ == hot_ + kHot) {
        Hot* oldest = &hot_[0];
        for (Hot& h : hot_) {
            if (now_polls - h.used > now_polls - oldest->used) {
                oldest = &h;
            }
        }
        if (now_polls - oldest->used < kIdlePolls) {
            return;
        }
        cool(*oldest->connection);
    }
    c.hot_index = static_cast<std::int8_t>(hot_end_ - hot_);
    *hot_end_++ = {c.rx().word(), c.rx().expected(), now_polls, c.rx().word(), &c};
    c.rx().set_hot(true);
}

void Context::cool(Connection& c) noexcept {
    if (c.hot_index < 0) {
        return;
    }
    Hot& place = hot_[c.hot_index];
    --hot_end_;
    if (&place != hot_end_) {
        place = *hot_end_;
        place.connection->hot_index = c.hot_index;
    }
    c.hot_index = -1;
    c.rx().set_hot(false);
    full_fence();
    if (c.rx().ready()) {
        look_again(c);
    }
    // Peers that know us sleepless do without their fence: what one was about to publish just now
    // may have escaped this look, and its producer believes the ring hot. A while later it is
    // there. (And sweep() looks at every ring.)
    if (c.cooled == 0) {
        cooled_.push_back(&c);
    }
    c.cooled = kCooling;
}

std::size_t Context::look_at_cooled() noexcept {
    std::size_t events = 0;
    for (std::size_t i = 0; i < cooled_.size();) {
        Connection& c = *cooled_[i];
        if (--c.cooled != 0) {
            ++i;
            continue;
        }
        cooled_[i] = cooled_.back();
        cooled_.pop_back();
        events += receive_cold(c);
    }
    return events;
}

// Those that have had nothing for long: their peers say when they have.
void Context::cool_idle() noexcept {
    for (auto i = hot_end_ - hot_; i-- > 0;) {
        if (polls() - hot_[i].used > kColdPolls) {
            cool(*hot_[i].connection);
        }
    }
}

// --- clock
// -----------------------------------------------------------------------------------------

std::int64_t Context::now() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

std::size_t Context::tick() noexcept {
    const std::int64_t time = now();
    const std::int64_t passed = time - clock_;
    clock_ = time;
    polls_ += clock_every_;
    // The number of polls that takes about kClockInterval: carefully up, at once down.
    if (passed < kClockInterval / 2) {
        clock_every_ = std::min(clock_every_ * 2, kMaxClockEvery);
    } else if (passed > kClockInterval * 2) {
        clock_every_ = static_cast<std::uint32_t>(
            std::max<std::int64_t>(clock_every_ * kClockInterval / passed, 1));
    }
    countdown_ = clock_every_;
    std::size_t events = 0;
    if (!cooled_.empty() && time >= next_cooled_) {
        next_cooled_ = time + kClockInterval;
        events += look_at_cooled();
    }
    if (time < next_events_) {
        return events;
    }
    events += handle_events();
    cool_idle();
    events += sweep(kSweepStep);
    if (freed_ != domain_.allocations().generation()) {
        tell_freed();
    }
    if (stats_.received != received_then_) {
        received_then_ = stats_.received;
        last_traffic_ = time;
    }
    next_events_ = time + (time - last_traffic_ < kIdleAfter ? kBusyInterval : kIdleInterval);
    return events;
}

std::size_t Context::sweep(std::uint32_t count) noexcept {
    std::size_t events = 0;
    count = std::min(count, static_cast<std::uint32_t>(slots_.size()));
    for (; count != 0; --count) {
        if (++swept_ >= slots_.size()) {
            swept_ = 0;
        }
        if (slots_[swept_] != nullptr) {
            events += receive_cold(*slots_[swept_]);
        }
    }
    return events;
}

// --- chores
// ----------------------------------------------------------------------------------------

void Context::add_work(Connection& c) noexcept {
    if (!c.in_work) {
        c.in_work = true;
        work_.push_back(&c);
    }
    chores_ |= kWork;
    wake_self();
}

void Context::add_starved(Connection& c) noexcept {
    if (!c.is_starved) {
        c.is_starved = true;
        starved_.push_back(&c);
    }
    wake_self();
}

void Context::add_refused(Connection& c) noexcept {
    if (!c.is_refused) {
        c.is_refused = true;
        refused_.push_back(&c);
    }
    chores_ |= kRefused;
}

// Something was posted after arm() had said that there is nothing to do.
void Context::wake_self() noexcept {
    if ((chores_ & kArmed) != 0) {
        set_timer(1);
    }
}

std::size_t Context::chores() noexcept {
    std::size_t events = 0;
    if ((chores_ & kWork) != 0) {
        for (std::size_t i = 0; i < work_.size();) {
            Connection& c = *work_[i];
            if (c.pump()) {
                ++i;
            } else {
                c.in_work = false;
                work_[i] = work_.back();
                work_.pop_back();
            }
        }
        if (work_.empty()) {
            chores_ &= ~kWork;
        }
    }
    if ((chores_ & kRefused) != 0) {
        for (std::size_t i = 0; i < refused_.size();) {
            Connection& c = *refused_[i];
            events += c.receive(kBudget);
            if (c.stalled()) {
                ++i;
            } else {
                c.is_refused = false;
                refused_[i] = refused_.back();
                refused_.pop_back();
            }
        }
        if (refused_.empty()) {
            chores_ &= ~kRefused;
        }
    }
    if ((chores_ & kCopies) != 0) {
        events += run_copies();
    }
    if ((chores_ & kDying) != 0) {
        events += bury();
    }
    return events;
}

}  // namespace na::sm
