// SPDX-License-Identifier: BSD-3-Clause
// The RPC wire format: golden bytes, and every way to be wrong.
#include <catch2/catch.hpp>

#include <cstddef>
#include <cstring>
#include <vector>

#include "hg/auto_sm.hpp"
#include "hg/wire.hpp"

using namespace hg::wire;
using na::Status;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> values) {
    Bytes b;
    for (const int v : values) {
        b.push_back(static_cast<std::byte>(v));
    }
    return b;
}

template <typename Header>
Bytes make(const Header& header, std::size_t size, std::initializer_list<int> payload) {
    Bytes b(size);
    const Bytes p = bytes(payload);
    b.insert(b.end(), p.begin(), p.end());
    encode(b.data(), header, p.size());
    return b;
}

}  // namespace

TEST_CASE("a request in bytes") {
    const Request request{
        .flags = kOneWay, .origin_context = 3, .cookie = 0x04030201, .id = 0x1122334455667788};
    const Bytes b = make(request, kRequestSize, {9, 8, 7});
    CHECK(b == bytes({0xc1, 2,    2, 3, 1, 2, 3, 4, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
                      0x22, 0x11, 3, 0, 0, 0, 0, 0, 0,    0,    9,    8,    7}));
    Request r;
    const Received received = decode(b, r);
    REQUIRE(received.status == Status::success);
    CHECK(received.payload.size() == 3);
    CHECK(received.payload.data() == b.data() + kRequestSize);
    CHECK(r.flags == request.flags);
    CHECK(r.origin_context == 3);
    CHECK(r.cookie == request.cookie);
    CHECK(r.id == request.id);
}

TEST_CASE("a response in bytes") {
    const Bytes b =
        make(Response{.code = Status::hostunreach, .cookie = 0x04030201}, kResponseSize, {5});
    CHECK(b == bytes({0xc2, 2, 0, 19, 1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 5}));
    Response r;
    const Received received = decode(b, r);
    REQUIRE(received.status == Status::success);
    CHECK(received.payload.size() == 1);
    CHECK(r.code == Status::hostunreach);
    CHECK(r.cookie == 0x04030201);
}

TEST_CASE("checksums cover what they say") {
    for (const std::uint8_t flags :
         {kHeaderChecksum, static_cast<std::uint8_t>(kHeaderChecksum | kPayloadChecksum)}) {
        const Bytes good =
            make(Request{.flags = flags, .cookie = 1, .id = 2}, kRequestSize, {1, 2, 3, 4});
        Request r;
        REQUIRE(decode(good, r).status == Status::success);
        for (std::size_t at = 4; at < good.size(); ++at) {
            for (int bit = 0; bit < 8; ++bit) {
                Bytes bad = good;
                bad[at] ^= static_cast<std::byte>(1 << bit);
                const bool covered = at < kRequestSize || (flags & kPayloadChecksum) != 0;
                INFO("byte " << at << " bit " << bit);
                CHECK((decode(bad, r).status == Status::success) == !covered);
            }
        }
    }
    CHECK(make(Response{.flags = kHeaderChecksum, .cookie = 7}, kResponseSize, {})[12] !=
          std::byte{0});
}

TEST_CASE("what is no request") {
    const Bytes good = make(Request{.cookie = 1, .id = 2}, kRequestSize, {1, 2});
    Request r;
    for (std::size_t size = 0; size < kRequestSize; ++size) {
        CHECK(decode(std::span(good).first(size), r).status == Status::protocol_error);
    }
    CHECK(decode(std::span(good).first(kRequestSize + 1), r).status == Status::protocol_error);
    const auto with = [&](std::size_t at, int value) {
        Bytes b = good;
        b[at] = static_cast<std::byte>(value);
        return decode(b, r).status;
    };
    CHECK(with(0, 0xc2) == Status::protocol_error);
    CHECK(with(1, 1) == Status::protocol_error);
    CHECK(with(1, 3) == Status::protocol_error);
    for (const int flags : {0x08, 0x11, 0x40, 0x80, 0xff}) {
        CHECK(with(2, flags) == Status::protocol_error);
    }
    CHECK(with(2, kTimed) == Status::success);
    CHECK(with(2, kMoreData) == Status::success);
    CHECK(with(2, kHeaderChecksum) == Status::checksum_error);
    CHECK(with(8, 0) == Status::protocol_error);   // id 0
    CHECK(with(16, 1) == Status::protocol_error);  // payload size
    CHECK(with(19, 1) == Status::protocol_error);
    CHECK(with(20, 1) == Status::protocol_error);  // a checksum that is not announced
    CHECK(with(3, 9) == Status::success);
}

