// SPDX-License-Identifier: BSD-3-Clause
// What libfabric has of a session: the peer's place, and what it works on.
#pragma once

#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "na/plugin.hpp"
#include "na/session/engine.hpp"
#include "na/util/fd.hpp"
#include "na/util/intrusive_list.hpp"
#include "plugins/ofi/endpoint.hpp"

namespace na::ofi {

class Context;
struct Transfer;

// Something that libfabric works on.
struct Request : Token, session::Request {
    using Registration = FabricMr;

    Transfer* transfer = nullptr;  // pieces of puts and gets
    void* descriptor = nullptr;    // of the buffer
    std::uint64_t offset = 0;  // gets through the buffer: where in the operation the bytes belong
    std::size_t length = 0;
    bool bounced = false;
    bool aside = false;                   // posted to the endpoint of transfers
    bool waits = false;                   // a piece whose connection has broken: to be posted again
    std::uint8_t breaks = 0;              // of the connection that it had for itself
    fi_addr_t debtor = FI_ADDR_NOTAVAIL;  // whose place was left before it ended

    void made(FabricMr& mr) noexcept {
        what = Token::What::request;
        descriptor = mr == nullptr ? nullptr : fi_mr_desc(mr.get());
    }
};

// What the connection of transfers with a peer is up to (refusals.cpp).
//
//   steady   the connection breaks while pieces are under way    broken
//   broken   the oldest piece is posted, by itself               alone
//   alone    it is done, or its connection breaks once           broken, steady when none waits
//   alone    its connection breaks twice                         doubted
//   doubted  the peer has answered a check: it refuses the piece broken, steady when none waits
//   any      the session ends, and with it all pieces            steady
enum class Carriage : std::uint8_t { steady, broken, alone, doubted };

struct Link final : session::Link, session::Watcher {
    Link(Context& c, session::Address a, std::uint8_t t)
        : session::Link(std::move(a), t), context(c) {}
    void ready(std::uint32_t events) override;  // `process` has ended
    // Naming::ip: where it listens.
    util::IpEndpoint place() const noexcept {
        util::IpEndpoint end = address.ip();
        end.port = static_cast<std::uint16_t>(end.port + target);
        return end;
    }

    Context& context;
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    ino_t segment = 0;                     // Probe::process: that which `addr` is about
    std::size_t owed = 0;                  // requests with `addr` that a link left behind
    std::shared_ptr<Neighbour> neighbour;  // Naming::text, and the peer is in this process
    util::UniqueFd process;                // Probe::process: the peer's
    bool narrow = false;             // its connection has not been given room (Provider::peeks)
    bool carried = false;            // something has gone to it since it was reached
    std::uint32_t ways = 0;          // connections to it at the last look (strangers.cpp)
    unsigned in_vain = 0;            // what speaks for a stranger at its place
    std::int64_t in_vain_since = 0;  // the blocked_since that this is about
    // Transfers over an endpoint of their own (refusals.cpp).
    Carriage carriage = Carriage::steady;
    fi_addr_t rma_addr = FI_ADDR_NOTAVAIL;  // in that endpoint's address vector
    std::uint32_t aside = 0;                // pieces that its connection has
    std::int64_t aside_since = 0;           // it takes none since then; 0: it does
    std::int64_t aside_retry_at = 0;        // it is not worth a try before that
    bool aside_anew = false;                // it was made since the last one broke
    bool aside_marked = false;              // its socket was looked at (sockets.cpp)
    std::uint32_t waiting = 0;              // pieces that are to be posted again
    Request* suspect = nullptr;             // the piece of `alone` and `doubted`
    util::ListHook broken;                  // not `steady`
    std::uint8_t rma_answers = 0;  // to checks since a piece of a transfer was posted or done
};

}  // namespace na::ofi
