// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/bytes.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

using na::util::ByteReader;
using na::util::ByteWriter;

TEST_CASE("integers travel little-endian", "[bytes]") {
    std::array<std::byte, 15> out{};
    ByteWriter w(out);
    w.integer(std::uint8_t{0x01});
    w.integer(std::uint16_t{0x0302});
    w.integer(std::uint32_t{0x07060504});
    w.integer(std::int64_t{-2});
    REQUIRE(w.good());
    CHECK(w.written() == 15);
    CHECK(w.rest().empty());
    for (std::size_t i = 0; i < 7; ++i) {
        CHECK(out[i] == static_cast<std::byte>(i + 1));
    }
    CHECK(out[7] == std::byte{0xfe});
    CHECK(out[14] == std::byte{0xff});
    ByteReader r(out);
    CHECK(r.integer<std::uint8_t>() == 0x01);
    CHECK(r.integer<std::uint16_t>() == 0x0302);
    CHECK(r.integer<std::uint32_t>() == 0x07060504);
    CHECK(r.integer<std::int64_t>() == -2);
    CHECK(r.good());
    CHECK(r.left() == 0);
}

TEST_CASE("a reader that runs out stays failed and yields zeros", "[bytes]") {
    const std::vector<std::byte> in(5, std::byte{0xff});
    ByteReader r(in);
    CHECK(r.integer<std::uint32_t>() == 0xffffffff);
    CHECK(r.integer<std::uint16_t>() == 0);
    CHECK_FALSE(r.good());
    CHECK(r.integer<std::uint8_t>() == 0);  // although there was a byte left
    CHECK(r.bytes(0).empty());
    CHECK(r.left() == 0);
    CHECK_FALSE(r.good());
}

TEST_CASE("lengths near the end of the number line do not wrap", "[bytes]") {
    const std::vector<std::byte> in(16);
    for (const std::uint64_t n :
         {std::uint64_t{17}, std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 8,
          std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max() - 7,
          std::uint64_t{1} << 63}) {
        ByteReader r(in);
        CHECK(r.bytes(n).empty());
        CHECK_FALSE(r.good());
    }
    ByteReader r(in);
    CHECK(r.bytes(16).size() == 16);
    CHECK(r.good());
}

TEST_CASE("a reader of nothing", "[bytes]") {
    ByteReader r({});
    CHECK(r.bytes(0).empty());
    CHECK(r.good());
    CHECK(r.integer<std::uint8_t>() == 0);
    CHECK_FALSE(r.good());
}

TEST_CASE("a writer that does not fit writes nothing more", "[bytes]") {
    std::array<std::byte, 6> out{};
    ByteWriter w{std::span(out).first(5)};
    w.integer(std::uint32_t{0x01010101});
    w.integer(std::uint16_t{0x0202});
    CHECK_FALSE(w.good());
    w.integer(std::uint8_t{3});
    CHECK(w.written() == 4);
    CHECK(out[4] == std::byte{0});
    CHECK(out[5] == std::byte{0});
    CHECK(w.space(0) == nullptr);
}

TEST_CASE("text and raw bytes", "[bytes]") {
    std::array<std::byte, 8> out{};
    ByteWriter w(out);
    w.bytes("abc");
    w.bytes(nullptr, 0);
    w.bytes(std::string_view{});
    std::byte* hole = w.space(2);
    REQUIRE(hole != nullptr);
    hole[0] = hole[1] = std::byte{'z'};
    CHECK(w.good());
    CHECK(w.written() == 5);
    ByteReader r(out);
    const auto bytes = r.bytes(5);
    CHECK(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == "abczz");
}
