// SPDX-License-Identifier: BSD-3-Clause
// Strings and string objects, and what hostile ones do.
#include "mercury_proc_string.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "proc_fixture.hpp"

using namespace proc_test;

namespace {

std::vector<std::uint8_t> wire(std::uint64_t size, const std::string& bytes) {
    std::vector<std::uint8_t> out;
    for (int i = 0; i < 8; ++i) {
        out.push_back(static_cast<std::uint8_t>(size >> (8 * i)));
    }
    out.insert(out.end(), bytes.begin(), bytes.end());
    return out;
}

// As a sender writes it: whether its own is const and owned is told, too.
std::vector<std::uint8_t> as_sent(const std::string& text, bool is_const, bool is_owned) {
    auto out = wire(text.size() + 1, text + '\0');
    out.push_back(is_const);
    out.push_back(is_owned);
    return out;
}

// Decodes exactly these bytes, from memory of exactly that size, so that ASan sees a read past it.
template <typename T>
hg_return_t decode(hg_proc_cb_t callback, const std::vector<std::uint8_t>& bytes, T& out) {
    std::vector<std::uint8_t> copy = bytes;
    copy.shrink_to_fit();
    std::uint8_t dummy = 0;
    CProc proc(copy.empty() ? &dummy : copy.data(), copy.size(), HG_DECODE);
    return callback(proc, &out);
}

template <typename T>
void release(hg_proc_cb_t callback, T& out) {
    CProc proc(nullptr, 0, HG_FREE);
    CHECK(callback(proc, &out) == HG_SUCCESS);
}

}  // namespace

TEST_CASE("strings round-trip; NULL and empty stay apart", "[proc][string]") {
    const std::string large(100000, 'x');
    for (const char* text : {"", "a", "hello, world", large.c_str()}) {
        const auto bytes = encode<hg_const_string_t>(hg_proc_hg_const_string_t, text);
        CHECK(bytes == as_sent(text, true, false));
        hg_const_string_t decoded = nullptr;
        REQUIRE(decode(hg_proc_hg_const_string_t, bytes, decoded) == HG_SUCCESS);
        REQUIRE(decoded != nullptr);
        CHECK(std::strcmp(decoded, text) == 0);
        release(hg_proc_hg_const_string_t, decoded);
        CHECK(decoded == nullptr);
    }
    const auto bytes = encode<hg_string_t>(hg_proc_hg_string_t, nullptr);
    CHECK(bytes == wire(0, ""));
    char garbage = 'g';
    hg_string_t decoded = &garbage;
    REQUIRE(decode(hg_proc_hg_string_t, bytes, decoded) == HG_SUCCESS);
    CHECK(decoded == nullptr);
    release(hg_proc_hg_string_t, decoded);
}

TEST_CASE("hostile strings are refused before anything is allocated", "[proc][string]") {
    struct Case {
        std::vector<std::uint8_t> bytes;
        hg_return_t code;
    };
    std::vector<Case> cases = {
        {{}, HG_OVERFLOW},
        {{1, 0, 0}, HG_OVERFLOW},
        {wire(1, ""), HG_OVERFLOW},
        {wire(6, "abcd"), HG_OVERFLOW},
        {wire(5, "abcd"), HG_OVERFLOW},
        {wire(5, std::string("abcd\0", 5)), HG_OVERFLOW},            // nothing after it
        {wire(5, std::string("abcd\0\0", 6)), HG_OVERFLOW},          // too little
        {wire(4, std::string("abcd\0\0", 6)), HG_PROTOCOL_ERROR},    // no NUL
        {wire(4, std::string("ab\0\0\0\0", 6)), HG_PROTOCOL_ERROR},  // two
        {wire(5, std::string("ab\0cd\0\0", 7)), HG_PROTOCOL_ERROR},  // in the middle
        {wire(3, std::string("abc\0\0", 5)), HG_PROTOCOL_ERROR},     // just past it
    };
    for (std::uint64_t size :
         {0x7fffffffULL, 0xffffffffULL, 0x100000000ULL, 0x100000005ULL, 0x7fffffffffffffffULL,
          0xfffffffffffffff0ULL, 0xffffffffffffffffULL}) {
        cases.push_back({wire(size, std::string("abcd\0", 5)), HG_OVERFLOW});
    }
    for (const Case& c : cases) {
        char garbage = 'g';
        hg_string_t string = &garbage;
        CHECK(decode(hg_proc_hg_string_t, c.bytes, string) == c.code);
        CHECK(string == nullptr);
        hg_const_string_t const_string = &garbage;
        CHECK(decode(hg_proc_hg_const_string_t, c.bytes, const_string) == c.code);
        CHECK(const_string == nullptr);
        hg_string_object_t object{&garbage, true, true};
        CHECK(decode(hg_proc_hg_string_object_t, c.bytes, object) == c.code);
        CHECK(object.data == nullptr);
        CHECK_FALSE(object.is_owned);
        release(hg_proc_hg_string_object_t, object);
    }
}

