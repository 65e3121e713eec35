// SPDX-License-Identifier: BSD-3-Clause
// Checksums of messages and encoded structures. Pure functions: any thread, no state, no failure.
//
// Each takes the result for the bytes before (0 at the start) and returns that for all bytes so
// far, so that pieces can be summed as they come; there is no final step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg::proc {

// CRC-32C (Castagnoli; iSCSI, ext4). By the processor's instruction where it has one.
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) noexcept;

// CRC-16/T10-DIF.
std::uint16_t crc16_t10dif(std::uint16_t crc, const void* data, std::size_t size) noexcept;

// CRC-64/XZ (ECMA-182 polynomial, reflected).
std::uint64_t crc64_xz(std::uint64_t crc, const void* data, std::size_t size) noexcept;

// What crc32c falls back to; for its test.
std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t size) noexcept;

// Values are those of hg_proc_hash_t.
enum class ChecksumKind : std::uint8_t { crc16, crc32c, crc64, none };

// A running checksum of a kind chosen at run time.
class Checksum {
 public:
    explicit Checksum(ChecksumKind kind = ChecksumKind::none) noexcept : kind_(kind) {}

    ChecksumKind kind() const noexcept { return kind_; }
    // Bytes of the value: 2, 4, 8, or 0 for none.
    std::size_t size() const noexcept;
    std::uint64_t value() const noexcept { return value_; }
    void update(const void* data, std::size_t size) noexcept;
    void reset() noexcept { value_ = 0; }

 private:
    std::uint64_t value_ = 0;
    ChecksumKind kind_;
};

}  // namespace hg::proc
