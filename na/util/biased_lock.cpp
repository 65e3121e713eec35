// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/biased_lock.hpp"

#include <algorithm>
#include <ctime>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__linux__) && __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#define NA_HAS_MEMBARRIER 1
#endif

#include "na/util/config.hpp"
#include "na/util/unshared.hpp"

namespace na::util {
namespace {

#ifdef NA_HAS_MEMBARRIER
bool membarrier(int command) noexcept {
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}
bool can_fence() noexcept {
#ifdef NA_UTIL_TSAN
    return false;  // ThreadSanitizer knows nothing of such fences
#endif
    return config::number(config::kLockBias) != 0 &&
           membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}
void fence() noexcept {
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || membarrier(MEMBARRIER_CMD_GLOBAL)) {
        return;
    }
    // A sandbox has been closed since. What a processor has stored is everywhere long before.
    constexpr timespec kLong{.tv_sec = 0, .tv_nsec = 10'000'000};
    nanosleep(&kLong, nullptr);
}
#else
bool can_fence() noexcept {
    return false;
}
void fence() noexcept {}
#endif

// When the library is loaded, mostly before there are threads: with some the kernel takes 6 to 10
// ms (6.18), without them 3 us.
[[maybe_unused]] const bool g_known = has_process_fence();

template <typename Until>
void spin(Until&& until) noexcept {
    for (int i = 0; !until(); ++i) {
        if (i < 100) {
            cpu_relax();
        } else {
            sched_yield();
        }
    }
}

}  // namespace

bool has_process_fence() noexcept {
    static const bool can = can_fence();
    return can;
}

void process_fence() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    fence();
}

void BiasedLock::lock_ordinary(std::uintptr_t me) noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) {
        spin([this] { return !held_.load(std::memory_order_relaxed); });
    }
    if (const std::uintptr_t grant = grant_.load(std::memory_order_relaxed); grant != 0) {
        revoke();
        spin([&] { return cell(grant).load(std::memory_order_acquire) == 0; });
    }
    settle(me);
}

bool BiasedLock::try_ordinary(std::uintptr_t me) noexcept {
    if (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_acquire)) {
        return false;
    }
    if (const std::uintptr_t grant = grant_.load(std::memory_order_relaxed); grant != 0) {
        revoke();
        if (cell(grant).load(std::memory_order_acquire) != 0) {
            // Its owner has come in meanwhile: as if nobody had asked.
            grant_.store(grant, std::memory_order_relaxed);
            held_.store(false, std::memory_order_release);
            return false;
        }
    }
    settle(me);
    return true;
}

// Afterwards the owner is inside only if its cell is seen to be set.
void BiasedLock::revoke() noexcept {
    grant_.store(0, std::memory_order_relaxed);
    process_fence();
}

// With held_, and nobody inside.
void BiasedLock::settle(std::uintptr_t me) noexcept {
    inside_ = nullptr;
    if (last_ != me) {
        last_ = me;
        row_ = 0;
    } else if (++row_ >= wanted_) [[unlikely]] {
        grant(me);
    }
}

void BiasedLock::grant(std::uintptr_t me) noexcept {
    row_ = 0;
    std::uint8_t i = cells_left_;
    while (i < kCells && owners_[i] != me) {
        ++i;
    }
    if (i == kCells) {
        if (cells_left_ == 0) {
            return;
        }
        i = --cells_left_;
        owners_[i] = me;
    }
    wanted_ = std::min(wanted_ * kLonger, kLongestRow);
    grant_.store(me | i, std::memory_order_relaxed);
}

}  // namespace na::util
