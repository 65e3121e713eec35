// SPDX-License-Identifier: BSD-3-Clause
// Memory handles: creation, permissions, ranges, bytes that travel, bytes that were tampered with.
#include <limits>

#include "common.hpp"

using namespace na_test;

TEST_CASE("memory handles are made and freed", "[memory]") {
    Endpoint e;
    std::vector<std::byte> memory(100);
    for (const unsigned long flags : {NA_MEM_READ_ONLY, NA_MEM_WRITE_ONLY, NA_MEM_READWRITE}) {
        na_mem_handle_t* handle = nullptr;
        REQUIRE(NA_Mem_handle_create(e.cls(), memory.data(), memory.size(), flags, &handle) ==
                NA_SUCCESS);
        CHECK(NA_Mem_register(e.cls(), handle, NA_MEM_TYPE_HOST, 0) == NA_SUCCESS);
        CHECK(NA_Mem_register(e.cls(), handle, NA_MEM_TYPE_HOST, 0) == NA_SUCCESS);
        CHECK(NA_Mem_deregister(e.cls(), handle) == NA_SUCCESS);
        CHECK(NA_Mem_deregister(e.cls(), handle) == NA_SUCCESS);
        // Without registration it is registered on use.
        const std::size_t size = NA_Mem_handle_get_serialize_size(e.cls(), handle);
        CHECK(size > 0);
        NA_Mem_handle_free(e.cls(), handle);
    }
    NA_Mem_handle_free(e.cls(), nullptr);
}

TEST_CASE("memory that cannot be is refused", "[memory]") {
    Endpoint e;
    const Quiet quiet;
    std::vector<std::byte> memory(100);
    auto* const untouched = reinterpret_cast<na_mem_handle_t*>(&e);
    na_mem_handle_t* handle = untouched;
    const auto create = [&](void* base, std::size_t size, unsigned long flags) {
        return NA_Mem_handle_create(e.cls(), base, size, flags, &handle);
    };
    CHECK(create(nullptr, 100, NA_MEM_READWRITE) == NA_INVALID_ARG);
    CHECK(create(memory.data(), 0, NA_MEM_READWRITE) == NA_INVALID_ARG);
    CHECK(create(memory.data(), 100, 0) == NA_INVALID_ARG);
    CHECK(create(memory.data(), 100, 4) == NA_INVALID_ARG);
    CHECK(create(memory.data(), 100, ~0UL) == NA_INVALID_ARG);
    CHECK(create(memory.data(), std::numeric_limits<std::size_t>::max(), NA_MEM_READWRITE) ==
          NA_INVALID_ARG);

    const auto segments = [&](std::vector<na_segment> list) {
        return NA_Mem_handle_create_segments(e.cls(), list.data(), list.size(), NA_MEM_READWRITE,
                                             &handle);
    };
    CHECK(NA_Mem_handle_create_segments(e.cls(), nullptr, 1, NA_MEM_READWRITE, &handle) ==
          NA_INVALID_ARG);
    na_segment one = {memory.data(), 1};
    CHECK(NA_Mem_handle_create_segments(e.cls(), &one, 0, NA_MEM_READWRITE, &handle) ==
          NA_INVALID_ARG);
    const std::size_t most = NA_Mem_handle_get_max_segments(e.cls());
    CHECK(segments(std::vector<na_segment>(most + 1, one)) == NA_INVALID_ARG);
    CHECK(NA_Mem_handle_create_segments(e.cls(), &one, std::numeric_limits<std::size_t>::max(),
                                        NA_MEM_READWRITE, &handle) == NA_INVALID_ARG);
    if (most >= 3) {
        CHECK(segments({one, {memory.data() + 10, 0}, one}) == NA_INVALID_ARG);
        CHECK(segments({one, {nullptr, 10}, one}) == NA_INVALID_ARG);
    }
    CHECK(handle == untouched);
    CHECK(NA_Mem_handle_create(e.cls(), memory.data(), 100, NA_MEM_READWRITE, nullptr) ==
          NA_INVALID_ARG);
}

