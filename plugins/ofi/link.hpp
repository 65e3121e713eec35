// SPDX-License-Identifier: BSD-3-Clause
// What one context here has with one context of a peer.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "na/plugin.hpp"
#include "na/session/wire.hpp"
#include "na/util/fd.hpp"
#include "na/util/intrusive_list.hpp"
#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/peer.hpp"

namespace na::ofi {

using session::Card;
using session::Header;
using session::Kind;
using session::kMaxControl;

struct Transfer;

// Something that libfabric works on. Outlives the operation where that has ended otherwise: then
// `op` is null.
struct Request : Token {
    Op* op = nullptr;              // messages
    Transfer* transfer = nullptr;  // pieces of puts and gets
    Link* link = nullptr;
    std::byte* bounce = nullptr;  // its own buffer
    void* descriptor = nullptr;   // of the buffer
    std::uint64_t offset = 0;  // gets through the buffer: where in the operation the bytes belong
    std::size_t length = 0;
    bool bounced = false;
    fi_addr_t debtor = FI_ADDR_NOTAVAIL;  // whose place was left before it ended
    util::ListHook hook;
};

struct Link {
    enum class State : std::uint8_t { idle, greeting, up };

    // A message that the core had no room for.
    struct Held {
        std::uint32_t tag;
        std::size_t size;
        std::unique_ptr<std::byte[]> bytes;
    };

    // What is to be sent to the peer as soon as the provider takes it.
    enum Due : std::uint8_t {
        kHello = 1,
        kWelcome = 2,
        kConfirm = 4,
        kCheck = 8,
        kCredit = 16,
        kReset = 32,
        kBye = 64
    };

    Link(Address a, std::uint8_t t) : address(std::move(a)), target(t) {}

    const Address address;
    const std::uint8_t target;  // the peer's context
    State state = State::idle;
    std::uint8_t due = 0;
    bool self = false;
    bool holds_source = false;  // a reference from Sink::source()
    bool refused = false;       // the core did not want to know the peer: said once
    bool wants = false;         // a post was answered `again`
    bool doomed = false;        // to be ended in progress()
    bool dying = false;
    bool audited = false;  // asked for a sign of life, though nobody waits for it
    bool met = false;      // something came from it since the provider has its address
    Peer* peer = nullptr;  // null: nobody here refers to the peer
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    ino_t segment = 0;                     // Probe::process: that which `addr` is about
    std::size_t owed = 0;                  // requests with `addr` that a link left behind
    std::shared_ptr<Neighbour> neighbour;  // Naming::text, and the peer is in this process

    // Session.
    std::uint64_t out_cookie = 0;     // what the peer wants to see
    std::uint64_t in_cookie = 0;      // what it writes; key in the context's table while not 0
    std::uint64_t offer = 0;          // ours, while greeting
    std::uint64_t their_offer = 0;    // of a session that the peer began
    std::uint64_t welcome_offer = 0;  // to be answered
    std::uint64_t reset_cookie = 0;   // to be answered
    std::uint32_t max_message[kLanes] = {0, 0};  // that the peer takes
    std::uint16_t window = 0;
    std::uint16_t sent[kLanes] = {0, 0};
    std::uint16_t acked[kLanes] = {0, 0};  // of those sent
    std::uint16_t taken[kLanes] = {0, 0};  // of those received
    std::uint16_t told[kLanes] = {0, 0};   // of those taken
    std::deque<Held> held[kLanes];

    util::IntrusiveList<Request, &Request::hook> requests;  // with the provider

    // Liveness; steady clock, ns.
    std::uint32_t awaited = 0;       // expected receives that the core has posted for this peer
    std::uint8_t rma_answers = 0;    // to checks since a piece of a transfer was posted or done
    std::int64_t heard = 0;          // last message
    std::int64_t next_call = 0;      // hello or check
    std::int64_t absent_until = 0;   // nobody was there a moment ago
    std::int64_t call_interval = 0;  // between hellos
    std::int64_t blocked_since = 0;  // the provider answers "try again"; 0: it does not
    std::int64_t next_probe = 0;
    std::int64_t probe_end = 0;  // of the probe under way
    util::UniqueFd probe;        // Probe::tcp: a connection attempt
    bool answered = false;       // the last probe reached somebody
    util::UniqueFd process;      // Probe::process: the peer's

    util::ListHook work;     // something is to be done in the next progress()
    util::ListHook watched;  // the peer's death matters
    util::ListHook age;      // strangers: oldest first
    util::ListHook turn;     // those that were up: next to be audited first

    bool starved(std::size_t lane) const noexcept {
        return static_cast<std::uint16_t>(sent[lane] - acked[lane]) >= window;
    }
    bool holding() const noexcept { return !held[0].empty() || !held[1].empty(); }
};

}  // namespace na::ofi
