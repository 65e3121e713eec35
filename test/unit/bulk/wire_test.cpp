// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/wire.hpp"

#include <cstring>

#include "fixture.hpp"

using namespace test;

namespace {

std::vector<std::byte> bytes_of(const Bulk& bulk, bulk::WireOptions options = {}) {
    std::vector<std::byte> bytes(bulk::encoded_size(bulk, options));
    REQUIRE(must(bulk::encode(bulk, options, bytes)) == bytes.size());
    return bytes;
}

}  // namespace

TEST_CASE("a descriptor arrives as it left", "[wire]") {
    Pair p;
    Buffer b({100, 0, 5000, 1}, 1);
    auto bulk = must(Bulk::create(*p.origin.space, b.segments, Access::read));
    const BulkRef got = sent_to(p.target, *bulk);
    CHECK(got->size() == bulk->size());
    CHECK(got->access() == Access::read);
    CHECK_FALSE(got->is_local());
    CHECK_FALSE(got->has_pointers());
    CHECK(got->reachable(bulk::Rail::net));
    CHECK_FALSE(got->reachable(bulk::Rail::sm));
    CHECK(got->owner() == nullptr);
    REQUIRE(got->segments().size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(got->segments()[i].length == bulk->segments()[i].length);
        CHECK(got->segments()[i].base == nullptr);
    }
}

TEST_CASE("what is needed travels, and no more", "[wire]") {
    Pair p;
    Buffer b({64}, 1);
    auto read_only = must(Bulk::create(*p.origin.space, b.segments, Access::read));
    auto read_write = must(Bulk::create(*p.origin.space, b.segments, Access::read_write));
    auto write_only = must(Bulk::create(*p.origin.space, b.segments, Access::write));

    const std::size_t plain = bulk::encoded_size(*read_only, {});
    CHECK(plain < 60);
    // Contents make the registration superfluous for readers, not for writers, who are shown no
    // contents.
    CHECK(bulk::encoded_size(*read_only, {.eager = true}) == 4 + 64);
    CHECK(bulk::encoded_size(*read_write, {.eager = true}) == plain + 64);
    CHECK(bulk::encoded_size(*write_only, {.eager = true}) == plain);
    CHECK(bulk::encoded_size(*read_only, {.sm = true}) == plain);

    const BulkRef contents = sent_to(p.target, *read_only, {.eager = true});
    CHECK(contents->has_contents());
    CHECK_FALSE(contents->reachable(bulk::Rail::net));
    CHECK(std::memcmp(contents->segments()[0].base, b.segments[0].base, 64) == 0);
    const BulkRef both = sent_to(p.target, *read_write, {.eager = true});
    CHECK(both->has_contents());
    CHECK(both->reachable(bulk::Rail::net));
    CHECK_FALSE(sent_to(p.target, *write_only, {.eager = true})->has_contents());
}

TEST_CASE("eager contents of several segments", "[wire]") {
    Pair p;
    Buffer b({3, 0, 70, 1000}, 9);
    auto bulk = must(Bulk::create(*p.origin.space, b.segments, Access::read));
    const BulkRef got = sent_to(p.target, *bulk, {.eager = true});
    Segment out[4];
    REQUIRE(got->pieces(0, got->size(), out) == 3);
    std::vector<std::byte> all;
    for (const Segment& s : std::span(out, 3)) {
        all.insert(all.end(), static_cast<std::byte*>(s.base),
                   static_cast<std::byte*>(s.base) + s.length);
    }
    CHECK(all == b.flat());
}

TEST_CASE("a received descriptor can be passed on", "[wire]") {
    Pair p;
    Endpoint third;
    Buffer b({64, 100}, 1);
    for (const Access access : {Access::read, Access::read_write}) {
        for (const bool eager : {false, true}) {
            auto bulk = must(Bulk::create(*p.origin.space, b.segments, access));
            auto owner = std::make_unique<bulk::Owner>();
            owner->address.assign(7, std::byte{1});
            owner->context_id = 5;
            REQUIRE(bulk->bind(std::move(owner)));
            const auto bytes = bytes_of(*bulk, {.eager = eager});
            const BulkRef first = must(bulk::decode(*p.target.space, bytes));
            CHECK(bytes_of(*first, {.eager = eager}) == bytes);
            const BulkRef again = sent_to(third, *first);
            CHECK(again->size() == bulk->size());
            REQUIRE(again->owner() != nullptr);
            CHECK(again->owner()->context_id == 5);
            CHECK(again->owner()->address.size() == 7);
            // Contents that are all there is go along even if nobody asked for them.
            CHECK(again->has_contents() == (eager && access == Access::read));
        }
    }
}

TEST_CASE("a descriptor of nothing travels", "[wire]") {
    Pair p;
    auto bulk = must(Bulk::create(*p.origin.space, std::vector<Segment>(2), Access::read));
    for (const bool eager : {false, true}) {
        const BulkRef got = sent_to(p.target, *bulk, {.eager = eager});
        CHECK(got->size() == 0);
        CHECK(got->segments().size() == 2);
    }
}

