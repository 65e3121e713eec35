// SPDX-License-Identifier: BSD-3-Clause
// What one context here has with one context of a peer. Transports derive from it what they need to
// reach the peer; what is here is the engine's, but for what says otherwise.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "na/plugin.hpp"
#include "na/session/address.hpp"
#include "na/session/peer.hpp"
#include "na/session/request.hpp"
#include "na/util/fd.hpp"
#include "na/util/intrusive_list.hpp"
#include "na/util/spell.hpp"

namespace na::session {

// Of the time that a peer is given (liveness.cpp), how much counts between two looks.
inline constexpr std::int64_t kLastWordsStep = 25'000'000;  // ns
inline constexpr std::int64_t kOutageStep = 2'500'000'000;
inline constexpr std::int64_t kProbe = 1'000'000'000;  // ns, between probes: the least

struct Link {
    enum class State : std::uint8_t { idle, greeting, up };

    // A message that the core had no room for.
    struct Held {
        std::uint32_t tag;
        std::size_t size;
        std::unique_ptr<std::byte[]> bytes;
    };

    // What is to be sent to the peer as soon as the transport takes it.
    enum Due : std::uint16_t {
        kHello = 1,
        kWelcome = 2,
        kConfirm = 4,
        kCheck = 8,
        kCredit = 16,
        kReset = 32,
        kBye = 64,
        kAsk = 128,
        kNews = 256,
        kFull = 512
    };

    Link(Address a, std::uint8_t t) : address(std::move(a)), target(t) {}
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    virtual ~Link() = default;

    const Address address;
    const std::uint8_t target;  // the peer's context
    // What the peer calls itself where that is not `address`: it listens at several.
    std::string alias;
    const std::string& identity() const noexcept {
        return alias.empty() ? address.identity() : alias;
    }
    State state = State::idle;
    std::uint16_t due = 0;
    bool self = false;
    bool holds_source = false;          // a reference from Sink::source()
    bool refused = false;               // the core did not want to know the peer: said once
    bool wants = false;                 // a post was answered `again` since the last look
    bool doomed = false;                // to be ended in progress()
    Status fate = Status::hostunreach;  // with that code
    bool ousted = false;                // doomed by the core: the peer is told
    bool fading = false;    // nothing gets to it any more, but what it has said may still come
    bool said_bye = false;  // this context closed, which says nothing of others
    bool parting = false;   // it has said goodbye, and what it had said before waits for room
    bool audited = false;   // asked for a sign of life, though nobody waits for it
    // It has greeted, or answered, since the transport has a way to it. Engine::leave() makes it
    // false.
    bool met = false;
    Peer* peer = nullptr;  // null: nobody here refers to the peer

    // Session.
    std::uint64_t out_cookie = 0;     // what the peer wants to see
    std::uint64_t in_cookie = 0;      // what it writes; key in the context's table while not 0
    std::uint64_t offer = 0;          // ours, while greeting
    std::uint32_t stamp = 0;          // of the welcome, to be repeated
    std::int64_t begun = 0;           // when the last session began; now_us()
    bool anew = false;                // while greeting: over a second way
    bool gave_way = false;            // while greeting: to the peer's greeting, once
    std::uint64_t their_offer = 0;    // of a session that the peer began
    std::uint64_t welcome_offer = 0;  // to be answered
    std::uint64_t reset_cookie = 0;   // to be answered
    bool reset_tells = false;         // with it: from which message on they did not arrive
    std::uint16_t reset_first = 0;
    std::uint32_t max_message[kLanes] = {0, 0};  // that the peer takes
    std::uint16_t window = 0;
    std::uint16_t sent[kLanes] = {0, 0};
    std::uint16_t acked[kLanes] = {0, 0};  // of those sent
    std::uint16_t taken[kLanes] = {0, 0};  // of those received
    std::uint16_t told[kLanes] = {0, 0};   // of those taken
    std::uint16_t arrived[kLanes] = {0, 0};
    // Of those that the peer says to have sent, how many have not arrived; 0 where the transport is
    // trusted (Traits::overtaking). What has come late is not lost: the fewest since `missed`.
    std::int16_t missing[kLanes] = {0, 0};
    util::Spell missed[kLanes] = {util::Spell(kLastWordsStep), util::Spell(kLastWordsStep)};
    std::deque<Held> held[kLanes];
    std::size_t left_over[kLanes] = {0, 0};  // of those held, the first: of sessions that ended

