// SPDX-License-Identifier: BSD-3-Clause
// Addresses: strings, bytes, identity, references.
#include "common.hpp"

using namespace na_test;

TEST_CASE("an address is one object per peer and class", "[peer]") {
    Pair p;
    Addr again(p.a, p.b.uri());
    CHECK(again.get() == p.to_b.get());
    CHECK(NA_Addr_cmp(p.a.cls(), again, p.to_b));
    CHECK_FALSE(NA_Addr_cmp(p.a.cls(), again, nullptr));
    CHECK_FALSE(NA_Addr_cmp(p.a.cls(), nullptr, again));
    CHECK(NA_Addr_cmp(p.a.cls(), nullptr, nullptr));

    na_addr_t* dup = nullptr;
    REQUIRE(NA_Addr_dup(p.a.cls(), p.to_b, &dup) == NA_SUCCESS);
    CHECK(NA_Addr_cmp(p.a.cls(), dup, p.to_b));
    p.to_b.reset();
    again.reset();
    CHECK(support::to_string(p.a, dup) == p.b.uri());  // the last reference is enough
    NA_Addr_free(p.a.cls(), dup);
    NA_Addr_free(p.a.cls(), nullptr);
}

TEST_CASE("a class knows itself", "[peer]") {
    Pair p;
    na_addr_t* self = nullptr;
    REQUIRE(NA_Addr_self(p.a.cls(), &self) == NA_SUCCESS);
    CHECK(NA_Addr_is_self(p.a.cls(), self));
    CHECK_FALSE(NA_Addr_is_self(p.a.cls(), p.to_b));
    CHECK_FALSE(NA_Addr_is_self(p.a.cls(), nullptr));
    Addr looked_up(p.a, p.a.uri());
    CHECK(NA_Addr_cmp(p.a.cls(), self, looked_up));
    CHECK_FALSE(NA_Addr_cmp(p.a.cls(), self, p.to_b));
    NA_Addr_free(p.a.cls(), self);
}

TEST_CASE("an address prints as what can be looked up", "[peer]") {
    Pair p;
    CHECK(p.a.uri() != p.b.uri());
    CHECK(p.a.uri().find("://") != std::string::npos);
    const std::string text = support::to_string(p.a, p.to_b);
    CHECK(text == p.b.uri());
    const std::string cls = NA_Get_class_name(p.a.cls());
    REQUIRE(text.starts_with(cls + "+"));
    Addr without_class(p.a, text.substr(cls.size() + 1));
    CHECK(NA_Addr_cmp(p.a.cls(), without_class, p.to_b));

    // Sizes: asked, exact, one short.
    std::size_t size = 12345;
    REQUIRE(NA_Addr_to_string(p.a.cls(), nullptr, &size, p.to_b) == NA_SUCCESS);
    CHECK(size == text.size() + 1);
    std::vector<char> buffer(size + 8, '#');
    REQUIRE(NA_Addr_to_string(p.a.cls(), buffer.data(), &size, p.to_b) == NA_SUCCESS);
    CHECK(std::string(buffer.data()) == text);
    CHECK(buffer[text.size() + 1] == '#');
    const Quiet quiet;
    std::fill(buffer.begin(), buffer.end(), '#');
    for (std::size_t have = 0; have <= text.size(); ++have) {
        size = have;
        CHECK(NA_Addr_to_string(p.a.cls(), buffer.data(), &size, p.to_b) == NA_OVERFLOW);
        CHECK(size == text.size() + 1);
        CHECK(buffer[0] == '#');
    }
}

TEST_CASE("malformed addresses are refused", "[peer]") {
    Endpoint e;
    const Quiet quiet;
    auto* const untouched = reinterpret_cast<na_addr_t*>(&e);
    const std::string bad[] = {"",
                               ":",
                               "+",
                               "://",
                               "foo",
                               "foo+bar://1",
                               e.uri().substr(0, e.uri().find("://")),
                               e.uri().substr(0, e.uri().find("://")) + "://",
                               e.uri().substr(0, e.uri().find("://")) + ":/" + "x",
                               e.uri() + " " + e.uri(),
                               "\n",
                               "other" + e.uri(),
                               e.uri().substr(0, e.uri().find("://") + 3) + std::string(5000, '7')};
    for (const std::string& text : bad) {
        INFO(text.substr(0, 100));
        na_addr_t* addr = untouched;
        const na_return_t r = NA_Addr_lookup(e.cls(), text.c_str(), &addr);
        CHECK(r != NA_SUCCESS);
        CHECK(addr == untouched);
        if (r == NA_SUCCESS) {
            NA_Addr_free(e.cls(), addr);
        }
    }
}

