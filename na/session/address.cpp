// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/address.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <unistd.h>

#include "na/util/bytes.hpp"

namespace na::session {
namespace {

// First byte of an identity.
constexpr std::uint8_t kIpv4 = 4;
constexpr std::uint8_t kIpv6 = 6;
constexpr std::uint8_t kIpv6Scoped = 7;
constexpr std::uint8_t kText = 't';
constexpr std::uint8_t kNative = 'n';

constexpr std::size_t kMaxName = 64;

Error malformed() {
    return Error{Status::invalid_arg, "malformed address"};
}

}  // namespace

bool is_name(std::string_view text) noexcept {
    return !text.empty() && text.size() <= kMaxName && text.front() != '.' &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
           });
}

std::string fresh_name() {
    static std::atomic<std::uint32_t> next{0};
    return fmt::format("{}-{}", getpid(), next.fetch_add(1, std::memory_order_relaxed));
}

Address Address::of_ip(const util::IpEndpoint& ip) {
    Address a;
    a.naming_ = Naming::ip;
    a.ip_ = ip;
    std::byte bytes[32];
    util::ByteWriter w(bytes);
    const bool scoped = ip.address.v6 && ip.address.scope != 0;
    w.integer(scoped ? kIpv6Scoped : ip.address.v6 ? kIpv6 : kIpv4);
    w.integer(ip.port);
    w.bytes(ip.address.bytes.data(), ip.address.v6 ? 16 : 4);
    if (scoped) {
        w.integer(ip.address.scope);
    }
    a.identity_.assign(reinterpret_cast<const char*>(bytes), w.written());
    return a;
}

Address Address::of_bytes(Naming naming, std::string bytes) {
    Address a;
    a.naming_ = naming;
    a.identity_ = static_cast<char>(naming == Naming::text ? kText : kNative) + bytes;
    a.bytes_ = std::move(bytes);
    return a;
}

Result<Address> Address::parse(Naming naming, std::string_view text, AddressFormat format) {
    switch (naming) {
        case Naming::ip: {
            auto ip = util::resolve_endpoint(text, format);
            if (!ip) {
                return std::move(ip).error();
            }
            if (format != AddressFormat::unspec && format != AddressFormat::native &&
                format != ip->address.format()) {
                return Error{
                    Status::invalid_arg,
                    fmt::format("\"{}\" is an {} address, this class has {}: open one "
                                "with na_init_info.addr_format, or an info string, of "
                                "that kind",
                                text.substr(0, 2 * kMaxName), ip->address.v6 ? "IPv6" : "IPv4",
                                ip->address.v6 ? "IPv4" : "IPv6")};
            }
            return of_ip(*ip);
        }
        case Naming::text:
            if (!is_name(text)) {
                return Error{
                    Status::invalid_arg,
                    fmt::format("\"{}\" is no name: up to {} letters, digits, '-', '_' and '.'",
                                text.substr(0, 2 * kMaxName), kMaxName)};
            }
            return of_bytes(naming, std::string(text));
        case Naming::native:
            break;
    }
    std::string bytes;
    for (std::size_t i = 0; i + 1 < text.size() && bytes.size() < kMaxBytes; i += 2) {
        std::uint8_t byte = 0;
        const auto [stop, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
        if (error != std::errc{} || stop != text.data() + i + 2) {
            break;
        }
        bytes.push_back(static_cast<char>(byte));
    }
    if (bytes.empty() || bytes.size() * 2 != text.size() || bytes.size() >= kMaxBytes) {
        return Error{
            Status::invalid_arg,
            fmt::format("\"{}\" is no address: hexadecimal digits, as the peer prints its own",
                        text.substr(0, kMaxBytes))};
    }
    return of_bytes(naming, std::move(bytes));
}

std::string Address::text() const {
    switch (naming_) {
        case Naming::ip:
            return ip_.text();
        case Naming::text:
            return bytes_;
        case Naming::native:
            break;
    }
    std::string text;
    for (const char c : bytes_) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    }
    return text;
}

Result<Address> Address::decode(Naming naming, AddressFormat format,
                                std::span<const std::byte> identity) {
    if (identity.empty() || identity.size() > kMaxBytes) {
        return malformed();
    }
    util::ByteReader r(identity);
    const auto kind = r.integer<std::uint8_t>();
    if (naming != Naming::ip) {
        const auto bytes = r.bytes(r.left());
        std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (kind != (naming == Naming::text ? kText : kNative) || text.empty() ||
            (naming == Naming::text && !is_name(text))) {
            return malformed();
        }
        return of_bytes(naming, std::move(text));
    }
    util::IpEndpoint ip;
    ip.port = r.integer<std::uint16_t>();
    ip.address.v6 = kind != kIpv4;
    const auto bytes = r.bytes(ip.address.v6 ? 16 : 4);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(ip.address.bytes.data()));
    if (kind == kIpv6Scoped) {
        ip.address.scope = r.integer<std::uint32_t>();
    }
    const std::uint8_t top = ip.address.bytes[0];
    const bool multicast = ip.address.v6 ? top == 0xff : top >= 224;
    if (!r.good() || r.left() != 0 || (kind != kIpv4 && kind != kIpv6 && kind != kIpv6Scoped) ||
        ip.port == 0 || ip.address.is_any() || multicast ||
        (format != AddressFormat::unspec && format != AddressFormat::native &&
         format != ip.address.format()) ||
        (kind == kIpv6Scoped && ip.address.scope == 0)) {
        return malformed();
    }
    return of_ip(ip);
}

std::string_view Address::with_scope_of(const Address& one, std::string_view identity,
                                        std::span<char> room) noexcept {
    const std::string& other = one.identity();
    if (identity.size() != other.size() || identity.empty() ||
        static_cast<std::uint8_t>(identity.front()) != kIpv6Scoped ||
        other.front() != identity.front()) {
        return identity;
    }
    constexpr std::size_t kScope = sizeof(std::uint32_t);  // at the end
    identity.copy(room.data(), identity.size() - kScope);
    other.copy(room.data() + identity.size() - kScope, kScope, other.size() - kScope);
    return {room.data(), identity.size()};
}

Result<Address> Address::from_raw(Naming naming, const void* bytes, std::size_t size) {
    if (naming == Naming::ip) {
        sockaddr_storage storage{};
        std::memcpy(&storage, bytes, std::min(size, sizeof storage));
        const auto address = util::IpAddress::from(reinterpret_cast<const sockaddr*>(&storage));
        if (!address) {
            return Error{Status::protocol_error,
                         "the address that the transport reports is not of the expected kind"};
        }
        const std::uint16_t port = storage.ss_family == AF_INET6
                                       ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                       : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port;
        return of_ip({.address = *address, .port = ntohs(port)});
    }
    std::string text(static_cast<const char*>(bytes), size);
    if (naming == Naming::text) {
        text.resize(std::min(text.size(), std::strlen(text.c_str())));
    }
    return of_bytes(naming, std::move(text));
}

std::string Address::raw(std::uint8_t id) const {
    switch (naming_) {
        case Naming::ip: {
            sockaddr_storage storage{};
            const socklen_t size =
                ip_.address.fill(storage, static_cast<std::uint16_t>(ip_.port + id));
            return {reinterpret_cast<const char*>(&storage), size};
        }
        case Naming::text: {
            std::string text = id == 0 ? bytes_ : fmt::format("{}.{}", bytes_, id);
            text.push_back('\0');
            return text;
        }
        case Naming::native:
            break;
    }
    return bytes_;
}

}  // namespace na::session