TEST_CASE("a thousand segments", "[wire]") {
    Pair p;
    Buffer b(std::vector<std::size_t>(1000, 3), 1);
    auto bulk = must(Bulk::create(*p.origin.space, b.segments, Access::read));
    const BulkRef got = sent_to(p.target, *bulk);
    CHECK(got->segments().size() == 1000);
    CHECK(got->groups(bulk::Rail::net).size() == bulk->groups(bulk::Rail::net).size());
}

TEST_CASE("too little room is overflow, and writes nothing past it", "[wire]") {
    Endpoint e;
    Buffer b({40, 50}, 1);
    auto bulk = must(Bulk::create(*e.space, b.segments, Access::read_write));
    const std::size_t size = bulk::encoded_size(*bulk, {.eager = true});
    for (std::size_t n = 0; n < size; ++n) {
        std::vector<std::byte> out(n);
        CHECK(bulk::encode(*bulk, {.eager = true}, out).status() == Status::overflow);
    }
}

TEST_CASE("what ends too early is overflow", "[wire]") {
    Pair p;
    Buffer b({40, 50}, 1);
    auto bulk = must(Bulk::create(*p.origin.space, b.segments, Access::read_write));
    REQUIRE(bulk->bind([] {
        auto o = std::make_unique<bulk::Owner>();
        o->address.resize(9);
        return o;
    }()));
    const auto bytes = bytes_of(*bulk, {.eager = true});
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        // Exactly n bytes on the heap: reading on would be seen by the address sanitizer.
        const std::vector<std::byte> cut(bytes.begin(),
                                         bytes.begin() + static_cast<std::ptrdiff_t>(n));
        CHECK(bulk::decode(*p.target.space, cut).status() == Status::overflow);
    }
    CHECK(p.target.space->live() == 0);
}

// Every byte of valid descriptors, every value: decoding fails, or gives something whose use is
// safe.
TEST_CASE("malformed descriptors are refused or harmless", "[wire]") {
    Pair p;
    Buffer b({16, 0, 24}, 1);
    Buffer target({4096}, 2);
    auto local = must(Bulk::create(*p.target.space, target.segments, Access::read_write));
    std::size_t refused = 0;
    std::size_t accepted = 0;
    for (const bulk::WireOptions options :
         {bulk::WireOptions{}, bulk::WireOptions{.eager = true}}) {
        auto bulk = must(Bulk::create(*p.origin.space, b.segments, Access::read_write));
        auto owner = std::make_unique<bulk::Owner>();
        owner->address.resize(3);
        REQUIRE(bulk->bind(std::move(owner)));
        const auto valid = bytes_of(*bulk, options);
        for (std::size_t at = 0; at < valid.size(); ++at) {
            for (unsigned value = 0; value < 256; ++value) {
                std::vector<std::byte> bytes = valid;
                bytes[at] = static_cast<std::byte>(value);
                auto got = bulk::decode(*p.target.space, bytes);
                if (!got) {
                    ++refused;
                    continue;
                }
                ++accepted;
                Bulk& remote = **got;
                std::uint64_t total = 0;
                for (const Segment& s : remote.segments()) {
                    total += s.length;
                }
                REQUIRE(total == remote.size());
                Segment pieces[8];
                if (remote.has_pointers()) {
                    remote.pieces(0, remote.size(), pieces);
                }
                for (const Direction d : {Direction::pull, Direction::push}) {
                    (void)p.move(p.request(d, remote, 0, *local, 0,
                                           std::min<std::uint64_t>(remote.size(), 4096)));
                }
                (void)bytes_of(remote, options);
            }
        }
    }
    CHECK(refused > accepted / 10);
    CHECK(accepted > 0);
}

