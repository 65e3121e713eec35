// SPDX-License-Identifier: BSD-3-Clause
// How the processes of a crash test wait for something to happen.
#pragma once

#include <cstdint>

#include <poll.h>

namespace crash {

enum class Waiting : std::uint8_t {
    blocking,  // the library sleeps
    busy,      // nobody does (NA_NO_BLOCK), but others may have the processor
    events,    // the program sleeps, on the library's descriptor
};

inline void sleep_on(int fd, unsigned timeout_ms) {
    pollfd set{.fd = fd, .events = POLLIN, .revents = 0};
    poll(&set, 1, static_cast<int>(timeout_ms));
}

}  // namespace crash
