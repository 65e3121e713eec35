// SPDX-License-Identifier: BSD-3-Clause
// Addresses, host texts, subnets and port ranges as text.
#include "na/util/ip.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <catch2/catch.hpp>

#include "na/util/fd.hpp"
#include "na/util/locality.hpp"
#include "support/options.hpp"

using na::Error;
using na::Result;
using na::Status;
using namespace na::util;

TEST_CASE("addresses as text and back", "[ip]") {
    for (const char* text :
         {"0.0.0.0", "192.0.2.255", "::", "::1", "fd00::1", "2001:db8::1:0:0:1"}) {
        INFO(text);
        const auto a = IpAddress::parse(text);
        REQUIRE(a);
        CHECK(a->text() == text);
        sockaddr_storage s;
        const socklen_t length = a->fill(s, 4711);
        CHECK(length == (a->v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)));
        CHECK(IpAddress::from(reinterpret_cast<sockaddr*>(&s)) == a);
        CHECK(ntohs(reinterpret_cast<sockaddr_in*>(&s)->sin_port) == 4711);
    }
    for (const char* text :
         {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4 ", "[::1]", "::g", "eth0", "1.2.3.4%lo",
          "::1%lo", "fe80::1%", "fe80::1%no-such-if", "fe80::1%99999999999"}) {
        INFO(text);
        CHECK_FALSE(IpAddress::parse(text));
    }
    CHECK(IpAddress::parse("fe80::1%lo")->text() == "fe80::1%lo");
    CHECK(IpAddress::parse("fe80::1%1") == IpAddress::parse("fe80::1%lo"));
    CHECK_FALSE(IpAddress::from(nullptr));
    sockaddr other{};
    other.sa_family = AF_UNIX;
    CHECK_FALSE(IpAddress::from(&other));
}

TEST_CASE("kinds of addresses", "[ip]") {
    const auto is = [](const char* text) { return *IpAddress::parse(text); };
    CHECK(is("127.0.0.1").is_loopback());
    CHECK(is("127.9.9.9").is_loopback());
    CHECK(is("::1").is_loopback());
    CHECK_FALSE(is("::").is_loopback());
    CHECK_FALSE(is("1.0.0.127").is_loopback());
    CHECK(is("169.254.7.7").is_link_local());
    CHECK(is("fe80::7").is_link_local());
    CHECK_FALSE(is("fd00::7").is_link_local());
    CHECK(is("::").is_any());
    CHECK(is("0.0.0.0").is_any());
    CHECK_FALSE(is("0.0.0.0") == is("::"));
}

TEST_CASE("host texts taken apart", "[ip]") {
    struct Good {
        const char* text;
        const char* domain;
        const char* host;
        unsigned first;
        unsigned last;
    };
    const Good good[] = {
        {"", "", "", 0, 0},
        {":0", "", "", 0, 0},
        {":2000", "", "", 2000, 2000},
        {"eth0", "", "eth0", 0, 0},
        {"eth0:1234", "", "eth0", 1234, 1234},
        {"lo/", "lo", "", 0, 0},
        {"lo/:23457", "lo", "", 23457, 23457},
        {"lo/127.0.0.1:23458", "lo", "127.0.0.1", 23458, 23458},
        {"mlx5_0/ib0:0", "mlx5_0", "ib0", 0, 0},
        {"[::1]", "", "::1", 0, 0},
        {"[::1]:65535", "", "::1", 65535, 65535},
        {"::1", "", "::1", 0, 0},
        {"lo/::1", "lo", "::1", 0, 0},
        {"lo/[::1]:0", "lo", "::1", 0, 0},
        {"host.example:2000-2010", "", "host.example", 2000, 2010},
        {"[fd00::1]:2000-2000", "", "fd00::1", 2000, 2000},
        {":1-65535", "", "", 1, 65535},
    };
    for (const Good& g : good) {
        INFO(g.text);
        const auto parts = parse_host(g.text);
        REQUIRE(parts);
        CHECK(parts->domain == g.domain);
        CHECK(parts->host == g.host);
        CHECK(parts->ports ==
              PortRange{static_cast<std::uint16_t>(g.first), static_cast<std::uint16_t>(g.last)});
    }
    for (const std::string text :
         {"host:",     "host:x",  "host:65536", "host:-1",       "host:2010-2000",
          "host:0-10", "host:1-", "host:1-2-3", "host:1 ",       "[::1",
          "[::1]80",   "[::1]:",  "[]",         "[127.0.0.1]:1", "[eth0]:1",
          "a:b:c",     "::1:x",   "/host",      "a/b/c",         "host:99999999999999999999"}) {
        INFO(text);
        const auto parts = parse_host(text);
        REQUIRE_FALSE(parts);
        CHECK(parts.status() == Status::invalid_arg);
        CHECK(parts.error().message.find("the form is") != std::string::npos);
        CHECK(parts.error().message.find(text) != std::string::npos);
    }
    CHECK_FALSE(parse_host(std::string(300, 'a')));
}

