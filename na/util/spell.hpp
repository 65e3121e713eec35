// SPDX-License-Identifier: BSD-3-Clause
// How long something has been the case, by looks at it. Between two looks no more than `step` is
// counted: a process that has hardly run meanwhile has not read either what says otherwise, nor has
// a library's thread in it sent what was to leave.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace na::util {

class Spell {
 public:
    explicit Spell(std::int64_t step) noexcept : step_(step) {}
    explicit Spell(std::chrono::nanoseconds step) noexcept : step_(step.count()) {}

    bool on() const noexcept { return on_; }
    void begin(std::int64_t now) noexcept {
        on_ = true;
        counted_ = 0;
        seen_ = now;
    }
    void end() noexcept { on_ = false; }
    // A look, the first of which begins it. Nanoseconds of a clock that does not go back.
    bool lasts(std::int64_t now, std::int64_t time) noexcept {
        if (!on_) {
            begin(now);
        }
        counted_ += std::min(now - seen_, step_);
        seen_ = now;
        return counted_ >= time;
    }
    bool lasts(std::chrono::nanoseconds time) noexcept {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        return lasts(std::chrono::nanoseconds(now).count(), time.count());
    }

 private:
    std::int64_t step_;
    bool on_ = false;
    std::int64_t counted_ = 0;
    std::int64_t seen_ = 0;
};

}  // namespace na::util
