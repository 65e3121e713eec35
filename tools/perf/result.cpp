// SPDX-License-Identifier: BSD-3-Clause
#include "result.hpp"

#include <algorithm>
#include <vector>

namespace perf {

void Result::merge(const Result& other) noexcept {
    operations += other.operations;
    elapsed_ns = std::max(elapsed_ns, other.elapsed_ns);
    latency.merge(other.latency);
    good = good && other.good;
    // The rates of processes that ran at the same time add up, block by block.
    blocks = std::min(blocks, other.blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
        block_ns[i] = 1.0F / (1.0F / block_ns[i] + 1.0F / other.block_ns[i]);
    }
}

double Result::mean_ns() const noexcept {
    return operations == 0 ? 0 : static_cast<double>(elapsed_ns) / static_cast<double>(operations);
}

double Result::block_percentile_ns(double share) const noexcept {
    if (blocks == 0) {
        return mean_ns();
    }
    std::vector<float> sorted(block_ns.begin(),
                              block_ns.begin() + static_cast<std::ptrdiff_t>(blocks));
    std::sort(sorted.begin(), sorted.end());
    // Blocks are of about the same length: one has so many operations as its mean goes into that.
    double all = 0;
    for (const float ns : sorted) {
        all += 1.0 / ns;
    }
    double before = 0;
    for (const float ns : sorted) {
        before += 1.0 / ns;
        if (before >= share * all) {
            return ns;
        }
    }
    return sorted.back();
}

}  // namespace perf
