// SPDX-License-Identifier: BSD-3-Clause
// Payloads that tell where they came from: bytes that depend on a seed and on their position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace support {

// splitmix64: small, good enough, the same everywhere.
class Random {
 public:
    explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
    std::uint64_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    // Below `limit`, which is not 0.
    std::uint64_t below(std::uint64_t limit) noexcept { return next() % limit; }
    // [0, 1)
    double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
    // For what has more to try than time: another seed tries others.
    template <typename T>
    void shuffle(std::vector<T>& items) noexcept {
        for (std::size_t i = items.size(); i > 1; --i) {
            std::swap(items[i - 1], items[below(i)]);
        }
    }

 private:
    std::uint64_t state_;
};

inline std::byte payload_byte(std::uint64_t seed, std::size_t position) noexcept {
    const std::uint64_t z = (seed + position / 8 + 1) * 0x9e3779b97f4a7c15ULL;
    return static_cast<std::byte>((z ^ (z >> 29)) >> (8 * (position % 8)));
}

inline void fill(std::span<std::byte> bytes, std::uint64_t seed) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = payload_byte(seed, i);
    }
}
inline void fill(void* data, std::size_t size, std::uint64_t seed) noexcept {
    fill(std::span(static_cast<std::byte*>(data), size), seed);
}
inline std::vector<std::byte> payload(std::size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    fill(bytes, seed);
    return bytes;
}

// Position of the first byte that is not as fill() left it (`first`: position in the payload of
// bytes[0]); -1: none.
inline std::ptrdiff_t mismatch(std::span<const std::byte> bytes, std::uint64_t seed,
                               std::size_t first = 0) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != payload_byte(seed, first + i)) {
            return static_cast<std::ptrdiff_t>(i);
        }
    }
    return -1;
}
inline std::ptrdiff_t mismatch(const void* data, std::size_t size, std::uint64_t seed,
                               std::size_t first = 0) noexcept {
    return mismatch(std::span(static_cast<const std::byte*>(data), size), seed, first);
}

}  // namespace support
