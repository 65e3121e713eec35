// SPDX-License-Identifier: BSD-3-Clause
// Moving data between two parties: ranges, boundaries, permissions, who is addressed how.
#include <algorithm>
#include <cstring>

#include <catch2/catch.hpp>

#include "party.hpp"

using namespace test;

namespace {

constexpr hg_size_t kMiB = 1 << 20;

// The origin's memory as it was shown.
std::vector<std::byte> original(const Shown& shown) {
    std::vector<std::byte> all;
    support::Random random(shown.seed);
    for (const hg_size_t size : shown.sizes) {
        const auto part = filled(size, random.next());
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

auto at(std::vector<std::byte>& bytes, hg_size_t offset) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(offset);
}

// A sequence of pulls and pushes of random ranges, with both memories compared with copies of flat
// arrays.
void random_ranges(const Shown& shown, const std::vector<hg_size_t>& local_sizes, int rounds) {
    Origin origin(shown);
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, local_sizes, 77, HG_BULK_READWRITE);
        auto there = original(shown);
        auto here = local.flat();
        REQUIRE(HG_Bulk_get_size(remote) == there.size());
        REQUIRE(HG_Bulk_get_segment_count(remote) == shown.sizes.size());
        support::Random random(support::options().seed);
        for (int i = 0; i < rounds; ++i) {
            const hg_size_t most = std::min(there.size(), here.size());
            const hg_size_t size = random.below(4) == 0 ? most : random.below(most + 1);
            const hg_size_t at_there = random.below(there.size() - size + 1);
            const hg_size_t at_here = random.below(here.size() - size + 1);
            const bool pull = random.below(2) == 0;
            REQUIRE(transfer(node, pull ? HG_BULK_PULL : HG_BULK_PUSH,
                             shown.bind ? HG_ADDR_NULL : hg_addr_t(addr), remote, at_there,
                             local.bulk, at_here, size, shown.context_id) == HG_SUCCESS);
            if (pull) {
                std::copy_n(at(there, at_there), size, at(here, at_here));
            } else {
                std::copy_n(at(here, at_here), size, at(there, at_there));
            }
            REQUIRE(local.flat() == here);
        }
        CHECK(origin.memory_hash(node) == hash(there));
    }
    node.close();
    CHECK(origin.end() == "");
}

}  // namespace

TEST_CASE("one segment on each side", "[transfer]") {
    random_ranges({.sizes = {10000}}, {10000}, 40);
}

TEST_CASE("any segments on both sides", "[transfer]") {
    support::Random random(support::options().seed + 1);
    for (int round = 0; round < 4; ++round) {
        const auto sizes = [&] {
            std::vector<hg_size_t> s(1 + random.below(30));
            for (auto& n : s) {
                n = random.below(4) == 0 ? 0 : random.below(3000);
            }
            s.push_back(1);
            return s;
        };
        random_ranges({.sizes = sizes(), .seed = random.next()}, sizes(), 20);
    }
}

TEST_CASE("three segments of which one is empty", "[transfer]") {
    random_ranges({.sizes = {4096, 0, 8192}}, {100, 12188}, 10);
    random_ranges({.sizes = {4096, 8192}}, {100, 0, 12188}, 10);
}

TEST_CASE("a thousand segments", "[transfer]") {
    random_ranges({.sizes = std::vector<hg_size_t>(1000, 7)}, std::vector<hg_size_t>(700, 10), 10);
}

TEST_CASE("large pieces", "[transfer]") {
    random_ranges({.sizes = {5 * kMiB + 1, 3, 4 * kMiB}}, {2 * kMiB, 7 * kMiB + 11}, 6);
}

TEST_CASE("memory that the library allocated", "[transfer]") {
    random_ranges({.sizes = {3 * kMiB, 17}, .own_memory = true}, {3 * kMiB}, 6);
}

TEST_CASE("eager contents", "[transfer]") {
    random_ranges({.sizes = {100, 50}, .serialize = HG_BULK_EAGER}, {200}, 20);
}

TEST_CASE("a bound origin", "[transfer]") {
    random_ranges({.sizes = {100, 5000}, .bind = true}, {6000}, 10);
}

