// SPDX-License-Identifier: BSD-3-Clause
// Waiting without sleeping: make progress on all sides until something is true, or the deadline has
// passed.
#pragma once

#include <cerrno>
#include <chrono>
#include <thread>

#include "support/hindrance.hpp"
#include "support/options.hpp"
#include "support/rest.hpp"

namespace support {

// Long enough for a sanitizer: only a failing test waits for it.
inline constexpr std::chrono::seconds kDeadline{20 * kSlow};

// A time that begins now, without what a loaded machine withholds (hindrance.hpp).
class Deadline {
 public:
    // A look at what is withheld reads the state of every process of the machine: a millisecond for
    // some hundred. `soon` looks first when kQuick has passed, and `limit` begins then: most waits
    // are over before, and a case with hundreds of them took minutes beside thousands of processes.
    // `late` is for limits of which it does not matter how much longer they are: it looks only when
    // the limit has passed by the clock, and gives it once more.
    enum class Look : bool { soon, late };
    explicit Deadline(std::chrono::nanoseconds limit, Look look = Look::soon)
        : limit_(limit),
          end_(std::chrono::steady_clock::now() + (look == Look::soon ? kQuick : limit)) {}
    bool passed() { return std::chrono::steady_clock::now() >= end_ && !prolonged(); }

 private:
    static constexpr std::chrono::nanoseconds kQuick{10'000'000};
    bool prolonged();

    const std::chrono::nanoseconds limit_;
    bool looking_ = false;
    std::chrono::nanoseconds given_{0};  // for hindrance, so far
    std::chrono::steady_clock::time_point end_;
    Hindrance hindrance_;
};

// Calls every `pump` (one round of progress each) until `done()`; false when the deadline came
// first.
template <typename Done, typename... Pump>
[[nodiscard]] bool until(Deadline&& deadline, Done&& done, Pump&&... pump) {
    for (;;) {
        if (done()) {
            return true;
        }
        if (deadline.passed()) {
            return false;
        }
        (pump(), ...);
        rest_point();
        // What is waited for may need this processor.
        std::this_thread::yield();
    }
}

// `limit` is what is promised.
template <typename Done, typename... Pump>
[[nodiscard]] bool until_for(std::chrono::milliseconds limit, Done&& done, Pump&&... pump) {
    return until(Deadline(limit), done, pump...);
}

template <typename Done, typename... Pump>
[[nodiscard]] bool until(Done&& done, Pump&&... pump) {
    return until(Deadline(kDeadline, Deadline::Look::late), done, pump...);
}

// Calls again what a signal has interrupted: that of the watchdog may come at any time, and return.
template <typename Call>
auto uninterrupted(Call&& call) {
    for (;;) {
        if (const auto result = call(); result != -1 || errno != EINTR) {
            return result;
        }
    }
}

}  // namespace support
