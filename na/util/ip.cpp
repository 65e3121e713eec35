// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/ip.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/ioctl.h>

#include "na/util/fd.hpp"

namespace na::util {
namespace {

constexpr std::size_t kMaxName = 255;  // of a host, by RFC 1035
constexpr std::string_view kForm =
    "the form is [domain/][host][:port], as in 192.0.2.1:80, [fd00::1]:80, eth0:2000-2010 or "
    "mlx5_0/ib0";

Error malformed(std::string_view text, std::string_view what) {
    return Error{Status::invalid_arg,
                 fmt::format("\"{}\": {}; {}", text.substr(0, 128), what, kForm)};
}

std::optional<unsigned> number(std::string_view text, unsigned most) {
    unsigned n = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || stop != text.data() + text.size() || n > most) {
        return std::nullopt;
    }
    return n;
}

// The index behind '%': a number or the name of an interface.
std::optional<std::uint32_t> parse_scope(std::string_view text) {
    if (const auto n = number(text, UINT32_MAX)) {
        return n;
    }
    const unsigned index = if_nametoindex(std::string(text).c_str());
    return index == 0 ? std::nullopt : std::optional<std::uint32_t>(index);
}

// Why a text with ':' is no IPv6 address: often what is behind its '%'.
Error no_ipv6(std::string_view whole, std::string_view text, std::string_view otherwise) {
    const std::string number(text.substr(0, text.find('%')));
    const auto address = IpAddress::parse(number);
    if (!address || !address->v6 || number.size() == text.size()) {
        return malformed(whole, otherwise);
    }
    const std::string_view name = text.substr(number.size() + 1);
    if (name.empty()) {
        return malformed(whole, "an interface follows the '%'");
    }
    if (!address->is_link_local()) {
        return malformed(whole, fmt::format("{} is behind no interface: only link-local addresses, "
                                            "fe80::/10, have a '%' and one",
                                            number));
    }
    const auto all = interfaces();
    return Error{Status::nodev,
                 fmt::format("\"{}\": there is no interface \"{}\"; this machine has {}",
                             whole.substr(0, 128), name.substr(0, 128),
                             all ? to_string(*all) : all.error().message)};
}

Result<PortRange> parse_ports(std::string_view whole, std::string_view text) {
    const std::size_t dash = text.find('-');
    const auto first = number(text.substr(0, dash), UINT16_MAX);
    const auto last =
        dash == std::string_view::npos ? first : number(text.substr(dash + 1), UINT16_MAX);
    if (!first || !last) {
        return malformed(whole,
                         fmt::format("\"{}\" is neither a port (0 to 65535) nor a range", text));
    }
    if (*first > *last || (*first == 0 && *last != 0)) {
        return malformed(whole, fmt::format("the range of ports {} is empty or begins at 0", text));
    }
    return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    IpAddress a;
    std::string number(text.substr(0, text.find('%')));
    if (inet_pton(AF_INET, number.c_str(), a.bytes.data()) == 1) {
        return number.size() == text.size() ? std::optional(a) : std::nullopt;
    }
    if (inet_pton(AF_INET6, number.c_str(), a.bytes.data()) != 1) {
        return std::nullopt;
    }
    a.v6 = true;
    if (number.size() != text.size()) {
        const auto scope = parse_scope(text.substr(number.size() + 1));
        if (!scope || !a.is_link_local()) {
            return std::nullopt;
        }
        a.scope = *scope;
    }
    return a;
}

std::optional<IpAddress> IpAddress::from(const sockaddr* address) {
    IpAddress a;
    if (address == nullptr) {
        return std::nullopt;
    }
    if (address->sa_family == AF_INET) {
        sockaddr_in in;
        std::memcpy(&in, address, sizeof in);
        std::memcpy(a.bytes.data(), &in.sin_addr, sizeof in.sin_addr);
        return a;
    }
    if (address->sa_family == AF_INET6) {
        sockaddr_in6 in;
        std::memcpy(&in, address, sizeof in);
        std::memcpy(a.bytes.data(), &in.sin6_addr, sizeof in.sin6_addr);
        a.v6 = true;
        a.scope = a.is_link_local() ? in.sin6_scope_id : 0;
        return a;
    }
    return std::nullopt;
}

std::string IpAddress::text() const {
    char out[INET6_ADDRSTRLEN];
    inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), out, sizeof out);
    if (scope == 0) {
        return out;
    }
    char name[IF_NAMESIZE];
    return if_indextoname(scope, name) != nullptr ? fmt::format("{}%{}", out, name)
                                                  : fmt::format("{}%{}", out, scope);
}

