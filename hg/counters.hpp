// SPDX-License-Identifier: BSD-3-Clause
// What a class counts. One set per transport of a context: written by handlers under that
// transport's lock (self RPCs: under their own), read by anybody.
#pragma once

#include <cstdint>

#include "na/core/counters.hpp"

namespace hg {

struct Counters {
    na::Counter requests_sent;
    na::Counter requests_received;
    na::Counter responses_sent;
    na::Counter responses_received;
    na::Counter requests_overflow;  // above the eager size, sent and received
    na::Counter responses_overflow;
    na::Counter malformed;         // messages that failed a check
    na::Counter requests_refused;  // answered with `again`: too many at a time
    na::Counter more_refused;      // announce data that the program does not fetch

    struct Values {
        std::uint64_t requests_sent = 0;
        std::uint64_t requests_received = 0;
        std::uint64_t responses_sent = 0;
        std::uint64_t responses_received = 0;
        std::uint64_t requests_overflow = 0;
        std::uint64_t responses_overflow = 0;
        std::uint64_t malformed = 0;
        std::uint64_t requests_active = 0;  // received, and their handle is still alive
        std::uint64_t bulk_transfers = 0;
        std::uint64_t requests_refused = 0;  // too many at a time
        std::uint64_t requests_unanswered =
            0;  // refused for any reason, and the origin was not told
        std::uint64_t responses_given_up = 0;  // large ones that were not acknowledged
        std::uint64_t peers_stalled = 0;       // disconnected: they took no responses
        std::uint64_t overflow_refused = 0;    // large payloads: too many bytes at a time
        std::uint64_t bundles_sent = 0;        // messages that carry several
        std::uint64_t bundled_sent = 0;        // those that they carry
        std::uint64_t bundles_received = 0;
        std::uint64_t bundled_received = 0;

        void add(const Values& v) noexcept {
            requests_sent += v.requests_sent;
            requests_received += v.requests_received;
            responses_sent += v.responses_sent;
            responses_received += v.responses_received;
            requests_overflow += v.requests_overflow;
            responses_overflow += v.responses_overflow;
            malformed += v.malformed;
            requests_active += v.requests_active;
            bulk_transfers += v.bulk_transfers;
            requests_refused += v.requests_refused;
            requests_unanswered += v.requests_unanswered;
            responses_given_up += v.responses_given_up;
            peers_stalled += v.peers_stalled;
            overflow_refused += v.overflow_refused;
            bundles_sent += v.bundles_sent;
            bundled_sent += v.bundled_sent;
            bundles_received += v.bundles_received;
            bundled_received += v.bundled_received;
        }
    };

    Values values() const noexcept {
        return {.requests_sent = requests_sent.get(),
                .requests_received = requests_received.get(),
                .responses_sent = responses_sent.get(),
                .responses_received = responses_received.get(),
                .requests_overflow = requests_overflow.get(),
                .responses_overflow = responses_overflow.get(),
                .malformed = malformed.get(),
                .requests_refused = requests_refused.get()};
    }
};

}  // namespace hg
