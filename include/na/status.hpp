// SPDX-License-Identifier: BSD-3-Clause
// The result codes of every layer. Values equal na_return_t and hg_return_t, so that a shell maps
// by a cast.
#pragma once

#include "na/detail/standard.hpp"

#include <cstdint>

namespace na {

// How something ended.
enum class [[nodiscard]] Status : std::uint8_t{
    success,
    permission,      // not allowed: memory that may not be read, or not be written
    noentry,         // what was named is not there
    interrupt,       // interrupted
    again,           // resources are short now; later it may work
    nomem,           // out of memory, or at a limit
    access,          // the system denies access
    fault,           // memory that is not there
    busy,            // in use
    exist,           // is there already
    nodev,           // no such interface or device
    invalid_arg,     // malformed, or at odds with something else
    protocol_error,  // the peer sent what makes no sense
    overflow,        // does not fit
    msgsize,         // longer than its receiver takes
    protonosupport,  // no such transport here
    opnotsupported,  // the transport cannot do that
    addrinuse,       // the address or port is taken
    addrnotavail,    // no such address here
    hostunreach,     // the peer died, closed, or was never there
    timeout,         // it took too long
    canceled,        // by cancel(), or because something closed
    io_error,        // the system or the fabric failed
    hostfirewall,    // the way to the peer is closed
    // hg only
    checksum_error,  // the payload is not what was sent
    na_error,        // the network layer failed
    other_error,     // an application's own
};

// The enumerator in words ("peer unreachable"), for messages; never null.
const char* to_string(Status status) noexcept;

// The Status that fits an errno value best; io_error where none does.
Status status_of_errno(int error) noexcept;

// Whether it is success.
inline bool ok(Status status) noexcept {
    return status == Status::success;
}

}  // namespace na
