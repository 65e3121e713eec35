// SPDX-License-Identifier: BSD-3-Clause
// Several messages in one: how they are matched, and what peers may send instead.
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <optional>

#include "match_fixture.hpp"
#include "na/core/bundle.hpp"

using namespace match_test;
namespace bundle = na::bundle;

namespace {

constexpr std::uint32_t kTag = 0xff;
constexpr std::size_t kHeadroom = 16;
using Bytes = std::vector<std::byte>;

struct Message {
    std::uint32_t tag;
    std::size_t size;  // without headroom
};

Bytes pack(const std::vector<Message>& messages) {
    std::size_t size = bundle::kHeader;
    for (const Message& m : messages) {
        size += bundle::kPart + m.size;
    }
    Bytes bytes(size);
    std::byte* at = bundle::begin(bytes.data(), messages.size());
    for (const Message& m : messages) {
        Bytes part(m.size);
        support::fill(part.data(), part.size(), m.tag);
        at = bundle::add(at, m.tag, part);
    }
    return bytes;
}

struct Bundles : Fixture {
    explicit Bundles(std::uint64_t messages = 1000, std::uint64_t bytes = 1'000'000)
        : Fixture(messages, bytes) {
        queue.split(kTag, kHeadroom, kHeadroom);
        queue.hold_expected(false);
    }
    bool send(Address* from, const Bytes& bytes, Lane lane = Lane::unexpected,
              Status status = Status::success, bool whole = true) {
        Landing* landing = queue.arrive(lane, *from, kTag, kHeadroom + bytes.size(), whole);
        if (landing == nullptr) {
            return false;
        }
        if (landing->data != nullptr && !bytes.empty()) {
            std::memcpy(static_cast<std::byte*>(landing->data) + kHeadroom, bytes.data(),
                        bytes.size());
        }
        queue.finish(*landing, status);
        return true;
    }
};

bool holds(TestOp& op, const Message& m) {
    if (op.outcomes.size() != 1 || op.outcomes[0].status != Status::success ||
        op.outcomes[0].tag != m.tag || op.outcomes[0].size != kHeadroom + m.size) {
        return false;
    }
    const bool intact = support::mismatch(static_cast<const std::byte*>(op->buffer) + kHeadroom,
                                          m.size, m.tag) == -1;
    release(op);
    return intact;
}

}  // namespace

