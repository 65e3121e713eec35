// SPDX-License-Identifier: BSD-3-Clause
// IP addresses as users write them, and the choice of the one that a process is reached at. For
// transports over IP.
//
// Host texts follow "://" in an info string: [domain/][host][:port | :first-last], where
// - host is an address ("192.0.2.1", "[fd00::1]", without a port "fd00::1" too), a name of this
//   machine, an interface ("eth0"), 0.0.0.0 or :: for all interfaces, or nothing: the machine's
//   best
// - domain is an interface, or a device of the fabric ("mlx5_0"): only its interfaces are
// candidates
// - port 0 or none is any that is free, a range the first that is free
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>

#include "na/plugin.hpp"
#include "na/result.hpp"

namespace na::util {

// An IPv4 or IPv6 address; equal if they mean the same place.
struct IpAddress {
    std::array<std::uint8_t, 16> bytes{};  // network order; IPv4: the first four
    std::uint32_t scope = 0;               // index of the interface, for link-local IPv6
    bool v6 = false;

    // Numbers only, IPv6 without brackets, "%interface" behind link-local ones. Nothing: not an
    // address.
    static std::optional<IpAddress> parse(std::string_view text);
    static std::optional<IpAddress> from(const sockaddr* address);
    // Without brackets.
    std::string text() const;
    // Returns the length.
    socklen_t fill(sockaddr_storage& out, std::uint16_t port) const;

    AddressFormat format() const noexcept { return v6 ? AddressFormat::ipv6 : AddressFormat::ipv4; }
    bool is_any() const noexcept;
    bool is_loopback() const noexcept;
    bool is_link_local() const noexcept;
    bool operator==(const IpAddress&) const = default;
};

struct IpEndpoint {
    IpAddress address;
    std::uint16_t port = 0;
    // "192.0.2.1:80", "[fd00::1]:80".
    std::string text() const;
    bool operator==(const IpEndpoint&) const = default;
};
// The address of a peer: numbers and a port from 1 on. Does not block. Errors: invalid_arg, nodev
// (no such interface behind '%').
Result<IpEndpoint> parse_endpoint(std::string_view text);
// The same, and names are looked up, which may block on the network. Errors: invalid_arg, nodev,
// addrnotavail (no such name, or no address of the wanted format).
Result<IpEndpoint> resolve_endpoint(std::string_view text,
                                    AddressFormat format = AddressFormat::unspec);

// The addresses of a name, at least one; may block on the network. Errors: addrnotavail.
Result<std::vector<IpAddress>> look_up(const std::string& name, AddressFormat format);

// Addresses that begin alike.
struct IpSubnet {
    IpAddress address;
    unsigned bits = 0;
    bool contains(const IpAddress& other) const noexcept;
};
// "192.0.2.0/24", "fd00::/64"; without bits one address, or 8 bits for each part of a short one
// ("10.1"). Errors: invalid_arg.
Result<IpSubnet> parse_subnet(std::string_view text);

struct PortRange {
    std::uint16_t first = 0;  // 0: any, last is 0 too
    std::uint16_t last = 0;
    bool is_any() const noexcept { return first == 0; }
    std::string text() const;
    bool operator==(const PortRange&) const = default;
};

// A host text, taken apart.
struct HostText {
    std::string domain;
    std::string host;  // without brackets
    PortRange ports;
};
// Errors: invalid_arg with what is wrong and the form, nodev with the interfaces that there are.
Result<HostText> parse_host(std::string_view text);

struct Interface {
    std::string name;
    bool up = false;
    bool loopback = false;
    bool overlay = false;  // a bridge, a tunnel or another link without a medium of its own
    std::uint32_t route = UINT32_MAX;  // metric of its default route; the largest: it has none
    unsigned distance = 0;             // see na/util/locality.hpp; smaller is closer
    std::vector<IpAddress> addresses;
};
// What the machine has, in its order, with distances where there is a choice. Errors: the system's.
Result<std::vector<Interface>> interfaces();
// "lo (127.0.0.1, ::1), eth0 (192.0.2.2), ib0 (down)" for messages.
std::string to_string(std::span<const Interface> interfaces);

// Where to listen, and what to tell peers.
struct IpChoice {
    IpAddress address;      // what peers are told; never 0.0.0.0 or ::
    std::string interface;  // that has it
    std::string domain;     // as the user wrote it; empty: not given
    bool any = false;       // listen on all interfaces: bind to bind_address()
    // The loopback was taken for want of better, on a machine that has a link to others.
    bool cut_off = false;
    PortRange ports;
    IpAddress bind_address() const noexcept;
};
// Chooses by host text, address format (native: no preference), subnet ("": any). What the user
// names is taken or refused, never replaced; where there is a choice: with a carrier
// before without, other machines' reach before link-local before loopback, default route (of the
// least metric) before none, others before bridges and tunnels, near before far, IPv4 before IPv6.
// Looks up names (/etc/hosts, DNS); the machine's own means its best address, where it has no
// address of the kind, too. Errors say what was asked and what there is: invalid_arg (malformed,
// contradiction), nodev (no such interface), addrnotavail (address or name of another machine).
Result<IpChoice> choose_address(std::string_view host, AddressFormat format,
                                std::string_view subnet, std::span<const Interface> interfaces);
// On this machine. Logs an error where the choice is cut off.
Result<IpChoice> choose_address(const plugin::OpenSpec& spec);

// Why this host sends nothing from an address (any: of its choice) to `to`, as a number of errno:
// no route, a link that is down, a loopback address towards another host. 0: it would send, or that
// cannot be told. Looks the route up and sends nothing, so that the answer says nothing about who
// is at `to`. By any thread.
int no_way(const IpAddress& from, const IpEndpoint& to) noexcept;
inline bool may_send(const IpAddress& from, const IpEndpoint& to) noexcept {
    return no_way(from, to) != EINVAL;  // the wrong scope, and not only a missing route
}

// The code of a peer that is not reached: addrnotavail where the cause is in this host, else
// hostunreach, which membership services take for a death.
inline Status status_unreached(const IpAddress& from, const IpEndpoint& to) noexcept {
    return no_way(from, to) != 0 ? Status::addrnotavail : Status::hostunreach;
}

// Where the system has refused to let us listen at `port`: why, and what to do, as the end of a
// message; empty: it keeps that port for nobody.
std::string why_refused(std::uint16_t port);

// Calls bind(port), which answers a Result, for the ports of a range in order until one is not in
// use; with 0 once where any will do. All in use: addrinuse with the range.
template <typename Bind>
auto bind_in_range(const PortRange& ports, Bind&& bind) -> decltype(bind(std::uint16_t{})) {
    for (std::uint32_t port = ports.first; port < ports.last; ++port) {
        auto bound = bind(static_cast<std::uint16_t>(port));
        if (bound || bound.status() != Status::addrinuse) {
            return bound;
        }
    }
    auto bound = bind(ports.last);
    if (!bound && bound.status() == Status::addrinuse && ports.first != ports.last) {
        return Error{Status::addrinuse,
                     fmt::format("every port from {} to {} is in use: {}", ports.first, ports.last,
                                 bound.error().message)};
    }
    return bound;
}

}  // namespace na::util
