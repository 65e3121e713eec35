// SPDX-License-Identifier: BSD-3-Clause
// Bytes that can be checked: each follows from the first one and its place, so that what is old,
// moved or missing shows.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

// What a side says of bytes that it got, for the other one that knows which they were: how many,
// and a sum that each of them and its place go into.
struct Digest {
    std::uint64_t size = 0;
    std::uint64_t sum = 0;
    bool operator==(const Digest&) const = default;

    void add(const void* data, std::size_t bytes) noexcept {
        constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
        const auto* from = static_cast<const char*>(data);
        std::size_t at = 0;
        for (; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, from + at, sizeof word);
            sum = (std::rotl(sum, 5) ^ word) * kPrime;
        }
        for (; at < bytes; ++at) {
            sum = (std::rotl(sum, 5) ^ static_cast<std::uint8_t>(from[at])) * kPrime;
        }
        size += bytes;
    }
};

}  // namespace perf
