// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets between two endpoints of this process, by every way.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <sys/resource.h>

#include "unit/sm/exchange.hpp"

using namespace sm_test;

namespace {

std::vector<na::Segment> cut(std::byte* memory, std::size_t size, support::Random& random,
                             std::size_t pieces) {
    std::vector<na::Segment> list;
    std::size_t at = 0;
    for (std::size_t i = 0; i < pieces; ++i) {
        const std::size_t left = size - at - (pieces - i - 1);
        const std::size_t n =
            i + 1 == pieces ? left : 1 + random.below(std::min(left, 2 * size / pieces));
        list.push_back({memory + at, n});
        at += n;
    }
    return list;
}

// Random puts and gets between a's memory and b's, checked against a copy.
void churn(Node& a, Node& b, std::byte* mine, std::byte* theirs, std::size_t size,
           std::size_t pieces, int rounds) {
    support::Random random(support::options().seed + pieces);
    support::fill(mine, size, 1);
    support::fill(theirs, size, 2);
    std::vector<std::byte> my_copy(mine, mine + size);
    std::vector<std::byte> their_copy(theirs, theirs + size);
    auto local = a.region(cut(mine, size, random, pieces));
    auto exported = b.region(cut(theirs, size, random, pieces));
    auto remote = a.decode(*exported, size);
    for (int i = 0; i < rounds; ++i) {
        const std::size_t n =
            1 + (random.below(4) == 0 ? random.below(size)
                                      : random.below(std::min<std::size_t>(size, 5000)));
        const std::size_t here = random.below(size - n + 1);
        const std::size_t there = random.below(size - n + 1);
        const OpKind kind = random.below(2) == 0 ? OpKind::put : OpKind::get;
        TestOp op;
        REQUIRE(a.transfer(op, kind, b.uri(), *local, here, *remote, there, n).what !=
                Posted::What::failed);
        REQUIRE(settle([&] { return op.done(); }, a, b));
        REQUIRE(op.how.status == Status::success);
        if (kind == OpKind::put) {
            std::copy_n(my_copy.begin() + static_cast<std::ptrdiff_t>(here), n,
                        their_copy.begin() + static_cast<std::ptrdiff_t>(there));
        } else {
            std::copy_n(their_copy.begin() + static_cast<std::ptrdiff_t>(there), n,
                        my_copy.begin() + static_cast<std::ptrdiff_t>(here));
        }
        REQUIRE(std::memcmp(mine, my_copy.data(), size) == 0);
        REQUIRE(std::memcmp(theirs, their_copy.data(), size) == 0);
    }
}

}  // namespace

TEST_CASE("rma: any ranges over any segments") {
    constexpr std::size_t kSize = 100000;
    std::vector<std::byte> mine(kSize);
    std::vector<std::byte> theirs(kSize);
    const int rounds = 60;
    SECTION("attached") {
        Node a;
        Node b;
        for (const std::size_t pieces : {1U, 3U, 700U}) {
            churn(a, b, mine.data(), theirs.data(), kSize, pieces, rounds);
        }
        CHECK(a->stat("sm_rma_shared") == 0);
    }
    SECTION("bounced") {
        NoAttach off;
        Node a;
        Node b;
        for (const std::size_t pieces : {1U, 3U, 700U}) {
            churn(a, b, mine.data(), theirs.data(), kSize, pieces, rounds);
        }
        CHECK(a->stat("sm_rma_bounced") == 3 * static_cast<unsigned>(rounds));
    }
    SECTION("memory of the allocator") {
        for (const bool attach : {true, false}) {
            std::unique_ptr<NoAttach> off(attach ? nullptr : new NoAttach);
            Node a;
            Node b;
            auto* shared = static_cast<std::byte*>(b.domain->allocate(kSize));
            REQUIRE(shared != nullptr);
            // The descriptors come on demand, those for reading and for writing apart.
            auto local = a.region(mine.data(), kSize);
            auto exported = b.region(shared, kSize);
            auto remote = a.decode(*exported, kSize);
            for (const OpKind kind : {OpKind::get, OpKind::put}) {
                const auto before = a->stat("sm_rma_shared");
                REQUIRE(settle(
                    [&] {
                        TestOp op;
                        REQUIRE(a.transfer(op, kind, b.uri(), *local, 0, *remote, 0, 10).what !=
                                Posted::What::failed);
                        return settle([&] { return op.done(); }, a, b) &&
                               a->stat("sm_rma_shared") > before;
                    },
                    a, b));
            }
            for (const std::size_t pieces : {1U, 3U, 700U}) {
                churn(a, b, mine.data(), shared, kSize, pieces, rounds);
            }
            CHECK(a->stat("sm_rma_shared") == 2 + 3 * static_cast<unsigned>(rounds));
            b.domain->deallocate(shared, kSize);
        }
    }
    SECTION("oneself") {
        Node a;
        for (const std::size_t pieces : {1U, 3U, 700U}) {
            churn(a, a, mine.data(), theirs.data(), kSize, pieces, rounds);
        }
        CHECK(a->stat("sm_rma_local") == 3 * static_cast<unsigned>(rounds));
    }
}