TEST_CASE("another context of the origin", "[transfer]") {
    random_ranges({.sizes = {100, 5000}, .context_id = 2}, {6000}, 10);
    random_ranges({.sizes = {100, 5000}, .bind = true, .context_id = 1}, {6000}, 10);
}

TEST_CASE("eager contents are enough to pull, however the origin fares", "[transfer]") {
    const Shown shown{.sizes = {100, 28}, .flags = HG_BULK_READ_ONLY, .serialize = HG_BULK_EAGER};
    Origin origin(shown);
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        CHECK(origin.end() == "");
        const Memory local(node, {128}, 2, HG_BULK_WRITE_ONLY);
        CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, 128) == HG_SUCCESS);
        CHECK(local.flat() == original(shown));
    }
    node.close();
}

TEST_CASE("64 MiB there and back", "[transfer]") {
    const hg_size_t size = 64 * kMiB;
    for (const bool own : {false, true}) {
        const Shown shown{.sizes = {size}, .own_memory = own};
        Origin origin(shown);
        Node node;
        {
            const Address addr(node, origin.uri());
            const Bulk remote = origin.descriptor(node);
            Memory local(node, {size}, 2, HG_BULK_READWRITE);
            REQUIRE(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, size) ==
                    HG_SUCCESS);
            CHECK(local.parts[0] == original(shown));
            fill(local.parts[0].data(), size, 99);
            REQUIRE(transfer(node, HG_BULK_PUSH, addr, remote, 0, local.bulk, 0, size) ==
                    HG_SUCCESS);
            CHECK(origin.memory_hash(node) == hash(local.parts[0]));
        }
        node.close();
        CHECK(origin.end() == "");
    }
}

// HG_Progress may sleep until something happens: a transfer of many pieces must not wait for that.
TEST_CASE("progress that sleeps", "[transfer]") {
    const Shown shown{.sizes = {40 * kMiB}};
    Origin origin(shown);
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {40 * kMiB}, 2, HG_BULK_READWRITE);
        Ended ended;
        REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, HG_BULK_PULL, addr, remote, 0,
                                 local.bulk, 0, 40 * kMiB, nullptr) == HG_SUCCESS);
        int slept_through = 0;
        while (ended.count == 0 && slept_through == 0) {
            slept_through += HG_Progress(node.context(), 15000) == HG_TIMEOUT ? 1 : 0;
            unsigned count = 0;
            HG_Trigger(node.context(), 0, 10, &count);
        }
        CHECK(slept_through == 0);
        CHECK(ended.count == 1);
        CHECK(ended.info.ret == HG_SUCCESS);
        CHECK(local.flat() == original(shown));
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("permissions", "[transfer]") {
    const Quiet quiet;
    for (const int flags : {HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY, HG_BULK_READWRITE}) {
        Origin origin({.sizes = {64}, .flags = static_cast<std::uint8_t>(flags)});
        Node node;
        {
            const Address addr(node, origin.uri());
            const Bulk remote = origin.descriptor(node);
            CHECK(HG_Bulk_get_flags(remote) == flags);
            for (const int mine : {HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY, HG_BULK_READWRITE}) {
                const Memory local(node, {64}, 2, static_cast<std::uint8_t>(mine));
                const bool may_pull =
                    (flags & HG_BULK_READ_ONLY) != 0 && (mine & HG_BULK_WRITE_ONLY) != 0;
                const bool may_push =
                    (flags & HG_BULK_WRITE_ONLY) != 0 && (mine & HG_BULK_READ_ONLY) != 0;
                CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, 64) ==
                      (may_pull ? HG_SUCCESS : HG_PERMISSION));
                CHECK(transfer(node, HG_BULK_PUSH, addr, remote, 0, local.bulk, 0, 64) ==
                      (may_push ? HG_SUCCESS : HG_PERMISSION));
            }
        }
        node.close();
        CHECK(origin.end() == "");
    }
}

