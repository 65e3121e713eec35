// SPDX-License-Identifier: BSD-3-Clause
// What a class counts. One set per transport of a context: written by handlers under that
// transport's lock (self RPCs: under their own), read by anybody.
#pragma once

#include <cstdint>

#include "na/counters.hpp"

namespace hg {

struct Counters {
    na::Counter requests_sent;
    na::Counter requests_received;
    na::Counter responses_sent;
    na::Counter responses_received;
    na::Counter requests_overflow;  // above the eager size, sent and received
    na::Counter responses_overflow;
    na::Counter malformed;  // messages that failed a check

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
        }
    };

    Values values() const noexcept {
        return {.requests_sent = requests_sent.get(),
                .requests_received = requests_received.get(),
                .responses_sent = responses_sent.get(),
                .responses_received = responses_received.get(),
                .requests_overflow = requests_overflow.get(),
                .responses_overflow = responses_overflow.get(),
                .malformed = malformed.get()};
    }
};

}  // namespace hg
