// SPDX-License-Identifier: BSD-3-Clause
// Bytes that can be checked: each follows from a seed and its place, without a period, so that what
// is old, missing, or from another place or buffer shows.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace perf {

// Eight bytes of the pattern (splitmix64): other seeds begin elsewhere, far from each other, in one
// sequence of 2^64 words.
constexpr std::uint64_t pattern_word(std::uint64_t seed, std::uint64_t index) noexcept {
    constexpr auto mix = [](std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    };
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
    return mix(mix(seed + kStep) + (index + 1) * kStep);
}

// Calls `each(byte of the caller's, byte of the pattern)`; `place` is where the first one is in the
// pattern.
template <typename Byte, typename Each>
void along_pattern(Byte* bytes, std::size_t size, std::uint64_t seed, std::uint64_t place,
                   Each&& each) noexcept {
    for (std::size_t i = 0; i < size;) {
        const std::uint64_t word = pattern_word(seed, (place + i) / 8);
        for (std::uint64_t at = (place + i) % 8; at < 8 && i < size; ++at, ++i) {
            each(bytes[i], static_cast<std::uint8_t>(word >> (8 * at)));
        }
    }
}

inline void fill_pattern(void* data, std::size_t size, std::uint64_t seed,
                         std::uint64_t place = 0) noexcept {
    along_pattern(static_cast<std::uint8_t*>(data), size, seed, place,
                  [](std::uint8_t& byte, std::uint8_t right) { byte = right; });
}

inline std::uint64_t count_wrong(const void* data, std::size_t size, std::uint64_t seed,
                                 std::uint64_t place = 0) noexcept {
    std::uint64_t wrong = 0;
    along_pattern(static_cast<const std::uint8_t*>(data), size, seed, place,
                  [&wrong](std::uint8_t byte, std::uint8_t right) { wrong += byte != right; });
    return wrong;
}

// Seeds that no two operations share: of one handle of one client the operations count up from
// here, so that 2^40 are its own.
constexpr std::uint64_t first_seed(std::uint64_t client, std::uint64_t handle) noexcept {
    return (client << 16 ^ handle) << 40;
}
// Of an operation with several buffers.
constexpr std::uint64_t buffer_seed(std::uint64_t operation, std::uint64_t buffer) noexcept {
    return pattern_word(operation, buffer);
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
