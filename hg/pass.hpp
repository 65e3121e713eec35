// SPDX-License-Identifier: BSD-3-Clause
// One call of trigger, as far as coalescing goes: whether a small message that a callback sends may
// wait for those that the next callbacks send (docs/design.md says why so).
//
// It may where a callback of the same call is due behind the one that sends; all leave when there
// is none any more, when the call ends, when they have waited for kPatience, and whenever somebody
// makes progress. A context whose callbacks take so long that messages have waited too long lets
// none wait for a while: where callbacks are long, little is gained. (HG_COALESCE=2 looks at no
// clock.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hg {

class Context;

// How long a context has let messages wait; any thread, as precise as the threads are few.
class Patience {
 public:
    // Asked once per call of trigger in which something would wait.
    bool any() noexcept {
        const std::uint32_t left = paused_.load(std::memory_order_relaxed);
        if (left != 0) [[unlikely]] {
            paused_.store(left - 1, std::memory_order_relaxed);
        }
        return left == 0;
    }
    void timely() noexcept;
    void late() noexcept;

 private:
    static constexpr std::uint32_t kLeastPause = 4;  // a thread may have lost its processor once
    static constexpr std::uint32_t kLongestPause = 65536;
    static constexpr std::uint32_t kTrust = 256;  // times in time, for half the next pause
    std::atomic<std::uint32_t> paused_{0};        // so many times from now on
    std::atomic<std::uint32_t> next_pause_{kLeastPause};
    std::atomic<std::uint32_t> in_time_{0};
};

class Pass {
 public:
    // Of this thread, until its end.
    explicit Pass(Context& context) noexcept;
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // A callback is next, after which so many may be run.
    void begin(unsigned left) noexcept { left_ = left; }
    // It has returned.
    void end() noexcept {
        if (waiting_) [[unlikely]] {
            look();
        }
    }

    // This thread runs a callback of the context, and another one comes behind it. The caller sends
    // something that waits for that.
    static bool goes_on(Context& context) noexcept;

 private:
    using Clock = std::chrono::steady_clock;
    void look() noexcept;
    void flush(Clock::time_point now) noexcept;

    Context& context_;
    Pass* const outer_;
    unsigned left_ = 0;
    bool asked_ = false;    // for patience
    bool gathers_ = false;  // and there is
    bool waiting_ = false;
    Clock::time_point since_;
};

}  // namespace hg