TEST_CASE("ranges past the end", "[transfer]") {
    const Quiet quiet;
    Origin origin({.sizes = {64}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {32}, 2, HG_BULK_READWRITE);
        const hg_size_t k32 = 1ULL << 32;
        const hg_size_t numbers[] = {
            0, 32, 33, 64, 65, k32 - 1, k32, k32 + 1, UINT64_MAX - 31, UINT64_MAX};
        for (const hg_size_t remote_offset : numbers) {
            for (const hg_size_t local_offset : numbers) {
                for (const hg_size_t size : numbers) {
                    const bool fits =
                        size <= 32 && local_offset <= 32 - size && remote_offset <= 64 - size;
                    CHECK(transfer(node, HG_BULK_PULL, addr, remote, remote_offset, local.bulk,
                                   local_offset, size) == (fits ? HG_SUCCESS : HG_INVALID_ARG));
                }
            }
        }
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("a bound origin takes only bound transfers, and the other way round", "[transfer]") {
    const Quiet quiet;
    Origin origin({.sizes = {64}, .bind = true});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {64}, 2, HG_BULK_READWRITE);
        CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, 64) == HG_INVALID_ARG);
        CHECK(transfer(node, HG_BULK_PULL, HG_ADDR_NULL, remote, 0, local.bulk, 0, 64) ==
              HG_SUCCESS);
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("to oneself", "[transfer]") {
    Node node;
    {
        const Address self(node, node.uri());
        Memory shown(node, {100, 0, 400}, 1, HG_BULK_READWRITE);
        Memory local(node, {250, 260}, 2, HG_BULK_READWRITE);
        REQUIRE(transfer(node, HG_BULK_PULL, self, shown.bulk, 50, local.bulk, 10, 450) ==
                HG_SUCCESS);
        auto there = shown.flat();
        auto here = local.flat();
        CHECK(std::equal(at(there, 50), at(there, 500), at(here, 10)));

        // Through the wire: as an RPC to oneself does it.
        const auto bytes = serialized(shown.bulk);
        hg_bulk_t got = HG_BULK_NULL;
        REQUIRE(HG_Bulk_deserialize(node.cls(), &got, bytes.data(), bytes.size()) == HG_SUCCESS);
        const Bulk remote(got);
        REQUIRE(transfer(node, HG_BULK_PUSH, self, remote, 0, local.bulk, 10, 500) == HG_SUCCESS);
        there = shown.flat();
        CHECK(std::equal(at(here, 10), at(here, 510), at(there, 0)));

        REQUIRE(HG_Bulk_bind(shown.bulk, node.context()) == HG_SUCCESS);
        REQUIRE(transfer(node, HG_BULK_PULL, HG_ADDR_NULL, shown.bulk, 0, local.bulk, 0, 500) ==
                HG_SUCCESS);
        here = local.flat();
        CHECK(std::equal(there.begin(), there.end(), at(here, 0)));
    }
    node.close();
}

TEST_CASE("nothing to move", "[transfer]") {
    const Quiet quiet;
    Origin origin({.sizes = {0, 0}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        CHECK(HG_Bulk_get_size(remote) == 0);
        const Memory local(node, {0}, 2, HG_BULK_READWRITE);
        CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, 0) == HG_SUCCESS);
        CHECK(transfer(node, HG_BULK_PUSH, addr, remote, 0, local.bulk, 0, 0) == HG_SUCCESS);
        CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, 1) == HG_INVALID_ARG);
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("descriptors may be freed at once, callbacks may be missing", "[transfer]") {
    Origin origin({.sizes = {20 * kMiB}});
    Node node;
    {
        const Address addr(node, origin.uri());
        Bulk remote = origin.descriptor(node);
        Memory local(node, {20 * kMiB}, 2, HG_BULK_READWRITE);
        Ended ended;
        REQUIRE(HG_Bulk_transfer(node.context(), nullptr, nullptr, HG_BULK_PULL, addr, remote, 0,
                                 local.bulk, 0, kMiB, nullptr) == HG_SUCCESS);
        REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, HG_BULK_PULL, addr, remote, 0,
                                 local.bulk, 0, 20 * kMiB, nullptr) == HG_SUCCESS);
        remote.reset();
        local.bulk.reset();
        REQUIRE(support::until([&] { return ended.count == 1; }, [&] { node.pump(); }));
        CHECK(ended.info.ret == HG_SUCCESS);
        CHECK(hash(local.flat()) == origin.memory_hash(node));
    }
    node.close();
    CHECK(origin.end() == "");
}
