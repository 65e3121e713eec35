// SPDX-License-Identifier: BSD-3-Clause
// Buffers, integers, raw bytes, saved pointers and checksums of a proc.
#include "hg/proc/proc.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "proc_fixture.hpp"

using namespace proc_test;
using hg::proc::Allocator;
using hg::proc::ChecksumKind;
using hg::proc::Proc;

namespace {

template <typename T>
void check_integer(hg_proc_cb_t callback, T value) {
    std::uint8_t buffer[sizeof(T)];
    {
        CProc proc(buffer, sizeof buffer, HG_ENCODE);
        REQUIRE(callback(proc, &value) == HG_SUCCESS);
        CHECK(hg_proc_get_size_left(proc) == 0);
        CHECK(hg_proc_get_extra_buf(proc) == nullptr);
    }
    for (std::size_t i = 0; i < sizeof(T); ++i) {  // little-endian on the wire
        CHECK(buffer[i] == static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
    T decoded{};
    CProc proc(buffer, sizeof buffer, HG_DECODE);
    REQUIRE(callback(proc, &decoded) == HG_SUCCESS);
    CHECK(decoded == value);
    // Past the end: nothing changes.
    CHECK(callback(proc, &decoded) == HG_OVERFLOW);
    CHECK(decoded == value);
    CHECK(hg_proc_get_size_used(proc) == sizeof(T));
    // One byte short.
    CProc truncated(buffer, sizeof(T) - 1, HG_DECODE);
    T untouched = value;
    CHECK(callback(truncated, &untouched) == HG_OVERFLOW);
    CHECK(untouched == value);
    CHECK(hg_proc_get_size_used(truncated) == 0);
    // Freeing needs no buffer.
    CProc freeing(nullptr, 0, HG_FREE);
    REQUIRE(freeing.ret() == HG_SUCCESS);
    CHECK(callback(freeing, &decoded) == HG_SUCCESS);
    CHECK(decoded == value);
}

template <typename T>
void check_integers(hg_proc_cb_t callback) {
    for (T value : {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T{0}, T{1},
                    static_cast<T>(0x8877665544332211ULL)}) {
        check_integer<T>(callback, value);
    }
}

// Counts what it gives, and fails when told.
struct CountingAllocator {
    int blocks = 0;
    std::size_t largest = 0;
    std::size_t refuse_above = std::numeric_limits<std::size_t>::max();

    static void* allocate(void* arg, std::size_t& size) noexcept {
        auto& self = *static_cast<CountingAllocator*>(arg);
        if (size > self.refuse_above) {
            return nullptr;
        }
        size += 100;  // more than asked for
        self.largest = std::max(self.largest, size);
        ++self.blocks;
        auto* block = static_cast<std::size_t*>(std::malloc(sizeof(std::size_t) + size));
        *block = size;
        return block + 1;
    }
    static void release(void* arg, void* data, std::size_t size) noexcept {
        auto* block = static_cast<std::size_t*>(data) - 1;
        if (*block != size) {
            std::abort();
        }
        --static_cast<CountingAllocator*>(arg)->blocks;
        std::free(block);
    }
    Allocator hook() { return {allocate, release, this}; }
};

}  // namespace

TEST_CASE("integers round-trip, little-endian", "[proc]") {
    check_integers<std::int8_t>(hg_proc_int8_t);
    check_integers<std::uint8_t>(hg_proc_uint8_t);
    check_integers<std::int16_t>(hg_proc_int16_t);
    check_integers<std::uint16_t>(hg_proc_uint16_t);
    check_integers<std::int32_t>(hg_proc_int32_t);
    check_integers<std::uint32_t>(hg_proc_uint32_t);
    check_integers<std::int64_t>(hg_proc_int64_t);
    check_integers<std::uint64_t>(hg_proc_uint64_t);
}

TEST_CASE("Mercury's names of the types have the right widths", "[proc]") {
    check_integers<hg_size_t>(hg_proc_hg_size_t);
    check_integers<hg_id_t>(hg_proc_hg_id_t);  // all 64 bits
    check_integers<hg_ptr_t>(hg_proc_hg_ptr_t);
    check_integers<hg_bool_t>(hg_proc_hg_bool_t);
    check_integers<hg_int8_t>(hg_proc_hg_int8_t);
    check_integers<hg_uint8_t>(hg_proc_hg_uint8_t);
    check_integers<hg_int16_t>(hg_proc_hg_int16_t);
    check_integers<hg_uint16_t>(hg_proc_hg_uint16_t);
    check_integers<hg_int32_t>(hg_proc_hg_int32_t);
    check_integers<hg_uint32_t>(hg_proc_hg_uint32_t);
    check_integers<hg_int64_t>(hg_proc_hg_int64_t);
    check_integers<hg_uint64_t>(hg_proc_hg_uint64_t);
}

TEST_CASE("raw bytes round-trip and are bounded", "[proc]") {
    std::array<std::uint8_t, 37> data{};
    std::iota(data.begin(), data.end(), std::uint8_t{1});
    std::uint8_t buffer[40];
    CProc encoder(buffer, sizeof buffer, HG_ENCODE);
    REQUIRE(hg_proc_raw(encoder, data.data(), data.size()) == HG_SUCCESS);
    REQUIRE(hg_proc_memcpy(encoder, nullptr, 0) == HG_SUCCESS);
    CHECK(hg_proc_get_size_used(encoder) == data.size());

    std::array<std::uint8_t, 37> copy{};
    CProc decoder(buffer, data.size(), HG_DECODE);
    REQUIRE(hg_proc_bytes(decoder, copy.data(), copy.size()) == HG_SUCCESS);
    CHECK(copy == data);
    CHECK(hg_proc_bytes(decoder, copy.data(), 0) == HG_SUCCESS);
    CHECK(hg_proc_bytes(decoder, copy.data(), 1) == HG_OVERFLOW);
    for (hg_size_t huge : {hg_size_t{1} << 32, HG_SIZE_MAX, HG_SIZE_MAX - 7, HG_SIZE_MAX / 2}) {
        CHECK(hg_proc_bytes(decoder, copy.data(), huge) == HG_OVERFLOW);
        CHECK(hg_proc_save_ptr(decoder, huge) == nullptr);
        CHECK(hg_proc_reserve(decoder, huge) == HG_OVERFLOW);
        CHECK(hg_proc_set_size(decoder, huge) == HG_OVERFLOW);
    }
    CHECK(hg_proc_get_extra_buf(decoder) == nullptr);
    CHECK(hg_proc_get_size_used(decoder) == data.size());
}

TEST_CASE("sizes that no memory has are refused when encoding", "[proc]") {
    std::uint8_t buffer[16];
    std::uint8_t byte = 1;
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    REQUIRE(hg_proc_uint8_t(proc, &byte) == HG_SUCCESS);
    for (hg_size_t huge : {HG_SIZE_MAX, HG_SIZE_MAX - 1, HG_SIZE_MAX - 15, HG_SIZE_MAX / 2 + 1}) {
        CHECK(hg_proc_reserve(proc, huge) == HG_NOMEM);
        CHECK(hg_proc_set_size(proc, huge) == HG_NOMEM);
        CHECK(hg_proc_save_ptr(proc, huge) == nullptr);
        CHECK(hg_proc_bytes(proc, &byte, huge) == HG_NOMEM);
    }
    CHECK(hg_proc_get_size_used(proc) == 1);
    CHECK(hg_proc_get_extra_buf(proc) == nullptr);
}

TEST_CASE("encoding past the buffer goes on in an extra one, growing geometrically", "[proc]") {
    constexpr std::uint64_t kCount = 100000;
    std::uint8_t buffer[10];  // not a multiple of the integers
    CountingAllocator allocator;
    std::vector<std::uint64_t> grown;
    {
        Proc proc(some_class(), ChecksumKind::none, allocator.hook());
        proc.reset(buffer, sizeof buffer, HG_ENCODE);
        for (std::uint64_t i = 0; i < kCount; ++i) {
            REQUIRE(hg_proc_uint64_t(&proc, &i) == HG_SUCCESS);
            const hg_size_t size = hg_proc_get_extra_size(&proc);
            if (size != 0 && (grown.empty() || grown.back() != size)) {
                grown.push_back(size);
            }
            CHECK(allocator.blocks == (grown.empty() ? 0 : 1));
        }
        CHECK(grown.size() <= 12);
        CHECK(hg_proc_get_size_used(&proc) == kCount * 8);
        CHECK(hg_proc_get_size(&proc) == sizeof buffer + grown.back());
        CHECK(hg_proc_get_size_left(&proc) == grown.back() - kCount * 8);

        CHECK(hg_proc_get_extra_buf(&proc) == proc.encoded().data());
        Proc decoder(some_class());
        decoder.reset(proc.encoded().data(), proc.encoded().size(), HG_DECODE);
        for (std::uint64_t i = 0; i < kCount; ++i) {
            std::uint64_t value = 0;
            REQUIRE(hg_proc_uint64_t(&decoder, &value) == HG_SUCCESS);
            REQUIRE(value == i);
        }
        std::uint8_t more = 0;
        CHECK(hg_proc_uint8_t(&decoder, &more) == HG_OVERFLOW);

        proc.reset(buffer, sizeof buffer, HG_ENCODE);
        CHECK(allocator.blocks == 0);
        CHECK(hg_proc_get_extra_buf(&proc) == nullptr);
        CHECK(hg_proc_get_size_left(&proc) == sizeof buffer);
    }
    CHECK(allocator.blocks == 0);
}

TEST_CASE("one large member grows the buffer once", "[proc]") {
    std::vector<std::uint8_t> data(3'000'001, 0x5a);
    std::uint8_t buffer[64];
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    std::uint32_t count = 7;
    REQUIRE(hg_proc_uint32_t(proc, &count) == HG_SUCCESS);
    REQUIRE(hg_proc_bytes(proc, data.data(), data.size()) == HG_SUCCESS);
    CHECK(hg_proc_get_extra_size(proc) < data.size() + 2 * 4096);
    const auto bytes = proc.bytes();
    REQUIRE(bytes.size() == data.size() + 4);
    CHECK(bytes[0] == 7);
    CHECK(std::equal(data.begin(), data.end(), bytes.begin() + 4));
}

TEST_CASE("set_size makes room in one step", "[proc]") {
    std::uint8_t buffer[16];
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    CHECK(hg_proc_set_size(proc, 15) == HG_INVALID_ARG);
    CHECK(hg_proc_set_size(proc, 16) == HG_SUCCESS);
    CHECK(hg_proc_get_extra_buf(proc) == nullptr);
    REQUIRE(hg_proc_set_size(proc, 10000) == HG_SUCCESS);
    CHECK(hg_proc_get_extra_size(proc) >= 10000);
    CHECK(hg_proc_get_size_left(proc) == hg_proc_get_extra_size(proc));
    CHECK(hg_proc_set_size(proc, 100) == HG_INVALID_ARG);
    REQUIRE(hg_proc_reset(proc, nullptr, 0, HG_FREE) == HG_SUCCESS);
    CHECK(hg_proc_set_size(proc, 1 << 20) == HG_SUCCESS);
    CHECK(hg_proc_get_extra_buf(proc) == nullptr);
}

TEST_CASE("a proc without buffer encodes into an extra one", "[proc]") {
    hg_proc_t proc = HG_PROC_NULL;
    REQUIRE(hg_proc_create(some_class(), HG_NOHASH, &proc) == HG_SUCCESS);
    std::uint32_t value = 5;
    CHECK(hg_proc_uint32_t(proc, &value) == HG_SUCCESS);
    CHECK(hg_proc_get_extra_buf(proc) != nullptr);
    CHECK(hg_proc_free(proc) == HG_SUCCESS);
    CHECK(hg_proc_free(HG_PROC_NULL) == HG_SUCCESS);
}

TEST_CASE("the extra buffer can be handed over", "[proc]") {
    std::uint8_t buffer[2];
    std::uint32_t value = 0x01020304;
    void* block = nullptr;
    {
        CProc proc(buffer, sizeof buffer, HG_ENCODE);
        CHECK(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE) == HG_INVALID_ARG);
        REQUIRE(hg_proc_uint32_t(proc, &value) == HG_SUCCESS);
        block = hg_proc_get_extra_buf(proc);
        REQUIRE(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE) == HG_SUCCESS);
        REQUIRE(hg_proc_set_extra_buf_is_mine(proc, HG_FALSE) == HG_SUCCESS);
        REQUIRE(hg_proc_set_extra_buf_is_mine(proc, HG_TRUE) == HG_SUCCESS);
    }
    CHECK(static_cast<std::uint8_t*>(block)[0] == 4);
    std::free(block);

