// SPDX-License-Identifier: BSD-3-Clause
// Which address a process is reached at, on machines made up and on this one.
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>
#include <catch2/catch.hpp>

#include "na/util/ip.hpp"

using na::AddressFormat;
using na::Status;
using namespace na::util;

namespace {

Interface interface(const char* name, std::vector<const char*> addresses, bool up = true,
                    unsigned distance = 0) {
    Interface i{.name = name,
                .up = up,
                .loopback = std::strcmp(name, "lo") == 0,
                .distance = distance,
                .addresses = {}};
    for (const char* a : addresses) {
        i.addresses.push_back(*IpAddress::parse(a));
    }
    return i;
}

// A machine with two networks, one of which has both kinds of addresses, and an interface that is
// down.
const std::vector<Interface>& machine() {
    static const std::vector<Interface> m{
        interface("lo", {"127.0.0.1", "::1"}),
        interface("eth9", {"198.51.100.9"}, false),
        interface("eth0", {"fe80::5%1", "fd00::2", "192.0.2.2"}),
        interface("ib0", {"10.1.2.3", "fd01::3"}),
    };
    return m;
}

std::string chosen(std::string_view host, AddressFormat format = AddressFormat::unspec,
                   std::string_view subnet = "", const std::vector<Interface>& all = machine()) {
    const auto c = choose_address(host, format, subnet, all);
    if (!c) {
        return c.error().message;
    }
    return c->interface + " " + c->address.text() + (c->any ? " any" : "") +
           (c->ports.is_any() ? "" : " " + c->ports.text());
}

}  // namespace

TEST_CASE("what a user names is taken", "[ip]") {
    CHECK(chosen("192.0.2.2") == "eth0 192.0.2.2");
    CHECK(chosen("10.1.2.3:2000-2010") == "ib0 10.1.2.3 2000-2010");
    CHECK(chosen("[fd01::3]:7") == "ib0 fd01::3 7");
    CHECK(chosen("eth0") == "eth0 192.0.2.2");
    CHECK(chosen("eth0", AddressFormat::ipv6) == "eth0 fd00::2");
    CHECK(chosen("ib0", AddressFormat::native) == "ib0 10.1.2.3");
    CHECK(chosen("eth9:1") == "eth9 198.51.100.9 1");
    CHECK(chosen("lo") == "lo 127.0.0.1");
    CHECK(chosen("lo/") == "lo 127.0.0.1");
    CHECK(chosen("lo/::1") == "lo ::1");
    CHECK(chosen("lo/127.0.0.1:23458") == "lo 127.0.0.1 23458");
    CHECK(chosen("lo/lo") == "lo 127.0.0.1");
    CHECK(chosen("127.3.2.1") == "lo 127.3.2.1");
    CHECK(chosen("localhost", AddressFormat::ipv4) == "lo 127.0.0.1");
    CHECK(chosen("fe80::5") == "eth0 fe80::5%lo");
}

TEST_CASE("the best where nothing is named", "[ip]") {
    CHECK(chosen("") == "eth0 192.0.2.2");
    CHECK(chosen(":2000") == "eth0 192.0.2.2 2000");
    CHECK(chosen("", AddressFormat::ipv6) == "eth0 fd00::2");
    CHECK(chosen("", AddressFormat::unspec, "10.1.0.0/16") == "ib0 10.1.2.3");
    CHECK(chosen("", AddressFormat::unspec, "fd01::/64") == "ib0 fd01::3");
    CHECK(chosen("", AddressFormat::unspec, "127.0.0.0/8") == "lo 127.0.0.1");
    CHECK(chosen("eth0", AddressFormat::unspec, "fd00::/16") == "eth0 fd00::2");
    CHECK(chosen("0.0.0.0:80") == "eth0 192.0.2.2 any 80");
    CHECK(chosen("::") == "eth0 fd00::2 any");
    CHECK(chosen("[::]:80", AddressFormat::unspec, "fd01::/64") == "ib0 fd01::3 any 80");

    CHECK(chosen("", AddressFormat::unspec, "", {machine()[0], machine()[1]}) == "lo 127.0.0.1");
    CHECK(chosen("", AddressFormat::unspec, "", {machine()[1]}) == "eth9 198.51.100.9");
    // The nearer device, but not instead of one that reaches farther.
    CHECK(chosen("", AddressFormat::unspec, "",
                 {interface("a", {"192.0.2.1"}, true, 2), interface("b", {"192.0.2.2"}, true, 1),
                  interface("c", {"169.254.1.1"}, true, 0)}) == "b 192.0.2.2");

    const auto any = choose_address("0.0.0.0", AddressFormat::unspec, "", machine());
    REQUIRE(any);
    CHECK(any->bind_address().text() == "0.0.0.0");
    const auto one = choose_address("eth0", AddressFormat::unspec, "", machine());
    REQUIRE(one);
    CHECK(one->bind_address().text() == "192.0.2.2");
}

