// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/ring.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "plugins/sm/inject_pool.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"

using namespace na::sm;

namespace {

struct Ring {
    explicit Ring(std::uint32_t start = 0) : memory(std::make_unique<Direction>()) {
        // As a new memfd would be, and where the ring has been through its laps up to `start`, as
        // those left it.
        memory->consumer.consumed = start;
        for (std::uint32_t i = 0; start != 0 && i < kRingLines; ++i) {
            const std::uint32_t position = start - kRingLines + i;
            memory->lines[position % kRingLines].sequence = lap(position);
        }
        out.attach(*memory, start);
        in.attach(*memory, start);
    }
    std::unique_ptr<Direction> memory;
    Producer out;
    Consumer in;
};

Head head_of(std::size_t size, std::uint32_t tag) {
    return {Kind::inline_message, 0, static_cast<std::uint16_t>(size), tag};
}

// One message through the ring and back; false: no room.
bool write(Producer& out, std::size_t size, std::uint32_t tag) {
    std::byte bytes[kInlineBytes];
    support::fill(bytes, size, tag);
    if (!out.room(lines_for(sizeof(Head) + size))) {
        return false;
    }
    out.write(head_of(size, tag), bytes, size);
    return true;
}

bool read(Consumer& in, std::size_t& size, std::uint32_t& tag, bool& good) {
    if (!in.ready()) {
        return false;
    }
    const Head h = in.front<Head>();
    size = h.value;
    tag = h.tag;
    const std::uint32_t lines = lines_for(sizeof(Head) + size);
    if (!in.ready(lines)) {
        return false;
    }
    std::byte bytes[kInlineBytes];
    in.copy(sizeof(Head), bytes, size);
    good = support::mismatch(bytes, size, tag) < 0;
    in.consume(lines);
    return true;
}

}  // namespace

TEST_CASE("ring: what goes in comes out, over many laps and all sizes") {
    // Also over the point where positions wrap.
    for (const std::uint32_t start : {0U, 0U - 3 * kRingLines}) {
        Ring ring(start);
        std::uint32_t tag = 0;
        for (int lap_number = 0; lap_number < 20; ++lap_number) {
            for (std::size_t size = 0; size <= kInlineBytes; ++size, ++tag) {
                REQUIRE(write(ring.out, size, tag));
                std::size_t got = 0;
                std::uint32_t got_tag = 0;
                bool good = false;
                REQUIRE(read(ring.in, got, got_tag, good));
                REQUIRE(got == size);
                REQUIRE(got_tag == tag);
                REQUIRE(good);
                REQUIRE_FALSE(ring.in.ready());
            }
        }
        REQUIRE_FALSE(ring.out.broken());
    }
}

TEST_CASE("ring: full means full, and reading makes room") {
    Ring ring;
    std::uint32_t written = 0;
    while (write(ring.out, 10, written)) {
        ++written;
    }
    REQUIRE(written == kRingLines);
    REQUIRE_FALSE(ring.out.room(1));
    std::size_t size = 0;
    std::uint32_t tag = 0;
    bool good = false;
    for (std::uint32_t i = 0; i < kCreditLines; ++i) {
        REQUIRE_FALSE(ring.out.room(1));  // given back in batches
        REQUIRE(read(ring.in, size, tag, good));
        REQUIRE(tag == i);
    }
    REQUIRE(ring.out.room(kCreditLines));
    REQUIRE_FALSE(ring.out.room(kCreditLines + 1));
}

TEST_CASE("ring: a message whose producer died half-way is never taken") {
    Ring ring;
    REQUIRE(write(ring.out, kInlineBytes, 5));
    // Its last line never came.
    ring.memory->lines[3].sequence = 0;
    std::size_t size = 0;
    std::uint32_t tag = 0;
    bool good = false;
    REQUIRE(ring.in.ready());
    REQUIRE_FALSE(read(ring.in, size, tag, good));
}

TEST_CASE("ring: a consumer that claims too much is found out") {
    Ring ring;
    for (std::uint32_t i = 0; i < 10; ++i) {
        REQUIRE(write(ring.out, 0, i));
    }
    SECTION("more than was written") {
        ring.memory->consumer.consumed = 11;
    }
    SECTION("backwards") {
        ring.memory->consumer.consumed = 5;
        REQUIRE(ring.out.refresh());
        ring.memory->consumer.consumed = 4;
    }
    SECTION("far away") {
        ring.memory->consumer.consumed = 0x80000000U;
    }
    REQUIRE_FALSE(ring.out.refresh());
    REQUIRE(ring.out.broken());
}

TEST_CASE("ring: two threads") {
    Ring ring;
    constexpr std::uint32_t kMessages = 200000 / support::kSlow;
    std::thread producer([&] {
        support::Random random(1);
        for (std::uint32_t i = 0; i < kMessages; ++i) {
            const std::size_t size = random.below(kInlineBytes + 1);
            while (!write(ring.out, size, i)) {
                std::this_thread::yield();
            }
        }
    });
    support::Random random(1);
    bool all_good = true;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        const std::size_t expected = random.below(kInlineBytes + 1);
        std::size_t size = 0;
        std::uint32_t tag = 0;
        bool good = false;
        while (!read(ring.in, size, tag, good)) {
            std::this_thread::yield();
        }
        all_good &= good && size == expected && tag == i;
    }
    producer.join();
    REQUIRE(all_good);
}

TEST_CASE("pool: buffers return when their line was given back") {
    Ring ring;
    Geometry geometry{1024, 8};
    std::vector<std::byte> memory(geometry.pool_bytes());
    InjectPool pool;
    pool.attach(memory.data(), geometry);
    std::vector<std::uint32_t> taken;
    const auto send = [&] {
        const std::uint32_t b = pool.take();
        ring.out.write(head_of(0, b));
        pool.sent(b, ring.out.position());
        return b;
    };
    while (pool.available(ring.out)) {
        taken.push_back(send());
    }
    REQUIRE(taken.size() == 8);
    std::sort(taken.begin(), taken.end());
    REQUIRE(std::unique(taken.begin(), taken.end()) == taken.end());
    // The consumer takes five and says so.
    for (int i = 0; i < 5; ++i) {
        REQUIRE(ring.in.ready());
        ring.in.consume(1);
    }
    REQUIRE_FALSE(pool.available(ring.out));
    ring.in.publish();
    for (int i = 0; i < 5; ++i) {
        REQUIRE(pool.available(ring.out));
        send();
    }
    REQUIRE_FALSE(pool.available(ring.out));
}

TEST_CASE("layout: geometries out of range are refused") {
    CHECK(Geometry{4096, 32}.valid());
    CHECK_FALSE(Geometry{0, 32}.valid());
    CHECK_FALSE(Geometry{4096, 0}.valid());
    CHECK_FALSE(Geometry{4097, 32}.valid());
    CHECK_FALSE(Geometry{Geometry::kMaxBuffer + 64, 1}.valid());
    CHECK_FALSE(Geometry{4096, Geometry::kMaxCount + 1}.valid());
    CHECK_FALSE(Geometry{0xffffffc0U, 64}.valid());
    const Geometry g{4096, 32};
    CHECK(g.pool_offset(0) % kPageBytes == 0);
    CHECK(g.pool_offset(0) >= 2 * sizeof(Direction));
    CHECK(g.region_bytes() == g.pool_offset(0) + 2 * g.pool_bytes());
}
