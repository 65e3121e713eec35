// SPDX-License-Identifier: BSD-3-Clause
// Options of a class that the provider alone makes something of: what libfabric is asked for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "heard.hpp"
#include "modes.hpp"
#include "spies.hpp"
#include "support/options.hpp"

namespace {

// Empty: not here.
std::string protocol_of_case() {
    std::string protocol =
        GENERATE(as<std::string>{}, "ofi+tcp", "ofi+tcp;ofi_rxm", "ofi+sockets", "ofi+shm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        protocol.clear();
    }
    return protocol;
}

// Opens a class, and says what the domain was opened with.
modes::Wish open(const std::string& protocol, const na::InitInfo& options) {
    modes::asked().clear();
    modes::opened().clear();
    const auto domain = na::Domain::listen(protocol, options);
    INFO((domain ? std::string() : domain.error().message));
    REQUIRE(domain);
    REQUIRE_FALSE(modes::asked().empty());
    REQUIRE(modes::opened().size() == 1);
    return modes::opened().front();
}

}  // namespace

TEST_CASE("who promises one thread for a class gets one without locks", "[ofi][asked]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    const bool single = GENERATE(true, false);
    INFO(protocol << (single ? ", one thread" : ", several threads"));
    na::InitInfo options;
    options.single_class = single;
    open(protocol, options);
    const fi_threading wanted = single ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    CHECK(modes::asked().back().threading == wanted);
    CHECK(modes::opened().front().threading != FI_THREAD_UNSPEC);
}

TEST_CASE("a traffic class is asked for, and done without where there is none", "[ofi][asked]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    INFO(protocol);
    na::InitInfo options;
    open(protocol, options);
    CHECK(modes::asked().front().traffic_class == FI_TC_UNSPEC);
    options.traffic_class = na::TrafficClass::low_latency;
    open(protocol, options);
    CHECK(modes::asked().front().traffic_class == FI_TC_LOW_LATENCY);
}

TEST_CASE("a key goes to the provider that takes keys", "[ofi][asked]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    INFO(protocol);
    const modes::Keyed keyed;
    const Heard heard("warning");
    na::InitInfo options;
    CHECK(open(protocol, options).key.empty());
    options.auth_key = "open sesame";
    CHECK(open(protocol, options).key == "open sesame");
    CHECK(Heard::text().find("auth_key") == std::string::npos);
}

TEST_CASE("a key that the provider does not take opens nothing, and the log says so",
          "[ofi][asked]") {
    const std::string protocol = protocol_of_case();
    if (protocol.empty()) {
        return;
    }
    INFO(protocol);
    modes::asked().clear();
    modes::opened().clear();
    na::InitInfo options;
    options.auth_key = "open sesame";
    const auto domain = na::Domain::listen(protocol, options);
    REQUIRE_FALSE(domain);
    CHECK(domain.status() == na::Status::opnotsupported);
    CHECK(modes::opened().empty());
    REQUIRE_FALSE(modes::asked().empty());
    CHECK(modes::asked().front().key == "open sesame");
    const std::string& why = domain.error().message;
    INFO(why);
    CHECK(why.find(protocol + ": provider ") != std::string::npos);
    CHECK(why.find("takes no such auth_key") != std::string::npos);
    CHECK(why.find("sesame") == std::string::npos);  // it is a secret
}
