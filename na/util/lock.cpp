// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/lock.hpp"

#ifndef NDEBUG
#include <cstdlib>

#include "na/util/log.hpp"

namespace na::util {
namespace {

std::uintptr_t this_thread() noexcept {
    static thread_local const char mark = 0;
    return reinterpret_cast<std::uintptr_t>(&mark);
}

}  // namespace

void OneThread::enter() noexcept {
    const std::uintptr_t me = this_thread();
    std::uintptr_t nobody = 0;
    if (!inside_.compare_exchange_strong(nobody, me, std::memory_order_acquire) && nobody != me) {
        NA_LOG_ERROR(cls,
                     "two threads are at the same time in a class that was opened for one: open it "
                     "without NA_UNLOCKED, or without single_thread or single_class in C++");
        std::abort();
    }
    ++depth_;
}

void OneThread::leave() noexcept {
    if (--depth_ == 0) {
        inside_.store(0, std::memory_order_release);
    }
}

}  // namespace na::util
#endif
