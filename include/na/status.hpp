// SPDX-License-Identifier: BSD-3-Clause
// The result codes of every layer. Values equal na_return_t and hg_return_t, so that a shell maps by a cast.
#pragma once

#include <cstdint>

namespace na {

enum class [[nodiscard]] Status : std::uint8_t {
    success,
    permission,
    noentry,
    interrupt,
    again,
    nomem,
    access,
    fault,
    busy,
    exist,
    nodev,
    invalid_arg,
    protocol_error,
    overflow,
    msgsize,
    protonosupport,
    opnotsupported,
    addrinuse,
    addrnotavail,
    hostunreach,
    timeout,
    canceled,
    io_error,
    hostfirewall,
    // hg only
    checksum_error,
    na_error,
    other_error,
};

// The enumerator in words ("peer unreachable"), for messages; never null.
const char* to_string(Status status) noexcept;

// The Status that fits an errno value best; io_error where none does.
Status status_of_errno(int error) noexcept;

inline bool ok(Status status) noexcept { return status == Status::success; }

}  // namespace na