TEST_CASE("string objects round-trip; ownership is not the sender's", "[proc][string]") {
    char text[] = "text";
    for (bool is_const : {false, true}) {
        const hg_string_object_t sent{text, is_const, false};
        const auto bytes = encode(hg_proc_hg_string_object_t, sent);
        CHECK(bytes == as_sent("text", is_const, false));
        hg_string_object_t received{};
        REQUIRE(decode(hg_proc_hg_string_object_t, bytes, received) == HG_SUCCESS);
        CHECK(std::strcmp(received.data, "text") == 0);
        CHECK(received.is_owned);
        CHECK_FALSE(received.is_const);
        release(hg_proc_hg_string_object_t, received);
        CHECK(received.data == nullptr);
    }
    hg_string_object_t none{};
    CHECK(encode(hg_proc_hg_string_object_t, none) == wire(0, ""));
    REQUIRE(decode(hg_proc_hg_string_object_t, wire(0, ""), none) == HG_SUCCESS);
    CHECK(none.data == nullptr);
    CHECK_FALSE(none.is_owned);
}

TEST_CASE("string object functions", "[string]") {
    hg_string_object_t object{};
    char text[] = "text";
    CHECK(hg_string_object_init(&object) == HG_SUCCESS);
    CHECK(object.data == nullptr);
    CHECK(hg_string_object_free(&object) == HG_SUCCESS);

    CHECK(hg_string_object_init_char(&object, text, 0) == HG_SUCCESS);
    CHECK(object.data == text);
    CHECK_FALSE(object.is_const);
    CHECK(hg_string_object_free(&object) == HG_SUCCESS);  // not owned: not freed
    CHECK(object.data == nullptr);

    CHECK(hg_string_object_init_const_char(&object, "constant", 0) == HG_SUCCESS);
    CHECK(object.is_const);
    hg_string_object_t copy{};
    REQUIRE(hg_string_object_dup(object, &copy) == HG_SUCCESS);
    CHECK(copy.data != object.data);
    CHECK(std::strcmp(copy.data, "constant") == 0);
    CHECK(copy.is_owned);
    CHECK_FALSE(copy.is_const);

    char* old = hg_string_object_swap(&copy, text);
    CHECK(std::strcmp(old, "constant") == 0);
    CHECK(copy.data == text);
    CHECK_FALSE(copy.is_owned);
    CHECK(hg_string_object_free(&copy) == HG_SUCCESS);

    CHECK(hg_string_object_init_char(&object, old, 1) == HG_SUCCESS);
    CHECK(hg_string_object_free(&object) == HG_SUCCESS);  // frees it
    CHECK(hg_string_object_init(&object) == HG_SUCCESS);
    REQUIRE(hg_string_object_dup(object, &copy) == HG_SUCCESS);
    CHECK(copy.data == nullptr);

    CHECK(hg_string_object_init(nullptr) == HG_INVALID_ARG);
    CHECK(hg_string_object_init_char(nullptr, text, 0) == HG_INVALID_ARG);
    CHECK(hg_string_object_init_const_char(nullptr, text, 0) == HG_INVALID_ARG);
    CHECK(hg_string_object_free(nullptr) == HG_INVALID_ARG);
    CHECK(hg_string_object_dup(object, nullptr) == HG_INVALID_ARG);
    CHECK(hg_string_object_swap(nullptr, text) == nullptr);
}

TEST_CASE("string procs refuse NULL", "[proc][string]") {
    std::uint8_t buffer[8];
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    hg_string_object_t object{};
    hg_string_t string = nullptr;
    CHECK(hg_proc_hg_string_t(proc, nullptr) == HG_INVALID_ARG);
    CHECK(hg_proc_hg_const_string_t(proc, nullptr) == HG_INVALID_ARG);
    CHECK(hg_proc_hg_string_object_t(proc, nullptr) == HG_INVALID_ARG);
    CHECK(hg_proc_hg_string_t(HG_PROC_NULL, &string) == HG_INVALID_ARG);
    CHECK(hg_proc_hg_string_object_t(HG_PROC_NULL, &object) == HG_INVALID_ARG);
}
