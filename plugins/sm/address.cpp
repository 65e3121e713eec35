// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/address.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace na::sm {
namespace {

// The trailing part keeps names of contexts apart: names have no '/'.
SocketName make(std::string_view name, const char* part, std::uint32_t version) noexcept {
    SocketName made;
    made.address.sun_family = AF_UNIX;
    char text[sizeof made.address.sun_path + 1];
    const int wanted =
        std::snprintf(text, sizeof text, "cinnabar/sm/%u/%.*s/%s", unsigned{version},
                      static_cast<int>(std::min(name.size(), sizeof text)), name.data(), part);
    const std::size_t n =
        std::min(static_cast<std::size_t>(std::max(wanted, 0)), sizeof made.address.sun_path - 1);
    std::memcpy(made.address.sun_path + 1, text, n);
    made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
    return made;
}

constexpr std::size_t kLongestSocketName =
    std::string_view("cinnabar/sm/4294967295//255").size() + kMaxName;
static_assert(kLongestSocketName + 1 <= sizeof(sockaddr_un::sun_path));

constexpr std::size_t kHexDigits = 8;

template <typename T>
bool parse(std::string_view text, T& value, int base = 10) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return error == std::errc{} && stop == text.data() + text.size() && !text.empty() &&
           text[0] != '-';
}

}  // namespace

Result<std::string> check_name(std::string_view name) {
    if (name.empty()) {
        return Error{Status::invalid_arg,
                     "the sm address is empty: expected sm://<pid>-<number> or sm://<name>"};
    }
    if (name.size() > kMaxName) {
        return Error{
            Status::invalid_arg,
            fmt::format("the sm name is {} bytes long: {} is the limit", name.size(), kMaxName)};
    }
    const auto bad = std::find_if(name.begin(), name.end(), [](char c) {
        return c == '/' || static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    });
    if (bad != name.end()) {
        return Error{
            Status::invalid_arg,
            fmt::format("byte {:#04x} at offset {} of the sm name: slashes, blanks and control "
                        "characters are not allowed",
                        static_cast<unsigned char>(*bad), bad - name.begin())};
    }
    return std::string(name);
}

std::optional<Owner> owner_of(std::string_view name) {
    const std::size_t dash = name.find('-');
    const std::size_t dot = name.find('.');
    Owner owner;
    std::uint32_t number = 0;
    if (dash == std::string_view::npos || !parse(name.substr(0, dash), owner.process) ||
        owner.process <= 0 || !parse(name.substr(dash + 1, dot - dash - 1), number)) {
        return std::nullopt;
    }
    if (dot != std::string_view::npos) {
        const std::string_view rest = name.substr(dot + 1);
        std::uint32_t token = 0;
        if (rest.size() != 2 * kHexDigits ||
            !parse(rest.substr(0, kHexDigits), owner.namespaces, 16) ||
            !parse(rest.substr(kHexDigits), token, 16)) {
            return std::nullopt;
        }
    }
    return owner;
}

std::string make_name(const Owner& owner, std::uint32_t number, std::uint32_t token) {
    return fmt::format("{}-{}.{:08x}{:08x}", owner.process, number, owner.namespaces, token);
}

Result<std::string> parse_uri(std::string_view uri) {
    if (!uri.starts_with(kScheme)) {
        return Error{
            Status::invalid_arg,
            fmt::format("\"{}\" is no sm address: expected sm://<pid>-<number> or sm://<name>",
                        uri.substr(0, 2 * kMaxName))};
    }
    return check_name(uri.substr(kScheme.size()));
}

SocketName socket_name(std::string_view name, std::uint8_t context,
                       std::uint32_t version) noexcept {
    char part[4] = "";
    std::to_chars(part, part + sizeof part - 1, context);
    return make(name, part, version);
}

SocketName reservation_name(std::string_view name) noexcept {
    return make(name, "-", kLayoutVersion);
}

}  // namespace na::sm