TEST_CASE("what is no response") {
    const Bytes good = make(Response{.cookie = 1}, kResponseSize, {1, 2});
    Response r;
    for (std::size_t size = 0; size < kResponseSize; ++size) {
        CHECK(decode(std::span(good).first(size), r).status == Status::protocol_error);
    }
    const auto with = [&](std::size_t at, int value) {
        Bytes b = good;
        b[at] = static_cast<std::byte>(value);
        return decode(b, r).status;
    };
    CHECK(with(0, 0xc1) == Status::protocol_error);
    CHECK(with(1, 0) == Status::protocol_error);
    CHECK(with(2, kOneWay) == Status::protocol_error);
    CHECK(with(2, 0x80) == Status::protocol_error);
    CHECK(with(3, static_cast<int>(Status::other_error)) == Status::success);
    CHECK(with(3, static_cast<int>(Status::other_error) + 1) == Status::protocol_error);
    CHECK(with(3, 255) == Status::protocol_error);
    CHECK(with(8, 3) == Status::protocol_error);
    CHECK(with(12, 3) == Status::protocol_error);
}

namespace {

// Every message that differs from `right` in one byte, or in length: glance() never says more than
// decode().
template <typename Header, typename Same>
unsigned count_glances(const Bytes& right, Same&& same) {
    unsigned seen = 0;
    const auto look = [&](const Bytes& b) {
        Header seen_by_glance;
        Header decoded;
        const bool good = glance(b, seen_by_glance);
        const Received received = decode(b, decoded);
        if (good) {
            ++seen;
            CHECK(received.status == Status::success);
            CHECK(same(seen_by_glance, decoded));
        }
    };
    look(right);
    for (std::size_t i = 0; i < right.size(); ++i) {
        look(Bytes(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(i)));
        for (int value = 0; value < 256; ++value) {
            Bytes b = right;
            b[i] = static_cast<std::byte>(value);
            look(b);
        }
    }
    return seen;
}

}  // namespace

TEST_CASE("a glance finds what decoding finds") {
    const Request request{.flags = 0, .origin_context = 3, .cookie = 0x04030201, .id = 5};
    const auto same_request = [](const Request& a, const Request& b) {
        return a.flags == b.flags && a.origin_context == b.origin_context && a.cookie == b.cookie &&
               a.id == b.id;
    };
    // Itself, once per byte; any origin, cookie and payload, ids but 0, one-way.
    CHECK(count_glances<Request>(make(request, kRequestSize, {9, 8, 7}), same_request) ==
          1 + 27 + (1 + 4 + 3) * 255 + (8 * 255 - 1) + 1);
    const auto same_response = [](const Response& a, const Response& b) {
        return a.flags == b.flags && a.code == b.code && a.cookie == b.cookie;
    };
    CHECK(count_glances<Response>(make(Response{.cookie = 7}, kResponseSize, {9, 8}),
                                  same_response) == 1 + 18 + (4 + 2) * 255);
    Response response;
    CHECK_FALSE(glance(make(Response{.flags = kHeaderChecksum}, kResponseSize, {}), response));
    CHECK_FALSE(glance(make(Response{.code = Status::noentry}, kResponseSize, {}), response));
}

TEST_CASE("the announcement of a large payload") {
    Bytes b(kOverflowSize + 5);
    encode_overflow(b.data(), 0x0102030405060708, 0x0a0b0c0d, 5);
    CHECK(b == bytes({8, 7, 6, 5, 4, 3, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a, 5, 0, 0, 0, 0, 0, 0, 0, 0}));
    Overflow o;
    REQUIRE(decode(b, o) == Status::success);
    CHECK(o.size == 0x0102030405060708);
    CHECK(o.checksum == 0x0a0b0c0d);
    CHECK(o.descriptor.size() == 5);
    for (std::size_t size = 0; size < b.size(); ++size) {
        CHECK(decode(std::span(b).first(size), o) == Status::protocol_error);
    }
    b.push_back(std::byte{0});
    CHECK(decode(b, o) == Status::protocol_error);
    b.pop_back();
    std::memset(b.data(), 0, 8);
    CHECK(decode(b, o) == Status::protocol_error);
}

TEST_CASE("names of addresses with two parts") {
    const auto pair = hg::parse_pair("uid://host#na+sm://1-1#ofi+tcp://1.2.3.4:5");
    REQUIRE(pair);
    CHECK(pair->host == "host");
    CHECK(pair->sm == "na+sm://1-1");
    CHECK(pair->net == "ofi+tcp://1.2.3.4:5");
    CHECK(hg::format_pair(*pair) == "uid://host#na+sm://1-1#ofi+tcp://1.2.3.4:5");
    for (const char* text : {"", "uid:/", "uid://", "uid://#", "uid://a", "uid://a#", "uid://a#b",
                             "uid://a##c", "uid://a#b#", "uid://#b#c", "na+sm://x"}) {
        CHECK(!hg::parse_pair(text));
    }
}
