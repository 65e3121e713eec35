// SPDX-License-Identifier: BSD-3-Clause
// The network interfaces of this machine: what they are, and which of them leads elsewhere.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "na/util/fd.hpp"
#include "na/util/ip.hpp"
#include "na/util/locality.hpp"

namespace na::util {
namespace {

bool is_tunnel(unsigned hardware_type) noexcept {
    // Of linux/if_arp.h, which cannot be included beside net/if_arp.h.
    constexpr unsigned kIp6Gre = 823;
    constexpr unsigned kNone = 0xFFFE;
    constexpr unsigned kTunnels[] = {ARPHRD_TUNNEL, ARPHRD_TUNNEL6, ARPHRD_SIT, ARPHRD_IPGRE,
                                     ARPHRD_PPP,    kNone,          kIp6Gre};
    return std::find(std::begin(kTunnels), std::end(kTunnels), hardware_type) != std::end(kTunnels);
}

// The kind of a link, as the kernel names its driver; empty: not known. An ioctl answers for this
// network namespace, whichever namespace /sys shows.
std::string driver_of(int socket, const std::string& name) {
    ifreq request{};
    ethtool_drvinfo info{};
    info.cmd = ETHTOOL_GDRVINFO;
    if (name.size() >= sizeof request.ifr_name) {
        return {};
    }
    std::memcpy(request.ifr_name, name.c_str(), name.size());
    request.ifr_data = reinterpret_cast<char*>(&info);
    if (ioctl(socket, SIOCETHTOOL, &request) != 0) {
        return {};
    }
    return {info.driver, strnlen(info.driver, sizeof info.driver)};
}

bool is_overlay(const std::string& driver) noexcept {
    constexpr std::string_view kOverlays[] = {"bridge", "tun",       "vxlan",       "geneve",
                                              "gretap", "ip6gretap", "erspan",      "wireguard",
                                              "dummy",  "ifb",       "openvswitch", "ip6erspan"};
    return std::find(std::begin(kOverlays), std::end(kOverlays), driver) != std::end(kOverlays);
}

void note_route(std::vector<Interface>& all, const std::string& name, std::uint32_t metric) {
    for (Interface& i : all) {
        if (i.name == name) {
            i.route = std::min(i.route, metric);
        }
    }
}

// Both files show the main table of this network namespace.
void read_default_routes(std::vector<Interface>& all) {
    constexpr unsigned long kReject = 0x0200;  // RTF_REJECT
    std::string line;
    std::ifstream v4("/proc/net/route");
    std::getline(v4, line);  // titles
    while (std::getline(v4, line)) {
        std::istringstream words(line);
        std::string name;
        std::string destination;
        std::string gateway;
        std::string mask;
        unsigned long flags = 0;
        unsigned long ignored = 0;
        std::uint32_t metric = 0;
        words >> name >> destination >> gateway >> std::hex >> flags >> std::dec >> ignored >>
            ignored >> metric >> mask;
        if (words && destination == "00000000" && mask == "00000000" && (flags & kReject) == 0) {
            note_route(all, name, metric);
        }
    }
    std::ifstream v6("/proc/net/ipv6_route");
    while (std::getline(v6, line)) {
        std::istringstream words(line);
        std::string destination;
        std::string source;
        std::string gateway;
        std::string name;
        unsigned long bits = 0;
        unsigned long source_bits = 0;
        unsigned long ignored = 0;
        unsigned long flags = 0;
        std::uint32_t metric = 0;
        words >> destination >> std::hex >> bits >> source >> source_bits >> gateway >> metric >>
            ignored >> ignored >> flags >> name;
        if (words && bits == 0 && source_bits == 0 && (flags & kReject) == 0) {
            note_route(all, name, metric);
        }
    }
}

// Only what may be chosen by its place is looked at.
void measure_distances(std::vector<Interface>& all) {
    std::vector<std::string> names;
    for (const Interface& i : all) {
        if (i.up && !i.loopback && !i.addresses.empty()) {
            names.push_back(i.name);
        }
    }
    const std::vector<unsigned> distances = device_distances(names);
    for (std::size_t k = 0; k < names.size(); ++k) {
        std::find_if(all.begin(), all.end(), [&](const Interface& x) {
            return x.name == names[k];
        })->distance = distances[k];
    }
}

}  // namespace

Result<std::vector<Interface>> interfaces() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        return Error{status_of_errno(errno),
                     fmt::format("the interfaces of this machine: {}", std::strerror(errno))};
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    std::vector<Interface> out;
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
        auto known = std::find_if(out.begin(), out.end(),
                                  [&](const Interface& x) { return x.name == i->ifa_name; });
        if (known == out.end()) {
            out.push_back({.name = i->ifa_name,
                           .up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0,
                           .loopback = (i->ifa_flags & IFF_LOOPBACK) != 0,
                           .overlay = is_overlay(driver_of(socket.get(), i->ifa_name)),
                           .addresses = {}});
            known = out.end() - 1;
        }
        if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_PACKET) {
            sockaddr_ll link{};
            std::memcpy(&link, i->ifa_addr, sizeof link);
            known->overlay = known->overlay || is_tunnel(link.sll_hatype);
        } else if (const auto address = IpAddress::from(i->ifa_addr)) {
            known->addresses.push_back(*address);
        }
    }
    read_default_routes(out);
    measure_distances(out);
    return out;
}

std::string to_string(std::span<const Interface> interfaces) {
    std::string out;
    for (const Interface& i : interfaces) {
        std::string inner = i.up ? "" : "down";
        for (const IpAddress& a : i.addresses) {
            inner += (inner.empty() ? "" : ", ") + a.text();
        }
        out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", i.name,
                           inner.empty() ? "no address" : inner);
    }
    return out.empty() ? "no interface" : out;
}

}  // namespace na::util
