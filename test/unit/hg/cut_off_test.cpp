// SPDX-License-Identifier: BSD-3-Clause
// What is left of structures that end too early, or were made up: nothing, whoever's procs decoded
// the members before.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "counted_malloc.hpp"
#include "gen_types.h"
#include "proc_fixture.hpp"

using namespace proc_test;

namespace {

char kText[] = "text";

using Bytes = std::vector<std::uint8_t>;

hg_return_t decode(hg_proc_cb_t callback, Bytes bytes, void* out) {
    bytes.shrink_to_fit();
    std::uint8_t dummy = 0;
    CProc proc(bytes.empty() ? &dummy : bytes.data(), bytes.size(), HG_DECODE);
    const hg_return_t ret = callback(proc, out);
    CHECK(hg_proc_get_op(proc) == HG_DECODE);
    return ret;
}

Bytes first(const Bytes& bytes, std::size_t size) {
    return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

void release(hg_proc_cb_t callback, void* out) {
    CProc proc(nullptr, 0, HG_FREE);
    CHECK(callback(proc, out) == HG_SUCCESS);
}

// Decodes each beginning of `bytes` into memory that holds anything, and then all of them.
template <typename T>
void cut_everywhere(hg_proc_cb_t callback, const Bytes& bytes) {
    REQUIRE_FALSE(bytes.empty());
    const std::size_t before = blocks_alive();
    const int bulks = bulks_alive();
    T received;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        std::memset(static_cast<void*>(&received), 0xa5, sizeof received);
        REQUIRE(decode(callback, first(bytes, size), &received) == HG_OVERFLOW);
        REQUIRE(blocks_alive() == before);
        REQUIRE(bulks_alive() == bulks);
    }
    REQUIRE(decode(callback, bytes, &received) == HG_SUCCESS);
    release(callback, &received);
    CHECK(blocks_alive() == before);
    CHECK(bulks_alive() == bulks);
}

MERCURY_GEN_PROC(deep_t, ((hg_string_t)(text))((hg_bulk_t)(bulk)))
MERCURY_GEN_PROC(middle_t, ((deep_t)(one))((uint8_t)(n))((deep_t)(two)))
MERCURY_GEN_PROC(top_t, ((middle_t)(middle))((hg_string_object_t)(object))((int32_t)(last)))

// Written by hand, as if there were no generator.
struct by_hand_t {
    hg_string_t name;
    deep_t deep;
    std::uint8_t kind;
};
hg_return_t hg_proc_by_hand_t(hg_proc_t proc, void* data) {
    auto* one = static_cast<by_hand_t*>(data);
    hg_return_t ret = hg_proc_hg_string_t(proc, &one->name);
    if (ret == HG_SUCCESS) {
        ret = hg_proc_deep_t(proc, &one->deep);
    }
    return ret == HG_SUCCESS ? hg_proc_uint8_t(proc, &one->kind) : ret;
}
MERCURY_GEN_PROC(around_t, ((hg_string_t)(text))((by_hand_t)(by_hand))((top_t)(top))((int8_t)(n)))

top_t sample(hg_bulk_t bulk) {
    return {{{kText, bulk}, 1, {kText, bulk}}, {kText, false, false}, 3};
}

struct ABulk {
    hg_bulk_t handle = make_bulk({1, 2});
    ~ABulk() { HG_Bulk_free(handle); }
};

}  // namespace

TEST_CASE("structures in structures in structures are cut off and leave nothing",
          "[proc][macros]") {
    const ABulk bulk;
    cut_everywhere<top_t>(hg_proc_top_t, encode(hg_proc_top_t, sample(bulk.handle)));
}

TEST_CASE("what failed within a structure is gone from it", "[proc][macros]") {
    const Bytes bytes = encode(hg_proc_top_t, sample(HG_BULK_NULL));
    top_t received{};
    REQUIRE(decode(hg_proc_top_t, first(bytes, bytes.size() - 1), &received) == HG_OVERFLOW);
    CHECK(received.middle.one.text == nullptr);
    CHECK(received.middle.two.text == nullptr);
    CHECK(received.object.data == nullptr);
    CHECK_FALSE(received.object.is_owned);
}