TEST_CASE("rma: large ones go piece by piece, many at a time") {
    constexpr std::size_t kSize = 5 << 20;
    std::vector<std::byte> mine(kSize);
    std::vector<std::byte> theirs(kSize);
    for (const bool attach : {true, false}) {
        std::unique_ptr<NoAttach> off(attach ? nullptr : new NoAttach);
        Node a;
        Node b;
        auto local = a.region(mine.data(), kSize);
        auto exported = b.region(theirs.data(), kSize);
        auto remote = a.decode(*exported, kSize);
        support::fill(mine, 7);
        TestOp whole;
        REQUIRE(a.transfer(whole, OpKind::put, b.uri(), *local, 0, *remote, 0, kSize).what ==
                Posted::What::pending);
        REQUIRE(settle([&] { return whole.done(); }, a, b));
        CHECK(mine == theirs);
        support::fill(theirs, 8);
        std::vector<TestOp> ops(200);
        const std::size_t n = kSize / ops.size();
        for (std::size_t i = 0; i < ops.size(); ++i) {
            REQUIRE(
                a.transfer(ops[i], OpKind::get, b.uri(), *local, i * n, *remote, i * n, n).what !=
                Posted::What::failed);
        }
        REQUIRE(settle(
            [&] {
                return std::all_of(ops.begin(), ops.end(),
                                   [](const TestOp& o) { return o.done(); });
            },
            a, b));
        CHECK(std::memcmp(mine.data(), theirs.data(), n * ops.size()) == 0);
    }
}

