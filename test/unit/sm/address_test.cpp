// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/address.hpp"

#include <string>
#include <vector>

#include <unistd.h>
#include <catch2/catch.hpp>

#include "unit/sm/node.hpp"

using namespace sm_test;

TEST_CASE("address: names") {
    using na::sm::check_name;
    CHECK(check_name("1234-0"));
    CHECK(check_name("storage.server:7"));
    CHECK(check_name(std::string(na::sm::kMaxName, 'x')));
    for (const std::string& bad :
         {std::string(), std::string(na::sm::kMaxName + 1, 'x'), std::string("a/b"),
          std::string("a b"), std::string("a\0b", 3), std::string("a\n"), std::string("\x7f")}) {
        const auto result = check_name(bad);
        REQUIRE_FALSE(result);
        CHECK(result.status() == Status::invalid_arg);
        CHECK(result.error().message.find("sm") != std::string::npos);
    }
}

TEST_CASE("address: which process a name belongs to") {
    using na::sm::owner_of;
    const auto plain = owner_of("17-3");
    REQUIRE(plain);
    CHECK(plain->process == 17);
    CHECK(plain->namespaces == 0);
    CHECK(plain->lives_in(5));
    const std::string made = na::sm::make_name({.process = 17, .namespaces = 0xab}, 3, 0xcd);
    CHECK(made == "17-3.000000ab000000cd");
    CHECK(na::sm::check_name(made));
    const auto full = owner_of(made);
    REQUIRE(full);
    CHECK(full->process == 17);
    CHECK(full->namespaces == 0xab);
    CHECK(full->lives_in(0xab));
    CHECK(full->lives_in(0));  // this side does not know where it is
    CHECK_FALSE(full->lives_in(0xac));
    for (const char* name :
         {"17", "17-", "-3", "17-3x", "x17-3", "17-3-4", "0-1", "-17-3", "99999999999-1", "17--3",
          "+17-3", "17-3.", "17-3.0", "17-3.000000ab000000c", "17-3.000000ab000000cd0",
          "17-3.000000ag000000cd", "17-3.-00000ab000000cd", "17.3-4", "17-.000000ab000000cd"}) {
        INFO(name);
        CHECK_FALSE(owner_of(name));
    }
}

TEST_CASE("address: uris") {
    using na::sm::parse_uri;
    CHECK(*parse_uri("sm://17-3") == "17-3");
    for (const char* uri :
         {"", "sm", "sm:", "sm:/17-3", "sm://", "na+sm://17-3", "tcp://17-3", "sm://a/b"}) {
        INFO(uri);
        CHECK(parse_uri(uri).status() == Status::invalid_arg);
    }
}

TEST_CASE("domain: names") {
    SECTION("numbers differ") {
        Node a;
        Node b;
        CHECK(a.uri() != b.uri());
        CHECK(a.uri().starts_with("sm://" + std::to_string(getpid()) + "-"));
    }
    SECTION("a chosen name is one's own while one lives") {
        auto s = kDefaults;
        s.host = "unit-name." + std::to_string(getpid());
        {
            Node a(s);
            CHECK(a.uri() == "sm://" + s.host);
            const auto second = na::sm::Domain::open(s);
            REQUIRE_FALSE(second);
            CHECK(second.status() == Status::addrinuse);
            CHECK(second.error().message.find(s.host) != std::string::npos);
        }
        Node again(s);
    }
    SECTION("names that are refused") {
        for (const std::string& host :
             {std::string("a/b"), std::string(200, 'x'), std::string("1-0"), std::string("a b")}) {
            auto s = kDefaults;
            s.host = host;
            const auto domain = na::sm::Domain::open(s);
            REQUIRE_FALSE(domain);
            CHECK(domain.status() == Status::invalid_arg);
        }
    }
    SECTION("who does not listen has a number") {
        auto s = kDefaults;
        s.host = "1-0";  // some programs give the server's address here
        s.listen = false;
        Node a(s);
        CHECK(a.uri().starts_with("sm://" + std::to_string(getpid()) + "-"));
    }
    SECTION("messages beyond all measure") {
        CHECK(na::sm::Domain::open(spec(std::size_t{1} << 40)).status() == Status::invalid_arg);
    }
    SECTION("a message can be smaller and larger than the default") {
        CHECK(Node(spec(100)).domain->caps().max_message[0] == 100);
        CHECK(Node(spec(1 << 20)).domain->caps().max_message[1] == 1 << 20);
        CHECK(Node().domain->caps().max_message[0] == 16384 + 256);
    }
    SECTION("32 endpoints") {
        std::vector<std::unique_ptr<Node>> nodes;
        for (int i = 0; i < 32; ++i) {
            nodes.push_back(std::make_unique<Node>());
        }
        TestOp op;
        for (auto& n : nodes) {
            n->send(op, *nodes[0], Lane::unexpected, 1, "x", 1);
        }
        CHECK(settle([&] { return (*nodes[0])->messages.size() == 32; }, *nodes[0]));
    }
    SECTION("decoding identities") {
        Node a;
        for (const std::string& bad : {std::string(), std::string("a/b"), std::string(500, 'x')}) {
            CHECK(a.domain->decode_peer(std::as_bytes(std::span(bad))).status() ==
                  Status::protocol_error);
        }
        const std::string good = "17-3";
        auto peer = a.domain->decode_peer(std::as_bytes(std::span(good)));
        REQUIRE(peer);
        CHECK((*peer)->uri() == "sm://17-3");
        CHECK((*peer)->encode({}) == good.size());
    }
}
