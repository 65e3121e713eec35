// SPDX-License-Identifier: BSD-3-Clause
// Bounds-checked little-endian reading and writing of bytes that travel. A failed access makes the
// whole reader or writer fail, so that a decoder checks once at its end; a failed reader yields
// zeros.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace na::util {

template <typename T>
concept WireInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <WireInteger T>
constexpr T little_endian(T value) noexcept {
    if constexpr (std::endian::native == std::endian::little || sizeof(T) == 1) {
        return value;
    } else if constexpr (sizeof(T) == 2) {
        return static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
    } else if constexpr (sizeof(T) == 4) {
        return static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
    } else {
        return static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
    }
}

class ByteReader {
 public:
    explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

    template <WireInteger T>
    T integer() noexcept {
        T value{};
        if (const std::byte* at = take(sizeof(T))) {
            std::memcpy(&value, at, sizeof(T));
        }
        return little_endian(value);
    }
    // The next `count` bytes, in place; empty (and failed) if there are fewer.
    std::span<const std::byte> bytes(std::uint64_t count) noexcept {
        const std::byte* at = take(count);
        return at == nullptr ? std::span<const std::byte>{}
                             : std::span(at, static_cast<std::size_t>(count));
    }
    std::size_t left() const noexcept { return bytes_.size(); }
    bool good() const noexcept { return good_; }

 private:
    const std::byte* take(std::uint64_t count) noexcept {
        if (count > bytes_.size()) {
            good_ = false;
            bytes_ = {};
            return nullptr;
        }
        const std::byte* at = bytes_.data();
        bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
        return at;
    }

    std::span<const std::byte> bytes_;
    bool good_ = true;
};

class ByteWriter {
 public:
    explicit ByteWriter(std::span<std::byte> out) noexcept : out_(out) {}

    template <WireInteger T>
    void integer(T value) noexcept {
        const T wire = little_endian(value);
        bytes(&wire, sizeof wire);
    }
    void bytes(const void* data, std::size_t count) noexcept {
        if (!fits(count) || count == 0) {
            return;
        }
        std::memcpy(out_.data(), data, count);
        advance(count);
    }
    void bytes(std::string_view text) noexcept { bytes(text.data(), text.size()); }
    // Room for `count` bytes that the caller fills; null (and failed) if there is less.
    std::byte* space(std::size_t count) noexcept {
        if (!fits(count)) {
            return nullptr;
        }
        std::byte* at = out_.data();
        advance(count);
        return at;
    }
    std::span<std::byte> rest() const noexcept { return out_; }
    std::size_t written() const noexcept { return written_; }
    bool good() const noexcept { return good_; }

 private:
    bool fits(std::size_t count) noexcept { return good_ = good_ && count <= out_.size(); }
    void advance(std::size_t count) noexcept {
        out_ = out_.subspan(count);
        written_ += count;
    }

    std::span<std::byte> out_;
    std::size_t written_ = 0;
    bool good_ = true;
};

}  // namespace na::util