TEST_CASE("an address travels as bytes", "[peer]") {
    Pair p;
    const std::size_t size = NA_Addr_get_serialize_size(p.a.cls(), p.to_b);
    REQUIRE(size > 0);
    std::vector<std::byte> bytes(size + 16, std::byte{0x5a});
    REQUIRE(NA_Addr_serialize(p.a.cls(), bytes.data(), size, p.to_b) == NA_SUCCESS);
    CHECK(bytes[size] == std::byte{0x5a});

    na_addr_t* copy = nullptr;
    REQUIRE(NA_Addr_deserialize(p.a.cls(), &copy, bytes.data(), size, 0) == NA_SUCCESS);
    CHECK(NA_Addr_cmp(p.a.cls(), copy, p.to_b));
    NA_Addr_free(p.a.cls(), copy);
    // More bytes than needed are somebody else's.
    REQUIRE(NA_Addr_deserialize(p.a.cls(), &copy, bytes.data(), bytes.size(), NA_ADDR_FIREWALL) ==
            NA_SUCCESS);
    NA_Addr_free(p.a.cls(), copy);

    // In another class it is the same peer; in its own it is itself.
    REQUIRE(NA_Addr_deserialize(p.b.cls(), &copy, bytes.data(), size, 0) == NA_SUCCESS);
    CHECK(NA_Addr_is_self(p.b.cls(), copy));
    NA_Addr_free(p.b.cls(), copy);
    Endpoint third;
    REQUIRE(NA_Addr_deserialize(third.cls(), &copy, bytes.data(), size, 0) == NA_SUCCESS);
    CHECK(support::to_string(third, copy) == p.b.uri());
    NA_Addr_free(third.cls(), copy);

    const Quiet quiet;
    for (std::size_t have = 0; have < size; ++have) {
        CHECK(NA_Addr_serialize(p.a.cls(), bytes.data(), have, p.to_b) ==
              (have == 0 ? NA_INVALID_ARG : NA_OVERFLOW));
    }
}

TEST_CASE("deserializing garbage is safe", "[peer]") {
    Pair p;
    std::vector<std::byte> bytes(NA_Addr_get_serialize_size(p.a.cls(), p.to_b));
    REQUIRE(NA_Addr_serialize(p.a.cls(), bytes.data(), bytes.size(), p.to_b) == NA_SUCCESS);
    const Quiet quiet;
    const auto attempt = [&](const std::vector<std::byte>& garbage) {
        na_addr_t* addr = nullptr;
        const na_return_t r =
            NA_Addr_deserialize(p.a.cls(), &addr, garbage.data(), garbage.size(), 0);
        if (r == NA_SUCCESS) {
            CHECK_FALSE(support::to_string(p.a, addr).empty());
            NA_Addr_free(p.a.cls(), addr);
        } else {
            CHECK((r == NA_OVERFLOW || r == NA_PROTOCOL_ERROR || r == NA_INVALID_ARG));
        }
        return r;
    };
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
        CHECK(attempt({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)}) ==
              NA_OVERFLOW);
    }
    support::Random random(options().seed);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        for (const unsigned value :
             {0U, 1U, 0x7fU, 0x80U, 0xffU, static_cast<unsigned>(random.below(256))}) {
            std::vector<std::byte> garbage = bytes;
            garbage[at] = static_cast<std::byte>(value);
            attempt(garbage);
        }
    }
    for (int i = 0; i < 2000; ++i) {
        std::vector<std::byte> garbage(1 + random.below(80));
        support::fill(garbage, random.next());
        if (random.below(2) == 0 && garbage.size() >= 4) {  // a plausible length in front
            garbage[0] = static_cast<std::byte>(random.below(garbage.size()));
            garbage[1] = garbage[2] = garbage[3] = std::byte{0};
        }
        attempt(garbage);
    }
    p.pump();
}

TEST_CASE("a removed address is still an address", "[peer]") {
    Pair p;
    CHECK(NA_Addr_set_remove(p.a.cls(), p.to_b) == NA_SUCCESS);
    CHECK(support::to_string(p.a, p.to_b) == p.b.uri());
}

TEST_CASE("addresses come and go", "[peer]") {
    Pair p;
    const std::string uri = p.b.uri();
    p.to_b.reset();
    for (int i = 0; i < 500; ++i) {
        Addr addr(p.a, uri);
        if (i % 3 == 0) {
            p.pump();
        }
        addr.reset();
        if (i % 5 == 0) {
            p.pump();
        }
    }
}