TEST_CASE("the default route is first, bridges, tunnels and what has no carrier last", "[ip]") {
    const auto with_route = [](Interface i, std::uint32_t metric) {
        i.route = metric;
        return i;
    };
    const auto overlay = [](Interface i) {
        i.overlay = true;
        return i;
    };
    const Interface lo = interface("lo", {"127.0.0.1"});
    const Interface docker0 = overlay(interface("docker0", {"172.17.0.1"}));
    const Interface tun0 = overlay(interface("tun0", {"10.8.0.2"}));
    const Interface down = interface("eth9", {"198.51.100.9"}, false);
    const Interface near = interface("ib0", {"10.1.2.3"}, true, 0);
    const Interface far = with_route(interface("eth0", {"192.0.2.2"}, true, 3), 100);
    const auto any = AddressFormat::unspec;
    CHECK(chosen("", any, "", {lo, docker0, tun0, down, near, far}) == "eth0 192.0.2.2");
    CHECK(chosen("", any, "", {lo, docker0, tun0, down, near}) == "ib0 10.1.2.3");
    CHECK(chosen("", any, "", {lo, down, docker0}) == "docker0 172.17.0.1");
    CHECK(chosen("", any, "", {lo, down}) == "lo 127.0.0.1");
    // A bridge may be the way out, and of several ways the least metric is the usual one.
    CHECK(chosen("", any, "", {lo, with_route(docker0, 0), near}) == "docker0 172.17.0.1");
    CHECK(chosen("", any, "", {lo, far, with_route(near, 50)}) == "ib0 10.1.2.3");
    // What a user names is taken.
    CHECK(chosen("docker0", any, "", {lo, docker0, far}) == "docker0 172.17.0.1");
    CHECK(chosen("", any, "10.8.0.0/16", {lo, tun0, far}) == "tun0 10.8.0.2");
}

TEST_CASE("the loopback for want of better is told apart", "[ip]") {
    const Interface lo = interface("lo", {"127.0.0.1", "::1"});
    const Interface down = interface("eth0", {}, false);
    Interface bridge = interface("docker0", {}, false);
    bridge.overlay = true;
    const auto cut_off = [](std::string_view host, std::string_view subnet,
                            const std::vector<Interface>& all) {
        return choose_address(host, AddressFormat::unspec, subnet, all)->cut_off;
    };
    CHECK(cut_off("", "", {lo, down}));
    CHECK(cut_off(":7000", "", {lo, down}));
    CHECK(cut_off("0.0.0.0", "", {lo, down}));
    CHECK_FALSE(cut_off("", "", {lo}));  // no link that could come up
    CHECK_FALSE(cut_off("", "", {lo, bridge}));
    CHECK_FALSE(cut_off("127.0.0.1", "", {lo, down}));
    CHECK_FALSE(cut_off("lo", "", {lo, down}));
    CHECK_FALSE(cut_off("lo/", "", {lo, down}));
    CHECK_FALSE(cut_off("", "127.0.0.0/8", {lo, down}));
    CHECK_FALSE(cut_off("", "", machine()));
}