    CountingAllocator allocator;
    {
        Proc proc(some_class(), ChecksumKind::none, allocator.hook());
        proc.reset(buffer, sizeof buffer, HG_ENCODE);
        CHECK(proc.extra().empty());
        REQUIRE(hg_proc_uint32_t(&proc, &value) == HG_SUCCESS);
        CHECK(hg_proc_set_extra_buf_is_mine(&proc, HG_TRUE) == HG_OPNOTSUPPORTED);
        const auto taken = proc.take_extra();
        CHECK(taken.size() == allocator.largest);
        proc.reset(buffer, sizeof buffer, HG_ENCODE);
        CHECK(allocator.blocks == 1);
        CountingAllocator::release(&allocator, taken.data(), taken.size());
    }
    CHECK(allocator.blocks == 0);
}

TEST_CASE("a limit stops the growth with its own code", "[proc]") {
    CountingAllocator allocator;
    std::uint8_t buffer[16];
    std::uint64_t value = 1;
    Proc proc(some_class(), ChecksumKind::none, allocator.hook());
    proc.set_limit(sizeof buffer, na::Status::overflow);
    proc.reset(buffer, sizeof buffer, HG_ENCODE);
    CHECK(hg_proc_uint64_t(&proc, &value) == HG_SUCCESS);
    CHECK(hg_proc_uint64_t(&proc, &value) == HG_SUCCESS);
    CHECK(hg_proc_uint64_t(&proc, &value) == HG_OVERFLOW);
    CHECK(hg_proc_set_size(&proc, 17) == HG_OVERFLOW);
    CHECK(allocator.blocks == 0);

    proc.set_limit(10000, na::Status::msgsize);
    std::size_t count = 2;
    while (hg_proc_uint64_t(&proc, &value) == HG_SUCCESS) {
        ++count;
    }
    CHECK(count == 10000 / 8);
    CHECK(hg_proc_uint64_t(&proc, &value) == HG_MSGSIZE);
    CHECK(hg_proc_get_size_left(&proc) == 10000 % 8);
}