// What is seen at a glance is what a whole look finds.
TEST_CASE("a glance sees no more than there is", "[wire]") {
    Pair p;
    Buffer one({40}, 1);
    Buffer several({16, 24}, 1);
    std::size_t seen = 0;
    const auto look = [&](std::span<const std::byte> bytes) {
        bulk::Plain plain;
        if (!bulk::glance(*p.target.space, bytes, bulk::Rail::net, plain)) {
            return false;
        }
        ++seen;
        na::Memory::Described memory;
        REQUIRE(na::Memory::describe(plain.memory, memory) == Status::success);
        const auto got = bulk::decode(*p.target.space, bytes);
        // (What is in the transport's part it tells when it is asked for it.)
        if (got) {
            REQUIRE((*got)->size() == plain.size);
            REQUIRE((*got)->segments().size() == 1);
            REQUIRE((*got)->owner() == nullptr);
            REQUIRE_FALSE((*got)->has_contents());
            REQUIRE(allows((*got)->access(), Access::read));
            REQUIRE((*got)->reachable(bulk::Rail::net));
            REQUIRE(memory.length == plain.size);
        }
        return true;
    };
    const auto described = [&](const Buffer& buffer, Access access, bulk::WireOptions options) {
        return bytes_of(*must(Bulk::create(*p.origin.space, buffer.segments, access)), options);
    };
    const auto valid = described(one, Access::read, {});
    CHECK(look(valid));
    CHECK(look(described(one, Access::read_write, {})));
    bulk::Plain plain;
    CHECK_FALSE(bulk::glance(*p.target.space, valid, bulk::Rail::sm, plain));
    CHECK_FALSE(look(described(one, Access::write, {})));
    CHECK_FALSE(look(described(one, Access::read, {.eager = true})));
    CHECK_FALSE(look(described(one, Access::read_write, {.eager = true})));
    CHECK_FALSE(look(described(several, Access::read, {})));
    auto owned = must(Bulk::create(*p.origin.space, one.segments, Access::read));
    auto owner = std::make_unique<bulk::Owner>();
    owner->address.resize(3);
    REQUIRE(owned->bind(std::move(owner)));
    CHECK_FALSE(look(bytes_of(*owned)));
    for (std::size_t n = 0; n < valid.size(); ++n) {
        CHECK_FALSE(look(std::span(valid).first(n)));
    }
    for (std::size_t at = 0; at < valid.size(); ++at) {
        for (unsigned value = 0; value < 256; ++value) {
            auto bytes = valid;
            bytes[at] = static_cast<std::byte>(value);
            (void)look(bytes);
        }
    }
    CHECK(seen > valid.size());
}

TEST_CASE("contradictions are named", "[wire]") {
    Pair p;
    constexpr int kRead = 1, kWrite = 2, kEager = 4, kNet = 8;
    constexpr Status kMalformed = Status::protocol_error;
    // clang-format off
    const struct {
        const char* what;
        std::vector<int> start;  // 64 zeros follow
        Status expected;
    } cases[] = {
        {"well formed", {1, kRead | kEager, 1, 4}, Status::success},
        {"version", {0, kRead | kEager, 1, 4}, kMalformed},
        {"unknown flag", {1, 64 | kRead | kEager, 1, 4}, kMalformed},
        {"no access", {1, kEager, 1, 4}, kMalformed},
        {"contents that nobody may read", {1, kWrite | kEager, 1, 4}, kMalformed},
        {"unreachable memory", {1, kRead, 1, 4}, kMalformed},
        {"no segment", {1, kRead | kEager, 0, 4}, kMalformed},
        {"contents of nothing", {1, kRead | kEager, 1, 0}, kMalformed},
        {"sum too small", {1, kRead | kEager, 2, 4, 1, 2}, kMalformed},
        {"sum too large", {1, kRead | kEager, 2, 4, 1, 4}, kMalformed},
        {"not the shortest form", {1, kRead | kEager, 0x81, 0, 4}, kMalformed},
        {"4 GiB of contents", {1, kRead | kEager, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}, Status::overflow},
        {"a sum that wraps around 2^64",
         {1, kRead | kEager, 2, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 5}, kMalformed},
        {"a number above 2^64",
         {1, kRead | kEager, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, kMalformed},
        {"2^32 - 1 segments", {1, kRead | kEager, 0xff, 0xff, 0xff, 0xff, 0x0f, 4}, Status::overflow},
        {"2^32 segments", {1, kRead | kEager, 0x80, 0x80, 0x80, 0x80, 0x10, 4}, kMalformed},
        {"more registrations than segments", {1, kRead | kNet, 1, 4, 0x12, 0x34, 2, 0}, kMalformed},
        {"another protocol", {1, kRead | kNet, 1, 4, 0x12, 0x34, 1, 0}, Status::protonosupport},
    };
    // clang-format on
    for (const auto& c : cases) {
        std::vector<std::byte> bytes;
        for (const int b : c.start) {
            bytes.push_back(static_cast<std::byte>(b));
        }
        bytes.resize(bytes.size() + 64);
        INFO(c.what);
        CHECK(bulk::decode(*p.target.space, bytes).status() == c.expected);
    }
}

TEST_CASE("random bytes", "[wire]") {
    Endpoint e;
    std::mt19937 random(test::seed());
    for (int i = 0; i < 100000; ++i) {
        std::vector<std::byte> bytes(random() % 64);
        for (std::byte& b : bytes) {
            b = static_cast<std::byte>(random() % 3 == 0 ? random() % 4 : random());
        }
        if (!bytes.empty()) {
            bytes[0] = std::byte{1};
        }
        (void)bulk::decode(*e.space, bytes);
        bulk::Plain plain;
        (void)bulk::glance(*e.space, bytes, bulk::Rail::net, plain);
        (void)bulk::glance(*e.space, bytes, bulk::Rail::sm, plain);
    }
    CHECK(e.space->live() == 0);
}
