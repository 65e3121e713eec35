// SPDX-License-Identifier: BSD-3-Clause
#include "result.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace perf {

void Result::merge(const Result& other) noexcept {
    operations += other.operations;
    elapsed_ns = std::max(elapsed_ns, other.elapsed_ns);
    in_flight += other.in_flight;
    registering_ns += other.registering_ns;
    deregistering_ns += other.deregistering_ns;
    latency.merge(other.latency);
    good = good && other.good;
    // The rates of processes that ran at the same time add up, block by block.
    blocks = std::min(blocks, other.blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
        block_ns[i] = 1.0F / (1.0F / block_ns[i] + 1.0F / other.block_ns[i]);
        block_operations[i] += other.block_operations[i];
    }
}

double Result::mean_ns() const noexcept {
    return operations == 0 ? 0 : static_cast<double>(elapsed_ns) / static_cast<double>(operations);
}

double Result::percentile_ns(double share) const noexcept {
    if (blocks == 0) {
        return latency.percentile(share) / static_cast<double>(in_flight);
    }
    std::vector<std::size_t> sorted(blocks);
    std::iota(sorted.begin(), sorted.end(), std::size_t{0});
    std::sort(sorted.begin(), sorted.end(),
              [this](std::size_t a, std::size_t b) { return block_ns[a] < block_ns[b]; });
    double all = 0;
    for (const std::size_t i : sorted) {
        all += block_operations[i];
    }
    double before = 0;
    for (const std::size_t i : sorted) {
        before += block_operations[i];
        if (before >= share * all) {
            return block_ns[i];
        }
    }
    return block_ns[sorted.back()];
}

}  // namespace perf
