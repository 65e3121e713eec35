// SPDX-License-Identifier: BSD-3-Clause
// What a context counts. Written under the context's lock, read by anybody: relaxed atomics without
// read-modify-write.
#pragma once

#include <atomic>
#include <cstdint>

#include "na/util/unshared.hpp"

namespace na::inline impl {

class Counter {
 public:
    void add(std::uint64_t n = 1) noexcept { util::add_unshared(value_, n); }
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
    std::atomic<std::uint64_t> value_{0};
};

struct Counters {
    Counter sends;     // messages posted
    Counter receives;  // messages delivered into receives
    Counter puts;
    Counter gets;
    Counter retries;    // posts that the plugin answered with `again`
    Counter held;       // messages that came before their receive
    Counter refused;    // messages left with the plugin because too many are held
    Counter truncated;  // messages longer than their receive
    Counter canceled;
    Counter dropped;  // malformed input
    Counter peers_lost;
    Counter bundles_sent;  // messages that carry several
    Counter bundled_sent;  // those that they carry
    Counter bundles_received;
    Counter bundled_received;
};

}  // namespace na::inline impl
