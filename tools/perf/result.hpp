// SPDX-License-Identifier: BSD-3-Clause
// What one run at one size gave. Plain data: client processes leave theirs in shared memory for the
// one that prints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "histogram.hpp"

namespace perf {

// The fewest operations of a block, of the tools and of what they are compared with alike: the more
// operations a mean is of, the nearer it is to that of all, whichever way they are spread.
constexpr std::uint64_t kBlockOperations = 32;

struct Result {
    // A run is cut into blocks of a quarter of a millisecond, or longer ones if operations take
    // long.
    static constexpr std::size_t kMaxBlocks = 4096;

    std::uint64_t operations = 0;
    std::uint64_t elapsed_ns = 0;
    std::uint64_t in_flight = 1;  // operations at once
    // Of all operations, within their time: registering memory, and taking that back.
    std::uint64_t registering_ns = 0;
    std::uint64_t deregistering_ns = 0;
    Histogram latency;  // ns, of a sample of the operations
    std::size_t blocks = 0;
    std::array<float, kMaxBlocks> block_ns{};  // per operation
    std::array<float, kMaxBlocks> block_operations{};
    bool good = true;

    void add_block(double ns, std::uint64_t of_operations) noexcept {
        if (blocks < kMaxBlocks) {
            block_operations[blocks] = static_cast<float>(of_operations);
            block_ns[blocks++] = static_cast<float>(ns / static_cast<double>(of_operations));
        }
    }
    // Another process's, of the same time.
    void merge(const Result& other) noexcept;

    // Per operation. The mean has in it every time that somebody else had the processor.
    double mean_ns() const noexcept;
    // Per operation: the mean of the block in which the operation is that `share` (0 to 1) of all
    // are in faster blocks than. Counted by operations: a block in which nothing could happen
    // for long has few. A run that was too short for a block has the operations that were timed by
    // themselves instead, each of which took its share of the time of those in flight with it.
    double percentile_ns(double share) const noexcept;
    bool has_blocks() const noexcept { return blocks != 0; }
    double median_ns() const noexcept { return percentile_ns(0.5); }
    // What it takes where nobody else wants the processor.
    double undisturbed_ns() const noexcept { return percentile_ns(0.1); }
};

}  // namespace perf
