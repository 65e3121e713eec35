// SPDX-License-Identifier: BSD-3-Clause
// Bytes that can be checked: each follows from the first one and its place, so that what is old,
// moved or missing shows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perf {

inline void fill_pattern(void* data, std::size_t size, std::uint8_t seed) noexcept {
    auto* bytes = static_cast<std::uint8_t*>(data);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::uint8_t>(seed + i * 13 + (i >> 8));
    }
}

inline std::uint64_t count_wrong(const void* data, std::size_t size, std::uint8_t seed) noexcept {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) {
        wrong += bytes[i] != static_cast<std::uint8_t>(seed + i * 13 + (i >> 8)) ? 1U : 0U;
    }
    return wrong;
}

}  // namespace perf
