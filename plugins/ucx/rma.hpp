// SPDX-License-Identifier: BSD-3-Clause
// A put or get on its way: lives in Op::scratch, zeroed once by the core. And its pieces.
#pragma once

#include <cstdint>

#include "na/plugin.hpp"
#include "na/session/request.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::ucx {

struct Link;
struct Request;

// Bytes of one piece: with its headers it fits what UCX's tcp receives at a time (64 KiB).
inline constexpr std::size_t kPieceBytes = std::size_t{60} << 10;
// Pieces that a peer may have under way here, and we there: bounds what it makes us keep.
inline constexpr std::size_t kPieceWindow = 16;

struct Transfer {
    Op* op;
    Link* link;            // null: it was lost, and UCX still has some of it (native)
    std::uint64_t posted;  // bytes asked for, or sent
    std::uint32_t pieces;  // not answered
    Status status;
    bool stopped;         // post no more: it failed or was canceled
    bool native;          // by UCX's own puts and gets (native.cpp)
    bool flushed;         // native puts: that was asked for
    Request* flush;       // and UCX has it
    util::ListHook hook;  // those not wholly posted
    util::ListHook own;   // native: of the link
};

// At the origin, from its post to the answer. The base makes the link's death matter.
struct Piece : session::Request {
    Transfer* transfer = nullptr;  // null: it has ended otherwise; the answer is still awaited
    std::uint64_t sequence = 0;
    std::uint64_t offset = 0;  // in the local region
    std::uint32_t length = 0;
    util::ListHook own;  // of the link, or of those that are free
};

// At the target, from its arrival to the answer.
struct Owed {
    std::uint64_t sequence;
    std::uint64_t key;  // gets
    std::uint64_t offset;
    std::uint32_t length;  // 0: a put, which has been done
    Status status;
};

}  // namespace na::ucx
