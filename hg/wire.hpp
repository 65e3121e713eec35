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

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::uint8_t kRequestMagic = 0xc1;
inline constexpr std::uint8_t kResponseMagic = 0xc2;

inline constexpr std::uint8_t kOverflow = 1 << 0;         // the payload ends in an overflow block
inline constexpr std::uint8_t kOneWay = 1 << 1;           // requests: no response is wanted
inline constexpr std::uint8_t kHeaderChecksum = 1 << 2;   // the checksum covers the header
inline constexpr std::uint8_t kPayloadChecksum = 1 << 3;  // and the payload
inline constexpr std::uint8_t kMoreData = 1 << 4;         // the receiver's program fetches the rest

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

// Writes the header in front of payload[0, payload), which is in place already; `at` has
// kRequestSize (kResponseSize) bytes before it.
void encode(std::byte* at, const Request& request, std::size_t payload) noexcept;
void encode(std::byte* at, const Response& response, std::size_t payload) noexcept;
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
na::Status decode(std::span<const std::byte> block, Overflow& overflow) noexcept;

}  // namespace hg::wire