TEST_CASE("what a bundle looks like", "[bundle]") {
    Bytes two(bundle::kHeader + 2 * bundle::kPart + 3);
    const Bytes abc{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
    std::byte* at = bundle::begin(two.data(), 2);
    at = bundle::add(at, 0x04030201, abc);
    at = bundle::add(at, 7, {});
    CHECK(at == two.data() + two.size());
    Bytes golden;
    for (const int b : std::initializer_list<int>{0xc3, 1,   2,   0, 1, 2, 3, 4, 3, 0, 0, 0,
                                                  'a',  'b', 'c', 7, 0, 0, 0, 0, 0, 0, 0}) {
        golden.push_back(static_cast<std::byte>(b));
    }
    CHECK(two == golden);
    CHECK(bundle::parts(two, kTag) == 2);
    std::size_t position = bundle::kHeader;
    const bundle::Part first = bundle::next(two, position);
    CHECK(first.tag == 0x04030201);
    CHECK(first.bytes.size() == 3);
    CHECK(bundle::next(two, position).tag == 7);
    CHECK(position == two.size());
    CHECK(bundle::tag(UINT32_MAX) == UINT32_MAX);
    CHECK(bundle::tag(1000) == 511);
}

TEST_CASE("what is no bundle", "[bundle]") {
    const Bytes good = pack({{1, 5}, {2, 0}, {3, 7}});
    REQUIRE(bundle::parts(good, kTag) == 3);
    for (std::size_t size = 0; size < good.size(); ++size) {
        CHECK(bundle::parts(std::span(good).first(size), kTag) == 0);
    }
    const auto with = [&](std::size_t at, int value) {
        Bytes b = good;
        b[at] = static_cast<std::byte>(value);
        return bundle::parts(b, kTag);
    };
    CHECK(with(0, 0xc1) == 0);
    CHECK(with(1, 2) == 0);
    for (const int count : {0, 1, 2, 4, 255}) {
        CHECK(with(2, count) == 0);
    }
    CHECK(with(3, 1) == 0);
    for (const int size : {0, 4, 6, 255}) {
        CHECK(with(8, size) == 0);
    }
    CHECK(with(11, 255) == 0);  // nearly 4 GiB
    CHECK(with(4, kTag) == 0);  // one in itself
    CHECK(with(4, 9) == 3);
    Bytes longer = good;
    longer.push_back(std::byte{0});
    CHECK(bundle::parts(longer, kTag) == 0);
    CHECK(bundle::parts(pack({}), kTag) == 0);
}

TEST_CASE("the parts of a bundle go to receives in their order", "[bundle]") {
    Bundles f;
    const std::vector<Message> sent{{1, 5}, {2, 0}, {3, 700}};
    std::deque<TestOp> ops;
    for (std::size_t i = 0; i < 4; ++i) {
        f.post(ops.emplace_back(f));
    }
    REQUIRE(f.send(f.x.get(), pack(sent)));
    for (std::size_t i = 0; i < sent.size(); ++i) {
        CHECK(holds(ops[i], sent[i]));
    }
    CHECK(ops[3].outcomes.empty());
    CHECK(f.queue.held() == 0);
    CHECK(f.counters.bundles_received.get() == 1);
    CHECK(f.counters.bundled_received.get() == 3);
    f.message(f.x.get(), 4);
    CHECK(got(ops[3], 4));
}

TEST_CASE("parts without a receive wait, before what comes later of their sender", "[bundle]") {
    for (const bool some : {false, true}) {
        for (const bool whole : {true, false}) {
            Bundles f;
            std::deque<TestOp> ops;
            if (some) {
                f.post(ops.emplace_back(f));
            }
            REQUIRE(f.send(f.x.get(), pack({{1, 5}, {2, 6}, {3, 7}}), Lane::unexpected,
                           Status::success, whole));
            f.message(f.y.get(), 4);
            REQUIRE(f.send(f.x.get(), pack({{5, 1}, {6, 2}})));
            f.message(f.x.get(), 7);
            while (ops.size() < 7) {
                f.post(ops.emplace_back(f));
            }
            CHECK(holds(ops[0], {1, 5}));
            // The other peer has its turn when parts of one bundle wait, too.
            CHECK(holds(ops[some ? 1 : 2], {2, 6}));
            CHECK(got(ops[some ? 2 : 1], 4));
            CHECK(holds(ops[3], {3, 7}));
            CHECK(holds(ops[4], {5, 1}));
            CHECK(holds(ops[5], {6, 2}));
            CHECK(got(ops[6], 7));
            CHECK(f.queue.held() == 0);
            CHECK(f.queue.empty());
        }
    }
}

TEST_CASE("bundles that wait are limited as messages are", "[bundle]") {
    Bundles f(4, 1'000'000);
    const Bytes bytes = pack({{1, 5}, {2, 6}});
    unsigned sent = 0;
    while (f.send(f.x.get(), bytes)) {
        ++sent;
        REQUIRE(sent < 100);
    }
    CHECK(sent == 3);  // a quarter is kept for others
    CHECK(f.counters.refused.get() == 1);
    std::deque<TestOp> ops;
    for (unsigned i = 0; i < 2 * sent; ++i) {
        f.post(ops.emplace_back(f));
        CHECK(holds(ops.back(), i % 2 == 0 ? Message{1, 5} : Message{2, 6}));
    }
    // One that found a receive leaves its rest behind, which is not refused, and is the only one.
    f.post(ops.emplace_back(f));
    REQUIRE(f.send(f.x.get(), pack({{1, 1}, {2, 2}, {3, 3}})));
    CHECK(holds(ops.back(), {1, 1}));
    CHECK(f.queue.held() == 0);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(f.send(f.x.get(), bytes));
    }
    CHECK(!f.send(f.x.get(), bytes));
    for (unsigned i = 0; i < 2 + 6; ++i) {
        f.post(ops.emplace_back(f));
        CHECK(ops.back().outcomes.size() == 1);
        release(ops.back());
    }
    CHECK(f.queue.empty());
}

