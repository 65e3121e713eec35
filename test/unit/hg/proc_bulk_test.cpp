// SPDX-License-Identifier: BSD-3-Clause
// Bulk descriptors as members, over the fake bulk layer of fake_hg.cpp.
#include "mercury_proc_bulk.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#include "proc_fixture.hpp"

using namespace proc_test;

namespace {

constexpr std::size_t kDescriptor = 24;  // of the fake

void put_u64(std::vector<std::uint8_t>& bytes, std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) {
        bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
    }
}

hg_return_t decode(std::vector<std::uint8_t> bytes, hg_bulk_t& out) {
    bytes.shrink_to_fit();
    std::uint8_t dummy = 0;
    CProc proc(bytes.empty() ? &dummy : bytes.data(), bytes.size(), HG_DECODE, HG_CRC32);
    return hg_proc_hg_bulk_t(proc, &out);
}

std::vector<std::uint8_t> encode_in(std::size_t room, hg_bulk_t bulk, std::uint8_t flags) {
    std::vector<std::uint8_t> buffer(room);
    CProc proc(buffer.data(), buffer.size(), HG_ENCODE, HG_CRC32);
    hg_proc_set_flags(proc, flags);
    REQUIRE(hg_proc_hg_bulk_t(proc, &bulk) == HG_SUCCESS);
    return proc.bytes();
}

}  // namespace

TEST_CASE("bulk descriptors round-trip and are freed", "[proc][bulk]") {
    hg_bulk_t sent = make_bulk(std::vector<std::uint8_t>(40, 9));
    for (std::size_t room : {std::size_t{8}, std::size_t{1000}}) {
        const auto bytes = encode_in(room, sent, 0);
        CHECK(bytes.size() == 8 + kDescriptor);
        hg_bulk_t received = HG_BULK_NULL;
        REQUIRE(decode(bytes, received) == HG_SUCCESS);
        REQUIRE(received != HG_BULK_NULL);
        CHECK(bulk_contents(received).empty());
        CHECK(bulks_alive() == 2);
        CProc freeing(nullptr, 0, HG_FREE);
        CHECK(hg_proc_hg_bulk_t(freeing, &received) == HG_SUCCESS);
        CHECK(received == HG_BULK_NULL);
        CHECK(hg_proc_hg_bulk_t(freeing, &received) == HG_SUCCESS);
        CHECK(bulks_alive() == 1);
    }
    HG_Bulk_free(sent);
}

TEST_CASE("contents travel where they fit the given buffer", "[proc][bulk]") {
    const std::vector<std::uint8_t> contents(40, 9);
    hg_bulk_t sent = make_bulk(contents);
    const std::size_t exact = 8 + kDescriptor + contents.size();
    for (std::size_t room : {exact, exact - 1, std::size_t{4}}) {
        const auto bytes = encode_in(room, sent, HG_PROC_BULK_EAGER);
        CHECK(bytes.size() == (room == exact ? exact : 8 + kDescriptor));
        hg_bulk_t received = HG_BULK_NULL;
        REQUIRE(decode(bytes, received) == HG_SUCCESS);
        CHECK(bulk_contents(received) == (room == exact ? contents : std::vector<std::uint8_t>{}));
        HG_Bulk_free(received);
    }
    CHECK(encode_in(exact, sent, 0).size() == 8 + kDescriptor);  // not asked for

    // Not in the extra buffer, however much room that has.
    std::uint8_t small[8];
    std::uint64_t values[2] = {1, 2};
    CProc proc(small, sizeof small, HG_ENCODE);
    hg_proc_set_flags(proc, HG_PROC_BULK_EAGER);
    REQUIRE(hg_proc_bytes(proc, values, sizeof values) == HG_SUCCESS);
    REQUIRE(hg_proc_get_size_left(proc) > exact);
    REQUIRE(hg_proc_hg_bulk_t(proc, &sent) == HG_SUCCESS);
    CHECK(proc.bytes().size() == sizeof values + 8 + kDescriptor);
    HG_Bulk_free(sent);
    CHECK(bulks_alive() == 0);
}

TEST_CASE("shared-memory access is asked for by flag", "[proc][bulk]") {
    hg_bulk_t sent = make_bulk({1, 2, 3});
    CHECK(encode_in(100, sent, 0)[16] == 0);
    CHECK(encode_in(100, sent, HG_PROC_SM)[16] == HG_BULK_SM);
    CHECK(encode_in(100, sent, HG_PROC_SM | HG_PROC_BULK_EAGER)[16] ==
          (HG_BULK_SM | HG_BULK_EAGER));
    HG_Bulk_free(sent);
}

TEST_CASE("no bulk descriptor is eight zero bytes", "[proc][bulk]") {
    const auto bytes = encode_in(100, HG_BULK_NULL, HG_PROC_BULK_EAGER);
    CHECK(bytes == std::vector<std::uint8_t>(8, 0));
    auto* garbage = reinterpret_cast<hg_bulk_t>(std::uintptr_t{64});
    REQUIRE(decode(bytes, garbage) == HG_SUCCESS);
    CHECK(garbage == HG_BULK_NULL);
}

TEST_CASE("hostile bulk descriptors are refused and leave nothing", "[proc][bulk]") {
    hg_bulk_t sent = make_bulk(std::vector<std::uint8_t>(40, 9));
    const auto good = encode_in(1000, sent, HG_PROC_BULK_EAGER);
    HG_Bulk_free(sent);
    for (std::size_t size = 0; size < good.size(); ++size) {  // every truncation
        auto* out = reinterpret_cast<hg_bulk_t>(std::uintptr_t{64});
        CHECK(decode({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, out) ==
              HG_OVERFLOW);
        CHECK(out == HG_BULK_NULL);
    }
    for (std::uint64_t size :
         {std::uint64_t{good.size()}, std::uint64_t{0xffffffff}, std::uint64_t{0x100000000},
          std::uint64_t{0xffffffffffffff00}, std::uint64_t{0xfffffffffffffff8}, HG_SIZE_MAX}) {
        auto bytes = good;
        put_u64(bytes, 0, size);
        hg_bulk_t out = HG_BULK_NULL;
        CHECK(decode(bytes, out) == HG_OVERFLOW);
        CHECK(out == HG_BULK_NULL);
    }
    auto bytes = good;
    put_u64(bytes, 8, 1);  // not the fake's magic
    hg_bulk_t out = HG_BULK_NULL;
    CHECK(decode(bytes, out) == HG_PROTOCOL_ERROR);
    CHECK(out == HG_BULK_NULL);
    CHECK(bulks_alive() == 0);
}

TEST_CASE("hg_proc_hg_bulk_t refuses NULL", "[proc][bulk]") {
    std::uint8_t buffer[8];
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    hg_bulk_t bulk = HG_BULK_NULL;
    CHECK(hg_proc_hg_bulk_t(proc, nullptr) == HG_INVALID_ARG);
    CHECK(hg_proc_hg_bulk_t(HG_PROC_NULL, &bulk) == HG_INVALID_ARG);
}
