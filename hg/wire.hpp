// SPDX-License-Identifier: BSD-3-Clause
// What RPC messages look like: docs/wire.md, in code. Integers are little-endian at fixed offsets;
// nothing is padded.
//
// Encoders write into a buffer that has room; decoders take the bytes that were received, check
// every field against them, and answer with a view of the payload, or with what is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "na/status.hpp"
#include "na/util/bytes.hpp"

namespace hg::wire {

inline constexpr std::uint8_t kVersion = 2;
inline constexpr std::uint8_t kRequestMagic = 0xc1;
inline constexpr std::uint8_t kResponseMagic = 0xc2;

inline constexpr std::uint8_t kOverflow = 1 << 0;         // the payload ends in an overflow block
inline constexpr std::uint8_t kOneWay = 1 << 1;           // requests: no response is wanted
inline constexpr std::uint8_t kHeaderChecksum = 1 << 2;   // the checksum covers the header
inline constexpr std::uint8_t kPayloadChecksum = 1 << 3;  // and the payload
inline constexpr std::uint8_t kMoreData = 1 << 4;         // the receiver's program fetches the rest

inline constexpr std::uint8_t kTimed = 1 << 5;  // requests: the time of arrival is noted

inline constexpr std::size_t kRequestSize = 24;
inline constexpr std::size_t kResponseSize = 16;

// Request:  magic 1, version 1, flags 1, context id of the origin 1, cookie 4, RPC id 8, payload
// size 4, checksum 4.
struct Request {
    std::uint8_t flags = 0;
    std::uint8_t origin_context = 0;
    std::uint32_t cookie = 0;
    std::uint64_t id = 0;
};

// Response: magic 1, version 1, flags 1, return code 1, cookie 4, payload size 4, checksum 4. Also
// the acknowledgement of an overflowing message, in either direction, without payload.
struct Response {
    std::uint8_t flags = 0;
    na::Status code = na::Status::success;
    std::uint32_t cookie = 0;
};

// Behind the user's bytes of an overflowing message: size 8, CRC32C 4 (0 without kPayloadChecksum),
// size of the descriptor 4, descriptor.
struct Overflow {
    std::uint64_t size = 0;
    std::uint32_t checksum = 0;
    std::span<const std::byte> descriptor;
};
inline constexpr std::size_t kOverflowSize = 16;

// Of the header at `at` and the payload behind it, where flags ask for one.
std::uint32_t checksum(const std::byte* at, std::size_t header, std::size_t payload,
                       std::uint8_t flags) noexcept;

namespace detail {

inline constexpr std::uint8_t kChecksums = kHeaderChecksum | kPayloadChecksum;
// What belongs to a message beyond its payload comes in one of two ways.
inline constexpr std::uint8_t kLarge = kOverflow | kMoreData;

inline void put_word(std::byte* at, std::uint64_t word) noexcept {
    word = na::util::little_endian(word);
    std::memcpy(at, &word, sizeof word);
}
inline std::uint64_t get_word(const std::byte* at) noexcept {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return na::util::little_endian(word);
}
// The first eight bytes of either header.
inline std::uint64_t first_word(std::uint8_t magic, std::uint8_t flags, std::uint8_t fourth,
                                std::uint32_t cookie) noexcept {
    return magic | std::uint64_t{kVersion} << 8 | std::uint64_t{flags} << 16 |
           std::uint64_t{fourth} << 24 | std::uint64_t{cookie} << 32;
}
// The last eight: the size of the payload, and the checksum, which is 0 where there is none.
inline void seal(std::byte* at, std::size_t header, std::size_t payload,
                 std::uint8_t flags) noexcept {
    put_word(at + header - 8, static_cast<std::uint32_t>(payload));
    if ((flags & kChecksums) != 0) [[unlikely]] {
        const std::uint32_t crc = na::util::little_endian(checksum(at, header, payload, flags));
        std::memcpy(at + header - 4, &crc, sizeof crc);
    }
}

}  // namespace detail

// Writes the header in front of payload[0, payload), which is in place already; `at` has
// kRequestSize (kResponseSize) bytes before it.
inline void encode(std::byte* at, const Request& request, std::size_t payload) noexcept {
    detail::put_word(at, detail::first_word(kRequestMagic, request.flags, request.origin_context,
                                            request.cookie));
    detail::put_word(at + 8, request.id);
    detail::seal(at, kRequestSize, payload, request.flags);
}
inline void encode(std::byte* at, const Response& response, std::size_t payload) noexcept {
    detail::put_word(at,
                     detail::first_word(kResponseMagic, response.flags,
                                        static_cast<std::uint8_t>(response.code), response.cookie));
    detail::seal(at, kResponseSize, payload, response.flags);
}
// The fixed part of the block, kOverflowSize bytes; the descriptor follows it.
void encode_overflow(std::byte* at, std::uint64_t size, std::uint32_t checksum,
                     std::size_t descriptor) noexcept;

struct Received {
    na::Status status = na::Status::success;  // protocol_error, checksum_error
    const char* what = "";                    // literal, where it failed
    std::span<const std::byte> payload;
};

// On failure the fields that came are in `request` (`response`) nevertheless, zeros where none
// came: enough to answer.
Received decode(std::span<const std::byte> message, Request& request) noexcept;
Received decode(std::span<const std::byte> message, Response& response) noexcept;

// The payload of one that was encoded here, by what its header says.
inline std::size_t payload_of_own_request(const std::byte* at) noexcept {
    return static_cast<std::uint32_t>(detail::get_word(at + kRequestSize - 8));
}

// Whether it is what most are, right and without anything special: what decode() would find then.
// False: ask decode().
inline bool glance(std::span<const std::byte> message, Request& request) noexcept {
    if (message.size() < kRequestSize) [[unlikely]] {
        return false;
    }
    const std::uint64_t first = detail::get_word(message.data());
    request.flags = static_cast<std::uint8_t>(first >> 16);
    request.origin_context = static_cast<std::uint8_t>(first >> 24);
    request.cookie = static_cast<std::uint32_t>(first >> 32);
    request.id = detail::get_word(message.data() + 8);
    return static_cast<std::uint16_t>(first) == (kRequestMagic | kVersion << 8) &&
           (request.flags & ~kOneWay) == 0 && request.id != 0 &&
           detail::get_word(message.data() + 16) == message.size() - kRequestSize;
}
inline bool glance(std::span<const std::byte> message, Response& response) noexcept {
    if (message.size() < kResponseSize) [[unlikely]] {
        return false;
    }
    const std::uint64_t first = detail::get_word(message.data());
    response.flags = 0;
    response.code = na::Status::success;
    response.cookie = static_cast<std::uint32_t>(first >> 32);
    return static_cast<std::uint32_t>(first) == (kResponseMagic | kVersion << 8) &&
           detail::get_word(message.data() + 8) == message.size() - kResponseSize;
}

na::Status decode(std::span<const std::byte> block, Overflow& overflow) noexcept;

}  // namespace hg::wire
