// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/gate.hpp"

namespace na::util {

bool Gate::enter_otherwise(std::uintptr_t me) noexcept {
    std::uintptr_t nobody = 0;
    if (has_process_fence() && owner_.load(std::memory_order_relaxed) == 0 &&
        owner_.compare_exchange_strong(nobody, me, std::memory_order_relaxed)) {
        return enter();
    }
    others_.fetch_add(1, std::memory_order_seq_cst);
    if (closing_.load(std::memory_order_seq_cst)) {
        others_.fetch_sub(1, std::memory_order_release);
        return false;
    }
    return true;
}

bool Gate::close() noexcept {
    bool closing = false;
    if (!closing_.compare_exchange_strong(closing, true, std::memory_order_seq_cst)) {
        return false;
    }
    if (has_process_fence()) {
        process_fence();
    }
    if (empty()) {
        return true;
    }
    reopen();
    asked_.fetch_add(1, std::memory_order_seq_cst);
    return false;
}

void Gate::drain() noexcept {
    for (int i = 0; !empty(); ++i) {
        if (i < 100) {
            cpu_relax();
        } else {
            sched_yield();
        }
    }
}

}  // namespace na::util
