// SPDX-License-Identifier: BSD-3-Clause
// How the processes of a crash test wait for something to happen.
#pragma once

#include <atomic>
#include <cstdint>

#include <poll.h>

namespace crash {

enum class Waiting : std::uint8_t {
    blocking,  // the library sleeps
    busy,      // nobody does (NA_NO_BLOCK), but others may have the processor
    events,    // the program sleeps, on the library's descriptor
};

// Milliseconds that this process has slept in vain: see own_time() in residue.hpp.
inline std::atomic<std::uint64_t> slept_ms{0};
// A sleep of that length has ended without an event.
inline void slept_in_vain(unsigned timeout_ms) noexcept {
    slept_ms.fetch_add(timeout_ms, std::memory_order_relaxed);
}

inline void sleep_on(int fd, unsigned timeout_ms) {
    pollfd set{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&set, 1, static_cast<int>(timeout_ms)) == 0) {
        slept_in_vain(timeout_ms);
    }
}

}  // namespace crash
