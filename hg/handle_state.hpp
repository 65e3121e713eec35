// SPDX-License-Identifier: BSD-3-Clause
// How a handle's references, its stage and its parts change: what of that is on the path of a call.
// The rest of hg/handle.hpp, which includes this file.
#pragma once

#include "hg/handle.hpp"

namespace hg {

inline bool Handle::swap_refs(std::uint64_t& before, std::uint64_t after) noexcept {
    if (threaded_) {
        return refs_.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                           std::memory_order_relaxed);
    }
    refs_.store(after, std::memory_order_relaxed);
    return true;
}

inline bool Handle::swap_stage(Stage from, Stage to) noexcept {
    if (threaded_) {
        return stage_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                              std::memory_order_acquire);
    }
    if (stage_.load(std::memory_order_relaxed) != from) {
        return false;
    }
    stage_.store(to, std::memory_order_relaxed);
    return true;
}

inline bool Handle::unref_user() noexcept {
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    do {
        if ((before & kUserRefs) == 0) [[unlikely]] {
            return false;
        }
        if ((before & kUserRefs) == kUserRef && (before & (kAnswerRef | kGots)) != 0) [[unlikely]] {
            return unref_last_of_program(kUserRef);
        }
    } while (!swap_refs(before, before - kUserRef));
    if (before == kUserRef) {
        last_unref();
    }
    return true;
}

inline void Handle::ref_got() noexcept {
    if ((refs_.load(std::memory_order_relaxed) & kGots) != kGots) [[likely]] {
        add_refs(kUserRef + kGot);
    }
}

inline void Handle::unref_got() noexcept {
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    do {
        if ((before & kUserRefs) == kUserRef) [[unlikely]] {
            (void)unref_last_of_program(kUserRef + kGot);
            return;
        }
    } while (!swap_refs(before, before - (kUserRef + kGot)));
}

inline std::int32_t Handle::refs() const noexcept {
    const std::uint64_t n = refs_.load(std::memory_order_relaxed);
    return static_cast<std::int32_t>((n & kUserRefs) + ((n & ~kAnswerRef) / kLibraryRef) +
                                     (n >> 63));
}

inline bool Handle::ref_if_held() noexcept {
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    do {
        if (before == 0) {
            return false;
        }
    } while (!swap_refs(before, before + kLibraryRef));
    return true;
}

inline void Handle::unref() noexcept {
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    if ((before & kAnswerRef) != 0) [[unlikely]] {
        (void)unref_owed(kLibraryRef);  // it comes once in a life, and may only go meanwhile
        return;
    }
    if (threaded_) {
        before = refs_.fetch_sub(kLibraryRef, std::memory_order_acq_rel);
    } else {
        refs_.store(before - kLibraryRef, std::memory_order_relaxed);
    }
    if (before == kLibraryRef) {
        last_unref();
    }
}

inline void Handle::unref_answer() noexcept {
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    if ((before & kAnswerRef) == 0) [[unlikely]] {
        return;
    }
    if (threaded_ || (before & kUserRefs) == 0) [[unlikely]] {
        unref_answer_last();  // perhaps
    } else {
        refs_.store(before & ~kAnswerRef, std::memory_order_relaxed);
    }
}

inline na::Status Handle::claim() noexcept {
    if (target_) [[unlikely]] {
        return na::Status::invalid_arg;
    }
    if (!swap_stage(Stage::idle, Stage::claimed)) [[unlikely]] {
        return na::Status::busy;
    }
    if (info_.addr == nullptr || registration_ == nullptr || !registration_->live() ||
        twin_.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
        if (const na::Status s = prepare(); !ok(s)) {
            unclaim();
            return s;
        }
    }
    clear_call();
    return na::Status::success;
}

inline na::Status Handle::claim_response() noexcept {
    if (!target_) [[unlikely]] {
        // (In stage free it was a target's, whose answer is long over.)
        return stage() == Stage::free ? na::Status::busy : na::Status::invalid_arg;
    }
    if (one_way_) [[unlikely]] {
        return na::Status::opnotsupported;
    }
    return swap_stage(Stage::received, Stage::answering) ? na::Status::success : na::Status::busy;
}

inline bool Handle::end_part() noexcept {
    // Who has the only part left is alone: only the owner of a part adds another.
    const std::uint8_t left = parts_.load(std::memory_order_acquire);
    if (left == 1) {
        return true;
    }
    if (threaded_) {
        return parts_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    parts_.store(static_cast<std::uint8_t>(left - 1), std::memory_order_relaxed);
    return false;
}

inline void Handle::clear_call() noexcept {
    if (more_acquired_ || input_block_ != nullptr || output_block_ != nullptr) [[unlikely]] {
        drop_payloads();
    }
    call_ = {};
    status_.store(na::Status::success, std::memory_order_relaxed);
    cancel_asked_.store(false, std::memory_order_relaxed);
    ack_.store(Ack::none, std::memory_order_relaxed);
}

}  // namespace hg
