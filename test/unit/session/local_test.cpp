// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/local.hpp"

#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "na/session/wire.hpp"

using na::Error;
using na::Result;
using na::Status;
using na::session::Local;
using na::session::Naming;

namespace {

na::plugin::OpenSpec spec(std::size_t unexpected, std::size_t expected, std::uint8_t contexts = 1) {
    na::plugin::OpenSpec s;
    s.protocol = "mem";
    s.info.max_unexpected = unexpected;
    s.info.max_expected = expected;
    s.info.max_contexts = contexts;
    s.listen = true;
    return s;
}

// Ports of a machine, some of them taken.
struct Machine {
    std::set<std::uint16_t> taken;
    std::uint16_t any = 40'000;  // the next free one
    std::vector<std::uint16_t> ours;
    int rounds = 0;

    Error listen(Local& local, const na::util::PortRange& ports) {
        na::util::IpChoice ip;
        ip.address = *na::util::IpAddress::parse("192.0.2.1");
        ip.ports = ports;
        return na::session::listen_in_row(
            local, ip,
            [&](std::uint8_t id, std::uint16_t port) -> Result<std::uint16_t> {
                CHECK(id == ours.size());
                if (port == 0) {
                    port = any++;
                }
                if (taken.count(port) != 0) {
                    return Error{Status::addrinuse, "taken"};
                }
                ours.push_back(port);
                return port;
            },
            [&] {
                ours.clear();
                ++rounds;
            });
    }
};

}  // namespace

TEST_CASE("sizes of messages, and the window that follows") {
    const Local usual("test", spec(0, 0), Naming::ip);
    CHECK(usual.name == "test+mem");
    CHECK(usual.caps.max_message[0] == 4096);
    CHECK(usual.caps.headroom[1] == na::session::Header::kSize);
    // Users of na.h see none of that.
    CHECK(usual.caps.max_message[1] == 4096 + na::session::Header::kSize);
    CHECK(usual.window >= 250);
    CHECK(usual.largest == usual.caps.max_message[1]);
    CHECK(usual.contexts == 1);
    const Local larger("test", spec(0, 4096), Naming::ip, 65536);
    CHECK(larger.caps.max_message[0] == 65536);
    CHECK(larger.caps.max_message[1] == 4096);
    CHECK(larger.window == 64);
    const Local large("test", spec(0, 1 << 20), Naming::ip);
    CHECK(large.caps.max_message[0] == 4096);
    CHECK(large.caps.max_message[1] == 1 << 20);
    CHECK(large.window == 8);
    CHECK(large.bounce_bytes() >= 1 << 20);
    CHECK(na::ok(Local::check_sizes("test", spec(0, 0)).status));
    CHECK(na::ok(Local::check_sizes("test", spec(24, 1 << 24)).status));
    for (const auto& bad : {spec(23, 0), spec(0, 23), spec((1 << 24) + 1, 0)}) {
        const Error e = Local::check_sizes("test", bad);
        CHECK(e.status == Status::invalid_arg);
        CHECK(e.message.find("test+mem") != std::string::npos);
    }
}

TEST_CASE("peers by text and by bytes") {
    Local local("test", spec(0, 0), Naming::ip);
    local.address =
        *na::session::Address::parse(Naming::ip, "192.0.2.1:7", na::AddressFormat::unspec);
    CHECK(local.uri() == "mem://192.0.2.1:7");
    const auto peer = local.connect("mem://192.0.2.9:80", {});
    REQUIRE(peer);
    CHECK((*peer)->uri() == "mem://192.0.2.9:80");
    std::vector<std::byte> identity((*peer)->encode({}));
    (*peer)->encode(identity);
    const auto same = local.decode_peer(identity);
    REQUIRE(same);
    CHECK((*same)->uri() == (*peer)->uri());
    identity.pop_back();
    CHECK(local.decode_peer(identity).status() == Status::invalid_arg);
    for (const char* uri : {"192.0.2.9:80", "", "://", "mem://"}) {
        CHECK_FALSE(local.connect(uri, {}));
    }
    const auto other = local.connect("tcp://192.0.2.9:80", "which has moved");
    REQUIRE_FALSE(other);
    CHECK(other.error().message.find("test+mem, which has moved") != std::string::npos);
    CHECK(other.error().message.find(local.uri()) != std::string::npos);
}