TEST_CASE("expected parts go to the receives of their sender and tag only", "[bundle]") {
    Bundles f;
    for (const bool whole : {true, false}) {
        TestOp one(f), two(f), three(f), of_y(f), canceled(f);
        f.post_expected(one, f.x.get(), 1);
        f.post_expected(two, f.x.get(), 2);
        f.post_expected(three, f.x.get(), 3, kHeadroom + 5);
        f.post_expected(of_y, f.y.get(), 4);
        f.post_expected(canceled, f.x.get(), 5);
        f.queue.cancel(*canceled);
        const std::uint64_t dropped = f.counters.dropped.get();
        // The first is for nobody, one is said twice, one is forged, one is canceled, one too long.
        REQUIRE(f.send(f.x.get(),
                       pack({{9, 1}, {2, 10}, {2, 11}, {4, 10}, {5, 10}, {3, 6}, {1, 0}}),
                       Lane::expected, Status::success, whole));
        CHECK(holds(one, {1, 0}));
        CHECK(holds(two, {2, 10}));
        REQUIRE(three.outcomes.size() == 1);
        CHECK(three.outcomes[0].status == Status::msgsize);
        CHECK(of_y.outcomes.empty());
        REQUIRE(canceled.outcomes.size() == 1);
        CHECK(canceled.outcomes[0].status == Status::canceled);
        CHECK(f.counters.dropped.get() - dropped == 4);
        CHECK(f.queue.held() == 0);
        f.queue.cancel(*of_y);
        CHECK(f.queue.empty());
    }
}

TEST_CASE("bundles that are malformed, too long, or fail on the way touch no receive", "[bundle]") {
    Bundles f;
    TestOp unexpected(f), expected(f);
    f.post(unexpected);
    f.post_expected(expected, f.x.get(), 1);
    Bytes bad = pack({{1, 5}, {2, 6}});
    bad.pop_back();
    for (const Lane lane : {Lane::unexpected, Lane::expected}) {
        for (const bool whole : {true, false}) {
            const std::uint64_t dropped = f.counters.dropped.get();
            REQUIRE(f.send(f.x.get(), bad, lane, Status::success, whole));
            REQUIRE(f.send(f.x.get(), {}, lane, Status::success, whole));
            REQUIRE(f.send(f.x.get(), pack({{1, 5000}}), lane, Status::success, whole));
            CHECK(f.counters.dropped.get() - dropped == 3);
            REQUIRE(f.send(f.x.get(), pack({{1, 5}}), lane, Status::hostunreach, whole));
        }
        // Shorter than the headroom.
        Landing* landing = f.queue.arrive(lane, *f.x, kTag, 3);
        REQUIRE(landing != nullptr);
        f.queue.finish(*landing, Status::success);
    }
    CHECK(unexpected.outcomes.empty());
    CHECK(expected.outcomes.empty());
    CHECK(f.queue.held() == 0);
    CHECK(f.counters.bundles_received.get() == 0);
    REQUIRE(f.send(f.x.get(), pack({{1, 5}})));
    CHECK(holds(unexpected, {1, 5}));
    f.queue.cancel(*expected);
    CHECK(f.queue.empty());
}

TEST_CASE("the parts of a bundle fill multi-receives, as there is credit", "[bundle]") {
    Bundles f;
    TestOp multi(f, true);
    multi->add_credits(2);
    f.post_multi(multi, 3 * 4096);
    REQUIRE(f.send(f.x.get(), pack({{1, 5}, {2, 6}, {3, 7}})));
    REQUIRE(multi.outcomes.size() == 2);
    multi->add_credits(1);
    f.queue.deliver_held();
    REQUIRE(multi.outcomes.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        const Outcome& o = multi.outcomes[i];
        CHECK(o.tag == i + 1);
        CHECK(o.size == kHeadroom + 5 + i);
        CHECK(support::mismatch(static_cast<const std::byte*>(o.data) + kHeadroom, 5 + i, i + 1) ==
              -1);
    }
    release(multi);
    f.queue.cancel(*multi);
    CHECK(f.queue.empty());
}
