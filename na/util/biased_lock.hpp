// SPDX-License-Identifier: BSD-3-Clause
// A lock for what one thread uses nearly always, and others may at any time, such as a context with
// a progress thread of its own: whoever takes it some hundred times in a row is granted it, and
// from then on takes it by two ordinary stores and a comparison, without an atomic operation. The
// next other thread revokes that, which costs it a system call, and waits as for any lock. Each
// further grant takes a longer row, up to 65,536, so that those who share a lock pay little; and no
// lock is granted to more than eight threads.
//
// Biased locking with asymmetric fences, after Dice, Huang, Yang, "Asymmetric Dekker
// Synchronization" (2001) and Kawachiya, Koseki, Onodera, "Lock Reservation" (OOPSLA 2002); the
// fence of the side that hurries is the kernel's membarrier(2).
//
// Invariants:
//  - grant_ is written by whoever has held_ only.
//  - The owner of a grant is inside while the grant's cell is set and grant_ was seen unchanged
//    after the cell was set. Who revokes clears grant_, lets the kernel run a full fence on every
//    processor that this process runs on, and then waits for the cell: either it sees the cell set,
//    or the owner, looking again, sees the grant gone.
//  - Each thread has a cell of its own. An owner that stands still between its look at grant_ and
//    the store to its cell, for however long, disturbs no other's grant, and is granted nothing
//    itself meanwhile.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

#include "na/util/lock.hpp"

namespace na::util {

// Whether process_fence() works: it was allowed (NA_LOCK_BIAS) when the library was loaded, and the
// kernel can. Any thread.
bool has_process_fence() noexcept;
// A full fence on each processor that runs a thread of this process.
void process_fence() noexcept;

// Satisfies Lockable; not recursive. Off: each call is one predictable branch.
class BiasedLock {
 public:
    explicit BiasedLock(bool enabled) noexcept
        : enabled_(enabled), cells_left_(enabled && has_process_fence() ? kCells : 0) {}
    BiasedLock(const BiasedLock&) = delete;
    BiasedLock& operator=(const BiasedLock&) = delete;

    void lock() noexcept {
        if (!enabled_) {
            alone_.enter();
            return;
        }
        const std::uintptr_t me = self();
        if (!enter(me)) {
            lock_ordinary(me);
        }
    }
    bool try_lock() noexcept {
        if (!enabled_) {
            alone_.enter();
            return true;
        }
        const std::uintptr_t me = self();
        const std::uintptr_t grant = grant_.load(std::memory_order_relaxed);
        // Somebody is inside, who may be this thread, also where it has been granted it just there.
        if (grant != 0 && (cell(grant).load(std::memory_order_relaxed) != 0 ||
                           held_.load(std::memory_order_relaxed))) {
            return false;
        }
        return enter(me) || try_ordinary(me);
    }
    void unlock() noexcept {
        if (!enabled_) {
            alone_.leave();
            return;
        }
        if (inside_ != nullptr) {
            inside_->store(0, std::memory_order_release);
        } else {
            held_.store(false, std::memory_order_release);
        }
    }
    bool enabled() const noexcept { return enabled_; }
    // Whether some thread is granted it now: diagnostics.
    bool granted() const noexcept { return grant_.load(std::memory_order_relaxed) != 0; }

    static constexpr std::uint32_t kFirstRow = 256;  // times in a row before the first grant
    static constexpr std::uint32_t kLonger = 8;      // each row is so many times the one before,
    static constexpr std::uint32_t kLongestRow = 1 << 16;  // up to this
    static constexpr std::uint8_t kCells = 8;              // threads that it may be granted to

 private:
    using Cell = std::atomic<std::uint8_t>;
    static constexpr std::uintptr_t kIndex = kCells - 1;

    // Of the thread that runs; not 0, a multiple of kCells, no other's while that lives.
    static std::uintptr_t self() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
        return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#else
        alignas(kCells) thread_local const char token = 0;
        return reinterpret_cast<std::uintptr_t>(&token);
#endif
    }
    Cell& cell(std::uintptr_t grant) noexcept {
        return cells_[grant & kIndex];
    }

    bool enter(std::uintptr_t me) noexcept {
        const std::uintptr_t grant = grant_.load(std::memory_order_relaxed);
        if ((grant & ~kIndex) != me) {
            return false;
        }
        Cell& mine = cell(grant);
        assert(mine.load(std::memory_order_relaxed) == 0);
        mine.store(1, std::memory_order_relaxed);
        // What the processor makes of it is the business of who revokes.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (grant_.load(std::memory_order_relaxed) != grant) [[unlikely]] {
            mine.store(0, std::memory_order_release);
            return false;
        }
        std::atomic_signal_fence(std::memory_order_seq_cst);
        inside_ = &mine;
        return true;
    }
    // For who is not granted it (any more); somebody else may be.
    void lock_ordinary(std::uintptr_t me) noexcept;
    bool try_ordinary(std::uintptr_t me) noexcept;
    void settle(std::uintptr_t me) noexcept;
    void revoke() noexcept;
    void grant(std::uintptr_t me) noexcept;

    std::atomic<std::uintptr_t> grant_{0};  // its owner, and which of the cells; 0: none
    Cell cells_[kCells] = {};
    std::atomic<bool> held_{false};  // by who is not granted it, or waits for who is
    const bool enabled_;
    // Guarded by the lock.
    std::uint8_t cells_left_;
    std::uint32_t row_ = 0;
    std::uint32_t wanted_ = kFirstRow;
    std::uintptr_t last_ = 0;             // who had it last, without a grant
    Cell* inside_ = nullptr;              // the cell of who has it; null: held_
    std::uintptr_t owners_[kCells] = {};  // of the cells, the last one first
    [[no_unique_address]] OneThread alone_;
};

}  // namespace na::util
