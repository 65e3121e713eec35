// SPDX-License-Identifier: BSD-3-Clause
// What one context here has with one context of a peer, besides the session: the way to it, and
// puts and gets.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "na/session/engine.hpp"
#include "na/session/link.hpp"
#include "na/util/fd.hpp"
#include "plugins/ucx/bootstrap.hpp"
#include "plugins/ucx/library.hpp"
#include "plugins/ucx/rkeys.hpp"
#include "plugins/ucx/rma.hpp"

namespace na::ucx {

class Context;
struct Link;

// An endpoint of UCX's. Outlives its link while UCX closes it.
struct Way {
    Context* context = nullptr;
    Link* link = nullptr;      // null: it was left
    Worker* worker = nullptr;  // whose endpoint it is
    ucp_ep_h ep = nullptr;
    ucs_status_ptr_t closing = nullptr;  // UCX's request
    std::size_t queued = 0;              // messages that UCX has not sent yet
    std::size_t carried = 0;             // bytes of puts and gets, likewise
    std::size_t requests = 0;            // ours that UCX has
    std::size_t natives = 0;             // of those, of puts and gets of UCX's own
    std::unique_ptr<Rkeys> keys;         // made with the first of these
    bool plain = false;                  // UCX has no puts and gets on this way
    bool ready = false;                  // UCX has connected it
    bool failed = false;
    util::ListHook hook;  // of those that failed, that were left, or that UCX closes
};

// What UCX works on: a message, or bytes of a put or get.
struct Request : session::Request {
    struct Registration {};
    void made(Registration&) noexcept {}

    session::RequestPool<Request>* home = nullptr;
    Way* way = nullptr;
    bool message = false;
    Transfer* transfer = nullptr;  // native ones; null: it has ended
    Rkey* rkey = nullptr;          // that it uses
    ucs_status_t result = UCS_OK;
    util::ListHook spent;  // UCX is done with it
};
using Requests = session::RequestPool<Request>;

// The peer's process, where ids of processes mean the same here and there. UCX does not tell that a
// process at the other end of shared memory died.
class ProcessWatch final : public session::Watcher {
 public:
    ProcessWatch(Context& context, Link& link) noexcept : context_(context), link_(link) {}
    void ready(std::uint32_t events) override;

    util::UniqueFd process;

 private:
    Context& context_;
    Link& link_;
};

struct Link final : session::Link, session::Watcher {
    Link(Context& c, session::Address a, std::uint8_t t)
        : session::Link(std::move(a), t), context(c), process(c, *this) {}
    // The dial goes on.
    void ready(std::uint32_t events) override;

    Context& context;
    std::unique_ptr<Dial> dial;  // on the way to a way
    Way* way = nullptr;
    ProcessWatch process;

    // Puts and gets of ours. What a peer does not answer is its own: nobody else waits for it.
    std::unique_ptr<Piece[]> room;  // kPieceWindow, made with the first
    util::IntrusiveList<Piece, &Piece::own> free_pieces;
    util::IntrusiveList<Piece, &Piece::own> pieces;
    util::IntrusiveList<Transfer, &Transfer::own> natives;  // of UCX's own
    // Those of the peer that are not answered: a ring.
    std::array<Owed, kPieceWindow> owed;
    std::size_t first_owed = 0;
    std::size_t owed_count = 0;
    util::ListHook serving;  // some are
};

}  // namespace na::ucx