TEST_CASE("strings that a proc written by hand has decoded are freed where a later member fails",
          "[proc][macros]") {
    const ABulk bulk;
    const around_t sent{kText, {kText, {kText, bulk.handle}, 1}, sample(bulk.handle), 4};
    const Bytes bytes = encode(hg_proc_around_t, sent);
    const std::size_t hand = encode(hg_proc_hg_string_t, kText).size();
    const std::size_t ends = hand + encode(hg_proc_by_hand_t, sent.by_hand).size();
    const std::size_t before = blocks_alive();
    for (std::size_t size = ends; size < bytes.size(); ++size) {
        around_t received{};
        REQUIRE(decode(hg_proc_around_t, first(bytes, size), &received) == HG_OVERFLOW);
        REQUIRE(blocks_alive() == before);
        REQUIRE(bulks_alive() == 1);
        REQUIRE(received.by_hand.name == nullptr);
    }
    // One that fails itself is asked for nothing, and may free with free(), as with Mercury.
    for (std::size_t size = hand; size < ends; ++size) {
        around_t received{};
        REQUIRE(decode(hg_proc_around_t, first(bytes, size), &received) == HG_OVERFLOW);
        CHECK(received.text == nullptr);
        std::free(received.by_hand.name);
        if (size == ends - 1) {
            std::free(received.by_hand.deep.text);
            HG_Bulk_free(received.by_hand.deep.bulk);
        }
        REQUIRE(blocks_alive() == before);
        REQUIRE(bulks_alive() == 1);
    }
}

namespace {

// Those who clean up by themselves, each in another way.
enum class Way { nothing, plain, plain_and_null, by_proc };
Way way = Way::nothing;
struct tidy_t {
    hg_string_t one;
    hg_string_t two;
};
hg_return_t hg_proc_tidy_t(hg_proc_t proc, void* data) {
    auto* tidy = static_cast<tidy_t*>(data);
    hg_return_t ret = hg_proc_hg_string_t(proc, &tidy->one);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    ret = hg_proc_hg_string_t(proc, &tidy->two);
    if (ret != HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE) {
        if (way == Way::by_proc) {
            proc->op = HG_FREE;
            (void)hg_proc_hg_string_t(proc, &tidy->one);
            proc->op = HG_DECODE;
        } else if (way != Way::nothing) {
            std::free(tidy->one);
            tidy->one = way == Way::plain_and_null ? nullptr : tidy->one;
        }
    }
    return ret;
}
MERCURY_GEN_PROC(has_tidy_t, ((hg_string_t)(name))((tidy_t)(tidy))((hg_string_t)(last)))

// Tries a newer form first. What it leaves by then is gone.
struct either_t {
    hg_string_t text;
    std::uint64_t number;
};
hg_return_t hg_proc_either_t(hg_proc_t proc, void* data) {
    auto* either = static_cast<either_t*>(data);
    if (const hg_return_t ret = hg_proc_hg_string_t(proc, &either->text); ret != HG_SUCCESS) {
        return ret;
    }
    if (hg_proc_get_op(proc) == HG_DECODE && either->text != nullptr &&
        std::strcmp(either->text, "none") == 0) {
        std::free(either->text);
        either->text = nullptr;
    }
    const hg_return_t ret = hg_proc_uint64_t(proc, &either->number);
    if (ret != HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE) {
        std::free(either->text);
    }
    return ret;
}
MERCURY_GEN_PROC(has_either_t, ((either_t)(either))((uint64_t)(last)))

// Into memory of its own, and from there.
struct view_t {
    char text[8];
};
hg_return_t hg_proc_view_t(hg_proc_t proc, void* data) {
    auto* view = static_cast<view_t*>(data);
    if (hg_proc_get_op(proc) == HG_FREE) {
        return HG_SUCCESS;
    }
    hg_string_t text = view->text;
    const hg_return_t ret = hg_proc_hg_string_t(proc, &text);
    if (ret == HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE && text != nullptr) {
        std::strncpy(view->text, text, sizeof view->text - 1);
        std::free(text);
    }
    return ret;
}
MERCURY_GEN_PROC(has_view_t, ((view_t)(view))((view_t)(other))((uint64_t)(last)))

// Many, in memory of its own.
struct list_t {
    std::uint32_t count;
    deep_t* elements;
};
hg_return_t hg_proc_list_t(hg_proc_t proc, void* data) {
    auto* list = static_cast<list_t*>(data);
    hg_return_t ret = hg_proc_uint32_t(proc, &list->count);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    const bool decodes = hg_proc_get_op(proc) == HG_DECODE;
    if (decodes && list->count > hg_proc_get_size_left(proc)) {
        return HG_OVERFLOW;
    }
    if (decodes) {
        list->elements = static_cast<deep_t*>(std::calloc(list->count, sizeof(deep_t)));
    }
    for (std::uint32_t i = 0; i < list->count; ++i) {
        ret = hg_proc_deep_t(proc, &list->elements[i]);
        if (ret != HG_SUCCESS) {
            for (std::uint32_t k = 0; decodes && k < i; ++k) {
                std::free(list->elements[k].text);
                HG_Bulk_free(list->elements[k].bulk);
            }
            break;
        }
    }
    if (hg_proc_get_op(proc) == HG_FREE || (decodes && ret != HG_SUCCESS)) {
        std::free(list->elements);
        list->elements = nullptr;
    }
    return ret;
}
MERCURY_GEN_PROC(has_list_t, ((hg_string_t)(name))((list_t)(list))((hg_string_t)(last)))

}  // namespace