TEST_CASE("out of memory while growing keeps what was encoded", "[proc]") {
    CountingAllocator allocator;
    allocator.refuse_above = 5000;
    std::uint8_t buffer[8];
    std::uint64_t value = 42;
    Proc proc(some_class(), ChecksumKind::none, allocator.hook());
    proc.reset(buffer, sizeof buffer, HG_ENCODE);
    std::size_t count = 0;
    hg_return_t ret = HG_SUCCESS;
    while ((ret = hg_proc_uint64_t(&proc, &value)) == HG_SUCCESS) {
        ++count;
    }
    CHECK(ret == HG_NOMEM);
    CHECK(count * 8 >= 5000 - 8);  // the last step asked for just what was needed
    CHECK(proc.encoded().size() == count * 8);
    for (std::size_t i = 0; i < count; ++i) {
        CHECK(proc.encoded()[8 * i] == std::byte{42});
    }
}

TEST_CASE("run passes codes on and refuses made-up ones", "[proc]") {
    Proc proc(some_class());
    CHECK(proc.run(nullptr, nullptr) == na::Status::success);
    int code = 0;
    const auto callback = [](hg_proc_t, void* data) {
        return static_cast<hg_return_t>(*static_cast<int*>(data));
    };
    for (int i = 0; i < HG_RETURN_MAX; ++i) {
        code = i;
        CHECK(static_cast<int>(proc.run(callback, &code)) == i);
    }
    for (int i : {static_cast<int>(HG_RETURN_MAX), 28, 31}) {
        code = i;
        CHECK(proc.run(callback, &code) == na::Status::other_error);
    }
}

