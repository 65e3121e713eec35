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
    const double place = share * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const double high = sorted[std::min(low + 1, sorted.size() - 1)];
    return sorted[low] + (high - sorted[low]) * (place - static_cast<double>(low));
}

}  // namespace perf
