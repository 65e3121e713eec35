// SPDX-License-Identifier: BSD-3-Clause
#include "crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace demo {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

// Eight tables, so that eight bytes take eight independent look-ups instead of eight steps.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
        }
        tables[0][byte] = crc;
    }
    for (std::size_t t = 1; t < tables.size(); ++t) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[t - 1][byte];
            tables[t][byte] = (before >> 8) ^ tables[0][before & 0xff];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t step(std::uint32_t crc, unsigned char byte) noexcept {
    return (crc >> 8) ^ kTables[0][(crc ^ byte) & 0xff];
}

std::uint32_t by_table(std::uint32_t crc, const unsigned char* p, std::size_t size) noexcept {
    if constexpr (std::endian::native == std::endian::little) {
        for (; size >= 8; p += 8, size -= 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, p, sizeof word);
            word ^= crc;
            crc = 0;
            for (std::size_t i = 0; i < 8; ++i) {
                crc ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
            }
        }
    }
    for (; size > 0; ++p, --size) {
        crc = step(crc, *p);
    }
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
// The instruction that x86 has had for this since 2008.
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc,
                                                               const unsigned char* p,
                                                               std::size_t size) noexcept {
    std::uint64_t wide = crc;
    for (; size >= 8; p += 8, size -= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, p, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = static_cast<std::uint32_t>(wide);
    for (; size > 0; ++p, --size) {
        crc = __builtin_ia32_crc32qi(crc, *p);
    }
    return crc;
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) noexcept {
    const auto* p = static_cast<const unsigned char*>(data);
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    if (has_instruction) {
        return ~by_instruction(~crc, p, size);
    }
#endif
    return ~by_table(~crc, p, size);
}

}  // namespace demo
