// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/wire.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using na::session::Card;
using na::session::Header;
using na::session::Kind;

namespace {

std::vector<std::byte> bytes_of(const Header& h) {
    std::vector<std::byte> bytes(Header::kSize);
    h.write(bytes.data());
    return bytes;
}

std::vector<std::byte> bytes_of(const Card& c) {
    std::vector<std::byte> bytes(Card::kMaxSize);
    bytes.resize(c.write(bytes));
    return bytes;
}

const std::string kIdentity = "somebody";
na::session::ContextSet set_of(std::initializer_list<int> ids) {
    na::session::ContextSet set;
    for (const int id : ids) {
        set.add(static_cast<std::uint8_t>(id));
    }
    return set;
}

const Card kCard{.number = 0x1122334455667788,
                 .max_message = {4096, 65536},
                 .window = 256,
                 .context = 3,
                 .contexts = {.life = 0x99, .edition = 0x77, .open = set_of({0, 3, 15})},
                 .identity = kIdentity};

}  // namespace

TEST_CASE("header: what is written is read") {
    const Header h{.cookie = 0x0102030405060708,
                   .tag = 0xa1a2a3a4,
                   .kind = Kind::check,
                   .target = 7,
                   .taken = {0xfffe, 1},
                   .sent = {0xfffd, 2}};
    const auto bytes = bytes_of(h);
    Header r;
    REQUIRE(r.read(bytes));
    CHECK(r.cookie == h.cookie);
    CHECK(r.tag == h.tag);
    CHECK(r.kind == h.kind);
    CHECK(r.target == h.target);
    CHECK(r.taken[0] == h.taken[0]);
    CHECK(r.taken[1] == h.taken[1]);
    CHECK(r.sent[0] == h.sent[0]);
    CHECK(r.sent[1] == h.sent[1]);
    // Little-endian, and where wire.hpp says.
    CHECK(bytes[0] == std::byte{8});
    CHECK(bytes[8] == std::byte{0xa4});
    CHECK(bytes[12] == std::byte{na::session::kWireVersion});
}

TEST_CASE("header: what is not ours is refused") {
    const auto good = bytes_of(Header{.kind = Kind::bye});
    Header r;
    REQUIRE(r.read(good));
    for (std::size_t n = 0; n < Header::kSize; ++n) {
        CHECK_FALSE(r.read(std::span(good).first(n)));
    }
    for (const std::size_t at : {12U, 13U, 15U}) {  // version, kind, reserved
        auto bad = good;
        bad[at] = std::byte{0x7f};
        CHECK_FALSE(r.read(bad));
    }
    auto longer = good;
    longer.resize(100);
    CHECK(r.read(longer));  // a body
}

TEST_CASE("card: what is written is read") {
    const auto bytes = bytes_of(kCard);
    Card r;
    REQUIRE(r.read(bytes));
    CHECK(r.number == kCard.number);
    CHECK(r.max_message[0] == 4096);
    CHECK(r.max_message[1] == 65536);
    CHECK(r.window == 256);
    CHECK(r.context == 3);
    CHECK(r.contexts.life == 0x99);
    CHECK(r.contexts.edition == 0x77);
    CHECK(r.contexts.open == set_of({0, 3, 15}));
    CHECK_FALSE(r.contexts.open.has(1));
    CHECK_FALSE(r.contexts.open.has(255));
    CHECK(r.identity == kIdentity);
    Card longest = kCard;
    const std::string name(255, 'x');
    longest.identity = name;
    longest.contexts.open.add(255);
    const auto most = bytes_of(longest);
    CHECK(most.size() == Card::kMaxSize);
    REQUIRE(r.read(most));
    CHECK(r.identity == name);
}

TEST_CASE("card: malformed ones are refused") {
    const auto good = bytes_of(kCard);
    Card r;
    for (std::size_t n = 0; n < good.size(); ++n) {
        CHECK_FALSE(r.read(std::span(good).first(n)));
    }
    auto longer = good;
    longer.push_back(std::byte{});
    CHECK_FALSE(r.read(longer));
    Card bad = kCard;
    bad.window = 0;
    CHECK_FALSE(r.read(bytes_of(bad)));
    bad = kCard;
    bad.identity = {};
    CHECK_FALSE(r.read(bytes_of(bad)));
    bad = kCard;
    bad.context = 2;  // not one of its own
    CHECK_FALSE(r.read(bytes_of(bad)));
    // The set has one form for each content, and no more than there are ids.
    constexpr std::size_t kSetSize = 8 + 8 + 2 + 1 + 8 + 8;
    REQUIRE(good[kSetSize] == std::byte{2});
    auto zero = good;
    zero[kSetSize] = std::byte{3};
    zero.insert(zero.begin() + kSetSize + 3, std::byte{});
    CHECK_FALSE(r.read(zero));
    auto wide = good;
    wide[kSetSize] = std::byte{33};
    wide.insert(wide.begin() + kSetSize + 3, 31, std::byte{1});
    CHECK_FALSE(r.read(wide));
}
