// SPDX-License-Identifier: BSD-3-Clause
// Adding to an atomic that one thread at a time writes, and that others may read at any time.
#pragma once

#include <atomic>
#include <cstdint>

namespace na::util {

#if defined(__SANITIZE_THREAD__)
#define NA_UTIL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NA_UTIL_TSAN 1
#endif
#endif

// Relaxed. One instruction instead of a load, an addition and a store, which is what compilers make
// of the atomic's own functions; not locked, and so no more atomic than those three.
template <typename T>
inline void add_unshared(std::atomic<T>& value, T n) noexcept {
    static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::atomic<T>::is_always_lock_free);
#if defined(__x86_64__) && !defined(NA_UTIL_TSAN)
    if constexpr (sizeof(T) == 4) {
        asm("addl %1, %0" : "+m"(value) : "er"(n) : "cc");
    } else {
        asm("addq %1, %0" : "+m"(value) : "er"(n) : "cc");
    }
#else
    value.store(static_cast<T>(value.load(std::memory_order_relaxed) + n),
                std::memory_order_relaxed);
#endif
}

}  // namespace na::util