TEST_CASE("a proc written by hand that has freed what it had decoded is not helped",
          "[proc][macros]") {
    way = Way::nothing;
    const Bytes bytes = encode(hg_proc_has_tidy_t, has_tidy_t{kText, {kText, kText}, kText});
    for (const Way w : {Way::plain, Way::plain_and_null, Way::by_proc}) {
        way = w;
        cut_everywhere<has_tidy_t>(hg_proc_has_tidy_t, bytes);
    }
}

TEST_CASE("what a proc written by hand has replaced is not freed where a later member fails",
          "[proc][macros]") {
    char none[] = "none";
    for (char* text : {none, kText}) {
        const Bytes bytes = encode(hg_proc_has_either_t, has_either_t{{text, 1}, 2});
        const std::size_t before = blocks_alive();
        has_either_t received{};
        for (std::size_t left = 1; left <= 8; ++left) {
            CHECK(decode(hg_proc_has_either_t, first(bytes, bytes.size() - left), &received) ==
                  HG_OVERFLOW);
            CHECK(received.either.text == nullptr);
            CHECK(blocks_alive() == before);
        }
    }
}

TEST_CASE("what a proc written by hand has kept elsewhere is its own", "[proc][macros]") {
    SECTION("in a variable of its own") {
        cut_everywhere<has_view_t>(hg_proc_has_view_t,
                                   encode(hg_proc_has_view_t, has_view_t{{"ab"}, {"cd"}, 3}));
    }
    SECTION("in an array of generated structures") {
        const ABulk bulk;
        std::vector<deep_t> elements(40, deep_t{kText, bulk.handle});
        const Bytes bytes = encode(
            hg_proc_has_list_t,
            has_list_t{
                kText, {static_cast<std::uint32_t>(elements.size()), elements.data()}, kText});
        const std::size_t list_ends = bytes.size() - encode(hg_proc_hg_string_t, kText).size();
        const std::size_t before = blocks_alive();
        for (std::size_t size = 0; size < bytes.size(); ++size) {
            has_list_t received{};
            REQUIRE(decode(hg_proc_has_list_t, first(bytes, size), &received) == HG_OVERFLOW);
            REQUIRE(received.name == nullptr);
            if (size >= list_ends) {  // it was whole: its elements are the program's
                REQUIRE(received.list.elements[39].text != nullptr);
                release(hg_proc_list_t, &received.list);
            }
            REQUIRE(blocks_alive() == before);
            REQUIRE(bulks_alive() == 1);
        }
    }
}

namespace {

// As large as the structure whose proc it uses, and what is in it is its caller's.
MERCURY_GEN_PROC(pair_t, ((uint64_t)(size))((uint64_t)(where)))
typedef pair_t loan_t;
int asked_to_free = 0;
hg_return_t hg_proc_loan_t(hg_proc_t proc, void* data) {
    if (hg_proc_get_op(proc) == HG_FREE) {
        ++asked_to_free;
        return HG_SUCCESS;
    }
    auto* loan = static_cast<loan_t*>(data);
    const std::uint64_t where = loan->where;
    const hg_return_t ret = hg_proc_pair_t(proc, loan);
    loan->where = where;
    return ret;
}
MERCURY_GEN_PROC(has_loan_t, ((loan_t)(loan))((int32_t)(last)))

}  // namespace

TEST_CASE("a proc written by hand that ends in a generated one is not taken for that",
          "[proc][macros]") {
    const Bytes bytes = encode(hg_proc_has_loan_t, has_loan_t{{1, 2}, 3});
    has_loan_t received{{0, 77}, 0};
    CHECK(decode(hg_proc_has_loan_t, first(bytes, bytes.size() - 1), &received) == HG_OVERFLOW);
    CHECK(asked_to_free == 0);
    CHECK(received.loan.where == 77);
}