TEST_CASE("saved pointers write and read in place", "[proc]") {
    std::uint8_t buffer[64];
    std::uint32_t tail = 0xdddddddd;
    CProc encoder(buffer, sizeof buffer, HG_ENCODE);
    void* at = hg_proc_save_ptr(encoder, 8);
    REQUIRE(at == buffer);
    REQUIRE(hg_proc_uint32_t(encoder, &tail) == HG_SUCCESS);
    std::memcpy(at, "saved!!", 8);
    CHECK(hg_proc_restore_ptr(encoder, at, 8) == HG_SUCCESS);
    CHECK(hg_proc_get_size_used(encoder) == 12);

    CProc decoder(buffer, 12, HG_DECODE);
    const void* read = hg_proc_save_ptr(decoder, 8);
    REQUIRE(read == buffer);
    CHECK(std::strcmp(static_cast<const char*>(read), "saved!!") == 0);
    CHECK(hg_proc_restore_ptr(decoder, buffer, 8) == HG_SUCCESS);
    CHECK(hg_proc_restore_ptr(decoder, buffer, 9) == HG_INVALID_ARG);
    CHECK(hg_proc_save_ptr(decoder, 4) == buffer + 8);

    CProc freeing(nullptr, 0, HG_FREE);
    CHECK(hg_proc_save_ptr(freeing, 8) == nullptr);
    CHECK(hg_proc_restore_ptr(freeing, at, 8) == HG_SUCCESS);
}

