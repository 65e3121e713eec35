// SPDX-License-Identifier: BSD-3-Clause
// Waiting without sleeping: make progress on all sides until something is true, or the deadline has
// passed.
#pragma once

#include <chrono>
#include <thread>

#include "support/options.hpp"

namespace support {

// Long enough for a loaded machine under a sanitizer: only a failing test waits for it.
inline constexpr std::chrono::seconds kDeadline{20 * kSlow};

// Calls every `pump` (one round of progress each) until `done()`; false when the deadline came
// first.
template <typename Done, typename... Pump>
[[nodiscard]] bool until_for(std::chrono::milliseconds limit, Done&& done, Pump&&... pump) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
        if (done()) {
            return true;
        }
        if (std::chrono::steady_clock::now() >= deadline) {
            return false;
        }
        (pump(), ...);
        // What is waited for may need this processor.
        std::this_thread::yield();
    }
}

template <typename Done, typename... Pump>
[[nodiscard]] bool until(Done&& done, Pump&&... pump) {
    return until_for(kDeadline, done, pump...);
}

}  // namespace support
