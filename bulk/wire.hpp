// SPDX-License-Identifier: BSD-3-Clause
// Descriptors on the wire. Every length and flag that comes in is checked before it is used;
// nothing is allocated that the received bytes do not pay for.
//
// Format (`v`: LEB128 variable-length unsigned integer, shortest form; others little-endian):
//   u8 version | u8 flags | v segment count | v total length
//   lengths    v each, only with more than one segment; their sum is the total length
//   net        flag net:   u16 protocol tag | v groups | groups x (v size, na::Memory bytes)
//   sm         flag sm:                       v groups | groups x (v size, na::Memory bytes)
//   owner      flag owner: v size | encoded address | u8 context id
//   own        flag own:   u64 Space::secret() | u64 address of each segment
//   contents   flag eager: all bytes, in segment order
// The segments of a rail's groups cover the total length in order, empty segments left out.
#pragma once

#include <cstddef>
#include <span>

#include "bulk/bulk.hpp"

namespace bulk {

// What to put into the bytes; what does not apply to the descriptor is ignored.
struct WireOptions {
    bool eager = false;  // the contents, where peers may read them
    bool sm = false;     // registrations for shared memory
    bool self = false;   // the bytes go to this process: they carry the addresses of its memory
};

// Bytes that encode() writes with the same options.
std::size_t encoded_size(const Bulk& bulk, WireOptions options);

// Answers the bytes written. Remote descriptors too. overflow: `out` is too small; anything else
// comes from the transport.
Result<std::size_t> encode(const Bulk& bulk, WireOptions options, std::span<std::byte> out);

// Untrusted bytes, at least as many as encode() wrote; more are ignored. The owner, if any, is not
// resolved. overflow: ends too early. protocol_error: contradicts itself. protonosupport: no rail
// of `space` can read it. nomem.
Result<BulkRef> decode(Space& space, std::span<const std::byte> bytes);

// The descriptor of this process's memory whose registration `remote` describes. Null: there is
// none, or not any more. Compares with all descriptors of local memory. Throws std::bad_alloc.
BulkRef find_local(const Bulk& remote);

// What decode() would make an object of, where it is what most are: one segment that its owner may
// be read from, in one registration on `rail`, without contents and owner. False: it is not, or not
// right, and decode() says which. What it says of other rails is not looked at.
struct Plain {
    std::uint64_t size = 0;
    std::span<const std::byte> memory;  // what na::Memory::encode() wrote, of as many bytes
};
bool glance(Space& space, std::span<const std::byte> bytes, Rail rail, Plain& plain) noexcept;

}  // namespace bulk
