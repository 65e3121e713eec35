// SPDX-License-Identifier: BSD-3-Clause
// Generated structures and procs, from C and C++; partial decoding.
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gen_types.h"
#include "proc_fixture.hpp"

using namespace proc_test;

namespace {

char kLabel[] = "first";
char kEmpty[] = "";

outer_t sample(hg_bulk_t bulk) {
    outer_t outer;
    outer.id = 0x8877665544332211ULL;
    outer.name = "name";
    outer.first = {1, kLabel, {-2, 3}};
    outer.data = bulk;
    outer.second = {4, kEmpty, {5, -6}};
    outer.last = HG_TRUE;
    return outer;
}

void check_sample(const outer_t& outer) {
    CHECK(outer.id == 0x8877665544332211ULL);
    CHECK(std::strcmp(outer.name, "name") == 0);
    CHECK(outer.first.kind == 1);
    CHECK(std::strcmp(outer.first.label, "first") == 0);
    CHECK(outer.first.at.x == -2);
    CHECK(outer.first.at.y == 3);
    CHECK(outer.data != HG_BULK_NULL);
    CHECK(outer.second.kind == 4);
    CHECK(std::strcmp(outer.second.label, "") == 0);
    CHECK(outer.second.at.x == 5);
    CHECK(outer.second.at.y == -6);
    CHECK(outer.last == HG_TRUE);
}

// Uninitialised memory, as a user's structure on the stack: nothing of it may be freed.
outer_t garbage() {
    outer_t outer;
    std::memset(static_cast<void*>(&outer), 0xa5, sizeof outer);
    return outer;
}

hg_return_t decode(hg_proc_cb_t callback, std::vector<std::uint8_t> bytes, void* out) {
    bytes.shrink_to_fit();
    std::uint8_t dummy = 0;
    CProc proc(bytes.empty() ? &dummy : bytes.data(), bytes.size(), HG_DECODE);
    const hg_return_t ret = callback(proc, out);
    CHECK(hg_proc_get_op(proc) == HG_DECODE);
    return ret;
}

void release(hg_proc_cb_t callback, void* out) {
    CProc proc(nullptr, 0, HG_FREE);
    CHECK(callback(proc, out) == HG_SUCCESS);
}

}  // namespace

TEST_CASE("generated procs of C and C++ understand each other", "[proc][macros]") {
    hg_bulk_t bulk = make_bulk({1, 2, 3});
    const outer_t outer = sample(bulk);
    const auto from_c = encode(c_proc_outer, outer);
    const auto from_cxx = encode(hg_proc_outer_t, outer);
    CHECK(from_c == from_cxx);
    CHECK_FALSE(from_c.empty());

    outer_t received = garbage();
    REQUIRE(decode(hg_proc_outer_t, from_c, &received) == HG_SUCCESS);
    check_sample(received);
    release(c_proc_outer, &received);
    received = garbage();
    REQUIRE(decode(c_proc_outer, from_cxx, &received) == HG_SUCCESS);
    check_sample(received);
    release(hg_proc_outer_t, &received);
    CHECK(received.name == nullptr);
    CHECK(received.second.label == nullptr);
    HG_Bulk_free(bulk);
    CHECK(bulks_alive() == 0);
}

TEST_CASE("the wire has the members in order and nothing else", "[proc][macros]") {
    const point_t point{0x01020304, -1};
    const std::vector<std::uint8_t> expected = {4, 3, 2, 1, 255, 255, 255, 255};
    CHECK(encode(hg_proc_point_t, point) == expected);
    CHECK(encode(c_proc_point_by_steps, point) == expected);
    CHECK(encode(hg_proc_single_t, single_t{1}) ==
          std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 0, 0});

    const auto bytes = encode(hg_proc_outer_t, sample(HG_BULK_NULL));
    constexpr std::size_t kFlags = 2;  // after each string
    const std::size_t inner_first = 1 + 8 + 6 + kFlags + 8;
    const std::size_t inner_second = 1 + 8 + 1 + kFlags + 8;
    CHECK(bytes.size() == 8 + (8 + 5 + kFlags) + inner_first + 8 + inner_second + 1);
}

TEST_CASE("step macros decode and refuse like the functions", "[proc][macros]") {
    const auto bytes = encode(c_proc_point_by_steps, point_t{7, 8});
    point_t point{};
    REQUIRE(decode(c_proc_point_by_steps, bytes, &point) == HG_SUCCESS);
    CHECK(point.x == 7);
    CHECK(point.y == 8);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CHECK(decode(c_proc_point_by_steps,
                     {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)},
                     &point) == HG_OVERFLOW);
    }
    release(c_proc_point_by_steps, &point);
    CHECK(point.y == 8);
}

TEST_CASE("a structure cut off anywhere fails and leaves nothing", "[proc][macros]") {
    hg_bulk_t bulk = make_bulk({1, 2, 3});
    const auto bytes = encode(hg_proc_outer_t, sample(bulk));
    HG_Bulk_free(bulk);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        outer_t received = garbage();
        CHECK(decode(size % 2 == 0 ? hg_proc_outer_t : c_proc_outer,
                     {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)},
                     &received) == HG_OVERFLOW);
        CHECK(bulks_alive() == 0);  // strings: the leak checker of ASan
    }
}

