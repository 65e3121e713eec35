// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/providers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

using na::Status;
using na::ofi::auth_key_bytes;
using na::ofi::KeyForm;
using na::ofi::Provider;
using na::ofi::providers;
using na::ofi::usual_name;

TEST_CASE("a native host is a device and a port", "[ofi][providers]") {
    using na::ofi::HostForm;
    const auto row = [](HostForm form) {
        return Provider{.protocol = "own", .fabric = "own", .host = form};
    };
    const Provider ports = row(HostForm::device_port);
    const Provider units = row(HostForm::hfi);
    struct Good {
        const char* text;
        const char* device;
        std::uint32_t port;
    };
    for (const Good& g :
         {Good{"", "", 0}, Good{"cxi0", "cxi0", 0}, Good{"cxi0:5", "cxi0", 5}, Good{":5", "", 5},
          Good{":0", "", 0}, Good{"cxi0:", "cxi0", 0}, Good{"cxi3:510", "cxi3", 510}}) {
        INFO(g.text);
        const auto host = na::ofi::parse_native_host(ports, g.text);
        REQUIRE(host);
        CHECK(host->device == g.device);
        CHECK(host->port == g.port);
    }
    for (const char* text : {"cxi0:511", "cxi0:x", ":-1", "cxi0:5:6", "cxi0:99999999999", "a: 5"}) {
        INFO(text);
        const auto host = na::ofi::parse_native_host(ports, text);
        REQUIRE_FALSE(host);
        CHECK(host.status() == na::Status::invalid_arg);
        CHECK(host.error().message.find("[device][:port]") != std::string::npos);
    }
    CHECK(na::ofi::parse_native_host(units, "hfi1_0:31416").value().port == 31416);

    using Names = std::vector<std::string>;
    CHECK(domain_names(ports, {}).empty());
    CHECK(domain_names(ports, {.device = "cxi0", .port = 5}) == Names{"cxi0"});
    CHECK(domain_names(units, {.device = "hfi1_2"}) == Names{"hfi1_2", "ib2"});
    CHECK(domain_names(units, {.device = "ib1"}) == Names{"ib1"});
    CHECK(domain_names(row(HostForm::ignored), {.device = "ipogif0"}).empty());
}

TEST_CASE("Mercury's other names stand for protocols that there are") {
    CHECK(usual_name("tcp_rxm") == "tcp;ofi_rxm");
    CHECK(usual_name("tcp_exp") == "tcp");
    CHECK(usual_name("sm") == "shm");
    for (const std::string_view other : {"tcp_rxm", "tcp_exp", "sm"}) {
        const auto rows = providers();
        CHECK(std::any_of(rows.begin(), rows.end(), [&](const na::ofi::Provider& p) {
            return p.protocol == usual_name(other);
        }));
        CHECK(std::none_of(rows.begin(), rows.end(),
                           [&](const na::ofi::Provider& p) { return p.protocol == other; }));
    }
    for (const std::string_view usual : {"tcp", "tcp;ofi_rxm", "shm", "", "tcp_rxm2"}) {
        CHECK(usual_name(usual) == usual);
    }
}

namespace {

constexpr Provider kPlain = {.protocol = "plain", .fabric = "plain"};
constexpr Provider kServices = {
    .protocol = "keyed", .fabric = "its provider", .auth_key = KeyForm::service_vni};

}  // namespace

TEST_CASE("a key is passed on as it is where the provider has no form of its own") {
    for (const std::string key : {"secret", "1:10", ":"}) {
        CHECK(auth_key_bytes(kPlain, key).value() == key);
    }
}

TEST_CASE("service and VNI become what the provider takes as a key") {
    // As fi_cxi_ext.h declares it.
    struct TheirKey {
        std::uint32_t svc_id;
        std::uint16_t vni;
    };
    struct {
        const char* text;
        std::uint32_t service;
        std::uint16_t vni;
    } const all[] = {{"1:10", 1, 10}, {"0:0", 0, 0}, {"4294967295:65535", UINT32_MAX, UINT16_MAX}};
    for (const auto& one : all) {
        INFO(one.text);
        const std::string bytes = auth_key_bytes(kServices, one.text).value();
        REQUIRE(bytes.size() == sizeof(TheirKey));
        REQUIRE(bytes.size() == 8);
        TheirKey key{};
        std::memcpy(&key, bytes.data(), sizeof key);
        CHECK(key.svc_id == one.service);
        CHECK(key.vni == one.vni);
        CHECK(bytes.substr(6) == std::string(2, '\0'));
    }
    CHECK(std::count_if(providers().begin(), providers().end(),
                        [](const Provider& p) { return p.auth_key == KeyForm::service_vni; }) == 1);
}

TEST_CASE("a key that has not the provider's form is refused, with the form") {
    for (const std::string_view text :
         {":", "1", "1:", ":10", "1:10:3", "1:10 ", " 1:10", "-1:10", "+1:10", "1:-1", "0x1:10",
          "4294967296:1", "1:65536", "service:vni", "1;10"}) {
        INFO(text);
        const auto bytes = auth_key_bytes(kServices, text);
        REQUIRE(bytes.status() == Status::invalid_arg);
        CHECK(bytes.error().message.find("ofi+keyed") != std::string::npos);
        CHECK(bytes.error().message.find("its provider takes \"service:vni\"") !=
              std::string::npos);
    }
}
