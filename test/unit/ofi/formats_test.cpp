// SPDX-License-Identifier: BSD-3-Clause
// Which address a class over IP gets: addr_format, and host parts of IPv6.
#include <ifaddrs.h>
#include <netinet/in.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "exchange.hpp"
#include "na/domain.hpp"

using namespace na_test;
using na::AddressFormat;
using na::Status;

namespace {

// Whether this machine has an address of that family, on any interface.
bool has(int family) {
    ifaddrs* list = nullptr;
    REQUIRE(getifaddrs(&list) == 0);
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == family) {
            return true;
        }
    }
    return false;
}

// Whether the loopback interface has ::1; else the case is skipped.
bool has_v6_loopback() {
    ifaddrs* list = nullptr;
    REQUIRE(getifaddrs(&list) == 0);
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET6) {
            const auto& address = *reinterpret_cast<const sockaddr_in6*>(i->ifa_addr);
            if (IN6_IS_ADDR_LOOPBACK(&address.sin6_addr)) {
                return true;
            }
        }
    }
    support::skip("this machine has no ::1");
    return false;
}

Endpoint::Settings settings(na_addr_format format, const std::string& host = {}) {
    Endpoint::Settings s;
    s.info = options().protocol + (host.empty() ? "" : "://" + host);
    s.init.addr_format = format;
    return s;
}

// "192.0.2.1" or "[fd00::1]" of "ofi+tcp://192.0.2.1:7000".
std::string host_of(const std::string& uri) {
    const std::size_t from = uri.find("://");
    REQUIRE(from != std::string::npos);
    const std::size_t to = uri.rfind(':');
    REQUIRE(to > from + 3);
    CHECK(std::stoul(uri.substr(to + 1)) != 0);
    return uri.substr(from + 3, to - from - 3);
}

bool is_v6(const std::string& host) {
    return host.front() == '[' && host.back() == ']' && host.find(':') != std::string::npos;
}
bool is_v4(const std::string& host) {
    return host.find_first_not_of("0123456789.") == std::string::npos;
}