TEST_CASE("rma: what the owner does not allow") {
    std::vector<std::byte> mine(10000);
    std::vector<std::byte> theirs(10000);
    const auto copy = theirs;
    SECTION("bounced: the owner checks") {
        NoAttach off;
        Node a;
        Node b;
        auto local = a.region(mine.data(), mine.size());
        const auto attempt = [&](OpKind kind, na::plugin::Region& remote, std::uint64_t offset,
                                 std::uint64_t n) {
            TestOp op;
            REQUIRE(a.transfer(op, kind, b.uri(), *local, 0, remote, offset, n).what ==
                    Posted::What::pending);
            REQUIRE(settle([&] { return op.done(); }, a, b));
            return op.how.status;
        };
        auto read_only = b.region(theirs.data(), theirs.size(), Access::read);
        auto remote = a.decode(*read_only, theirs.size());
        CHECK(attempt(OpKind::put, *remote, 0, 10000) == Status::permission);
        CHECK(attempt(OpKind::get, *remote, 0, 10000) == Status::success);
        // The core checks bounds; a hostile peer has no such core.
        CHECK(attempt(OpKind::get, *remote, 1, 10000) == Status::overflow);
        CHECK(attempt(OpKind::get, *remote, UINT64_MAX - 5, 100) == Status::overflow);
        read_only.reset();
        CHECK(attempt(OpKind::get, *remote, 0, 1) == Status::noentry);
        CHECK(theirs == copy);
        CHECK(b->lost.empty());
    }
    SECTION("oneself: a forged descriptor opens nothing") {
        Node a;
        auto local = a.region(mine.data(), mine.size());
        na::sm::RemoteRegion forged({{theirs.data(), theirs.size()}}, 12345);
        TestOp op;
        const Posted p = a.transfer(op, OpKind::put, a.uri(), *local, 0, forged, 0, 100);
        CHECK(p.what == Posted::What::failed);
        CHECK(p.status == Status::noentry);
        CHECK(theirs == copy);
    }
    SECTION("attached: memory that is not there") {
        Node a;
        Node b;
        auto local = a.region(mine.data(), mine.size());
        na::sm::RemoteRegion forged({{reinterpret_cast<void*>(16), 100}}, 12345);
        TestOp op;
        const Posted p = a.transfer(op, OpKind::get, b.uri(), *local, 0, forged, 0, 100);
        REQUIRE(settle([&] { return p.what == Posted::What::failed || op.done(); }, a, b));
        CHECK((p.what == Posted::What::failed ? p.status : op.how.status) != Status::success);
    }
    SECTION(
        "the allocator's memory: no descriptor without a region's key, none for writing without "
        "the right") {
        NoAttach off;
        Node a;
        Node b;
        auto* shared = static_cast<std::byte*>(b.domain->allocate(10000));
        auto local = a.region(mine.data(), mine.size());
        auto exported = b.region(shared, 10000, Access::read);
        const auto& known = static_cast<const na::sm::Region&>(*exported);
        na::sm::RemoteRegion forged({{shared, 10000}}, known.key ^ 1);
        forged.allocation = known.allocation;
        forged.allocation_base = known.allocation_base;
        auto remote = a.decode(*exported, 10000);
        TestOp op;
        REQUIRE(a.transfer(op, OpKind::get, b.uri(), *local, 0, forged, 0, 100).what ==
                Posted::What::pending);
        REQUIRE(settle([&] { return op.done(); }, a, b));
        CHECK(op.how.status == Status::noentry);
        // The permit says so before the owner is asked.
        const Posted put = a.transfer(op, OpKind::put, b.uri(), *local, 0, *remote, 0, 100);
        CHECK(put.what == Posted::What::failed);
        CHECK(put.status == Status::permission);
        CHECK(a->stat("sm_rma_shared") == 0);
        b.domain->deallocate(shared, 10000);
    }
    SECTION("the allocator's memory: a descriptor that reaches beyond it") {
        NoAttach off;
        Node a;
        Node b;
        auto* shared = static_cast<std::byte*>(b.domain->allocate(4096));
        auto local = a.region(mine.data(), mine.size());
        auto exported = b.region(shared, 4096);
        const auto& known = static_cast<const na::sm::Region&>(*exported);
        auto remote = a.decode(*exported, 4096);
        TestOp op;
        const auto get = [&](na::plugin::Region& r, std::uint64_t n) {
            REQUIRE(a.transfer(op, OpKind::get, b.uri(), *local, 0, r, 0, n).what !=
                    Posted::What::failed);
            REQUIRE(settle([&] { return op.done(); }, a, b));
            return op.how.status;
        };
        CHECK(get(*remote, 4096) == Status::success);
        na::sm::RemoteRegion forged({{shared, 10000}}, known.key);
        forged.allocation = known.allocation;
        forged.allocation_base = known.allocation_base;
        CHECK(get(forged, 10000) == Status::overflow);
        b.domain->deallocate(shared, 4096);
    }
}

TEST_CASE("rma: freed allocations leave the peers") {
    Node a;
    Node b;
    std::vector<std::byte> mine(8192);
    auto local = a.region(mine.data(), mine.size());
    for (int i = 0; i < 20; ++i) {
        auto* shared = static_cast<std::byte*>(b.domain->allocate(8192));
        auto exported = b.region(shared, 8192);
        auto remote = a.decode(*exported, 8192);
        const auto shared_before = a->stat("sm_rma_shared");
        REQUIRE(settle(
            [&] {
                TestOp op;
                REQUIRE(a.transfer(op, OpKind::get, b.uri(), *local, 0, *remote, 0, 8192).what !=
                        Posted::What::failed);
                return settle([&] { return op.done(); }, a, b) &&
                       a->stat("sm_rma_shared") > shared_before;
            },
            a, b));
        exported.reset();
        b.domain->deallocate(shared, 8192);
    }
    auto& peer = static_cast<na::sm::Peer&>(a.peer(b.uri()));
    na::sm::Connection* c = peer.link(0).to(0);
    REQUIRE(c != nullptr);
    CHECK(settle([&] { return c->mapped[0].empty() && c->mapped[1].empty(); }, a, b));
}