socklen_t IpAddress::fill(sockaddr_storage& out, std::uint16_t port) const {
    std::memset(&out, 0, sizeof out);
    if (v6) {
        sockaddr_in6 in{};
        in.sin6_family = AF_INET6;
        in.sin6_port = htons(port);
        in.sin6_scope_id = scope;
        std::memcpy(&in.sin6_addr, bytes.data(), sizeof in.sin6_addr);
        std::memcpy(&out, &in, sizeof in);
        return sizeof in;
    }
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, bytes.data(), sizeof in.sin_addr);
    std::memcpy(&out, &in, sizeof in);
    return sizeof in;
}

bool IpAddress::is_any() const noexcept {
    return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}

bool IpAddress::is_loopback() const noexcept {
    if (!v6) {
        return bytes[0] == 127;
    }
    return bytes[15] == 1 &&
           std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t b) { return b == 0; });
}

bool IpAddress::is_link_local() const noexcept {
    return v6 ? bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80 : bytes[0] == 169 && bytes[1] == 254;
}

std::string IpEndpoint::text() const {
    return address.v6 ? fmt::format("[{}]:{}", address.text(), port)
                      : fmt::format("{}:{}", address.text(), port);
}

Result<HostText> parse_host(std::string_view text) {
    HostText out;
    std::string_view rest = text;
    if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
        out.domain = rest.substr(0, slash);
        rest.remove_prefix(slash + 1);
        if (out.domain.empty() || rest.find('/') != std::string_view::npos) {
            return malformed(text,
                             "one '/' divides a domain from a host, and neither begins the text");
        }
    }
    std::string_view ports;
    if (rest.starts_with('[')) {
        const std::size_t end = rest.find(']');
        if (end == std::string_view::npos) {
            return malformed(text, "no ']' after the '['");
        }
        out.host = rest.substr(1, end - 1);
        const auto address = IpAddress::parse(out.host);
        if (!address || !address->v6) {
            return no_ipv6(text, out.host, fmt::format("\"{}\" is no IPv6 address", out.host));
        }
        ports = rest.substr(end + 1);
        if (!ports.empty() && !ports.starts_with(':')) {
            return malformed(text, "only a ':' and a port may follow the ']'");
        }
    } else if (std::count(rest.begin(), rest.end(), ':') > 1) {
        out.host = rest;
        if (!IpAddress::parse(rest)) {
            return no_ipv6(text, rest,
                           "several ':' but no IPv6 address; with a port it goes into brackets");
        }
    } else {
        const std::size_t colon = std::min(rest.find(':'), rest.size());
        out.host = rest.substr(0, colon);
        ports = rest.substr(colon);
    }
    if (out.host.size() > kMaxName || out.domain.size() > kMaxName) {
        return malformed(text, fmt::format("a name of more than {} characters", kMaxName));
    }
    if (!ports.empty()) {
        auto range = parse_ports(text, ports.substr(1));
        if (!range) {
            return std::move(range).error();
        }
        out.ports = *range;
    }
    return out;
}

namespace {

// The parts of a peer's address, its port checked.
Result<HostText> parse_peer(std::string_view text) {
    auto parts = parse_host(text);
    if (!parts) {
        return parts;
    }
    if (!parts->domain.empty() || parts->host.empty() || parts->ports.is_any() ||
        parts->ports.first != parts->ports.last) {
        return malformed(text, "a peer is a host and one port");
    }
    return parts;
}

}  // namespace

Result<IpEndpoint> parse_endpoint(std::string_view text) {
    auto parts = parse_peer(text);
    if (!parts) {
        return std::move(parts).error();
    }
    const auto address = IpAddress::parse(parts->host);
    if (!address || address->is_any()) {
        return malformed(text, fmt::format("\"{}\" is not the address of a peer", parts->host));
    }
    return IpEndpoint{*address, parts->ports.first};
}

Result<IpEndpoint> resolve_endpoint(std::string_view text, AddressFormat format) {
    auto parts = parse_peer(text);
    if (!parts) {
        return std::move(parts).error();
    }
    if (IpAddress::parse(parts->host)) {
        return parse_endpoint(text);
    }
    auto addresses = look_up(parts->host, format);
    if (!addresses) {
        return std::move(addresses).error();
    }
    return IpEndpoint{addresses->front(), parts->ports.first};
}

