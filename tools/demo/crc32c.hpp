// SPDX-License-Identifier: BSD-3-Clause
// CRC-32C (Castagnoli), the checksum of iSCSI and ext4.
#pragma once

#include <cstddef>
#include <cstdint>

namespace demo {

// The checksum of everything before and these `size` bytes; `crc` is what everything before gave, 0
// at the start.
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) noexcept;

}  // namespace demo