TEST_CASE("rma: what is mapped is copied at once, and nothing else") {
    constexpr std::size_t kSize = 8192;
    constexpr std::size_t kPart = 5000;  // what is registered of it
    Node a;
    Node b;
    auto* shared = static_cast<std::byte*>(b.domain->allocate(kSize));
    support::fill(shared, kSize, 3);
    const auto described = [](const na::plugin::Region& region) {
        std::vector<std::byte> bytes(region.encode({}));
        region.encode(bytes);
        return bytes;
    };
    auto exported = b.region(shared + 100, kPart);
    const auto descriptor = described(*exported);
    std::vector<std::byte> mine(kSize, std::byte{0x55});
    const auto copied = [&](const std::vector<std::byte>& bytes, std::uint64_t length,
                            std::uint64_t offset, std::size_t n) {
        return a->plugin->copy_now(a.peer(b.uri()), 0, bytes, length, offset,
                                   std::span(mine).first(n));
    };
    const auto untouched = [&] {
        return std::count(mine.begin(), mine.end(), std::byte{0x55}) ==
               static_cast<std::ptrdiff_t>(mine.size());
    };
    // Nobody is connected, nothing is mapped.
    CHECK_FALSE(copied(descriptor, kPart, 0, 10));
    auto local = a.region(mine.data(), mine.size());
    auto remote = a.decode(*exported, kPart);
    REQUIRE(settle(
        [&] {
            TestOp op;
            REQUIRE(a.transfer(op, OpKind::get, b.uri(), *local, 0, *remote, 0, 1).what !=
                    Posted::What::failed);
            return settle([&] { return op.done(); }, a, b) && a->stat("sm_rma_shared") != 0;
        },
        a, b));
    const auto before = a->stat("sm_rma_shared");
    for (const auto& [offset, n] :
         {std::pair<std::size_t, std::size_t>{0, kPart}, {1, 1}, {77, 4923}}) {
        REQUIRE(copied(descriptor, kPart, offset, n));
        CHECK(std::memcmp(mine.data(), shared + 100 + offset, n) == 0);
    }
    CHECK(a->stat("sm_rma_shared") == before + 3);

    std::fill(mine.begin(), mine.end(), std::byte{0x55});
    // Not of this connection's peer, and of a context that is not there.
    CHECK_FALSE(
        a->plugin->copy_now(a.peer(a.uri()), 0, descriptor, kPart, 0, std::span(mine).first(1)));
    CHECK_FALSE(
        a->plugin->copy_now(a.peer(b.uri()), 5, descriptor, kPart, 0, std::span(mine).first(1)));
    // Another length than the descriptor has, and pieces that leave the allocation, which a
    // descriptor may claim: at its end, below its start, and around the end of the address space.
    CHECK_FALSE(copied(descriptor, kPart + 1, 0, 1));
    CHECK_FALSE(copied(descriptor, kPart - 1, 0, 1));
    const std::size_t at_base = 12 + 8;
    const std::size_t at_segment = 12 + 16;
    const auto forged = [&](std::size_t at, std::uint64_t value, std::uint64_t length) {
        auto bytes = descriptor;
        std::memcpy(bytes.data() + at_segment + 8, &length, sizeof length);
        std::memcpy(bytes.data() + at, &value, sizeof value);
        return bytes;
    };
    const auto base = reinterpret_cast<std::uint64_t>(shared);
    // The rest of the allocation was not registered.
    CHECK_FALSE(copied(forged(at_segment, base, kSize), kSize, 0, 1));
    CHECK_FALSE(copied(forged(at_segment, base, kPart), kPart, 0, 1));
    CHECK_FALSE(copied(forged(at_segment, base + 1, kSize), kSize, 0, 1));
    CHECK_FALSE(copied(forged(at_segment, base + kSize, 1), 1, 0, 1));
    CHECK_FALSE(copied(forged(at_segment, base - 1, 2), 2, 0, 1));
    CHECK_FALSE(copied(forged(at_segment, UINT64_MAX - 10, 10), 10, 0, 1));
    CHECK_FALSE(copied(forged(at_base, 0, 10), 10, 0, 1));
    CHECK_FALSE(copied(forged(at_segment, base, UINT64_MAX), UINT64_MAX, 0, 1));
    for (std::size_t n = 0; n < descriptor.size(); ++n) {
        CHECK_FALSE(
            copied({descriptor.begin(), descriptor.begin() + static_cast<std::ptrdiff_t>(n)}, kPart,
                   0, 1));
    }
    // Memory that is not of the allocator, and of several segments.
    std::vector<std::byte> plain(64);
    CHECK_FALSE(copied(described(*b.region(plain.data(), plain.size())), plain.size(), 0, 1));
    CHECK_FALSE(copied(described(*b.region({{shared, 10}, {shared + 20, 10}})), 20, 0, 1));
    CHECK(untouched());

    // What was freed is gone here, too, and so is who closes.
    exported.reset();
    CHECK_FALSE(copied(descriptor, kPart, 0, 1));
    CHECK(untouched());
    b.domain->deallocate(shared, kSize);
}