TEST_CASE("a proc that is used again frees nothing of what it decoded before", "[proc][macros]") {
    const ABulk bulk;
    Bytes bytes = encode(hg_proc_top_t, sample(bulk.handle));
    const std::size_t before = blocks_alive();
    {
        CProc proc(bytes.data(), bytes.size(), HG_DECODE);
        const std::size_t with_proc = blocks_alive();
        std::vector<top_t> all(10);
        for (std::size_t i = 0; i < all.size(); ++i) {
            // Whole, cut off, and within one pass as often as there is room.
            REQUIRE(hg_proc_reset(proc, bytes.data(), bytes.size(), HG_DECODE) == HG_SUCCESS);
            REQUIRE(hg_proc_top_t(proc, &all[i]) == HG_SUCCESS);
            top_t more{};
            REQUIRE(hg_proc_top_t(proc, &more) == HG_OVERFLOW);
            REQUIRE(hg_proc_reset(proc, bytes.data(), bytes.size() - 1, HG_DECODE) == HG_SUCCESS);
            REQUIRE(hg_proc_top_t(proc, &more) == HG_OVERFLOW);
        }
        for (top_t& one : all) {
            CHECK(std::strcmp(one.middle.two.text, kText) == 0);
            REQUIRE(hg_proc_reset(proc, nullptr, 0, HG_FREE) == HG_SUCCESS);
            CHECK(hg_proc_top_t(proc, &one) == HG_SUCCESS);
        }
        CHECK(blocks_alive() == with_proc);
    }
    CHECK(blocks_alive() == before);
    CHECK(bulks_alive() == 1);
}

namespace {

#define SEVENTY(type)                                                                        \
    ((type)(a0))((type)(a1))((type)(a2))((type)(a3))((type)(a4))((type)(a5))((type)(a6))(    \
        (type)(a7))((type)(a8))((type)(a9))((type)(b0))((type)(b1))((type)(b2))((type)(b3))( \
        (type)(b4))((type)(b5))((type)(b6))((type)(b7))((type)(b8))((type)(b9))((type)(c0))( \
        (type)(c1))((type)(c2))((type)(c3))((type)(c4))((type)(c5))((type)(c6))((type)(c7))( \
        (type)(c8))((type)(c9))((type)(d0))((type)(d1))((type)(d2))((type)(d3))((type)(d4))( \
        (type)(d5))((type)(d6))((type)(d7))((type)(d8))((type)(d9))((type)(e0))((type)(e1))( \
        (type)(e2))((type)(e3))((type)(e4))((type)(e5))((type)(e6))((type)(e7))((type)(e8))( \
        (type)(e9))((type)(f0))((type)(f1))((type)(f2))((type)(f3))((type)(f4))((type)(f5))( \
        (type)(f6))((type)(f7))((type)(f8))((type)(f9))((type)(g0))((type)(g1))((type)(g2))( \
        (type)(g3))((type)(g4))((type)(g5))((type)(g6))((type)(g7))((type)(g8))((type)(g9))
MERCURY_GEN_PROC(wide_t, SEVENTY(hg_string_t))
MERCURY_GEN_PROC(wider_t, ((wide_t)(one))((wide_t)(two))((uint8_t)(last)))

}  // namespace

TEST_CASE("structures of many strings are cut off and leave nothing", "[proc][macros]") {
    wider_t sent{};
    auto* strings = reinterpret_cast<hg_string_t*>(&sent);
    for (std::size_t i = 0; i < 2 * sizeof(wide_t) / sizeof(hg_string_t); ++i) {
        strings[i] = kText;
    }
    cut_everywhere<wider_t>(hg_proc_wider_t, encode(hg_proc_wider_t, sent));
}

namespace {

struct Thrown {};
struct thrower_t {
    std::uint8_t throws;
};
hg_return_t hg_proc_thrower_t(hg_proc_t proc, void* data) {
    auto* thrower = static_cast<thrower_t*>(data);
    const hg_return_t ret = hg_proc_uint8_t(proc, &thrower->throws);
    if (ret == HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE && thrower->throws != 0) {
        throw Thrown{};
    }
    return ret;
}
MERCURY_GEN_PROC(may_throw_t, ((top_t)(top))((thrower_t)(thrower)))
MERCURY_GEN_PROC(may_throw_deep_t, ((hg_string_t)(text))((may_throw_t)(may_throw)))

}  // namespace

