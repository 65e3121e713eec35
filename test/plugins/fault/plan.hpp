// SPDX-License-Identifier: BSD-3-Clause
// What shall go wrong, as data: `fault+<class>+<protocol>?again=0.3&seed=7` names the transport and
// the plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "na/result.hpp"

namespace na::fault {

// Probabilities are per event, 0 to 1; every decision follows from the seed.
struct Plan {
    double again = 0;  // a post is answered `again`
    double fail = 0;   // a post fails with io_error, on the spot or later
    double drop = 0;   // a message is sent and never arrives
    double delay = 0;  // completions and arrivals are held back for a few progress calls, in order
    double spoil = 0;  // the last byte of what is longer than 1 KiB is another one where it arrives
    double deaf = 0;   // an expected message that has arrived is not taken, and asked for once more
    double late_cancel = 0;  // a cancel takes effect a few progress calls later
    std::uint64_t lose_peer_at =
        0;  // the peer of the Nth send or transfer of a context dies then; 0: never
    std::uint64_t seed = 1;
};

// The protocol of an info string, taken apart.
struct Target {
    std::string class_name;  // of the transport beneath
    std::string protocol;
    Plan plan;
};

// "<class>+<protocol>[?key=value[&key=value]...]". Errors: invalid_arg with what is wrong.
Result<Target> parse_target(std::string_view text);

// "<class>+<protocol>?...://address", or any part of the prefix: the address as the transport
// beneath knows it.
std::string inner_address(std::string_view uri);

}  // namespace na::fault
