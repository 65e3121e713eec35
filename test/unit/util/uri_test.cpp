// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/uri.hpp"

#include <catch2/catch.hpp>

using na::Status;
using na::util::parse_uri;

namespace {

struct Good {
    const char* text;
    const char* cls;
    const char* protocol;
    const char* host;
    bool has_host;
};

}  // namespace

TEST_CASE("well-formed info strings", "[uri]") {
    const Good cases[] = {
        {"sm", "", "sm", "", false},
        {"na+sm", "na", "sm", "", false},
        {"na+sm:", "na", "sm", "", false},
        {"na+sm://", "na", "sm", "", true},
        {"na+sm://123-0", "na", "sm", "123-0", true},
        {"tcp", "", "tcp", "", false},
        {"ofi+tcp;ofi_rxm://lo/127.0.0.1:23458", "ofi", "tcp;ofi_rxm", "lo/127.0.0.1:23458", true},
        {"ofi+tcp://[::1]:99", "ofi", "tcp", "[::1]:99", true},
        {"ucx+all://a,b", "ucx", "all", "a,b", true},
        {"fault+na+sm?again=0.3&seed=7://x", "fault", "na+sm?again=0.3&seed=7", "x", true},
        {"a+b://c+d://e", "a", "b", "c+d://e", true},
        {"na+sm:///", "na", "sm", "/", true},
    };
    for (const Good& c : cases) {
        INFO(c.text);
        const auto uri = parse_uri(c.text);
        REQUIRE(uri);
        CHECK(uri->class_name == c.cls);
        CHECK(uri->protocol == c.protocol);
        CHECK(uri->host == c.host);
        CHECK(uri->has_host == c.has_host);
    }
}

TEST_CASE("malformed info strings", "[uri]") {
    for (const std::string& text :
         {std::string(), std::string(":"), std::string("://"), std::string("://x"),
          std::string("+"), std::string("+sm"), std::string("na+"), std::string("na+://x"),
          std::string("na+sm:x"), std::string("na+sm:/x"), std::string("na sm"),
          std::string("na+sm://a b"), std::string("na+sm://a\n"), std::string("\x7f"),
          std::string("na+sm\0x", 7), std::string(1025, 'a')}) {
        const auto uri = parse_uri(text);
        INFO(text.substr(0, 60));
        REQUIRE_FALSE(uri);
        CHECK(uri.status() == Status::invalid_arg);
        CHECK(uri.error().message.size() > 20);
        CHECK(uri.error().message.size() < 400);
    }
    CHECK(parse_uri(std::string(1024, 'a')));
}

TEST_CASE("blanks around a text are left away", "[uri]") {
    using na::util::without_blanks;
    CHECK(without_blanks("na+sm://1-0\n") == "na+sm://1-0");
    CHECK(without_blanks(" \t\r\n\v\fa b \t\r\n\v\f") == "a b");
    CHECK(without_blanks("a") == "a");
    CHECK(without_blanks("").empty());
    CHECK(without_blanks(" \n").empty());
}
