// SPDX-License-Identifier: BSD-3-Clause
// The clock that sessions live by.
#pragma once

#include <cstdint>
#include <ctime>

namespace na::session {

// Nanoseconds that never go back.
inline std::int64_t now_ns() noexcept {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline std::int64_t now_us() noexcept {
    return now_ns() / 1000;
}

}  // namespace na::session