TEST_CASE("contexts listen in a row") {
    Local local("test", spec(0, 0, 3), Naming::ip);
    Machine m;
    REQUIRE(na::ok(m.listen(local, {5000, 5000}).status));
    CHECK(m.ours == std::vector<std::uint16_t>{5000, 5001, 5002});
    CHECK(local.uri() == "mem://192.0.2.1:5000");
    // A range: the first port behind which there is room.
    m.taken = {5001, 5005};
    REQUIRE(na::ok(m.listen(local, {5000, 5010}).status));
    CHECK(m.ours == std::vector<std::uint16_t>{5002, 5003, 5004});
    // None of them leaves it, whoever the last port belongs to.
    m.taken = {5000};
    REQUIRE(na::ok(m.listen(local, {5000, 5003}).status));
    CHECK(m.ours == std::vector<std::uint16_t>{5001, 5002, 5003});
    m.taken = {5000, 5001};
    CHECK(m.listen(local, {5000, 5003}).status == Status::addrinuse);
    m.taken = {};
    const Error narrow = m.listen(local, {5000, 5001});
    CHECK(narrow.status == Status::invalid_arg);
    CHECK(narrow.message.find("ports 5000-5001 are 2") != std::string::npos);
    // Only those that there are from the beginning; and who does not listen wants any of them.
    na::plugin::OpenSpec one = spec(0, 0, 1);
    one.contexts = 8;
    Local alone("test", one, Naming::ip);
    m.taken = {5000};
    REQUIRE(na::ok(m.listen(alone, {5000, 5001}).status));
    CHECK(m.ours == std::vector<std::uint16_t>{5001});
    m.taken = {};
    one = spec(0, 0, 3);
    one.listen = false;
    Local silent("test", one, Naming::ip);
    CHECK(na::ok(m.listen(silent, {5000, 5001}).status));
    // Any: what the machine gives may have no free one behind it.
    m.taken = {40'001};
    REQUIRE(na::ok(m.listen(local, {}).status));
    CHECK(m.ours.size() == 3);
    CHECK(m.ours[0] > 40'001);
    CHECK(m.ours[2] == m.ours[0] + 2);
}

TEST_CASE("who does not listen takes another port where his is in use") {
    na::plugin::OpenSpec silent = spec(0, 0, 2);
    silent.listen = false;
    Local local("test", silent, Naming::ip);
    Machine m;
    REQUIRE(na::ok(m.listen(local, {5000, 5000}).status));
    CHECK(m.ours == std::vector<std::uint16_t>{5000, 5001});
    m.taken = {5001, 40'001};
    REQUIRE(na::ok(m.listen(local, {5000, 5000}).status));
    CHECK(m.ours.size() == 2);
    CHECK(m.ours[0] > 40'001);
    CHECK(m.ours[1] == m.ours[0] + 1);
    for (std::uint32_t p = 40'000; p < 65'536; ++p) {
        m.taken.insert(static_cast<std::uint16_t>(p));
    }
    m.any = 40'000;
    CHECK(m.listen(local, {5000, 5000}).status == Status::addrinuse);
    CHECK(m.ours.empty());
}

TEST_CASE("no room to listen says what to do") {
    Local local("test", spec(0, 0, 2), Naming::ip);
    Machine m;
    m.taken = {5001};
    Error e = m.listen(local, {5000, 5000});
    CHECK(e.status == Status::addrinuse);
    CHECK(e.message ==
          "test+mem: port 5001, for context 1 of a class at 5000, is in use on 192.0.2.1 (taken): "
          "choose another port, or 0 for any");
    CHECK(m.ours.empty());
    e = m.listen(local, {65535, 65535});
    CHECK(e.status == Status::addrinuse);
    CHECK(e.message ==
          "test+mem: port 65536, for context 1 of a class at 65535, does not exist: choose another "
          "port, or 0 for any");
    m.taken = {6001, 6002};
    e = m.listen(local, {6000, 6002});
    CHECK(e.status == Status::addrinuse);
    CHECK(e.message ==
          "test+mem: none of the ports 6000-6002 will do, the last because port 6001 is in use on "
          "192.0.2.1 (taken): choose another port, or 0 for any");
    m.taken = {5001};
    // Not for ever.
    for (std::uint32_t p = 40'000; p < 65'536; ++p) {
        m.taken.insert(static_cast<std::uint16_t>(p));
    }
    m.rounds = 0;
    CHECK(m.listen(local, {}).status == Status::addrinuse);
    CHECK(m.rounds <= 65);
}
