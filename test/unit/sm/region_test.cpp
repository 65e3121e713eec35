// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/region.hpp"

#include <cstring>
#include <vector>

#include <sys/uio.h>
#include <catch2/catch.hpp>

#include "support/options.hpp"
#include "unit/sm/node.hpp"

using namespace na::sm;
using na::Access;
using na::Segment;
using na::Status;
using sm_test::Node;

namespace {

// Cuts [0, bytes) of `memory` into pieces.
std::vector<Segment> cut(std::vector<std::byte>& memory, support::Random& random,
                         std::size_t pieces) {
    std::vector<Segment> list;
    std::size_t at = 0;
    for (std::size_t i = 0; i < pieces; ++i) {
        const std::size_t left = memory.size() - at - (pieces - i - 1);
        const std::size_t n = i + 1 == pieces ? left : 1 + random.below(left);
        list.push_back({memory.data() + at, n});
        at += n;
    }
    return list;
}

}  // namespace

TEST_CASE("segments: any range of any list") {
    support::Random random(support::options().seed);
    for (int round = 0; round < 300; ++round) {
        std::vector<std::byte> memory = support::payload(1 + random.below(5000), 1);
        const SegmentList list(
            cut(memory, random, 1 + random.below(std::min<std::size_t>(memory.size(), 40))));
        REQUIRE(list.length() == memory.size());
        const std::size_t offset = random.below(memory.size());
        const std::size_t bytes = random.below(memory.size() - offset + 1);
        std::vector<std::byte> flat(bytes);
        copy_out(list, offset, flat.data(), bytes);
        REQUIRE(support::mismatch(flat, 1, offset) < 0);

        // Through iovecs, a few at a time.
        SegmentList::Cursor c(list, offset);
        std::size_t at = 0;
        while (at < bytes) {
            iovec v[3];
            std::size_t got = 0;
            const std::size_t n = c.fill(v, 3, bytes - at, got);
            REQUIRE(n > 0);
            const std::size_t use = 1 + random.below(got);
            std::size_t left = use;
            for (std::size_t i = 0; i < n && left != 0; ++i) {
                const std::size_t m = std::min(left, v[i].iov_len);
                REQUIRE(std::memcmp(v[i].iov_base, flat.data() + at + (use - left), m) == 0);
                left -= m;
            }
            c.skip(use);
            at += use;
        }

        std::vector<std::byte> target(memory.size());
        const SegmentList other(
            cut(target, random, 1 + random.below(std::min<std::size_t>(target.size(), 40))));
        const std::size_t to = random.below(target.size() - bytes + 1);
        copy_lists(list, offset, other, to, bytes);
        REQUIRE((bytes == 0 || std::memcmp(target.data() + to, flat.data(), bytes) == 0));
        std::fill(target.begin(), target.end(), std::byte{0});
        copy_in(other, to, flat.data(), bytes);
        REQUIRE((bytes == 0 || std::memcmp(target.data() + to, flat.data(), bytes) == 0));
    }
}

