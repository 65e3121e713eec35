// SPDX-License-Identifier: BSD-3-Clause
#include "hg/proc/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define CINNABAR_CRC32C_SSE42
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace hg::proc {
namespace {

constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78;            // reflected 0x1EDC6F41
constexpr std::uint64_t kCrc64Polynomial = 0xC96C5795D7870F42ULL;  // reflected 0x42F0E1EBA9EA3693
constexpr std::uint16_t kCrc16Polynomial = 0x8BB7;

// Row 0 is the effect of one byte; row k that of the same byte with k zero bytes after it, so that
// eight bytes are eight independent look-ups.
template <typename Word>
using SliceTable = std::array<std::array<Word, 256>, 8>;

template <typename Word>
constexpr SliceTable<Word> make_slices(Word reflected_polynomial) {
    SliceTable<Word> table{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        Word crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : Word{0});
        }
        table[0][byte] = crc;
    }
    for (std::size_t k = 1; k < 8; ++k) {
        for (unsigned byte = 0; byte < 256; ++byte) {
            const Word before = table[k - 1][byte];
            table[k][byte] = (before >> 8) ^ table[0][before & 0xff];
        }
    }
    return table;
}

constexpr auto kCrc32cSlices = make_slices<std::uint32_t>(kCrc32cPolynomial);
constexpr auto kCrc64Slices = make_slices<std::uint64_t>(kCrc64Polynomial);

// `crc` is the register, that is the value inverted.
template <typename Word>
Word run_slices(const SliceTable<Word>& table, Word crc, const unsigned char* at,
                std::size_t size) noexcept {
    if constexpr (std::endian::native == std::endian::little) {
        for (; size >= 8; at += 8, size -= 8) {
            std::uint64_t word;
            std::memcpy(&word, at, sizeof word);
            word ^= crc;
            crc = 0;
            for (std::size_t i = 0; i < 8; ++i) {
                crc ^= table[7 - i][(word >> (8 * i)) & 0xff];
            }
        }
    }
    for (; size > 0; ++at, --size) {
        crc = (crc >> 8) ^ table[0][(crc ^ *at) & 0xff];
    }
    return crc;
}

constexpr std::array<std::uint16_t, 256> make_crc16() {
    std::array<std::uint16_t, 256> table{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; ++bit) {
            crc = ((crc << 1) ^ ((crc & 0x8000) != 0 ? kCrc16Polynomial : 0U)) & 0xffff;
        }
        table[byte] = static_cast<std::uint16_t>(crc);
    }
    return table;
}

constexpr auto kCrc16Table = make_crc16();

#ifdef CINNABAR_CRC32C_SSE42

// The instruction takes three cycles but one can start in each: three streams of kStream bytes run
// side by side and are joined by moving a stream's register past the bytes of the next one, which
// is a linear map over bits, tabulated by byte.
constexpr std::size_t kStream = 1024;
using BitMatrix = std::array<std::uint32_t, 32>;  // image of each bit
using JoinTable = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr std::uint32_t apply(const BitMatrix& matrix, std::uint32_t vector) {
    std::uint32_t image = 0;
    for (std::size_t i = 0; vector != 0; ++i, vector >>= 1) {
        if ((vector & 1) != 0) {
            image ^= matrix[i];
        }
    }
    return image;
}

constexpr JoinTable make_join() {
    BitMatrix shift{};
    for (std::size_t i = 0; i < 32; ++i) {  // past one zero byte
        const std::uint32_t bit = std::uint32_t{1} << i;
        shift[i] = (bit >> 8) ^ kCrc32cSlices[0][bit & 0xff];
    }
    for (std::size_t length = 1; length < kStream; length *= 2) {  // past twice as many
        BitMatrix twice{};
        for (std::size_t i = 0; i < 32; ++i) {
            twice[i] = apply(shift, shift[i]);
        }
        shift = twice;
    }
    JoinTable table{};
    for (std::size_t k = 0; k < 4; ++k) {
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
            table[k][byte] = apply(shift, byte << (8 * k));
        }
    }
    return table;
}