TEST_CASE("memory types that are not there are refused", "[memory]") {
    Endpoint e;
    std::vector<std::byte> memory(100);
    na_mem_handle_t* handle = nullptr;
    REQUIRE(NA_Mem_handle_create(e.cls(), memory.data(), memory.size(), NA_MEM_READWRITE,
                                 &handle) == NA_SUCCESS);
    const Quiet quiet;
    CHECK(NA_Mem_register(e.cls(), handle, NA_MEM_TYPE_UNKNOWN, 0) == NA_INVALID_ARG);
    CHECK(NA_Mem_register(e.cls(), handle, static_cast<na_mem_type>(7), 0) == NA_INVALID_ARG);
    const na_return_t device = NA_Mem_register(e.cls(), handle, NA_MEM_TYPE_CUDA, 0);
    CHECK((device == NA_OPNOTSUPPORTED || device == NA_SUCCESS));
    NA_Mem_handle_free(e.cls(), handle);
}

TEST_CASE("permissions hold on both sides", "[memory][rma]") {
    Pair p;
    std::vector<std::byte> here(64);
    std::vector<std::byte> there(64);
    Mem local_read(p.a, here.data(), 64, NA_MEM_READ_ONLY);
    Mem local_write(p.a, here.data(), 64, NA_MEM_WRITE_ONLY);
    Mem local_both(p.a, here.data(), 64, NA_MEM_READWRITE);
    Mem target_read(p.b, there.data(), 64, NA_MEM_READ_ONLY);
    Mem target_write(p.b, there.data(), 64, NA_MEM_WRITE_ONLY);
    Mem remote_read(p.a, target_read.serialize());
    Mem remote_write(p.a, target_write.serialize());
    Op op(p.a);
    const Quiet quiet;
    CHECK(op.put(local_both, 0, remote_read, 0, 8, p.to_b) == NA_PERMISSION);
    CHECK(op.get(local_both, 0, remote_write, 0, 8, p.to_b) == NA_PERMISSION);
    CHECK(op.put(local_write, 0, remote_write, 0, 8, p.to_b) == NA_PERMISSION);
    CHECK(op.get(local_read, 0, remote_read, 0, 8, p.to_b) == NA_PERMISSION);
    CHECK(op.put(local_both, 0, remote_read, 0, 0, p.to_b) == NA_PERMISSION);
    REQUIRE(op.put(local_read, 0, remote_write, 0, 8, p.to_b) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
    op.reset();
    REQUIRE(op.get(local_write, 0, remote_read, 0, 8, p.to_b) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
}

TEST_CASE("ranges past the end are refused, also near 2^32 and 2^64", "[memory][rma]") {
    Pair p;
    std::vector<std::byte> here(64);
    std::vector<std::byte> there(100);
    Mem local(p.a, here.data(), 64, NA_MEM_READWRITE);
    Mem target(p.b, there.data(), 100, NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    Op op(p.a);
    const Quiet quiet;
    constexpr std::uint64_t k32 = std::uint64_t{1} << 32;
    constexpr std::uint64_t kMax = ~std::uint64_t{0};
    struct Range {
        std::uint64_t local, remote, size;
    };
    const Range bad[] = {
        {0, 0, 65},
        {1, 0, 64},
        {64, 0, 1},
        {0, 100, 1},
        {0, 37, 64},
        {65, 0, 0},
        {0, 101, 0},
        {0, 0, k32},
        {0, 0, k32 + 8},
        {k32, 0, 8},
        {0, k32, 8},
        {k32 - 4, 0, 8},
        {0, k32 - 4, 8},
        {kMax, 0, 1},
        {0, kMax, 1},
        {kMax - 7, 0, 8},
        {0, kMax - 7, 8},
        {0, 0, kMax},
        {1, 1, kMax},
        {kMax, kMax, kMax},
        {0, 50, kMax - 49},
        {8, 8, kMax - 7},
        {kMax / 2 + 1, 0, kMax / 2 + 1},
    };
    for (const Range& r : bad) {
        INFO(r.local << " " << r.remote << " " << r.size);
        CHECK(op.put(local, r.local, remote, r.remote, r.size, p.to_b) == NA_OVERFLOW);
        CHECK(op.get(local, r.local, remote, r.remote, r.size, p.to_b) == NA_OVERFLOW);
    }
    // Right at the end.
    REQUIRE(op.put(local, 0, remote, 36, 64, p.to_b) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
    op.reset();
    REQUIRE(op.put(local, 64, remote, 100, 0, p.to_b) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
}

TEST_CASE("handles must be the right way round and of the right class", "[memory][rma]") {
    Pair p;
    std::vector<std::byte> here(64);
    std::vector<std::byte> there(64);
    Mem local(p.a, here.data(), 64, NA_MEM_READWRITE);
    Mem target(p.b, there.data(), 64, NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    Op op(p.a);
    const Quiet quiet;
    CHECK(op.put(remote, 0, remote, 0, 8, p.to_b) == NA_INVALID_ARG);  // the local one is remote
    CHECK(op.put(local, 0, target, 0, 8, p.to_b) == NA_INVALID_ARG);  // a handle of the other class
    CHECK(op.put(target, 0, remote, 0, 8, p.to_b) == NA_INVALID_ARG);
    CHECK(op.put(local, 0, remote, 0, 8, p.to_a) ==
          NA_INVALID_ARG);  // an address of the other class
    // A remote handle cannot be registered.
    CHECK(NA_Mem_register(p.a.cls(), remote, NA_MEM_TYPE_HOST, 0) == NA_OPNOTSUPPORTED);
}

TEST_CASE("a handle that came from a peer can be passed on", "[memory][rma]") {
    Pair p;
    Endpoint third;
    Addr to_owner(third, p.b.uri());
    std::vector<std::byte> there = support::payload(3000, 1);
    std::vector<na_segment> segments;
    const std::size_t count = std::min<std::size_t>(NA_Mem_handle_get_max_segments(p.b.cls()), 3);
    for (std::size_t i = 0; i < count; ++i) {
        segments.push_back({there.data() + 1000 * i, 1000});
    }
    Mem target(p.b, segments, NA_MEM_READWRITE);
    Mem passed(p.a, target.serialize());
    // The same bytes, and no more room than they need.
    const std::vector<std::byte> bytes = passed.serialize();
    CHECK(bytes == target.serialize());
    std::vector<std::byte> small(bytes.size() - 1);
    {
        const Quiet quiet;
        CHECK(NA_Mem_handle_serialize(p.a.cls(), small.data(), small.size(), passed) ==
              NA_OVERFLOW);
    }
    Mem remote(third, bytes);
    CHECK(remote.serialize() == bytes);
    std::vector<std::byte> here(1000 * count);
    Mem local(third, here.data(), here.size(), NA_MEM_READWRITE);
    Op op(third);
    const auto both = [&] {
        p.pump();
        third.pump();
    };
    REQUIRE(op.get(local, 0, remote, 0, here.size(), to_owner) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, both));
    CHECK(op.ret() == NA_SUCCESS);
    CHECK(std::equal(here.begin(), here.end(), there.begin()));
    support::fill(here.data(), here.size(), 2);
    op.reset();
    REQUIRE(op.put(local, 0, remote, 0, here.size(), to_owner) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, both));
    CHECK(op.ret() == NA_SUCCESS);
    CHECK(std::equal(here.begin(), here.end(), there.begin()));
}

TEST_CASE("a handle travels as bytes", "[memory]") {
    Endpoint e;
    std::vector<std::byte> memory(1000);
    std::vector<na_segment> segments;
    const std::size_t count = std::min<std::size_t>(NA_Mem_handle_get_max_segments(e.cls()), 10);
    for (std::size_t i = 0; i < count; ++i) {
        segments.push_back({memory.data() + i * 100, 50});
    }
    Mem handle(e, segments, NA_MEM_READWRITE);
    const std::size_t size = NA_Mem_handle_get_serialize_size(e.cls(), handle);
    std::vector<std::byte> bytes(size + 8, std::byte{0x5a});
    const Quiet quiet;
    for (std::size_t have = 0; have < size; ++have) {
        CHECK(NA_Mem_handle_serialize(e.cls(), bytes.data(), have, handle) ==
              (have == 0 ? NA_INVALID_ARG : NA_OVERFLOW));
    }
    REQUIRE(NA_Mem_handle_serialize(e.cls(), bytes.data(), size, handle) == NA_SUCCESS);
    CHECK(bytes[size] == std::byte{0x5a});
    na_mem_handle_t* copy = nullptr;
    for (std::size_t have = 1; have < size; ++have) {
        CHECK(NA_Mem_handle_deserialize(e.cls(), &copy, bytes.data(), have) == NA_OVERFLOW);
    }
    REQUIRE(NA_Mem_handle_deserialize(e.cls(), &copy, bytes.data(), bytes.size()) == NA_SUCCESS);
    NA_Mem_handle_free(e.cls(), copy);
}

// Reading only: who tampers with its own copy to write could write there by other means too.
TEST_CASE("a tampered handle harms nobody", "[memory]") {
    if (const char* reason = support::lacks(support::Promise::forged_gets_end)) {
        support::skip(std::string("a tampered handle harms nobody: ") + reason);
        return;
    }
    Pair p;
    support::Random random(options().seed);
    std::vector<std::byte> there = support::payload(4096, 1);
    std::vector<std::byte> here(4096);
    std::vector<na_segment> segments;
    const std::size_t count = std::min<std::size_t>(NA_Mem_handle_get_max_segments(p.b.cls()), 3);
    for (std::size_t i = 0; i < count; ++i) {
        segments.push_back({there.data() + i * 1024, 1000});
    }
    Mem target(p.b, segments, NA_MEM_READ_ONLY);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    const std::vector<std::byte> good = target.serialize();
    const Quiet quiet;
    const auto attempt = [&](const std::vector<std::byte>& bytes) {
        na_mem_handle_t* handle = nullptr;
        const na_return_t r =
            NA_Mem_handle_deserialize(p.a.cls(), &handle, bytes.data(), bytes.size());
        if (r != NA_SUCCESS) {
            CHECK((r == NA_OVERFLOW || r == NA_PROTOCOL_ERROR || r == NA_INVALID_ARG ||
                   r == NA_PERMISSION));
            return;
        }
        // Whatever it claims: reading ends with some code, and what is read fits.
        for (const std::uint64_t offset :
             {std::uint64_t{0}, std::uint64_t{900}, std::uint64_t{1} << 33}) {
            Op op(p.a);
            if (op.get(local, 0, handle, offset, 100, p.to_b) == NA_SUCCESS) {
                REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
            }
        }
        NA_Mem_handle_free(p.a.cls(), handle);
    };
    // A transport may drop the connection for a bad access, and take a while to make the next one.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    const auto in_time = [&] { return std::chrono::steady_clock::now() < end; };
    std::vector<std::vector<std::byte>> changed;
    for (std::size_t at = 0; at < good.size(); ++at) {
        for (const unsigned value :
             {0U, 1U, 2U, 3U, 0x7fU, 0x80U, 0xffU, static_cast<unsigned>(random.below(256))}) {
            changed.push_back(good);
            changed.back()[at] = static_cast<std::byte>(value);
        }
    }
    random.shuffle(changed);
    for (std::size_t i = 0; i < changed.size() && in_time(); ++i) {
        attempt(changed[i]);
    }
    for (std::size_t cut = 1; cut < good.size(); ++cut) {
        attempt({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)});
    }
    for (int i = 0; i < 1000 && in_time(); ++i) {
        std::vector<std::byte> bytes(1 + random.below(2 * good.size()));
        support::fill(bytes, random.next());
        std::copy_n(good.begin(),
                    std::min<std::size_t>({bytes.size(), good.size(), random.below(good.size())}),
                    bytes.begin());
        attempt(bytes);
    }
    CHECK(support::mismatch(there, 1) == -1);
}

// The memory is the same in all descriptions, but for the keys.
TEST_CASE("a wrong key reads and writes nothing", "[memory][rma]") {
    if (const char* reason = support::lacks(support::Promise::checked_keys)) {
        support::skip(reason);
        return;
    }
    Pair p;
    support::Random random(options().seed);
    const std::size_t size = 60'000;
    std::vector<std::byte> there = support::payload(size, 1);
    std::vector<std::byte> here(size);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    const std::vector<std::byte> former =
        Mem(p.b, there.data(), there.size(), NA_MEM_READWRITE).serialize();
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    const std::vector<std::byte> good = target.serialize();
    REQUIRE(former.size() == good.size());
    std::vector<std::vector<std::byte>> wrong{former};
    for (int i = 0; i < 3; ++i) {
        wrong.push_back(good);
        for (std::size_t at = 0; at < good.size(); ++at) {
            if (good[at] != former[at]) {
                wrong.back()[at] ^= static_cast<std::byte>(1 + random.below(255));
            }
        }
    }
    REQUIRE(wrong[1] != good);  // there are keys
    const Quiet quiet;
    for (const auto& bytes : wrong) {
        Mem remote(p.a, bytes);
        for (const std::size_t n : {std::size_t{8}, std::size_t{5000}, size}) {
            INFO(n);
            for (const bool put : {false, true}) {
                INFO((put ? "put" : "get"));
                support::fill(here, 2);
                Op op(p.a);
                const na_return_t posted = put ? op.put(local, 0, remote, 0, n, p.to_b)
                                               : op.get(local, 0, remote, 0, n, p.to_b);
                if (posted == NA_SUCCESS) {
                    REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
                    CHECK(op.ret() != NA_SUCCESS);
                }
                CHECK(support::mismatch(std::span(here), 2) == -1);
                CHECK(support::mismatch(std::span(there), 1) == -1);
            }
        }
    }
}

// Registered memory lies between two areas that are not registered. A description that was changed
// reaches neither of them, and one that outlived its registration reaches nothing.
TEST_CASE("only what is registered is reached", "[memory][rma]") {
    if (const char* reason = support::lacks(support::Promise::checked_keys)) {
        support::skip(reason);
        return;
    }
    Pair p;
    support::Random random(options().seed);
    constexpr std::size_t kSize = 4096;
    constexpr std::byte kSecret{0xAB};
    std::vector<std::byte> there(3 * kSize, kSecret);
    std::vector<std::byte> here(2 * kSize);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    const Quiet quiet;
    const auto attempt = [&](const std::vector<std::byte>& bytes, bool put, std::size_t offset,
                             std::size_t size) {
        na_mem_handle_t* handle = nullptr;
        na_return_t r = NA_Mem_handle_deserialize(p.a.cls(), &handle, bytes.data(), bytes.size());
        if (r != NA_SUCCESS) {
            return r;
        }
        Op op(p.a);
        r = put ? op.put(local, 0, handle, offset, size, p.to_b)
                : op.get(local, 0, handle, offset, size, p.to_b);
        if (r == NA_SUCCESS) {
            REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
            r = op.ret();
        }
        NA_Mem_handle_free(p.a.cls(), handle);
        return r;
    };
    const auto secret = [](std::byte b) { return b == kSecret; };
    // A transport may drop the connection for a bad access, and take a while to make the next one.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    for (const bool put : {false, true}) {
        INFO((put ? "put" : "get"));
        std::fill_n(there.begin() + kSize, kSize, std::byte{1});
        Mem target(p.b, there.data() + kSize, kSize, put ? NA_MEM_WRITE_ONLY : NA_MEM_READ_ONLY);
        const std::vector<std::byte> good = target.serialize();
        // (What was refused before may have ended the connection.)
        CHECK(until([&] { return attempt(good, put, 0, kSize) == NA_SUCCESS; }, [&] { p.pump(); }));
        CHECK(attempt(good, !put, 0, kSize) == NA_PERMISSION);
        for (int i = 0; i < 400 && std::chrono::steady_clock::now() < end; ++i) {
            std::vector<std::byte> bytes = good;
            for (std::uint64_t n = 1 + random.below(2); n != 0; --n) {
                std::byte& one = bytes[random.below(bytes.size())];
                one = random.below(2) == 0 ? static_cast<std::byte>(random.next())
                                           : one ^ static_cast<std::byte>(1U << random.below(8));
            }
            std::fill(here.begin(), here.end(), std::byte{2});
            const std::size_t offset = random.below(kSize);
            static_cast<void>(attempt(bytes, put, offset, 1 + random.below(kSize)));
            REQUIRE(std::none_of(here.begin(), here.end(), secret));
        }
        CHECK(std::all_of(there.begin(), there.begin() + kSize, secret));
        CHECK(std::all_of(there.begin() + 2 * kSize, there.end(), secret));
    }
    std::vector<std::byte> stale;
    {
        Mem target(p.b, there.data(), kSize, NA_MEM_READWRITE);
        stale = target.serialize();
    }
    // Something else is registered in its place.
    std::vector<std::byte> other(kSize, kSecret);
    Mem next(p.b, other.data(), other.size(), NA_MEM_READWRITE);
    static_cast<void>(next.serialize());
    for (const bool put : {false, true}) {
        INFO((put ? "put" : "get"));
        std::fill(here.begin(), here.end(), std::byte{2});
        CHECK(attempt(stale, put, 0, kSize) != NA_SUCCESS);
        CHECK(std::none_of(here.begin(), here.end(), secret));
        CHECK(std::all_of(there.begin(), there.begin() + kSize, secret));
        CHECK(std::all_of(other.begin(), other.end(), secret));
    }
}