TEST_CASE("region: encoding") {
    Node node;
    std::vector<std::byte> memory(10000);
    support::Random random(1);
    SECTION("there and back") {
        for (const std::size_t pieces : {1U, 2U, 1000U}) {
            auto local = node.region(cut(memory, random, pieces));
            auto remote = node.decode(*local, memory.size());
            const auto& list = static_cast<const Region&>(*remote).list;
            CHECK(list.length() == memory.size());
            CHECK(list.segments().size() == pieces);
            CHECK(list.segments()[0].base == memory.data());
            CHECK(static_cast<const Region&>(*remote).key ==
                  static_cast<const Region&>(*local).key);
        }
    }
    SECTION("too small a buffer is not touched") {
        auto local = node.region(memory.data(), memory.size());
        std::vector<std::byte> bytes(local->encode({}) - 1, std::byte{7});
        CHECK(local->encode(bytes) == bytes.size() + 1);
        CHECK(std::count(bytes.begin(), bytes.end(), std::byte{7}) ==
              static_cast<std::ptrdiff_t>(bytes.size()));
    }
    SECTION("anything else is refused") {
        auto local = node.region(cut(memory, random, 3));
        std::vector<std::byte> good(local->encode({}));
        local->encode(good);
        const auto refused = [&](std::span<const std::byte> bytes, std::uint64_t length) {
            return node.domain->decode_region(bytes, length).status() == Status::protocol_error;
        };
        for (std::size_t n = 0; n < good.size(); ++n) {
            CHECK(refused(std::span(good).first(n), memory.size()));
        }
        CHECK(refused(good, memory.size() - 1));
        CHECK(refused(good, memory.size() + 1));
        CHECK(refused(good, 0));
        CHECK(refused(good, UINT64_MAX));
        auto longer = good;
        longer.push_back(std::byte{0});
        CHECK(refused(longer, memory.size()));
        // Segment lengths that wrap around to the announced sum.
        auto wrapped = good;
        const std::uint64_t huge = UINT64_MAX - 5;
        std::memcpy(wrapped.data() + 12 + 8, &huge, sizeof huge);
        CHECK(refused(wrapped, memory.size()));
        for (int i = 0; i < 20000; ++i) {
            auto bytes = good;
            for (std::uint64_t n = 1 + random.below(4); n != 0; --n) {
                bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
            }
            auto region = node.domain->decode_region(bytes, memory.size());
            if (region) {
                CHECK(static_cast<const Region&>(**region).list.length() == memory.size());
            }
        }
    }
    SECTION("one piece of an allocation is what the whole says") {
        auto* shared = static_cast<std::byte*>(node.domain->allocate(memory.size()));
        auto local = node.region(shared + 10, 1000);
        std::vector<std::byte> good(local->encode({}));
        local->encode(good);
        int pieces = 0;
        for (int i = 0; i < 20000; ++i) {
            auto bytes = good;
            for (std::uint64_t n = random.below(4); n != 0; --n) {
                bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
            }
            const auto region = node.domain->decode_region(bytes, 1000);
            Piece piece;
            const bool is_piece = decode_piece(bytes, 1000, piece);
            REQUIRE((!is_piece || region));
            if (!region) {
                continue;
            }
            const auto& whole = static_cast<const Region&>(**region);
            REQUIRE(is_piece == (whole.allocation != 0 && whole.list.segments().size() == 1));
            if (is_piece) {
                ++pieces;
                REQUIRE(piece.allocation == whole.allocation);
                REQUIRE(piece.offset ==
                        reinterpret_cast<std::uint64_t>(whole.list.segments()[0].base) -
                            whole.allocation_base);
            }
        }
        CHECK(pieces > 1000);
        local.reset();
        node.domain->deallocate(shared, memory.size());
    }
}

TEST_CASE("region: what a key opens") {
    Node node;
    std::vector<std::byte> memory(100);
    auto& table = static_cast<Domain&>(*node.domain).regions();
    std::uint64_t key = 0;
    int used = 0;
    const auto use = [&](Access want, std::uint64_t offset, std::uint64_t length) {
        return table.use(key, want, offset, length, [&](const LocalRegion&) { ++used; });
    };
    {
        auto region = node.region(memory.data(), memory.size(), Access::read);
        key = static_cast<const Region&>(*region).key;
        CHECK(use(Access::read, 0, 100) == Status::success);
        CHECK(use(Access::read, 100, 0) == Status::success);
        CHECK(used == 2);
        CHECK(use(Access::write, 0, 1) == Status::permission);
        CHECK(use(Access::read, 1, 100) == Status::overflow);
        CHECK(use(Access::read, 101, 0) == Status::overflow);
        CHECK(use(Access::read, 50, UINT64_MAX - 10) == Status::overflow);
        CHECK(use(Access::read, UINT64_MAX, 2) == Status::overflow);
        CHECK(used == 2);
    }
    CHECK(use(Access::read, 0, 1) == Status::noentry);
}

TEST_CASE("allocations") {
    Node node;
    auto& allocations = static_cast<Domain&>(*node.domain).allocations();
    auto* memory = static_cast<std::byte*>(node.domain->allocate(10000));
    REQUIRE(memory != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % kPageBytes == 0);
    CHECK(std::count(memory, memory + 10000, std::byte{0}) == 10000);
    CHECK(node.domain->allocate(0) == nullptr);
    CHECK(node.domain->allocate(SIZE_MAX) == nullptr);
    const auto place = allocations.find(memory + 5, 100);
    REQUIRE(place);
    CHECK_FALSE(allocations.find(memory, 3 * kPageBytes + 1));
    CHECK_FALSE(allocations.find(memory - 1, 2));
    {
        const auto given = allocations.give(place->id, false);
        REQUIRE(given);
        CHECK(map_peer_memory(given->fd.get(), given->bytes, false));
        CHECK_FALSE(map_peer_memory(given->fd.get(), given->bytes, true));
        CHECK_FALSE(map_peer_memory(given->fd.get(), given->bytes + kPageBytes, false));
    }
    const auto before = allocations.generation();
    node.domain->deallocate(memory, 10000);
    CHECK(allocations.generation() != before);
    CHECK_FALSE(allocations.give(place->id, true));
}
