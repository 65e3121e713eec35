// SPDX-License-Identifier: BSD-3-Clause
// Several small messages in one: what travels (docs/wire.md).
//
// A bundle is a message with a tag of its own, bundle::tag(). After the headroom: magic 1, version
// 1, number of parts 2; then for each part its tag 4, size 4, and bytes. Integers little-endian,
// nothing padded. A part is what would have come as a message of that tag, without its headroom.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "na/util/bytes.hpp"

namespace na::inline impl::bundle {

inline constexpr std::uint8_t kMagic = 0xc3;
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeader = 4;
inline constexpr std::size_t kPart = 8;  // in front of each part
inline constexpr std::size_t kMaxParts = UINT16_MAX;

// The largest 2^k - 1 that is a tag. Who sends bundles gives it to no other message.
constexpr std::uint32_t tag(std::uint32_t max_tag) noexcept {
    return max_tag == UINT32_MAX ? UINT32_MAX : std::bit_floor(max_tag + 1U) - 1U;
}

template <typename T>
void put(std::byte* at, T value) noexcept {
    value = util::little_endian(value);
    std::memcpy(at, &value, sizeof value);
}

template <typename T>
T get(const std::byte* at) noexcept {
    T value;
    std::memcpy(&value, at, sizeof value);
    return util::little_endian(value);
}

inline std::byte* begin(std::byte* at, std::size_t parts) noexcept {
    put(at, kMagic);
    put(at + 1, kVersion);
    put(at + 2, static_cast<std::uint16_t>(parts));
    return at + kHeader;
}

inline std::byte* add(std::byte* at, std::uint32_t tag, std::span<const std::byte> bytes) noexcept {
    put(at, tag);
    put(at + 4, static_cast<std::uint32_t>(bytes.size()));
    if (!bytes.empty()) {  // without data there may be no address either
        std::memcpy(at + kPart, bytes.data(), bytes.size());
    }
    return at + kPart + bytes.size();
}

struct Part {
    std::uint32_t tag = 0;
    std::span<const std::byte> bytes;
};

// Of a bundle that parts() has found to be one: the part at `at`, which it moves to the next.
inline Part next(std::span<const std::byte> bytes, std::size_t& at) noexcept {
    const std::byte* p = bytes.data() + at;
    const Part part{get<std::uint32_t>(p), {p + kPart, get<std::uint32_t>(p + 4)}};
    at += kPart + part.bytes.size();
    return part;
}

// How many there are in what a peer has sent; 0: it is no bundle. Every size is checked, so that
// the parts end where the bytes do, and no part is a bundle itself.
inline std::size_t parts(std::span<const std::byte> bytes, std::uint32_t bundle_tag) noexcept {
    if (bytes.size() < kHeader || get<std::uint8_t>(bytes.data()) != kMagic ||
        get<std::uint8_t>(bytes.data() + 1) != kVersion) {
        return 0;
    }
    const std::size_t count = get<std::uint16_t>(bytes.data() + 2);
    std::size_t at = kHeader;
    for (std::size_t i = 0; i < count; ++i) {
        if (bytes.size() - at < kPart) {
            return 0;
        }
        const std::size_t size = get<std::uint32_t>(bytes.data() + at + 4);
        if (size > bytes.size() - at - kPart ||
            get<std::uint32_t>(bytes.data() + at) == bundle_tag) {
            return 0;
        }
        at += kPart + size;
    }
    return at == bytes.size() ? count : 0;
}

}  // namespace na::inline impl::bundle