// Each allocation is asked for over the socket, which has room for some two hundred messages.
TEST_CASE("rma: many allocations at a time, of peers that look one after the other") {
    constexpr std::size_t kAllocations = 600;
    constexpr std::size_t kSize = 4096;
    std::optional<NoAttach> shut;
    SECTION("by system calls meanwhile") {}
    SECTION("through the ring meanwhile") {
        shut.emplace();
    }
    Node a;
    Node b;
    exchange(a, b, {1}, Lane::unexpected);
    exchange(b, a, {1}, Lane::unexpected);
    // What one has, and what it fetches of the other's.
    struct Half {
        Half(Node& own, Node& peer, std::uint64_t first) : node(own), other(peer), seed(first) {
            for (std::size_t i = 0; i < kAllocations; ++i) {
                memory.push_back(static_cast<std::byte*>(node.domain->allocate(kSize)));
                REQUIRE(memory.back() != nullptr);
                support::fill(memory.back(), kSize, seed + i);
                exported.push_back(node.region(memory.back(), kSize));
            }
            local = node.region(fetched.data(), fetched.size());
        }
        void know(const Half& theirs) {
            for (const auto& region : theirs.exported) {
                remote.push_back(node.decode(*region, kSize));
            }
        }
        void post() {
            std::fill(fetched.begin(), fetched.end(), std::byte{0});
            ops.clear();
            for (std::size_t i = 0; i < kAllocations; ++i) {
                const Posted posted = node.transfer(ops.emplace_back(), OpKind::get, other.uri(),
                                                    *local, i * kSize, *remote[i], 0, kSize);
                REQUIRE(posted.what != Posted::What::failed);
                if (posted.what == Posted::What::done) {
                    ops.pop_back();
                }
            }
        }
        bool done() const {
            return std::all_of(ops.begin(), ops.end(), [](const TestOp& op) { return op.done(); });
        }
        void check(std::uint64_t theirs) const {
            for (const TestOp& op : ops) {
                REQUIRE(op.how.status == Status::success);
            }
            for (std::size_t i = 0; i < kAllocations; ++i) {
                REQUIRE(support::mismatch(fetched.data() + i * kSize, kSize, theirs + i) == -1);
            }
        }
        // The peer's mappings of our memory.
        bool forgotten() {
            na::sm::Connection* c =
                static_cast<na::sm::Peer&>(other.peer(node.uri())).link(0).to(0);
            return c != nullptr && c->mapped[0].empty() && c->mapped[1].empty();
        }
        Node& node;
        Node& other;
        std::uint64_t seed;
        std::vector<std::byte*> memory;
        std::vector<std::unique_ptr<na::plugin::Region>> exported;
        std::vector<std::unique_ptr<na::plugin::Region>> remote;
        std::vector<std::byte> fetched = std::vector<std::byte>(kSize * kAllocations);
        std::unique_ptr<na::plugin::Region> local;
        std::deque<TestOp> ops;
    };
    Half first(a, b, 1);
    Half second(b, a, 10'000);
    first.know(second);
    second.know(first);
    const auto alone = [](Node& node) {
        for (int i = 0; i < 2000; ++i) {
            node.poll();
        }
    };
    for (int round = 0; round < 3; ++round) {
        first.post();
        second.post();
        alone(b);
        REQUIRE(settle([&] { return first.done() && second.done(); }, a, b));
        first.check(second.seed);
        second.check(first.seed);
        alone(a);
        alone(b);
        REQUIRE(a->lost.empty());
        REQUIRE(b->lost.empty());
    }
    CHECK(a->stat("sm_rma_shared") > 0);
    CHECK(b->stat("sm_rma_shared") > 0);
    for (Half* half : {&first, &second}) {
        half->exported.clear();
        for (std::byte* memory : half->memory) {
            half->node.domain->deallocate(memory, kSize);
        }
    }
    alone(b);  // has more to say than there is room for
    CHECK(settle([&] { return first.forgotten() && second.forgotten(); }, a, b));
}

// (Sanitizers take more addresses than that themselves.)
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("rma: memory that is too large to be retired gives up no other") {
    struct Limit {
        explicit Limit(rlim_t bytes) {
            getrlimit(RLIMIT_AS, &before);
            const rlimit less{bytes, before.rlim_max};
            REQUIRE(setrlimit(RLIMIT_AS, &less) == 0);
        }
        ~Limit() { setrlimit(RLIMIT_AS, &before); }
        rlimit before{};
    };
    const auto taken = [](void* at) {
        void* const got =
            mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got != MAP_FAILED) {
            munmap(got, 4096);
        }
        return got == MAP_FAILED;
    };
    constexpr std::size_t kLarge = std::size_t{600} << 20;
    const Limit limit(rlim_t{8} << 30);
    Node b;
    void* small = b.domain->allocate(1 << 16);
    void* large = b.domain->allocate(kLarge);
    REQUIRE(small != nullptr);
    REQUIRE(large != nullptr);
    b.domain->retire(small, 1 << 16);
    REQUIRE(taken(small));
    b.domain->retire(large, kLarge);
    CHECK(taken(small));
    CHECK_FALSE(taken(large));
}
#endif

