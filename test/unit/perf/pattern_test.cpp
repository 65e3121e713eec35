// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf/pattern.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

using namespace perf;

namespace {

constexpr std::size_t kSize = std::size_t{4} << 20;

std::vector<char> pattern(std::size_t size, std::uint64_t seed) {
    std::vector<char> bytes(size);
    fill_pattern(bytes.data(), size, seed);
    return bytes;
}

// Of random bytes one in 256 is right by chance.
bool mostly_wrong(std::uint64_t wrong, std::size_t size) {
    return wrong > size - size / 100;
}

}  // namespace

TEST_CASE("a pattern is found where it is") {
    auto bytes = pattern(1000, 7);
    CHECK(count_wrong(bytes.data(), bytes.size(), 7) == 0);
    bytes[0] = static_cast<char>(bytes[0] + 1);
    bytes[999] = static_cast<char>(bytes[999] + 1);
    CHECK(count_wrong(bytes.data(), bytes.size(), 7) == 2);
}

TEST_CASE("a part of a pattern is found at its place only") {
    const auto bytes = pattern(4096, 7);
    for (const std::size_t place : {1U, 3U, 8U, 13U, 1000U}) {
        CHECK(count_wrong(bytes.data() + place, 3000, 7, place) == 0);
        CHECK(mostly_wrong(count_wrong(bytes.data() + place, 3000, 7, place - 1), 3000));
    }
}

TEST_CASE("what was moved by a power of two shows") {
    const auto bytes = pattern(kSize, 7);
    for (std::size_t by = 8; by < kSize / 2; by *= 2) {
        CAPTURE(by);
        CHECK(mostly_wrong(count_wrong(bytes.data() + by, kSize / 2, 7), kSize / 2));
    }
}

TEST_CASE("operations, buffers, handles and clients have patterns of their own") {
    constexpr std::size_t kEach = std::size_t{1} << 17;
    std::vector<std::uint64_t> seeds;
    for (std::uint64_t client = 0; client < 2; ++client) {
        for (std::uint64_t handle = 0; handle < 2; ++handle) {
            for (std::uint64_t operation = 0; operation < 2; ++operation) {
                const std::uint64_t seed = first_seed(client, handle) + operation;
                seeds.push_back(seed);
                for (std::uint64_t buffer = 0; buffer < 2; ++buffer) {
                    seeds.push_back(buffer_seed(seed, buffer));
                }
            }
        }
    }
    for (const std::uint64_t seed : seeds) {
        const auto bytes = pattern(kEach, seed);
        for (const std::uint64_t other : seeds) {
            if (other != seed) {
                CAPTURE(seed, other);
                CHECK(mostly_wrong(count_wrong(bytes.data(), kEach, other), kEach));
            }
        }
    }
}

TEST_CASE("a digest tells places apart") {
    const auto bytes = pattern(kSize, 7);
    Digest here;
    here.add(bytes.data(), kSize / 4);
    Digest there;
    there.add(bytes.data() + kSize / 2, kSize / 4);
    CHECK(here != there);
}