namespace {

// By hand, as programs do it that receive into memory of their caller's.
struct lent_t {
    hg_size_t size;
    char* data;
};
int freed_by_hand = 0;
hg_return_t hg_proc_lent_t(hg_proc_t proc, void* data) {
    auto* lent = static_cast<lent_t*>(data);
    if (hg_proc_get_op(proc) == HG_FREE) {
        ++freed_by_hand;
        return HG_SUCCESS;
    }
    hg_size_t size = lent->size;
    if (const hg_return_t ret = hg_proc_hg_size_t(proc, &size); ret != HG_SUCCESS) {
        return ret;
    }
    return size > lent->size ? HG_NOMEM : hg_proc_raw(proc, lent->data, size);
}
MERCURY_GEN_PROC(nested_t, ((hg_string_t)(label))((lent_t)(lent)))
MERCURY_GEN_PROC(into_t, ((hg_string_t)(name))((lent_t)(lent))((inner_t)(inner))(
                             (nested_t)(nested))((int32_t)(last)))

}  // namespace

TEST_CASE("what a proc written by hand has filled in is not freed where a later member fails",
          "[proc][macros]") {
    char data[] = "0123";
    char label[] = "label";
    const into_t sent{label, {4, data}, {1, label, {2, 3}}, {label, {4, data}}, 4};
    const auto bytes = encode(hg_proc_into_t, sent);
    REQUIRE_FALSE(bytes.empty());
    freed_by_hand = 0;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        char room[4] = {};
        into_t received{nullptr, {sizeof room, room}, {}, {nullptr, {sizeof room, room}}, 0};
        CHECK(decode(hg_proc_into_t,
                     {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)},
                     &received) == HG_OVERFLOW);
        CHECK(received.name == nullptr);  // gone again, like that of the inner structure
        CHECK(received.inner.label == nullptr);
        CHECK(received.nested.label == nullptr);
        CHECK(received.nested.lent.data == room);
        CHECK(received.lent.data == room);
    }
    CHECK(freed_by_hand == 0);
    char room[4] = {};
    into_t received{nullptr, {3, room}, {}, {nullptr, {4, room}}, 0};
    CHECK(decode(hg_proc_into_t, bytes, &received) == HG_NOMEM);
    CHECK(freed_by_hand == 0);
}

TEST_CASE("random damage never crashes or leaks", "[proc][macros]") {
    hg_bulk_t bulk = make_bulk({1, 2, 3});
    const auto good = encode(hg_proc_outer_t, sample(bulk));
    HG_Bulk_free(bulk);
    std::mt19937 random(1234);
    int decoded = 0;
    for (int i = 0; i < 20000; ++i) {
        auto bytes = good;
        const auto changes = 1 + random() % 3;
        for (auto c = changes; c > 0; --c) {
            bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
        }
        bytes.resize(bytes.size() - random() % 2 * (random() % bytes.size()));
        outer_t received = garbage();
        if (decode(hg_proc_outer_t, bytes, &received) == HG_SUCCESS) {
            ++decoded;
            release(hg_proc_outer_t, &received);
        }
        REQUIRE(bulks_alive() == 0);
    }
    CHECK(decoded > 0);
}

TEST_CASE("a failure while encoding is passed on and frees nothing", "[proc][macros]") {
    const outer_t outer = sample(HG_BULK_NULL);
    const std::size_t size = encode(hg_proc_outer_t, outer).size();
    std::vector<std::uint8_t> buffer(size);
    for (std::size_t room = 1; room <= size; ++room) {
        outer_t copy = outer;
        hg::proc::Proc proc(some_class());
        proc.set_limit(room, na::Status::msgsize);
        proc.reset(buffer.data(), room, HG_ENCODE);
        CHECK(hg_proc_outer_t(&proc, &copy) == (room < size ? HG_MSGSIZE : HG_SUCCESS));
        check_sample([&] {
            copy.data = reinterpret_cast<hg_bulk_t>(std::uintptr_t{64});
            return copy;
        }());
    }
}

TEST_CASE("MERCURY_REGISTER passes the generated procs", "[macros]") {
    const auto callback = [](hg_handle_t) { return HG_SUCCESS; };
    CHECK(MERCURY_REGISTER(some_class(), "in", point_t, void, callback) == 0x1234567890ULL);
    CHECK(std::strcmp(last_registration().name, "in") == 0);
    CHECK(last_registration().in == static_cast<hg_proc_cb_t>(hg_proc_point_t));
    CHECK(last_registration().out == nullptr);
    CHECK(last_registration().callback != nullptr);

    CHECK(c_register(some_class(), callback) != 0);
    CHECK(last_registration().in != nullptr);
    CHECK(last_registration().out != nullptr);
    CHECK(c_register_void(some_class()) != 0);
    CHECK(last_registration().in == nullptr);
    CHECK(last_registration().out == nullptr);
    CHECK(last_registration().callback == nullptr);
}
