// SPDX-License-Identifier: BSD-3-Clause
#include "hg/wire.hpp"

#include "hg/proc/checksum.hpp"

namespace hg::wire {
namespace {

using detail::kChecksums;
using detail::kLarge;
using na::Status;
using na::util::little_endian;

template <typename T>
void put(std::byte* at, T value) noexcept {
    value = little_endian(value);
    std::memcpy(at, &value, sizeof value);
}

template <typename T>
T get(const std::byte* at) noexcept {
    T value;
    std::memcpy(&value, at, sizeof value);
    return little_endian(value);
}

// The last two fields of a header, common to both: payload size and checksum.
Received check_tail(std::span<const std::byte> message, std::size_t header_size,
                    std::uint8_t flags) noexcept {
    const std::size_t payload = message.size() - header_size;
    if (get<std::uint32_t>(message.data() + header_size - 8) != payload) [[unlikely]] {
        return {Status::protocol_error, "the payload size is not that of the message", {}};
    }
    if ((flags & kChecksums) != 0) {
        if ((flags & kHeaderChecksum) == 0) [[unlikely]] {
            return {Status::protocol_error, "a payload checksum without a header checksum", {}};
        }
        if (get<std::uint32_t>(message.data() + header_size - 4) !=
            checksum(message.data(), header_size, payload, flags)) [[unlikely]] {
            return {Status::checksum_error, "the checksum does not match", {}};
        }
    } else if (get<std::uint32_t>(message.data() + header_size - 4) != 0) [[unlikely]] {
        return {Status::protocol_error, "a checksum that the flags do not announce", {}};
    }
    return {Status::success, "", message.subspan(header_size)};
}

}  // namespace

// Covers the header up to its own field, which is the header's last, and then the payload if asked
// to.
std::uint32_t checksum(const std::byte* at, std::size_t header, std::size_t payload,
                       std::uint8_t flags) noexcept {
    std::uint32_t crc = proc::crc32c(0, at, header - sizeof(std::uint32_t));
    if ((flags & kPayloadChecksum) != 0) {
        crc = proc::crc32c(crc, at + header, payload);
    }
    return crc;
}

Received decode(std::span<const std::byte> message, Request& request) noexcept {
    if (message.size() < kRequestSize) [[unlikely]] {
        if (message.size() >= 8) {
            request.origin_context = get<std::uint8_t>(message.data() + 3);
            request.cookie = get<std::uint32_t>(message.data() + 4);
        }
        return {Status::protocol_error, "a request shorter than its header", {}};
    }
    const std::byte* at = message.data();
    request.flags = get<std::uint8_t>(at + 2);
    request.origin_context = get<std::uint8_t>(at + 3);
    request.cookie = get<std::uint32_t>(at + 4);
    request.id = get<std::uint64_t>(at + 8);
    if (get<std::uint8_t>(at) != kRequestMagic) [[unlikely]] {
        return {Status::protocol_error, "not a request", {}};
    }
    if (get<std::uint8_t>(at + 1) != kVersion) [[unlikely]] {
        return {Status::protocol_error, "a request of another protocol version", {}};
    }
    if ((request.flags & ~(kOverflow | kOneWay | kMoreData | kTimed | kChecksums)) != 0)
        [[unlikely]] {
        return {Status::protocol_error, "unknown flags in a request", {}};
    }
    if ((request.flags & kLarge) == kLarge) [[unlikely]] {
        return {Status::protocol_error, "a request that is large in two ways", {}};
    }
    if (request.id == 0) [[unlikely]] {
        return {Status::protocol_error, "a request without RPC id", {}};
    }
    return check_tail(message, kRequestSize, request.flags);
}

Received decode(std::span<const std::byte> message, Response& response) noexcept {
    if (message.size() < kResponseSize) [[unlikely]] {
        return {Status::protocol_error, "a response shorter than its header", {}};
    }
    const std::byte* at = message.data();
    response.flags = get<std::uint8_t>(at + 2);
    const auto code = get<std::uint8_t>(at + 3);
    response.cookie = get<std::uint32_t>(at + 4);
    if (get<std::uint8_t>(at) != kResponseMagic) [[unlikely]] {
        return {Status::protocol_error, "not a response", {}};
    }
    if (get<std::uint8_t>(at + 1) != kVersion) [[unlikely]] {
        return {Status::protocol_error, "a response of another protocol version", {}};
    }
    if ((response.flags & ~(kOverflow | kMoreData | kChecksums)) != 0) [[unlikely]] {
        return {Status::protocol_error, "unknown flags in a response", {}};
    }
    if ((response.flags & kLarge) == kLarge) [[unlikely]] {
        return {Status::protocol_error, "a response that is large in two ways", {}};
    }
    if (code > static_cast<std::uint8_t>(Status::other_error)) [[unlikely]] {
        return {Status::protocol_error, "an unknown return code in a response", {}};
    }
    response.code = static_cast<Status>(code);
    return check_tail(message, kResponseSize, response.flags);
}

void encode_overflow(std::byte* at, std::uint64_t size, std::uint32_t checksum,
                     std::size_t descriptor) noexcept {
    put(at, size);
    put(at + 8, checksum);
    put(at + 12, static_cast<std::uint32_t>(descriptor));
}

Status decode(std::span<const std::byte> block, Overflow& overflow) noexcept {
    if (block.size() < kOverflowSize) {
        return Status::protocol_error;
    }
    overflow.size = get<std::uint64_t>(block.data());
    overflow.checksum = get<std::uint32_t>(block.data() + 8);
    overflow.descriptor = block.subspan(kOverflowSize);
    if (overflow.size == 0 || get<std::uint32_t>(block.data() + 12) != overflow.descriptor.size()) {
        return Status::protocol_error;
    }
    return Status::success;
}

}  // namespace hg::wire