TEST_CASE("an exception that leaves a decoding leaves nothing behind", "[proc][macros]") {
    const ABulk bulk;
    const auto bytes =
        encode(hg_proc_may_throw_deep_t, may_throw_deep_t{kText, {sample(bulk.handle), {1}}});
    REQUIRE_FALSE(bytes.empty());
    const std::size_t before = blocks_alive();
    may_throw_deep_t received{};
    CHECK_THROWS_AS(decode(hg_proc_may_throw_deep_t, bytes, &received), Thrown);
    CHECK(blocks_alive() == before);
    CHECK(bulks_alive() == 1);
    CHECK(received.text == nullptr);
}

namespace {

MERCURY_GEN_PROC(rich_t,
                 ((hg_id_t)(id))((hg_const_string_t)(name))((has_list_t)(list))((top_t)(top))(
                     (has_view_t)(view))((hg_string_object_t)(object))((has_either_t)(either))(
                     (deep_t)(deep))((hg_bulk_t)(bulk))((outer_t)(outer))((uint8_t)(last)))

// What decodes is released; whatever it is, nothing is left.
void try_damaged(const Bytes& bytes, std::size_t blocks, int bulks, int& decoded) {
    rich_t received;
    std::memset(static_cast<void*>(&received), 0xa5, sizeof received);
    received.view = {};
    received.list.list = {};
    if (decode(hg_proc_rich_t, bytes, &received) == HG_SUCCESS) {
        ++decoded;
        release(hg_proc_rich_t, &received);
    } else if (received.list.list.elements != nullptr) {
        release(hg_proc_list_t, &received.list.list);  // the program's
    }
    REQUIRE(blocks_alive() == blocks);
    REQUIRE(bulks_alive() == bulks);
}

}  // namespace

TEST_CASE("damage at each byte harms nothing and leaves nothing", "[proc][macros]") {
    const ABulk bulk;
    deep_t elements[3] = {{kText, bulk.handle}, {nullptr, HG_BULK_NULL}, {kText, bulk.handle}};
    const rich_t sent{1,
                      kText,
                      {kText, {3, elements}, kText},
                      sample(bulk.handle),
                      {{"ab"}, {"cd"}, 3},
                      {kText, true, false},
                      {{kText, 1}, 2},
                      {kText, bulk.handle},
                      bulk.handle,
                      {2, kText, {1, kText, {2, 3}}, bulk.handle, {1, nullptr, {2, 3}}, HG_TRUE},
                      4};
    const Bytes good = encode(hg_proc_rich_t, sent);
    REQUIRE(good.size() > 300);
    const std::size_t blocks = blocks_alive();
    int decoded = 0;
    const auto attempt = [&](const Bytes& bytes) { try_damaged(bytes, blocks, 1, decoded); };
    for (std::size_t at = 0; at < good.size(); ++at) {
        attempt(first(good, at));
        for (const int byte : {0, 1, 0x7f, 0x80, 0xff, good[at] + 1, good[at] - 1}) {
            Bytes bytes = good;
            bytes[at] = static_cast<std::uint8_t>(byte);
            attempt(bytes);
        }
        // As if a length were here.
        const std::uint64_t left = good.size() - at;
        for (const std::uint64_t length :
             {std::uint64_t{0}, left - 9, left - 8, left - 1, left, std::uint64_t{1} << 31,
              std::uint64_t{0xffffffff}, std::uint64_t{1} << 63, UINT64_MAX - 9, UINT64_MAX - 1,
              UINT64_MAX}) {
            Bytes bytes = good;
            std::memcpy(&bytes[at], &length, std::min<std::size_t>(sizeof length, left));
            attempt(bytes);
        }
    }
    std::mt19937 random(4711);
    for (int i = 0; i < 20000; ++i) {
        Bytes bytes = good;
        for (auto changes = 1 + random() % 3; changes > 0; --changes) {
            const std::size_t at = random() % bytes.size();
            switch (random() % 3) {
                case 0:
                    bytes[at] = static_cast<std::uint8_t>(random());
                    break;
                case 1:
                    bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
                    break;
                default:
                    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), good.begin(),
                                 good.begin() + static_cast<std::ptrdiff_t>(random() % 16));
                    break;
            }
        }
        attempt(bytes);
    }
    CHECK(decoded > 100);
}
