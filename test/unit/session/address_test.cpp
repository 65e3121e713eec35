// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/address.hpp"

#include <cstring>
#include <string>

#include <netinet/in.h>
#include <catch2/catch.hpp>

#include "na/session/secret.hpp"

using na::AddressFormat;
using na::Status;
using na::session::Address;
using na::session::Naming;

namespace {

std::span<const std::byte> bytes(const std::string& s) {
    return std::as_bytes(std::span(s));
}

// There and back, by each of the ways that there are.
void round_trip(Naming naming, const std::string& text) {
    INFO(text);
    const auto a = Address::parse(naming, text, AddressFormat::unspec);
    REQUIRE(a);
    CHECK(a->text() == text);
    const auto b = Address::decode(naming, AddressFormat::unspec, bytes(a->identity()));
    REQUIRE(b);
    CHECK(b->text() == text);
    CHECK(b->identity() == a->identity());
    const std::string raw = a->raw(0);
    const auto c = Address::from_raw(naming, raw.data(), raw.size());
    REQUIRE(c);
    CHECK(c->identity() == a->identity());
    CHECK(a->identity().size() <= Address::kMaxBytes);
}

void refuse(Naming naming, const std::string& identity,
            AddressFormat format = AddressFormat::unspec) {
    const auto a = Address::decode(naming, format, bytes(identity));
    REQUIRE_FALSE(a);
    CHECK(a.status() == Status::invalid_arg);
}

}  // namespace

TEST_CASE("addresses go there and come back") {
    round_trip(Naming::ip, "192.0.2.1:80");
    round_trip(Naming::ip, "[2001:db8::1]:65535");
    round_trip(Naming::text, "1234-0");
    round_trip(Naming::text, "server.one");
    round_trip(Naming::native, "00ff10");
}

TEST_CASE("equal addresses have equal bytes, others have not") {
    const auto id = [](const char* text) {
        return Address::parse(Naming::ip, text, AddressFormat::unspec)->identity();
    };
    CHECK(id("[2001:db8::1]:80") == id("[2001:0db8:0::1]:80"));
    CHECK(id("192.0.2.1:80") != id("192.0.2.1:81"));
    CHECK(id("192.0.2.1:80") != id("192.0.2.2:80"));
}

TEST_CASE("further contexts have places of their own") {
    const Address ip = *Address::parse(Naming::ip, "192.0.2.1:80", AddressFormat::unspec);
    const std::string raw = ip.raw(3);
    sockaddr_in at{};
    REQUIRE(raw.size() == sizeof at);
    std::memcpy(&at, raw.data(), sizeof at);
    CHECK(ntohs(at.sin_port) == 83);
    CHECK(at.sin_family == AF_INET);
    const Address text = *Address::parse(Naming::text, "name", AddressFormat::unspec);
    CHECK(text.raw(0) == std::string("name\0", 5));
    CHECK(text.raw(2) == std::string("name.2\0", 7));
}

TEST_CASE("text that is no address is refused") {
    for (const char* text : {"", ".", "a/b", "a b", ".hidden"}) {
        CHECK(Address::parse(Naming::text, text, AddressFormat::unspec).status() ==
              Status::invalid_arg);
    }
    CHECK(Address::parse(Naming::text, std::string(65, 'x'), AddressFormat::unspec).status() ==
          Status::invalid_arg);
    for (const char* text : {"", "0", "0g", "00 1"}) {
        CHECK(Address::parse(Naming::native, text, AddressFormat::unspec).status() ==
              Status::invalid_arg);
    }
    for (const char* text : {"", "192.0.2.1", "192.0.2.1:0", "192.0.2.1:99999"}) {
        CHECK_FALSE(Address::parse(Naming::ip, text, AddressFormat::unspec));
    }
}

TEST_CASE("bytes that are no address are refused") {
    const auto good = Address::parse(Naming::ip, "192.0.2.1:80", AddressFormat::unspec)->identity();
    refuse(Naming::ip, "");
    refuse(Naming::ip, good.substr(0, good.size() - 1));
    refuse(Naming::ip, good + "x");
    refuse(Naming::ip, "\x09" + good.substr(1));
    refuse(Naming::ip, std::string(300, '\x04'));
    refuse(Naming::ip, good, AddressFormat::ipv6);
    refuse(Naming::text, good);
    refuse(Naming::text, "t");
    refuse(Naming::text, "t../../etc");
    refuse(Naming::text, std::string("ta\0b", 4));
    refuse(Naming::native, "tname");
    refuse(Naming::native, "n");
    // Places that are nobody's: port 0, 0.0.0.0, multicast, a scope that is none.
    refuse(Naming::ip, good.substr(0, 1) + std::string(2, '\0') + good.substr(3));
    refuse(Naming::ip, good.substr(0, 3) + std::string(4, '\0'));
    refuse(Naming::ip, good.substr(0, 3) + "\xe0\x01\x01\x01");
    const auto v6 =
        Address::parse(Naming::ip, "[2001:db8::1]:80", AddressFormat::unspec)->identity();
    refuse(Naming::ip, "\x07" + v6.substr(1) + std::string(4, '\0'));
}

TEST_CASE("secrets: the same for the same, else not") {
    using na::session::Secret;
    const Secret s, other;
    const std::string text = "somebody's address";
    CHECK(s.hash(text, 1, 2) == s.hash(text, 1, 2));
    CHECK(s.hash(text, 1, 2) != other.hash(text, 1, 2));
    CHECK(s.hash(text, 1, 2) != s.hash(text, 2, 1));
    CHECK(s.hash(text, 1, 2) != s.hash(text, 1, 3));
    CHECK(s.hash("ab", 1, 2) != s.hash(std::string("ab\0", 3), 1, 2));
    CHECK(s.hash("", 1, 2) != s.hash(std::string(8, '\0'), 1, 2));
    CHECK(na::session::random_number() != na::session::random_number());
}
