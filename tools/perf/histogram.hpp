// SPDX-License-Identifier: BSD-3-Clause
// Counts of durations, in classes that are 1.6% wide or finer. Plain data: it lies in memory that
// processes share. One writer at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace perf {

class Histogram {
 public:
    void add(std::uint64_t ns) noexcept { ++counts_[index_of(ns)]; }

    void merge(const Histogram& other) noexcept {
        for (std::size_t i = 0; i < kClasses; ++i) {
            counts_[i] += other.counts_[i];
        }
    }

    std::uint64_t count() const noexcept {
        std::uint64_t sum = 0;
        for (const std::uint32_t n : counts_) {
            sum += n;
        }
        return sum;
    }

    // The duration in ns below which `share` (0 to 1) of all are; 0 if there is none.
    double percentile(double share) const noexcept {
        const double wanted = share * static_cast<double>(count());
        double before = 0;
        double last = 0;
        for (std::size_t i = 0; i < kClasses; ++i) {
            if (counts_[i] == 0) {
                continue;
            }
            const double n = counts_[i];
            const double low = static_cast<double>(lower_bound(i));
            last = static_cast<double>(lower_bound(i + 1));
            if (before + n >= wanted) {
                return low + (last - low) * std::max(0.0, wanted - before) / n;
            }
            before += n;
        }
        return last;
    }

 private:
    static constexpr int kBits = 6;                     // 64 classes per power of two
    static constexpr std::uint64_t kMost = 1ULL << 40;  // 18 minutes
    static constexpr std::size_t kClasses = (41 - kBits) * (1 << kBits) + (1 << kBits);

    static std::size_t index_of(std::uint64_t ns) noexcept {
        ns = std::min(ns, kMost);
        const int width = static_cast<int>(std::bit_width(ns));
        const int shift = width > kBits + 1 ? width - (kBits + 1) : 0;
        return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(ns >> shift);
    }
    static std::uint64_t lower_bound(std::size_t index) noexcept {
        if (index < (2U << kBits)) {
            return index;
        }
        const std::size_t shift = (index >> kBits) - 1;
        return static_cast<std::uint64_t>(index - (shift << kBits)) << shift;
    }

    std::array<std::uint32_t, kClasses> counts_{};
};

}  // namespace perf