// Messages both ways, and a put.
void talk(Endpoint& a, Endpoint& b) {
    exchange(a, b, 1);
    Addr to_b(a, b.uri());
    std::vector<std::byte> here = support::payload(30'000, 3);
    std::vector<std::byte> there(here.size());
    Mem local(a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(a, target.serialize());
    Op put(a);
    REQUIRE(put.put(local, 0, remote, 0, here.size(), to_b) == NA_SUCCESS);
    REQUIRE(until([&] { return put.done(); },
                  [&] {
                      a.pump();
                      b.pump();
                  }));
    REQUIRE(put.ret() == NA_SUCCESS);
    CHECK((here == there));
}

// What opening answers, by the C++ and the C interface: the latter has to keep the same words.
Status refused(const std::string& info, na_addr_format format, std::string& why,
               const char* subnet = nullptr) {
    const Quiet quiet;
    na::InitInfo wanted;
    wanted.address_format = static_cast<AddressFormat>(format);
    wanted.ip_subnet = subnet == nullptr ? "" : subnet;
    const auto domain = na::Domain::listen(info, wanted);
    REQUIRE_FALSE(domain);
    why = domain.error().message;
    na_init_info init = NA_INIT_INFO_INITIALIZER;
    init.addr_format = format;
    init.ip_subnet = subnet;
    CHECK(NA_Initialize_opt2(info.c_str(), true, NA_VERSION(5, 0), &init) == nullptr);
    CHECK(std::string(NA_Get_last_error()).find(why) != std::string::npos);
    return domain.status();
}

bool says(const std::string& text, const std::string& what) {
    return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("classes have addresses of the family that addr_format asks for", "[ofi][formats]") {
    const bool v6 = GENERATE(false, true);
    if (!has(v6 ? AF_INET6 : AF_INET)) {
        support::skip(v6 ? "this machine has no IPv6" : "this machine has no IPv4");
        return;
    }
    Pair p(settings(v6 ? NA_ADDR_IPV6 : NA_ADDR_IPV4));
    for (const Endpoint* e : {&p.a, &p.b}) {
        INFO(e->uri());
        CHECK((v6 ? is_v6(host_of(e->uri())) : is_v4(host_of(e->uri()))));
    }
    talk(p.a, p.b);
}

TEST_CASE("addr_format chooses among the addresses of an interface", "[ofi][formats]") {
    if (!has_v6_loopback()) {
        return;
    }
    {
        const Endpoint e(settings(NA_ADDR_IPV4, "lo"));
        CHECK(host_of(e.uri()) == "127.0.0.1");
    }
    const Endpoint e(settings(NA_ADDR_IPV6, "lo:0"));
    CHECK(host_of(e.uri()) == "[::1]");
}

TEST_CASE("the transport's own format is no preference over IP", "[ofi][formats]") {
    Endpoint any(settings(NA_ADDR_UNSPEC));
    Endpoint native(settings(NA_ADDR_NATIVE));
    CHECK(host_of(native.uri()) == host_of(any.uri()));
    talk(native, any);
    if (has_v6_loopback()) {
        CHECK(host_of(Endpoint(settings(NA_ADDR_NATIVE, "[::1]")).uri()) == "[::1]");
    }
    CHECK(host_of(Endpoint(settings(NA_ADDR_NATIVE, "127.0.0.1")).uri()) == "127.0.0.1");
}

TEST_CASE("a host of another family than addr_format is refused", "[ofi][formats]") {
    const std::string protocol = options().protocol;
    std::string why;
    CHECK(refused(protocol + "://127.0.0.1:0", NA_ADDR_IPV6, why) == Status::invalid_arg);
    INFO(why);
    CHECK(says(why, "127.0.0.1 is not an IPv6 address, which was asked for as well"));
    CHECK(refused(protocol + "://0.0.0.0", NA_ADDR_IPV6, why) == Status::invalid_arg);
    CHECK(says(why, "0.0.0.0 means all interfaces"));
    CHECK(refused(protocol + "://[::]", NA_ADDR_IPV4, why) == Status::invalid_arg);
    CHECK(says(why, ":: means all interfaces"));
    if (has_v6_loopback()) {
        CHECK(refused(protocol + "://[::1]:0", NA_ADDR_IPV4, why) == Status::invalid_arg);
        CHECK(says(why, "::1 is not an IPv4 address, which was asked for as well"));
    }
}

TEST_CASE("a family that there is no address of is refused, with what there is", "[ofi][formats]") {
    std::string why;
    CHECK(refused(options().protocol, NA_ADDR_IPV6, why, "127.0.0.0/8") == Status::addrnotavail);
    INFO(why);
    CHECK(says(why, "has not an IPv6 address in ip_subnet 127.0.0.0/8"));
    CHECK(says(why, "this machine has "));
    CHECK(says(why, "127.0.0.1"));
}

TEST_CASE("a peer of the other family is refused, with the option that helps", "[ofi][formats]") {
    const bool v6 = GENERATE(false, true);
    if (!has(v6 ? AF_INET6 : AF_INET)) {
        support::skip(v6 ? "this machine has no IPv6" : "this machine has no IPv4");
        return;
    }
    na::InitInfo wanted;
    wanted.address_format = v6 ? AddressFormat::ipv6 : AddressFormat::ipv4;
    na::Domain domain = na::Domain::listen(options().protocol, wanted).value();
    const Quiet quiet;
    const std::string peer = options().protocol + (v6 ? "://127.0.0.1:7000" : "://[::1]:7000");
    const auto address = domain.lookup(peer);
    REQUIRE(address.status() == Status::invalid_arg);
    INFO(address.error().message);
    CHECK(says(address.error().message, v6 ? "is an IPv4 address, this class has IPv6"
                                           : "is an IPv6 address, this class has IPv4"));
    CHECK(says(address.error().message, "na_init_info.addr_format"));
}

TEST_CASE("a class at ::1 is reached by itself and by others", "[ofi][formats]") {
    if (!has_v6_loopback()) {
        return;
    }
    Endpoint a(settings(NA_ADDR_UNSPEC, "[::1]:0"));
    CHECK(host_of(a.uri()) == "[::1]");
    CHECK(says(support::ip_endpoint(a.uri()), "[::1]:"));
    talk(a, a);
    Endpoint b(settings(NA_ADDR_UNSPEC, "[::1]:0"));
    CHECK(host_of(b.uri()) == "[::1]");
    CHECK(a.uri() != b.uri());
    talk(a, b);
    talk(b, a);
}
