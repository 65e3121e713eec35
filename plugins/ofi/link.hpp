// SPDX-License-Identifier: BSD-3-Clause
// What libfabric has of a session: the peer's place, and what it works on.
#pragma once

#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "na/plugin.hpp"
#include "na/session/engine.hpp"
#include "na/util/fd.hpp"
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
    fi_addr_t debtor = FI_ADDR_NOTAVAIL;  // whose place was left before it ended

    void made(FabricMr& mr) noexcept {
        what = Token::What::request;
        descriptor = mr == nullptr ? nullptr : fi_mr_desc(mr.get());
    }
};

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
    std::uint8_t rma_answers = 0;    // to checks since a piece of a transfer was posted or done
};

}  // namespace na::ofi