TEST_CASE("saved pointers survive growth", "[proc]") {
    // Saved in the given buffer, in the first extra one and in the second; all restored at the end.
    std::uint8_t buffer[16];
    std::vector<std::uint8_t> filler(5000, 0xee);
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    auto* a = static_cast<std::uint8_t*>(hg_proc_save_ptr(proc, 10));
    REQUIRE(hg_proc_bytes(proc, filler.data(), filler.size()) == HG_SUCCESS);
    auto* b = static_cast<std::uint8_t*>(hg_proc_save_ptr(proc, 10));
    REQUIRE(hg_proc_bytes(proc, filler.data(), filler.size()) == HG_SUCCESS);
    REQUIRE(hg_proc_set_size(proc, 1 << 20) == HG_SUCCESS);
    auto* c = static_cast<std::uint8_t*>(hg_proc_save_ptr(proc, 10));
    REQUIRE((a != nullptr && b != nullptr && c != nullptr));
    std::memset(a, 0xaa, 10);
    std::memset(b, 0xbb, 10);
    std::memset(c, 0xcc, 10);
    CHECK(hg_proc_restore_ptr(proc, a, 10) == HG_SUCCESS);
    CHECK(hg_proc_restore_ptr(proc, c, 10) == HG_SUCCESS);
    CHECK(hg_proc_restore_ptr(proc, b, 10) == HG_SUCCESS);

    const auto bytes = proc.bytes();
    REQUIRE(bytes.size() == 10030);
    CHECK(bytes[0] == 0xaa);
    CHECK(bytes[9] == 0xaa);
    CHECK(bytes[10] == 0xee);
    CHECK(bytes[5010] == 0xbb);
    CHECK(bytes[5019] == 0xbb);
    CHECK(bytes[5020] == 0xee);
    CHECK(bytes[10020] == 0xcc);
    CHECK(bytes[10029] == 0xcc);
}

TEST_CASE("pointers that were not saved are refused", "[proc]") {
    std::uint8_t buffer[64];
    std::uint8_t other[64] = {};
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    REQUIRE(hg_proc_save_ptr(proc, 32) != nullptr);
    CHECK(hg_proc_restore_ptr(proc, other, 8) == HG_INVALID_ARG);
    CHECK(hg_proc_restore_ptr(proc, buffer + 30, 8) == HG_INVALID_ARG);
    CHECK(hg_proc_restore_ptr(proc, buffer, HG_SIZE_MAX) == HG_INVALID_ARG);
    CHECK(hg_proc_restore_ptr(proc, buffer + 31, HG_SIZE_MAX - 1) == HG_INVALID_ARG);
    CHECK(hg_proc_restore_ptr(proc, nullptr, 1) == HG_INVALID_ARG);
    CHECK(hg_proc_restore_ptr(proc, nullptr, 0) == HG_SUCCESS);
}