TEST_CASE("rma: memory that was retired is not read, whatever comes after it") {
    constexpr std::size_t kSize = 1 << 16;
    Node a;
    Node b;
    exchange(a, b, {1}, Lane::unexpected);
    std::vector<std::byte> here(kSize);
    const auto local = a.region(here.data(), kSize);
    std::vector<void*> allocated;
    for (int i = 0; i < 8; ++i) {
        void* memory = b.domain->allocate(kSize);
        REQUIRE(memory != nullptr);
        std::memset(memory, 1, kSize);
        auto remote = b.region(memory, kSize);
        const auto theirs = a.decode(*remote, kSize);
        remote.reset();
        b.domain->retire(memory, kSize);
        allocated.push_back(b.domain->allocate(kSize));
        REQUIRE(allocated.back() != nullptr);
        std::memset(allocated.back(), 2, kSize);
        TestOp op;
        const Posted posted = a.transfer(op, OpKind::get, b.uri(), *local, 0, *theirs, 0, kSize);
        if (posted.what != Posted::What::failed) {
            REQUIRE(settle([&] { return op.done(); }, a, b));
            CHECK(op.how.status != Status::success);
        }
        CHECK(std::count(here.begin(), here.end(), std::byte{2}) == 0);
    }
    for (void* memory : allocated) {
        b.domain->deallocate(memory, kSize);
    }
}

TEST_CASE("rma: cancel, and the end of the peer") {
    constexpr std::size_t kSize = 20 << 20;
    std::vector<std::byte> mine(kSize);
    std::vector<std::byte> theirs(kSize);
    for (const bool attach : {true, false}) {
        for (const OpKind kind : {OpKind::put, OpKind::get}) {
            for (int polls = 0; polls < 6; ++polls) {
                std::unique_ptr<NoAttach> off(attach ? nullptr : new NoAttach);
                Node a;
                auto b = std::make_unique<Node>();
                auto local = a.region(mine.data(), kSize);
                auto exported = b->region(theirs.data(), kSize);
                auto remote = a.decode(*exported, kSize);
                TestOp cancelled;
                TestOp lost;
                REQUIRE(a.transfer(cancelled, kind, b->uri(), *local, 0, *remote, 0, kSize).what ==
                        Posted::What::pending);
                REQUIRE(a.transfer(lost, kind, b->uri(), *local, 0, *remote, 0, kSize).what ==
                        Posted::What::pending);
                for (int i = 0; i < polls; ++i) {
                    a.poll();
                    b->poll();
                }
                a->plugin->cancel(cancelled);
                CHECK(cancelled.ended == 1);
                for (int i = 0; i < polls; ++i) {
                    a.poll();
                    b->poll();
                }
                exported.reset();
                b.reset();
                REQUIRE(settle([&] { return lost.done(); }, a));
                CHECK((lost.how.status == Status::hostunreach ||
                       lost.how.status == Status::success || lost.how.status == Status::noentry));
                CHECK(cancelled.ended == 1);
            }
        }
    }
}
