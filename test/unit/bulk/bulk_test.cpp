// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/bulk.hpp"

#include <limits>

#include "fixture.hpp"

using namespace test;

TEST_CASE("what cannot be described is refused", "[bulk]") {
    Endpoint e;
    char memory[8];
    const auto status = [&](std::vector<Segment> segments, Access access) {
        return Bulk::create(*e.space, segments, access).status();
    };
    CHECK(status({}, Access::read) == Status::invalid_arg);
    CHECK(status({{memory, 8}}, Access::none) == Status::invalid_arg);
    CHECK(status({{nullptr, 8}}, Access::read) == Status::invalid_arg);
    CHECK(status({{memory, 8}, {nullptr, 1}}, Access::read) == Status::invalid_arg);
    CHECK(status({{memory, std::numeric_limits<std::size_t>::max()}}, Access::read) ==
          Status::invalid_arg);
    CHECK(status({{memory, std::numeric_limits<std::size_t>::max() / 2},
                  {memory, std::numeric_limits<std::size_t>::max() / 2},
                  {memory, 8}},
                 Access::read) == Status::invalid_arg);
    CHECK(e.space->live() == 0);
}

TEST_CASE("neighbours in memory and empty segments need no registration of their own", "[bulk]") {
    Endpoint e;
    const std::size_t most = e.cls->caps().max_segments;
    std::vector<std::byte> memory(10 * most);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < 5 * most; ++i) {
        segments.push_back({memory.data() + 2 * i, 2});
        segments.push_back({nullptr, 0});
    }
    auto joined = must(Bulk::create(*e.space, segments, Access::read_write));
    CHECK(joined->size() == memory.size());
    CHECK(joined->segments().size() == segments.size());
    CHECK(joined->groups(bulk::Rail::net).size() == 1);

    for (Segment& s : segments) {
        s.length = std::min<std::size_t>(s.length, 1);
    }
    auto apart = must(Bulk::create(*e.space, segments, Access::read_write));
    const auto groups = apart->groups(bulk::Rail::net);
    REQUIRE(groups.size() == 5);
    CHECK(groups[0].begin == 0);
    CHECK(groups[4].end() == apart->size());
    CHECK(&apart->group_at(bulk::Rail::net, 0) == &groups[0]);
    CHECK(&apart->group_at(bulk::Rail::net, most - 1) == &groups[0]);
    CHECK(&apart->group_at(bulk::Rail::net, most) == &groups[1]);
    CHECK(&apart->group_at(bulk::Rail::net, 5 * most - 1) == &groups[4]);
}

TEST_CASE("empty segments only: a descriptor of nothing", "[bulk]") {
    Endpoint e;
    auto bulk = must(Bulk::create(*e.space, std::vector<Segment>(3), Access::read));
    CHECK(bulk->size() == 0);
    CHECK(bulk->segments().size() == 3);
    CHECK_FALSE(bulk->reachable(bulk::Rail::net));
    CHECK(bulk->covers(0, 0));
    CHECK_FALSE(bulk->covers(0, 1));
    CHECK_FALSE(bulk->covers(1, 0));
}

TEST_CASE("memory of the library's own: zeroed, aligned, freed", "[bulk]") {
    Endpoint e;
    const std::uint64_t sizes[] = {100, 0, 1, 64, 1 << 20};
    auto bulk = must(Bulk::allocate(*e.space, sizes, Access::read_write));
    CHECK(bulk->size() == 165 + (1 << 20));
    for (const Segment& s : bulk->segments()) {
        CHECK(reinterpret_cast<std::uintptr_t>(s.base) % 64 == 0);
        CHECK((s.base == nullptr) == (s.length == 0));
        const auto* bytes = static_cast<const char*>(s.base);
        CHECK(std::all_of(bytes, bytes + s.length, [](char c) { return c == 0; }));
    }
    const std::uint64_t none[] = {0, 0};
    CHECK(must(Bulk::allocate(*e.space, none, Access::read))->size() == 0);
    const std::uint64_t huge[] = {std::uint64_t{1} << 62, std::uint64_t{1} << 62};
    CHECK(Bulk::allocate(*e.space, huge, Access::read).status() == Status::nomem);
    const std::uint64_t wrapping[] = {UINT64_MAX, 2};
    CHECK(Bulk::allocate(*e.space, wrapping, Access::read).status() == Status::nomem);
}

TEST_CASE("what the memory belongs to goes with the last reference, after the registration",
          "[bulk]") {
    const auto cls = must(na::Class::open("loop+loop", true, {}));
    Space space(bulk::Rails{.net = cls.get()}, nullptr);
    std::vector<std::byte> memory(100);
    const Segment s{memory.data(), memory.size()};
    int released = 0;
    Status registered = Status::busy;
    auto bulk = must(Bulk::create(space, {&s, 1}, Access::read));
    bulk->keep({&memory, [&](void*) {
                    ++released;
                    registered = cls->closable().status();
                }});
    auto another = BulkRef::share(bulk.get());
    bulk.reset();
    CHECK(released == 0);
    CHECK(cls->closable().status() == Status::busy);
    another.reset();
    CHECK(released == 1);
    CHECK(registered == Status::success);
}

TEST_CASE("pieces of a range", "[bulk]") {
    Endpoint e;
    Buffer b({10, 0, 20, 30}, 1);
    auto bulk = must(Bulk::create(*e.space, b.segments, Access::read_write));
    Segment out[4];
    REQUIRE(bulk->pieces(0, 60, out) == 3);
    CHECK(out[0].base == b.segments[0].base);
    CHECK(out[1].length == 20);
    CHECK(out[2].length == 30);
    REQUIRE(bulk->pieces(5, 10, out) == 2);
    CHECK(out[0].base == static_cast<std::byte*>(b.segments[0].base) + 5);
    CHECK(out[0].length == 5);
    CHECK(out[1].base == b.segments[2].base);
    CHECK(out[1].length == 5);
    CHECK(bulk->pieces(5, 50, std::span(out, 1)) == 1);
    CHECK(bulk->pieces(60, 0, out) == 0);
    CHECK(bulk->covers(60, 0));
    CHECK_FALSE(bulk->covers(1, UINT64_MAX));
    CHECK_FALSE(bulk->covers(UINT64_MAX, 1));
    CHECK_FALSE(bulk->covers(UINT64_MAX, UINT64_MAX));
    CHECK_FALSE(bulk->covers(1, (std::uint64_t{1} << 32) - 1));
}

TEST_CASE("bound once, and the owner is given back", "[bulk]") {
    Endpoint e;
    static int released;
    released = 0;
    const auto owner = [](std::uint8_t id) {
        auto o = std::make_unique<bulk::Owner>();
        o->address.resize(4);
        o->context_id = id;
        o->resolved = &released;
        o->release = [](void* p) noexcept { ++*static_cast<int*>(p); };
        return o;
    };
    char memory[4];
    const Segment s{memory, 4};
    auto bulk = must(Bulk::create(*e.space, {&s, 1}, Access::read));
    CHECK(bulk->owner() == nullptr);
    CHECK(bulk->bind(owner(3)));
    CHECK_FALSE(bulk->bind(owner(4)));
    CHECK(released == 1);
    CHECK(bulk->owner()->context_id == 3);
    bulk.reset();
    CHECK(released == 2);
}
