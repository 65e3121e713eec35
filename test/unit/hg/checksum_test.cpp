// SPDX-License-Identifier: BSD-3-Clause
#include "hg/proc/checksum.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

using namespace hg::proc;

namespace {

const char kDigits[] = "123456789";
constexpr std::size_t kDigitCount = sizeof kDigits - 1;

std::vector<std::uint8_t> random_bytes(std::size_t size) {
    std::mt19937 random(42);
    std::vector<std::uint8_t> bytes(size);
    for (auto& byte : bytes) {
        byte = static_cast<std::uint8_t>(random());
    }
    return bytes;
}

// One bit at a time, as the definition has it.
std::uint32_t slow_crc32c(const std::vector<std::uint8_t>& bytes, std::size_t size) {
    std::uint32_t crc = ~0U;
    for (std::size_t i = 0; i < size; ++i) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
        }
    }
    return ~crc;
}

}  // namespace

TEST_CASE("checksums match the published check values", "[checksum]") {
    CHECK(crc32c(0, kDigits, kDigitCount) == 0xE3069283U);
    CHECK(crc32c_portable(0, kDigits, kDigitCount) == 0xE3069283U);
    CHECK(crc16_t10dif(0, kDigits, kDigitCount) == 0xD0DBU);
    CHECK(crc64_xz(0, kDigits, kDigitCount) == 0x995DC9BBDF1939FAULL);
}

TEST_CASE("CRC32C matches the vectors of RFC 3720", "[checksum]") {
    std::uint8_t block[32];
    std::memset(block, 0, sizeof block);
    CHECK(crc32c(0, block, sizeof block) == 0x8A9136AAU);
    std::memset(block, 0xff, sizeof block);
    CHECK(crc32c(0, block, sizeof block) == 0x62A8AB43U);
    for (std::size_t i = 0; i < sizeof block; ++i) {
        block[i] = static_cast<std::uint8_t>(i);
    }
    CHECK(crc32c(0, block, sizeof block) == 0x46DD794EU);
    CHECK(crc32c(0, nullptr, 0) == 0U);
}

TEST_CASE("CRC32C is the same by every path, length and alignment", "[checksum]") {
    const auto bytes = random_bytes(20000);
    for (std::size_t size :
         {0U, 1U, 7U, 8U, 9U, 63U, 64U, 1023U, 3071U, 3072U, 3073U, 6144U, 9999U, 19992U}) {
        const std::uint32_t expected = slow_crc32c(bytes, size);
        CHECK(crc32c(0, bytes.data(), size) == expected);
        CHECK(crc32c_portable(0, bytes.data(), size) == expected);
        for (std::size_t offset = 1; offset < 8; ++offset) {
            CHECK(crc32c(0, bytes.data() + offset, size) ==
                  crc32c_portable(0, bytes.data() + offset, size));
        }
    }
}

TEST_CASE("checksums of pieces continue", "[checksum]") {
    const auto bytes = random_bytes(10000);
    std::mt19937 random(7);
    for (ChecksumKind kind : {ChecksumKind::crc16, ChecksumKind::crc32c, ChecksumKind::crc64}) {
        Checksum whole(kind);
        whole.update(bytes.data(), bytes.size());
        Checksum pieces(kind);
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t size = std::min<std::size_t>(random() % 4000, bytes.size() - at);
            pieces.update(bytes.data() + at, size);
            at += size;
        }
        CHECK(whole.value() == pieces.value());
        CHECK(whole.value() != 0);
        pieces.reset();
        CHECK(pieces.value() == 0);
    }
    CHECK(Checksum(ChecksumKind::crc16).size() == 2);
    CHECK(Checksum(ChecksumKind::crc32c).size() == 4);
    CHECK(Checksum(ChecksumKind::crc64).size() == 8);
    CHECK(Checksum(ChecksumKind::none).size() == 0);
}
