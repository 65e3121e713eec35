// SPDX-License-Identifier: BSD-3-Clause
// Which protocol moves a transfer: the one place that decides, from facts alone. New protocols are
// added here and in Transfer.
#pragma once

#include <cstdint>

#include "bulk/bulk.hpp"

namespace bulk {

// Seen from the caller. Same order as hg_bulk_op.
enum class Direction : std::uint8_t { push, pull };

enum class Protocol : std::uint8_t {
    nothing,      // no bytes
    local_copy,   // both sides are memory of this process
    eager_copy,   // the contents came with the descriptor
    rma,          // put or get, in pieces, a bounded number in flight
    unreachable,  // no rail that both sides, the peer and the context have
};

struct Facts {
    Direction direction = Direction::pull;
    std::uint64_t size = 0;
    bool copyable = false;  // the processor can copy from and to the memory: no device memory
    bool origin_is_local = false;      // the peer is this process, and its memory is known
    bool origin_has_contents = false;  // they came eagerly
    bool reachable[kRails] = {};       // origin, local, peer and context have this rail
};

struct Choice {
    Protocol protocol = Protocol::nothing;
    Rail rail = Rail::net;
    std::uint64_t piece = 0;   // rma: largest piece, bytes
    std::uint32_t window = 0;  // rma: pieces in flight at most
};

// The most pieces that any choice has in flight.
inline constexpr std::uint32_t kMaxWindow = 16;

Choice choose(const Facts& facts) noexcept;

}  // namespace bulk