TEST_CASE("interfaces behind addresses: which there are, and where one belongs", "[ip]") {
    for (const std::string text : {"[fe80::1%no-such-if]:0", "fe80::1%no-such-if",
                                   "[fe80::1%no-such-if]", "lo/[fe80::1%no-such-if]:7"}) {
        INFO(text);
        const auto parts = parse_host(text);
        REQUIRE_FALSE(parts);
        CHECK(parts.status() == Status::nodev);
        CHECK_THAT(parts.error().message, Catch::Contains(text));
        CHECK_THAT(parts.error().message,
                   Catch::Contains("there is no interface \"no-such-if\"; this machine has lo ("));
    }
    for (const auto& peer :
         {parse_endpoint("[fe80::1%no-such-if]:80"), resolve_endpoint("[fe80::1%no-such-if]:80")}) {
        CHECK(peer.status() == Status::nodev);
        CHECK_THAT(peer.error().message, Catch::Contains("there is no interface \"no-such-if\""));
    }
    const auto global = parse_host("[fd00::1%lo]:80");
    CHECK(global.status() == Status::invalid_arg);
    CHECK_THAT(global.error().message, Catch::Contains("fd00::1 is behind no interface"));
    const auto nothing = parse_host("[fe80::1%]:80");
    CHECK(nothing.status() == Status::invalid_arg);
    CHECK_THAT(nothing.error().message, Catch::Contains("an interface follows the '%'"));
    const auto subnet = parse_subnet("fe80::%lo/64");
    CHECK(subnet.status() == Status::invalid_arg);
    CHECK_THAT(subnet.error().message, Catch::Contains("a subnet is behind no interface"));
}

TEST_CASE("the loopback sends to this machine only", "[ip]") {
    const auto may = [](const char* from, const char* to) {
        return may_send(*IpAddress::parse(from), *parse_endpoint(to));
    };
    CHECK(may("127.0.0.1", "127.0.0.1:80"));
    CHECK(may("127.0.0.1", "127.0.0.2:80"));
    CHECK(may("0.0.0.0", "127.0.0.1:80"));
    CHECK(may("0.0.0.0", "203.0.113.1:80"));     // a way or none: not for the address
    CHECK(may("192.0.2.77", "203.0.113.1:80"));  // nobody's here
    sockaddr_storage name;
    const socklen_t size = IpAddress::parse("203.0.113.1")->fill(name, 80);
    const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0) {
        CHECK_FALSE(may("127.0.0.1", "203.0.113.1:80"));
    } else {
        support::skip("this machine has no way to others");
    }
}

TEST_CASE("who is not reached for a cause in this host is not called dead", "[ip]") {
    const auto way = [](const char* from, const char* to) {
        return no_way(*IpAddress::parse(from), *parse_endpoint(to));
    };
    CHECK(way("0.0.0.0", "127.0.0.1:80") == 0);
    CHECK(way("127.0.0.1", "127.0.0.1:80") == 0);
    CHECK(way("192.0.2.77", "203.0.113.1:80") == 0);  // cannot be told
    CHECK(way("0.0.0.0", "[::1]:80") == way("::", "[::1]:80"));
    CHECK(status_unreached({}, *parse_endpoint("127.0.0.1:1")) == na::Status::hostunreach);
    CHECK(way("127.0.0.1", "203.0.113.1:80") != 0);
    CHECK(way("0.0.0.0", "255.255.255.255:80") != 0);  // no peer's, with or without a route
    CHECK(status_unreached({}, *parse_endpoint("255.255.255.255:80")) == na::Status::addrnotavail);
}

TEST_CASE("ports that the system keeps", "[ip]") {
    CHECK(why_refused(0).empty());
    CHECK(why_refused(65535).empty());
    const auto first = [] {
        unsigned n = 1024;
        std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> n;
        return n;
    }();
    if (first > 1) {
        CHECK_THAT(why_refused(1), Catch::Contains("ports below " + std::to_string(first)) &&
                                       Catch::Contains("net.ipv4.ip_unprivileged_port_start"));
    }
    if (first <= UINT16_MAX) {
        CHECK(why_refused(static_cast<std::uint16_t>(first)).empty());
    }
}

