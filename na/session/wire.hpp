// SPDX-License-Identifier: BSD-3-Clause
// What travels in front of every message, and the messages that the engine sends itself.
//
// A session joins one context here with one of a peer. Each side gives the other a *cookie*, a
// number that only somebody who receives at the address that he claims can know; a message carries
// the cookie that its receiver gave, and is thereby from whom it claims to be. Nothing depends on
// the transport telling sources.
//
//   A                                         B
//   hello   {offer, card of A}           ->        B stores nothing but where to send the answer
//           <-  welcome {to: offer; cookie, stamp} cookie = keyed hash of (A, offer, stamp): proves
//                                                  that A received this
//           <-  full {to: offer}                   instead: B has no descriptor for a newcomer
//   confirm {to: cookie; offer, stamp, card} ->    B checks the hash: the session is there, B may
//   data    {to: cookie} ...             ->        send to `offer`
//
// The stamp is the time of the welcome, by B's clock: a confirmation is good for a while only, and
// not against a session that has begun since. So who had an address cannot speak for who has it
// now.
//
// Which contexts a class has changes during a session: `ask`, with a number, is answered by `news`,
// which repeats it. Both go to the cookie of the session.
//
// Flow control: each side counts per lane what it took (handed to the core), modulo 2^16, and tells
// it in every header; at most a window of messages is under way. That bounds what a receiver has to
// keep.
//
// It tells likewise what it had sent before. Who hears of more than has come misses something: the
// connection beneath broke, and was made anew, without a word to anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "na/plugin.hpp"
#include "na/session/contexts.hpp"
#include "na/util/bytes.hpp"

namespace na::session {

inline constexpr std::uint8_t kWireVersion = 4;

enum class Kind : std::uint8_t {
    unexpected,  // data, as Lane
    expected,
    hello,    // cookie: none;      card, offer
    welcome,  // cookie: the offer; card, cookie for the newcomer
    confirm,  // cookie: the new one; card, offer
    check,    // "do you know me still?"; card. Answered by `credit`, or by `reset`
    credit,   // counts only
    reset,    // "I know no such cookie"; card, the cookie in question
    bye,      // the context closes
    ask,      // "which contexts have you?"; card, a number. Answered by `news`, or by `reset`
    news,     // card, the number that was asked with
    full,     // cookie: the offer of a hello; no descriptor is left for this newcomer
};
inline constexpr Kind kLastKind = Kind::full;
// Who sends it, behind the header.
// The stamp of a reset whose first count of messages sent is that of the first unexpected message
// of that session that did not arrive; none did after it.
inline constexpr std::uint32_t kTells = 1;

constexpr bool has_card(Kind kind) noexcept {
    return kind > Kind::expected && kind != Kind::credit && kind != Kind::bye && kind != Kind::full;
}
constexpr const char* to_string(Kind kind) noexcept {
    constexpr const char* kNames[] = {"unexpected", "expected", "hello",  "welcome",
                                      "confirm",    "check",    "credit", "reset",
                                      "bye",        "ask",      "news",   "full"};
    return kNames[static_cast<std::size_t>(kind)];
}

struct Header {
    static constexpr std::size_t kSize = 24;

    std::uint64_t cookie = 0;
    std::uint32_t tag = 0;  // of data; of welcome and confirm the stamp
    std::uint8_t version = kWireVersion;
    Kind kind = Kind::unexpected;
    std::uint8_t target = 0;  // context of the receiver
    std::uint16_t taken[kLanes] = {0, 0};
    std::uint16_t sent[kLanes] = {0, 0};  // before this one

    void write(std::byte* out) const noexcept {
        util::ByteWriter w({out, kSize});
        w.integer(cookie);
        w.integer(tag);
        w.integer(version);
        w.integer(static_cast<std::uint8_t>(kind));
        w.integer(target);
        w.integer(std::uint8_t{0});
        w.integer(taken[0]);
        w.integer(taken[1]);
        w.integer(sent[0]);
        w.integer(sent[1]);
    }
    // False: not one of ours.
    bool read(std::span<const std::byte> in) noexcept {
        if (in.size() < kSize) {
            return false;
        }
        util::ByteReader r(in.first(kSize));  // of a size that is known: nothing else is looked at
        cookie = r.integer<std::uint64_t>();
        tag = r.integer<std::uint32_t>();
        version = r.integer<std::uint8_t>();
        const auto k = r.integer<std::uint8_t>();
        target = r.integer<std::uint8_t>();
        const auto zero = r.integer<std::uint8_t>();
        taken[0] = r.integer<std::uint16_t>();
        taken[1] = r.integer<std::uint16_t>();
        sent[0] = r.integer<std::uint16_t>();
        sent[1] = r.integer<std::uint16_t>();
        kind = static_cast<Kind>(k);
        return r.good() && version == kWireVersion && k <= static_cast<std::uint8_t>(kLastKind) &&
               zero == 0;
    }
};

// What follows the header where has_card(): who sends it.
struct Card {
    std::uint64_t number = 0;                // offer, cookie; of ask and news
    std::uint32_t max_message[kLanes] = {};  // that the sender takes
    std::uint16_t window = 0;                // messages per lane that it keeps
    std::uint8_t context = 0;
    Contexts contexts;  // of the sender's class
    std::string_view identity;

    static constexpr std::size_t kMaxSize = 37 + ContextSet::kMaxBytes + 255;

    std::size_t write(std::span<std::byte> out) const noexcept {
        util::ByteWriter w(out);
        w.integer(number);
        w.integer(max_message[0]);
        w.integer(max_message[1]);
        w.integer(window);
        w.integer(context);
        w.integer(contexts.life);
        w.integer(contexts.edition);
        const std::span<const std::uint8_t> set = contexts.open.bytes();
        w.integer(static_cast<std::uint8_t>(set.size()));
        w.bytes(set.data(), set.size());
        w.integer(static_cast<std::uint8_t>(identity.size()));
        w.bytes(identity);
        return w.written();
    }
    bool read(std::span<const std::byte> in) noexcept {
        util::ByteReader r(in);
        number = r.integer<std::uint64_t>();
        max_message[0] = r.integer<std::uint32_t>();
        max_message[1] = r.integer<std::uint32_t>();
        window = r.integer<std::uint16_t>();
        context = r.integer<std::uint8_t>();
        contexts.life = r.integer<std::uint64_t>();
        contexts.edition = r.integer<std::uint64_t>();
        const bool is_set = contexts.open.read(r.bytes(r.integer<std::uint8_t>()));
        const auto bytes = r.bytes(r.integer<std::uint8_t>());
        identity = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
        return r.good() && r.left() == 0 && is_set && !identity.empty() && window != 0 &&
               contexts.open.has(context);
    }
};

inline constexpr std::size_t kMaxControl = Header::kSize + Card::kMaxSize;

}  // namespace na::session
