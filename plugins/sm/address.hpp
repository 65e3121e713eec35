// SPDX-License-Identifier: BSD-3-Clause
// Names of endpoints: "<pid>-<number>", or what the user gave. The identity of a peer is its name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "na/result.hpp"

namespace na::sm {

inline constexpr std::size_t kMaxName = 80;  // bytes, so that every socket name fits sun_path
inline constexpr std::string_view kScheme = "sm://";

// Success, or invalid_arg with what is wrong: empty, too long, '/', blanks or control characters.
Result<std::string> check_name(std::string_view name);

// The process that a name of the form "<pid>-<number>" belongs to.
std::optional<pid_t> process_of(std::string_view name);

// The name out of "sm://<name>".
Result<std::string> parse_uri(std::string_view uri);

struct SocketName {
    sockaddr_un address{};
    socklen_t length = 0;
    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
};

// The abstract socket on which a context of the endpoint is met.
SocketName socket_name(std::string_view name, std::uint8_t context) noexcept;
// The one that is only bound, as long as the endpoint exists: it makes the name unique.
SocketName reservation_name(std::string_view name) noexcept;

}  // namespace na::sm