TEST_CASE("checksums of both sides agree", "[proc]") {
    struct Case {
        hg_proc_hash_t hash;
        hg_size_t size;
    };
    for (const Case c : {Case{HG_CRC16, 2}, Case{HG_CRC32, 4}, Case{HG_CRC64, 8}}) {
        std::uint8_t buffer[8];  // grows on the way
        std::vector<std::uint8_t> data(10000, 3);
        std::uint32_t value = 77;
        char outside[] = "outside";
        std::uint8_t sum[8] = {};
        CProc encoder(buffer, sizeof buffer, HG_ENCODE, c.hash);
        REQUIRE(hg_proc_uint32_t(encoder, &value) == HG_SUCCESS);
        void* saved = hg_proc_save_ptr(encoder, 4);
        REQUIRE(hg_proc_bytes(encoder, data.data(), data.size()) == HG_SUCCESS);
        std::memcpy(saved, "abcd", 4);
        REQUIRE(hg_proc_restore_ptr(encoder, saved, 4) == HG_SUCCESS);
        hg_proc_checksum_update(encoder, outside, sizeof outside);
        CHECK(hg_proc_flush(encoder) == HG_SUCCESS);
        CHECK(hg_proc_checksum_get(encoder, sum, c.size - 1) == HG_OVERFLOW);
        REQUIRE(hg_proc_checksum_get(encoder, sum, sizeof sum) == HG_SUCCESS);

        auto wire = encoder.bytes();
        const auto decode = [&](hg_proc_t decoder) {
            CHECK(hg_proc_uint32_t(decoder, &value) == HG_SUCCESS);
            void* at = hg_proc_save_ptr(decoder, 4);
            CHECK(hg_proc_bytes(decoder, data.data(), data.size()) == HG_SUCCESS);
            CHECK(hg_proc_restore_ptr(decoder, at, 4) == HG_SUCCESS);
            hg_proc_checksum_update(decoder, outside, sizeof outside);
            CHECK(hg_proc_flush(decoder) == HG_SUCCESS);
            return hg_proc_checksum_verify(decoder, sum, sizeof sum);
        };
        CHECK(decode(CProc(wire.data(), wire.size(), HG_DECODE, c.hash)) == HG_SUCCESS);
        for (std::size_t at : {std::size_t{0}, std::size_t{5}, wire.size() - 1}) {
            wire[at] ^= 0x10;
            CHECK(decode(CProc(wire.data(), wire.size(), HG_DECODE, c.hash)) == HG_CHECKSUM_ERROR);
            wire[at] ^= 0x10;
        }
        CHECK(sum[c.size - 1] + sum[0] + sum[1] != 0);
    }
}

TEST_CASE("the checksum is that of the bytes, little-endian, and starts anew", "[proc]") {
    std::uint8_t buffer[16];
    char digits[] = "123456789";
    const std::uint8_t expected[] = {0x83, 0x92, 0x06, 0xE3};
    std::uint8_t sum[4] = {};
    CProc proc(buffer, sizeof buffer, HG_ENCODE, HG_CRC32);
    for (int i = 0; i < 2; ++i) {
        for (char* digit = digits; *digit != '\0'; ++digit) {
            REQUIRE(hg_proc_uint8_t(proc, digit) == HG_SUCCESS);
        }
        REQUIRE(hg_proc_checksum_get(proc, sum, sizeof sum) == HG_SUCCESS);
        CHECK(std::memcmp(sum, expected, sizeof sum) == 0);
        REQUIRE(hg_proc_reset(proc, buffer, sizeof buffer, HG_ENCODE) == HG_SUCCESS);
    }
    CProc none(buffer, sizeof buffer, HG_ENCODE);
    CHECK(hg_proc_flush(none) == HG_SUCCESS);
    CHECK(hg_proc_checksum_get(none, sum, sizeof sum) == HG_INVALID_ARG);
    CHECK(hg_proc_checksum_verify(none, sum, sizeof sum) == HG_INVALID_ARG);
}

