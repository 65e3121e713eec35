// SPDX-License-Identifier: BSD-3-Clause
// How many messages a context hands to the layer above before that has begun with them. What comes
// beyond that is held by the match queue, which hands the messages of its peers out by turns: a
// peer with few waits for a bounded number of others, however many a peer has sent.
//
// The bound follows the time that the layer above takes for one: kTime for all of them together,
// between kLeast and kMost. The clock is read only while messages are held.
//
// Threads: given(), open() and learn() are called under the context's lock; begun() by any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "na/util/unshared.hpp"

namespace na::inline impl {

class Turns {
 public:
    // Before this call all messages are handed out at once.
    void enable(bool threaded) noexcept {
        threaded_ = threaded;
        most_ = kFirst;
    }
    bool enabled() const noexcept { return most_ != kUnlimited; }

    // Another message may be handed out.
    bool open() const noexcept { return given_ - begun_.load(std::memory_order_relaxed) < most_; }
    // A message was handed out that begun() will be called for, once.
    void given() noexcept { ++given_; }
    void begun() noexcept {
        if (threaded_) {
            begun_.fetch_add(1, std::memory_order_relaxed);
        } else {
            util::add_unshared(begun_, 1U);
        }
    }

    // Messages are held, and are about to be handed out.
    void learn() noexcept { learn(Clock::now()); }
    void learn(std::chrono::steady_clock::time_point now) noexcept {
        const std::uint32_t begun = begun_.load(std::memory_order_relaxed);
        const std::uint32_t n = begun - begun_then_;
        if (learning_ && n < kSample) {
            return;
        }
        if (learning_) {
            const std::int64_t each = std::max<std::int64_t>((now - then_) / n / kUnit, 1);
            const auto fits = static_cast<std::uint32_t>(
                std::clamp<std::int64_t>(kTime / kUnit / each, kLeast, kMost));
            most_ = std::min(fits, most_ * 2);
        }
        learning_ = true;
        begun_then_ = begun;
        then_ = now;
    }
    // Nothing is held any more: the time until something is again says nothing.
    void forget() noexcept { learning_ = false; }
    std::uint32_t most() const noexcept { return most_; }

    static constexpr std::uint32_t kLeast = 16;
    static constexpr std::uint32_t kMost = 256;

 private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kTime{5};
    static constexpr std::chrono::nanoseconds kUnit{1};
    static constexpr std::uint32_t kFirst = 64;
    static constexpr std::uint32_t kSample = 8;
    static constexpr std::uint32_t kUnlimited = UINT32_MAX;

    std::uint32_t most_ = kUnlimited;
    std::uint32_t given_ = 0;
    std::atomic<std::uint32_t> begun_{0};
    bool threaded_ = false;
    bool learning_ = false;
    std::uint32_t begun_then_ = 0;
    Clock::time_point then_;
};

}  // namespace na::inline impl
