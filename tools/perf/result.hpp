// SPDX-License-Identifier: BSD-3-Clause
// What one run at one size gave. Plain data: client processes leave theirs in shared memory for the
// one that prints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "histogram.hpp"

namespace perf {

struct Result {
    // A run is cut into blocks of a quarter of a millisecond or a little more.
    static constexpr std::size_t kMaxBlocks = 4096;

    std::uint64_t operations = 0;
    std::uint64_t elapsed_ns = 0;
    Histogram latency;  // ns, of a sample of the operations
    std::size_t blocks = 0;
    std::array<float, kMaxBlocks> block_ns{};  // per operation
    bool good = true;

    void add_block(double ns_per_operation) noexcept {
        if (blocks < kMaxBlocks) {
            block_ns[blocks++] = static_cast<float>(ns_per_operation);
        }
    }
    // Another process's, of the same time.
    void merge(const Result& other) noexcept;

    // Per operation. The mean has in it every time that somebody else had the processor.
    double mean_ns() const noexcept;
    // Per operation: the mean of the block in which the operation is that `share` (0 to 1) of all
    // are in faster blocks than. Counted by operations: a block in which nothing could happen
    // for long has few. Of the whole if there are no blocks.
    double block_percentile_ns(double share) const noexcept;
    double median_ns() const noexcept { return block_percentile_ns(0.5); }
    // What it takes where nobody else wants the processor.
    double undisturbed_ns() const noexcept { return block_percentile_ns(0.1); }
};

}  // namespace perf