Result<std::vector<IpAddress>> look_up(const std::string& name, AddressFormat format) {
    addrinfo hints{};
    hints.ai_family = format == AddressFormat::ipv4   ? AF_INET
                      : format == AddressFormat::ipv6 ? AF_INET6
                                                      : AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
    std::vector<IpAddress> out;
    for (const addrinfo* i = error == 0 ? list : nullptr; i != nullptr; i = i->ai_next) {
        const auto address = IpAddress::from(i->ai_addr);
        if (address && std::find(out.begin(), out.end(), *address) == out.end()) {
            out.push_back(*address);
        }
    }
    if (out.empty() && strcasecmp(name.c_str(), "localhost") == 0) {
        // Images of small systems have no /etc/hosts; this name means the loopback in any case (RFC
        // 6761, 6.3).
        for (const char* loopback : {"127.0.0.1", "::1"}) {
            const auto address = IpAddress::parse(loopback);
            if (address &&
                (hints.ai_family == AF_UNSPEC || address->v6 == (hints.ai_family == AF_INET6))) {
                out.push_back(*address);
            }
        }
    }
    if (out.empty()) {
        return Error{Status::addrnotavail,
                     fmt::format("no {}address is known for the name \"{}\": {}",
                                 hints.ai_family == AF_INET    ? "IPv4 "
                                 : hints.ai_family == AF_INET6 ? "IPv6 "
                                                               : "",
                                 name, error == 0 ? "it has none" : gai_strerror(error))};
    }
    return out;
}

bool IpSubnet::contains(const IpAddress& other) const noexcept {
    if (other.v6 != address.v6) {
        return false;
    }
    for (unsigned bit = 0; bit < bits; bit += 8) {
        const unsigned kept = std::min(bits - bit, 8U);
        const unsigned mask = 0xffU << (8 - kept);
        if (((address.bytes[bit / 8] ^ other.bytes[bit / 8]) & mask) != 0) {
            return false;
        }
    }
    return true;
}

Result<IpSubnet> parse_subnet(std::string_view text) {
    const auto wrong = [text](std::string_view what) {
        return Error{
            Status::invalid_arg,
            fmt::format("ip_subnet \"{}\": {}; the form is address/bits, as in 192.0.2.0/24 or "
                        "fd00::/64",
                        text.substr(0, 128), what)};
    };
    const std::size_t slash = text.find('/');
    std::string number_text(text.substr(0, slash));
    unsigned bits = 32;
    if (number_text.find(':') == std::string::npos && !number_text.empty()) {
        // The missing parts of a short IPv4 address are 0.
        auto dots = std::count(number_text.begin(), number_text.end(), '.');
        bits = 8 * static_cast<unsigned>(std::min<std::ptrdiff_t>(dots + 1, 4));
        for (; dots < 3; ++dots) {
            number_text += ".0";
        }
    }
    const auto address = IpAddress::parse(number_text);
    if (number_text.find('%') != std::string::npos) {
        return wrong(
            "a subnet is behind no interface, the '%' and what follows do not belong there");
    }
    if (!address) {
        return wrong("no address");
    }
    if (address->v6) {
        bits = 128;
    }
    if (slash != std::string_view::npos) {
        const auto given = number(text.substr(slash + 1), address->v6 ? 128 : 32);
        if (!given) {
            return wrong(address->v6 ? "bits are a number from 0 to 128"
                                     : "bits are a number from 0 to 32");
        }
        bits = *given;
    }
    return IpSubnet{*address, bits};
}

namespace {

// Packets of this host to itself go by the loopback, whose routes stay when it is down.
bool loopback_is_down(int socket) noexcept {
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    return ioctl(socket, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) == 0;
}

}  // namespace

// connect() of a datagram socket looks the route up, and no more.
int no_way(const IpAddress& from, const IpEndpoint& to) noexcept {
    sockaddr_storage name;
    const UniqueFd fd(socket(to.address.v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    socklen_t size = from.fill(name, 0);
    if (!fd ||
        (!from.is_any() && bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0)) {
        return 0;
    }
    size = to.address.fill(name, to.port);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0) {
        size = sizeof name;
        const bool to_itself =
            to.address.is_loopback() ||
            (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0 &&
             IpAddress::from(reinterpret_cast<const sockaddr*>(&name)) == to.address);
        return to_itself && loopback_is_down(fd.get()) ? ENETDOWN : 0;
    }
    switch (errno) {
        case ENETUNREACH:
        case EHOSTUNREACH:
        case ENETDOWN:
        case EADDRNOTAVAIL:
        case EINVAL:
        case EACCES:  // a route that prohibits
            return errno;
        default:
            return 0;
    }
}

std::string why_refused(std::uint16_t port) {
    unsigned first = 1024;  // that anybody may have
    std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> first;
    return port == 0 || port >= first
               ? std::string()
               : fmt::format(
                     "; ports below {} are for processes with CAP_NET_BIND_SERVICE: choose "
                     "one from there on, or lower net.ipv4.ip_unprivileged_port_start",
                     first);
}

std::string PortRange::text() const {
    return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

}  // namespace na::util