static_assert(std::has_single_bit(kStream));
constexpr JoinTable kJoin = make_join();

std::uint64_t past_stream(std::uint64_t crc) noexcept {
    return kJoin[0][crc & 0xff] ^ kJoin[1][(crc >> 8) & 0xff] ^ kJoin[2][(crc >> 16) & 0xff] ^
           kJoin[3][(crc >> 24) & 0xff];
}

std::uint64_t load64(const unsigned char* at) noexcept {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

__attribute__((target("sse4.2"))) std::uint32_t run_sse42(std::uint32_t crc,
                                                          const unsigned char* at,
                                                          std::size_t size) noexcept {
    std::uint64_t a = crc;
    for (; size >= 3 * kStream; at += 3 * kStream, size -= 3 * kStream) {
        std::uint64_t b = 0;
        std::uint64_t c = 0;
        for (std::size_t i = 0; i < kStream; i += 8) {
            a = _mm_crc32_u64(a, load64(at + i));
            b = _mm_crc32_u64(b, load64(at + kStream + i));
            c = _mm_crc32_u64(c, load64(at + 2 * kStream + i));
        }
        a = past_stream(past_stream(a) ^ b) ^ c;
    }
    for (; size >= 8; at += 8, size -= 8) {
        a = _mm_crc32_u64(a, load64(at));
    }
    crc = static_cast<std::uint32_t>(a);
    for (; size > 0; ++at, --size) {
        crc = _mm_crc32_u8(crc, *at);
    }
    return crc;
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

std::uint32_t run_arm(std::uint32_t crc, const unsigned char* at, std::size_t size) noexcept {
    for (; size >= 8; at += 8, size -= 8) {
        std::uint64_t word;
        std::memcpy(&word, at, sizeof word);
        crc = __crc32cd(crc, word);
    }
    for (; size > 0; ++at, --size) {
        crc = __crc32cb(crc, *at);
    }
    return crc;
}

#endif

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t size) noexcept {
    return ~run_slices(kCrc32cSlices, ~crc, static_cast<const unsigned char*>(data), size);
}

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) noexcept {
#ifdef CINNABAR_CRC32C_SSE42
    if (__builtin_cpu_supports("sse4.2")) {
        return ~run_sse42(~crc, static_cast<const unsigned char*>(data), size);
    }
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    return ~run_arm(~crc, static_cast<const unsigned char*>(data), size);
#endif
    return crc32c_portable(crc, data, size);
}

std::uint16_t crc16_t10dif(std::uint16_t crc, const void* data, std::size_t size) noexcept {
    const auto* at = static_cast<const unsigned char*>(data);
    unsigned value = crc;
    for (; size > 0; ++at, --size) {
        value = ((value << 8) & 0xffff) ^ kCrc16Table[(value >> 8) ^ *at];
    }
    return static_cast<std::uint16_t>(value);
}

std::uint64_t crc64_xz(std::uint64_t crc, const void* data, std::size_t size) noexcept {
    return ~run_slices(kCrc64Slices, ~crc, static_cast<const unsigned char*>(data), size);
}

std::size_t Checksum::size() const noexcept {
    switch (kind_) {
        case ChecksumKind::crc16:
            return sizeof(std::uint16_t);
        case ChecksumKind::crc32c:
            return sizeof(std::uint32_t);
        case ChecksumKind::crc64:
            return sizeof(std::uint64_t);
        case ChecksumKind::none:
            break;
    }
    return 0;
}

void Checksum::update(const void* data, std::size_t size) noexcept {
    switch (kind_) {
        case ChecksumKind::crc16:
            value_ = crc16_t10dif(static_cast<std::uint16_t>(value_), data, size);
            break;
        case ChecksumKind::crc32c:
            value_ = crc32c(static_cast<std::uint32_t>(value_), data, size);
            break;
        case ChecksumKind::crc64:
            value_ = crc64_xz(value_, data, size);
            break;
        case ChecksumKind::none:
            break;
    }
}

}  // namespace hg::proc
