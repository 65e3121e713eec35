// SPDX-License-Identifier: BSD-3-Clause
// What a peer may take of the room for messages without a receive.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "match_fixture.hpp"

using namespace match_test;

namespace {

constexpr std::uint64_t kLimit = 128;
constexpr unsigned kHonest = 4;  // messages of a peer that sends a few

// Sends until refused, or `most`; answers how many were taken.
unsigned flood(Fixture& f, Address* from, std::uint32_t tag, std::size_t size = 8,
               unsigned most = 10'000) {
    unsigned n = 0;
    for (; n < most; ++n) {
        Landing* landing = f.begin(from, tag, size);
        if (landing == nullptr) {
            break;
        }
        f.finish(landing);
    }
    return n;
}

// As many receives for whatever comes as needed to see `count` messages of `from`.
unsigned receive_all(Fixture& f, Address* from) {
    unsigned n = 0;
    while (f.queue.held() != 0) {
        TestOp op(f);
        f.post(op);
        if (op.outcomes.empty()) {
            f.queue.cancel(*op);
            break;  // what is left is expected
        }
        n += op.outcomes[0].source == from ? 1 : 0;
        release(op);
    }
    return n;
}

}  // namespace

TEST_CASE("one peer that floods leaves room for others", "[match_queue][share]") {
    Fixture f(kLimit);
    // Alone it may have most of the room.
    const unsigned hog = flood(f, f.x.get(), 1);
    CHECK(hog >= kLimit / 2);
    CHECK(hog < kLimit);
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.y.get(), 2 + i);
    }
    // And other lanes too.
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.y.get(), 2 + i, 8, Lane::expected);
    }
    CHECK(f.counters.dropped.get() == 0);
    CHECK(f.queue.held() <= kLimit);
    CHECK(f.begin(f.x.get(), 1) == nullptr);
    CHECK(receive_all(f, f.y.get()) == kHonest);
    for (unsigned i = 0; i < kHonest; ++i) {
        TestOp op(f);
        f.post_expected(op, f.y.get(), 2 + i);
        CHECK(got(op, 2 + i));
    }
    // What it gave back it may have again.
    CHECK(flood(f, f.x.get(), 1) == hog);
}

TEST_CASE("the same by bytes", "[match_queue][share]") {
    constexpr std::uint64_t kBytes = 400'000;
    Fixture f(1'000'000, kBytes);
    const unsigned hog = flood(f, f.x.get(), 1, 4000);
    CHECK(hog * 4000 >= kBytes / 2);
    f.message(f.y.get(), 2, 4096);  // the largest one always
    for (unsigned i = 1; i < kHonest; ++i) {
        f.message(f.y.get(), 2 + i, 500);
    }
    f.message(f.y.get(), 2, 4096, Lane::expected);
    CHECK(receive_all(f, f.y.get()) == kHonest);
}

TEST_CASE("several that flood leave room as well, and a peer that comes later gets a fair part",
          "[match_queue][share]") {
    Fixture f(1024);
    std::vector<na::AddressRef> hogs;
    for (unsigned i = 0; i < 8; ++i) {
        hogs.push_back(f.address(fmt::format("hog{}", i)));
        CHECK(flood(f, hogs.back().get(), 1) >= kHonest);
    }
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.y.get(), 2 + i);
    }
    // Once there is room again nobody takes it all while others hold something too.
    Fixture g(1024);
    g.message(g.y.get(), 1);
    CHECK(flood(g, g.x.get(), 1) <= 1024 / 2);
    CHECK(flood(g, g.y.get(), 1) >= 1024 / 8);
}

TEST_CASE("of expected messages without a receive the sender's own go first",
          "[match_queue][share]") {
    Fixture f(kLimit);
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.y.get(), i, 8, Lane::expected);
    }
    for (unsigned i = 0; i < 10 * kLimit; ++i) {
        f.message(f.x.get(), i, 8, Lane::expected);
    }
    CHECK(f.queue.held() <= kLimit);
    CHECK(f.counters.dropped.get() > 0);
    for (unsigned i = 0; i < kHonest; ++i) {
        TestOp op(f);
        f.post_expected(op, f.y.get(), i);
        CHECK(got(op, i));
    }
    // Of the one that sent too much the newest are there.
    TestOp newest(f);
    f.post_expected(newest, f.x.get(), 10 * kLimit - 1);
    CHECK(got(newest, 10 * kLimit - 1));
}

TEST_CASE("a flood on one lane costs the same peer nothing on the other", "[match_queue][share]") {
    Fixture f(kLimit);
    flood(f, f.x.get(), 1);
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.x.get(), i, 8, Lane::expected);
    }
    CHECK(f.counters.dropped.get() == 0);
    for (unsigned i = 0; i < kHonest; ++i) {
        TestOp op(f);
        f.post_expected(op, f.x.get(), i);
        CHECK(got(op, i));
    }
}

TEST_CASE("many peers with a message each", "[match_queue][share]") {
    // More than the buckets at first, coming and going.
    Fixture f(4096);
    std::vector<na::AddressRef> peers;
    for (unsigned i = 0; i < 700; ++i) {
        peers.push_back(f.address(fmt::format("peer{}", i)));
    }
    for (unsigned round = 0; round < 3; ++round) {
        for (const na::AddressRef& p : peers) {
            f.message(p.get(), round);
            f.message(p.get(), round, 8, Lane::expected);
        }
        CHECK(f.queue.held() == 2 * peers.size());
        for (const na::AddressRef& p : peers) {
            TestOp op(f);
            f.post_expected(op, p.get(), round);
            REQUIRE(got(op, round));
            TestOp any(f);
            f.post(any);
            REQUIRE(any.outcomes.size() == 1);
            REQUIRE(any.outcomes[0].source == p.get());
            release(any);
        }
        CHECK(f.queue.held() == 0);
    }
    CHECK(f.counters.dropped.get() == 0);
    CHECK(f.counters.refused.get() == 0);
}

TEST_CASE("expected messages that many left behind do not keep unexpected ones out",
          "[match_queue][share]") {
    // Nobody will ever receive them: their senders may have gone long ago.
    Fixture f(kLimit);
    for (unsigned i = 0; i < 2 * kLimit; ++i) {
        const na::AddressRef gone = f.address(fmt::format("gone{}", i));
        f.message(gone.get(), 1, 8, Lane::expected);
    }
    CHECK(f.queue.held() == kLimit);
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.y.get(), 2 + i);
    }
    CHECK(f.queue.held() == kLimit);
    CHECK(receive_all(f, f.y.get()) == kHonest);
    // One that sends much does not drive them out.
    for (unsigned i = 0; i < kHonest; ++i) {
        f.message(f.y.get(), i, 8, Lane::expected);
    }
    flood(f, f.x.get(), 1);
    for (unsigned i = 0; i < kHonest; ++i) {
        TestOp op(f);
        f.post_expected(op, f.y.get(), i);
        CHECK(got(op, i));
    }
}
