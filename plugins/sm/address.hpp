// SPDX-License-Identifier: BSD-3-Clause
// Names of endpoints: made here, or what the user gave. The identity of a peer is its name.
//
// A name that is made here is "<pid>-<number>.<namespaces><token>", with 8 hexadecimal digits for
// each of the last two. A pid means one process only within its pid namespace, and abstract sockets
// are found only within their network namespace: `namespaces` tells those of the endpoint. `token`
// is random, because a later namespace may get the number of one that is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "na/result.hpp"
#include "plugins/sm/layout.hpp"

namespace na::sm {

inline constexpr std::size_t kMaxName = 80;  // bytes, so that every socket name fits sun_path
inline constexpr std::string_view kScheme = "sm://";

// Success, or invalid_arg with what is wrong: empty, too long, '/', blanks or control characters.
Result<std::string> check_name(std::string_view name);

// The owner that a name states: a name that is made here, or its first part, "<pid>-<number>".
struct Owner {
    pid_t process = 0;
    std::uint32_t namespaces = 0;  // 0: not stated

    // Whether the owner lives in the namespaces with that number, as far as both are known.
    bool lives_in(std::uint32_t here) const noexcept {
        return namespaces == 0 || here == 0 || namespaces == here;
    }
};
// Nothing: the name is a user's, and states no owner.
std::optional<Owner> owner_of(std::string_view name);

// Throws std::bad_alloc.
std::string make_name(const Owner& owner, std::uint32_t number, std::uint32_t token);

// The name out of "sm://<name>".
Result<std::string> parse_uri(std::string_view uri);

struct SocketName {
    sockaddr_un address{};
    socklen_t length = 0;
    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
};

// The abstract socket on which a context of the endpoint is met. Libraries of different layout
// versions do not meet.
SocketName socket_name(std::string_view name, std::uint8_t context,
                       std::uint32_t version = kLayoutVersion) noexcept;
// The one that is only bound, as long as the endpoint exists: it makes the name unique.
SocketName reservation_name(std::string_view name) noexcept;

}  // namespace na::sm