    // Whether the peer has this context at all is asked over its other links (ask.cpp).
    const Op* asker = nullptr;      // while idle: the post that waits for the answer
    bool denied = false;            // that was it: it has not
    bool inquires = false;          // greeting for such a question only
    bool bereaved = false;          // while greeting: the last other session with the peer was lost
    bool refuted = false;           // while idle: the greeting ended so, and posts ask anew
    std::uint64_t asked = 0;        // answers from that number on count; 0: none is awaited
    std::int64_t asked_at = 0;      // when the asker came, or the greeting began; now_ns()
    std::int64_t next_ask = 0;      // now_ns()
    std::uint64_t news_number = 0;  // to be answered

    // With the library: those with an operation are the engine's, others the transport's.
    util::IntrusiveList<Request, &Request::hook> requests;
    std::size_t request_count = 0;  // of those

    // Liveness; now_ns().
    std::uint32_t awaited = 0;       // expected receives that the core has posted for this peer
    std::int64_t heard = 0;          // last message; 0: since the last look
    std::int64_t next_call = 0;      // hello or check
    std::int64_t met_at = 0;         // a stranger: when it first was heard of
    std::int64_t call_interval = 0;  // between hellos
    std::int64_t blocked_since = 0;  // the transport does not get through; 0: it does
    std::int64_t retry_at = 0;       // it is not worth a try before that; 0: at any time
    std::int64_t short_since = 0;    // this process has no descriptor for a way to it; 0: it has
    std::int64_t next_probe = 0;
    std::int64_t probe_begun = 0;        // the last
    std::int64_t probe_interval = 0;     // 0: the least
    std::int64_t probe_end = 0;          // of the probe under way
    util::Spell no_way{kOutageStep};     // probes find no way there
    util::Spell vacant{kLastWordsStep};  // nobody is there, by a probe, or (fading) by the library
    util::UniqueFd probe;      // Traits::port_is_tcp: a connection to see whether somebody is there
    bool probe_holds = false;  // it has reached somebody, and stays as long as he does
    std::int64_t probe_look = 0;  // at one that holds: the next
    bool answered = false;        // the last probe reached somebody
    bool hurried = false;  // one that had just reached somebody ended, and the next came at once

    util::ListHook work;       // something is to be done in the next progress()
    util::ListHook watched;    // the peer's death matters
    util::ListHook age;        // strangers: oldest first
    util::ListHook departing;  // nobody is there any more; what was said last is still read
    util::ListHook turn;       // those that were up: next to be audited first
    util::ListHook dying;  // nothing refers to it: to be deleted when no caller uses it any more

    bool starved(std::size_t lane) const noexcept {
        return static_cast<std::uint16_t>(sent[lane] - acked[lane]) >= window;
    }
    // Messages that the peer is not known to have taken.
    std::size_t unanswered() const noexcept {
        std::size_t sum = 0;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            sum += static_cast<std::uint16_t>(sent[lane] - acked[lane]);
        }
        return sum;
    }
    // What is handed over without an operation cannot be counted while the transport has it. So a
    // peer that does not answer gets little that way: more than a busy one is behind by, as what
    // goes otherwise takes 3% longer (docs/ofi.md).
    static constexpr std::size_t kTrusted = 96;
    bool trusted() const noexcept { return unanswered() < kTrusted; }
    void end_probe() noexcept {
        probe.reset();
        probe_holds = false;
    }
    // They have become rarer in a silence that is over.
    void probe_anew() noexcept {
        if (probe_interval != 0) {
            probe_interval = 0;
            next_probe = probe_begun + kProbe;
        }
    }
    void forget_counts(std::size_t lane) noexcept {
        sent[lane] = acked[lane] = taken[lane] = told[lane] = arrived[lane] = 0;
        missing[lane] = 0;
    }
    bool misses() const noexcept { return (missing[0] | missing[1]) != 0; }
    bool holding() const noexcept { return !held[0].empty() || !held[1].empty(); }
};

}  // namespace na::session