TEST_CASE("addresses of peers", "[ip]") {
    const auto v4 = parse_endpoint("192.0.2.1:80");
    REQUIRE(v4);
    CHECK(v4->text() == "192.0.2.1:80");
    const auto v6 = parse_endpoint("[fd00::1]:80");
    REQUIRE(v6);
    CHECK(v6->text() == "[fd00::1]:80");
    for (const char* text : {"", "192.0.2.1", "192.0.2.1:0", "192.0.2.1:99999", "192.0.2.1:1-2",
                             "lo/192.0.2.1:80", ":80", "host:80", "::1", "[::]:80", "0.0.0.0:80"}) {
        INFO(text);
        CHECK(parse_endpoint(text).status() == Status::invalid_arg);
    }
    const auto named = resolve_endpoint("localhost:80", na::AddressFormat::ipv4);
    REQUIRE(named);
    CHECK(named->text() == "127.0.0.1:80");
    CHECK(resolve_endpoint("192.0.2.1:80").status() == Status::success);
    CHECK(resolve_endpoint("localhost").status() == Status::invalid_arg);
    const auto unknown = resolve_endpoint("no-such-host.invalid:80");
    CHECK(unknown.status() == Status::addrnotavail);
    CHECK(unknown.error().message.find("no-such-host.invalid") != std::string::npos);
}

TEST_CASE("subnets", "[ip]") {
    struct Row {
        const char* subnet;
        const char* inside;
        const char* outside;
    };
    const Row rows[] = {
        {"192.0.2.0/24", "192.0.2.77", "192.0.3.77"},
        {"192.0.2.128/25", "192.0.2.129", "192.0.2.127"},
        {"192.0.2.77/24", "192.0.2.1", "192.0.1.255"},
        {"10.1", "10.1.255.3", "10.2.0.1"},
        {"10", "10.200.1.1", "11.0.0.1"},
        {"192.0.2.7", "192.0.2.7", "192.0.2.6"},
        {"10.1/12", "10.15.0.1", "10.16.0.1"},
        {"0.0.0.0/0", "1.2.3.4", "::1"},
        {"fd00::/64", "fd00::1:2", "fd00:0:0:1::1"},
        {"fd00::/7", "fc00::1", "fe00::1"},
        {"::1", "::1", "::2"},
        {"::/0", "fd00::1", "1.2.3.4"},
    };
    for (const Row& row : rows) {
        INFO(row.subnet);
        const auto subnet = parse_subnet(row.subnet);
        REQUIRE(subnet);
        CHECK(subnet->contains(*IpAddress::parse(row.inside)));
        CHECK_FALSE(subnet->contains(*IpAddress::parse(row.outside)));
    }
    for (const char* text : {"", "/24", "eth0", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/x", "::/129",
                             "1..2", "1.2.3.4.5/8", "fe80::%lo/64", "256/8"}) {
        INFO(text);
        const auto subnet = parse_subnet(text);
        CHECK(subnet.status() == Status::invalid_arg);
        CHECK(subnet.error().message.find("ip_subnet") != std::string::npos);
    }
}

TEST_CASE("the first free port of a range", "[ip]") {
    std::vector<unsigned> tried;
    unsigned free = 0;
    const auto bind = [&](std::uint16_t port) -> Result<int> {
        tried.push_back(port);
        if (port >= free) {
            return 1;
        }
        return Error{Status::addrinuse, "port in use"};
    };
    CHECK(bind_in_range({0, 0}, bind));
    CHECK(tried == std::vector<unsigned>{0});
    tried.clear();
    free = 2002;
    CHECK(bind_in_range({2000, 2010}, bind));
    CHECK(tried == std::vector<unsigned>{2000, 2001, 2002});
    tried.clear();
    free = 65536;
    const auto none = bind_in_range({65534, 65535}, bind);
    CHECK(none.status() == Status::addrinuse);
    CHECK(none.error().message == "every port from 65534 to 65535 is in use: port in use");
    CHECK(tried == std::vector<unsigned>{65534, 65535});
    CHECK(bind_in_range({7, 7}, bind).error().message == "port in use");
    tried.clear();
    const auto broken = bind_in_range({1, 9}, [&](std::uint16_t) -> Result<int> {
        tried.push_back(0);
        return Error{Status::permission, "no"};
    });
    CHECK(broken.status() == Status::permission);
    CHECK(tried.size() == 1);
}

TEST_CASE("distances of devices", "[ip]") {
    CHECK(device_distances({}).empty());
    const std::vector<std::string> names{"lo", "no-such-device"};
    CHECK(device_distances(names) == std::vector<unsigned>{0, 0});
}