TEST_CASE("bad arguments are refused", "[proc]") {
    hg_proc_t proc = HG_PROC_NULL;
    std::uint8_t buffer[8];
    CHECK(hg_proc_create(nullptr, HG_NOHASH, &proc) == HG_INVALID_ARG);
    CHECK(hg_proc_create(some_class(), HG_NOHASH, nullptr) == HG_INVALID_ARG);
    CHECK(hg_proc_create_set(some_class(), nullptr, 8, HG_DECODE, HG_NOHASH, &proc) ==
          HG_INVALID_ARG);
    CHECK(hg_proc_create_set(some_class(), buffer, 8, HG_DECODE, HG_NOHASH, nullptr) ==
          HG_INVALID_ARG);
    CHECK(hg_proc_create_set(some_class(), buffer, HG_SIZE_MAX, HG_DECODE, HG_NOHASH, &proc) ==
          HG_INVALID_ARG);
    CHECK(proc == HG_PROC_NULL);
    CHECK(hg_proc_reset(HG_PROC_NULL, buffer, 8, HG_ENCODE) == HG_INVALID_ARG);
    CHECK(hg_proc_set_size(HG_PROC_NULL, 8) == HG_INVALID_ARG);
    CHECK(hg_proc_reserve(HG_PROC_NULL, 8) == HG_INVALID_ARG);
    CHECK(hg_proc_save_ptr(HG_PROC_NULL, 8) == nullptr);
    CHECK(hg_proc_restore_ptr(HG_PROC_NULL, buffer, 8) == HG_INVALID_ARG);
    CHECK(hg_proc_set_extra_buf_is_mine(HG_PROC_NULL, 1) == HG_INVALID_ARG);
    CHECK(hg_proc_flush(HG_PROC_NULL) == HG_INVALID_ARG);
    CHECK(hg_proc_checksum_get(HG_PROC_NULL, buffer, 8) == HG_INVALID_ARG);
    CHECK(hg_proc_checksum_verify(HG_PROC_NULL, buffer, 8) == HG_INVALID_ARG);
    hg_proc_checksum_update(HG_PROC_NULL, buffer, 8);
}

TEST_CASE("procs that do not look at what hg_proc_save_ptr gives read zeros", "[proc]") {
    std::uint8_t buffer[12];
    std::memset(buffer, 0xee, sizeof buffer);
    CProc decoder(buffer, sizeof buffer, HG_DECODE);
    REQUIRE(hg_proc_save_ptr(decoder, 8) == buffer);
    CHECK(hg_proc_flush(decoder) == HG_SUCCESS);
    for (const std::size_t size : {std::size_t{5}, std::size_t{1} << 20, std::size_t{16} << 20}) {
        auto* at = static_cast<const std::uint8_t*>(hg_proc_save_ptr(decoder, size));
        REQUIRE(at != nullptr);
        CHECK(std::all_of(at, at + size, [](std::uint8_t b) { return b == 0; }));
        CHECK(hg_proc_restore_ptr(decoder, const_cast<std::uint8_t*>(at), size) == HG_SUCCESS);
    }
    CHECK(hg_proc_save_ptr(decoder, (std::size_t{16} << 20) + 1) == nullptr);
    std::uint8_t left = 0;
    CHECK(hg_proc_uint8_t(decoder, &left) == HG_OVERFLOW);
    CHECK(hg_proc_flush(decoder) == HG_OVERFLOW);
    REQUIRE(hg_proc_reset(decoder, buffer, sizeof buffer, HG_DECODE) == HG_SUCCESS);
    CHECK(hg_proc_flush(decoder) == HG_SUCCESS);
    CHECK(hg_proc_uint8_t(decoder, &left) == HG_SUCCESS);
    CHECK(left == 0xee);
}

TEST_CASE("a proc keeps class, handle and operation", "[proc]") {
    std::uint8_t buffer[8];
    CProc proc(buffer, sizeof buffer, HG_ENCODE);
    auto* handle = reinterpret_cast<hg_handle_t>(buffer);
    CHECK(hg_proc_get_class(proc) == some_class());
    CHECK(hg_proc_get_handle(proc) == HG_HANDLE_NULL);
    hg_proc_set_handle(proc, handle);
    hg_proc_set_flags(proc, HG_PROC_SM | HG_PROC_BULK_EAGER);
    CHECK(hg_proc_get_flags(proc) == (HG_PROC_SM | HG_PROC_BULK_EAGER));
    REQUIRE(hg_proc_reset(proc, buffer, sizeof buffer, HG_DECODE) == HG_SUCCESS);
    CHECK(hg_proc_get_op(proc) == HG_DECODE);
    CHECK(hg_proc_get_handle(proc) == handle);
    CHECK(hg_proc_get_flags(proc) == 0);  // they belong to a pass
    CHECK(hg_proc_get_size(proc) == sizeof buffer);
}