TEST_CASE("what is not there is refused, with what is", "[ip]") {
    struct Row {
        const char* host;
        AddressFormat format;
        const char* subnet;
        Status status;
        const char* names;
    };
    const auto none = AddressFormat::unspec;
    const Row rows[] = {
        {"192.0.2.3:80", none, "", Status::addrnotavail,
         "192.0.2.3 is not an address of this machine"},
        {"eth7", none, "", Status::addrnotavail, "no interface \"eth7\""},
        {"eth7/192.0.2.2", none, "", Status::nodev,
         "\"eth7\" is neither an interface nor a device"},
        {"lo/192.0.2.2", none, "", Status::addrnotavail, "192.0.2.2 belongs to eth0"},
        {"lo/eth0", none, "", Status::invalid_arg, "eth0 does not belong to lo"},
        {"no-such-host.invalid", none, "", Status::addrnotavail, "no-such-host.invalid"},
        {"", none, "203.0.113.0/24", Status::addrnotavail,
         "an address in ip_subnet 203.0.113.0/24"},
        {"eth0", none, "10.0.0.0/8", Status::addrnotavail,
         "eth0 has not an address in ip_subnet 10.0.0.0/8"},
        {"eth9", AddressFormat::ipv6, "", Status::addrnotavail, "eth9 has not an IPv6 address"},
        {"192.0.2.2", AddressFormat::ipv6, "", Status::invalid_arg,
         "192.0.2.2 is not an IPv6 address"},
        {"192.0.2.2", none, "10.0.0.0/8", Status::invalid_arg, "in ip_subnet 10.0.0.0/8"},
        {"eth0/0.0.0.0", none, "", Status::invalid_arg, "means all interfaces"},
        {"0.0.0.0", AddressFormat::ipv6, "", Status::invalid_arg, "means all interfaces"},
    };
    for (const Row& row : rows) {
        INFO(row.host << " " << row.subnet);
        const auto c = choose_address(row.host, row.format, row.subnet, machine());
        REQUIRE_FALSE(c);
        CHECK(c.status() == row.status);
        CHECK_THAT(c.error().message, Catch::Contains(row.names));
        if (row.status != Status::invalid_arg) {
            CHECK_THAT(
                c.error().message,
                Catch::Contains(
                    "this machine has lo (127.0.0.1, ::1), eth9 (down, 198.51.100.9), eth0 ("));
        }
    }
    CHECK(choose_address("eth0:x", none, "", machine()).status() == Status::invalid_arg);
    CHECK(choose_address("", none, "nonsense", machine()).status() == Status::invalid_arg);
    CHECK(choose_address("", none, "", {}).status() == Status::addrnotavail);
}

TEST_CASE("this machine", "[ip]") {
    const auto all = interfaces();
    REQUIRE(all);
    const auto lo = choose_address("127.0.0.1", AddressFormat::unspec, "", *all);
    REQUIRE(lo);
    CHECK(lo->interface == "lo");
    CHECK(choose_address(
              na::plugin::OpenSpec{.protocol = "x", .host = "lo/:7", .listen = true, .info = {}})
              ->ports.first == 7);
    CHECK(choose_address(
        na::plugin::OpenSpec{.protocol = "x", .host = "", .listen = true, .info = {}}));

    // Its own name is a way to its best address, whatever /etc/hosts says; an unknown name stays an
    // error.
    char name[256] = {};
    REQUIRE(gethostname(name, sizeof name - 1) == 0);
    const auto own = choose_address(name, AddressFormat::unspec, "", *all);
    if (own) {
        const auto best = choose_address("", AddressFormat::unspec, "", *all);
        REQUIRE(best);
        CHECK(own->address.is_loopback() == best->address.is_loopback());
    } else {
        CHECK(own.status() == Status::addrnotavail);
    }
    // Also where the name has no address of that family: then the machine has, if any.
    for (const auto format : {AddressFormat::ipv4, AddressFormat::ipv6}) {
        CHECK(chosen(name, format) == chosen("", format));
        CHECK(chosen("no-such-host.invalid", format).find("no-such-host.invalid") !=
              std::string::npos);
    }
}
