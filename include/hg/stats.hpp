// SPDX-License-Identifier: BSD-3-Clause
// What an engine has counted of each RPC; kept where EngineOptions::stats asks for it.
#pragma once

#include "na/detail/standard.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hg {

// How long things took: how many were of about which length. Buckets grow with the time, four to a
// doubling, so that a quantile is at most a quarter off.
class Latency {
 public:
    using Time = std::chrono::nanoseconds;
    static constexpr std::size_t kBuckets = 4 * 40;  // the last one has what is longer, too

    static constexpr std::size_t bucket(Time time) noexcept {
        const auto ns = static_cast<std::uint64_t>(time.count() < 0 ? 0 : time.count());
        if (ns < 4) {
            return static_cast<std::size_t>(ns);
        }
        const auto doublings = static_cast<std::size_t>(std::bit_width(ns)) - 2;  // from 1
        const std::size_t i = 4 * doublings + ((ns >> (doublings - 1)) & 3);
        return i < kBuckets ? i : kBuckets - 1;
    }
    // The longest time of a bucket.
    static constexpr Time upper(std::size_t bucket) noexcept {
        if (bucket < 4) {
            return Time(bucket);
        }
        const std::size_t shift = bucket / 4 - 1;
        return Time(((std::uint64_t{5} + bucket % 4) << shift) - 1);
    }

    std::uint64_t count() const noexcept {
        std::uint64_t n = 0;
        for (const std::uint64_t c : counts) {
            n += c;
        }
        return n;
    }
    // The time that a share of all did not exceed: 0.5 is the median, 0.99 ... Zero of nothing.
    Time quantile(double share) const noexcept {
        const std::uint64_t n = count();
        auto left = static_cast<std::uint64_t>(share * static_cast<double>(n));
        for (std::size_t i = 0; i < kBuckets; ++i) {
            if (counts[i] > left) {
                const Time time = upper(i);
                return time < longest ? time : longest;
            }
            left -= counts[i];
        }
        return longest;
    }
    Time mean() const noexcept {
        const std::uint64_t n = count();
        return n == 0 ? Time(0) : total / static_cast<std::int64_t>(n);
    }

    std::array<std::uint64_t, kBuckets> counts{};
    Time total{0};
    Time longest{0};
};

// One RPC at one engine. Counters only grow; what ends while they are read is in some of them and
// not yet in others.
struct RpcStats {
    // As the caller sees it, or the target.
    struct Side {
        std::uint64_t count = 0;           // that have ended, well or not
        std::uint64_t failed = 0;          // of them: by an error of the handler's, or any other
        std::uint64_t expired = 0;         // requests of them that were too late to begin
        std::uint64_t bytes_sent = 0;      // encoded arguments (results); headers are not counted
        std::uint64_t bytes_received = 0;  // encoded results (arguments)
        // Calls: from being sent to the answer, or the end without one. Requests: from dispatch to
        // the end of the handler, waiting for its turn included.
        Latency latency;
    };
    std::string name;
    Side calls;     // made by this engine
    Side requests;  // served by it
};

}  // namespace hg
