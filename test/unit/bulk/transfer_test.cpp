// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/transfer.hpp"

#include "fixture.hpp"

using namespace test;

namespace {

std::vector<std::size_t> random_sizes(std::mt19937& random, std::size_t most, std::size_t largest) {
    std::vector<std::size_t> sizes(1 + random() % most);
    for (auto& n : sizes) {
        n = random() % 5 == 0 ? 0 : random() % (largest + 1);
    }
    return sizes;
}

}  // namespace

// Random segments on both sides, random ranges, both directions, all ways to move: compared with a
// copy of flat memory.
TEST_CASE("any range across any boundaries", "[transfer]") {
    Pair p;
    std::mt19937 random(seed());
    for (int round = 0; round < 300; ++round) {
        const bool big = round % 50 == 0;  // several pieces in one registration
        const std::size_t largest = big ? 5 << 20 : 300;
        Buffer there(random_sizes(random, big ? 3 : 200, largest), static_cast<unsigned>(random()));
        Buffer here(random_sizes(random, big ? 3 : 200, largest), static_cast<unsigned>(random()));
        auto shown = must(Bulk::create(*p.origin.space, there.segments, Access::read_write));
        auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
        const BulkRef remote = sent_to(p.target, *shown, {.eager = random() % 2 == 0});
        for (const Direction d : {Direction::pull, Direction::push}) {
            const std::uint64_t most = std::min(there.size, here.size);
            const std::uint64_t size = random() % 4 == 0 ? most : random() % (most + 1);
            const std::uint64_t at_there = random() % (there.size - size + 1);
            const std::uint64_t at_here = random() % (here.size - size + 1);
            const auto offset = [](std::uint64_t o) { return static_cast<std::ptrdiff_t>(o); };
            auto flat_there = there.flat();
            auto flat_here = here.flat();
            if (d == Direction::pull) {
                std::copy_n(flat_there.begin() + offset(at_there), size,
                            flat_here.begin() + offset(at_here));
            } else {
                std::copy_n(flat_here.begin() + offset(at_here), size,
                            flat_there.begin() + offset(at_there));
            }
            REQUIRE(p.move(p.request(d, *remote, at_there, *local, at_here, size)) ==
                    Status::success);
            REQUIRE(here.flat() == flat_here);
            REQUIRE(there.flat() == flat_there);
        }
    }
}

TEST_CASE("pull after push does not see stale eager contents", "[transfer]") {
    Pair p;
    Buffer there({100}, 1);
    Buffer here({100}, 2);
    auto shown = must(Bulk::create(*p.origin.space, there.segments, Access::read_write));
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
    const BulkRef remote = sent_to(p.target, *shown, {.eager = true});
    const auto pushed = here.flat();
    REQUIRE(p.move(p.request(Direction::push, *remote, 0, *local, 0, 100)) == Status::success);
    std::fill(here.parts[0].begin(), here.parts[0].end(), std::byte{0});
    REQUIRE(p.move(p.request(Direction::pull, *remote, 0, *local, 0, 100)) == Status::success);
    CHECK(here.flat() == pushed);
}

TEST_CASE("a pull from eager contents needs no traffic", "[transfer]") {
    Pair p;
    Buffer there({10, 20}, 1);
    Buffer here({40}, 2);
    auto shown = must(Bulk::create(*p.origin.space, there.segments, Access::read));
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::write));
    const BulkRef remote = sent_to(p.target, *shown, {.eager = true});
    shown.reset();  // nothing to get there any more
    REQUIRE(p.move(p.request(Direction::pull, *remote, 5, *local, 3, 20)) == Status::success);
    CHECK(std::equal(here.parts[0].begin() + 3, here.parts[0].begin() + 23,
                     there.flat().begin() + 5));
    CHECK(p.target.engine->counters().pieces.get() == 0);
    CHECK(p.target.engine->counters().copies.get() == 1);
    CHECK(p.target.engine->counters().bytes.get() == 20);
}

TEST_CASE("to oneself", "[transfer]") {
    Pair p;
    Buffer there({1000, 24}, 1);
    Buffer here({10, 2000}, 2);
    const auto self = p.target.cls->self();
    auto shown = must(Bulk::create(*p.target.space, there.segments, Access::read_write));
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
    auto r = p.request(Direction::pull, *shown, 0, *local, 4, 1024);
    r.peer = {.net = self.get()};
    REQUIRE(p.move(r) == Status::success);
    const auto flat = here.flat();
    CHECK(std::equal(flat.begin() + 4, flat.begin() + 1028, there.flat().begin()));
    CHECK(p.target.engine->counters().pieces.get() == 0);

    SECTION("through a descriptor that has travelled") {
        const BulkRef remote = sent_to(p.target, *shown);
        r = p.request(Direction::push, *remote, 0, *local, 0, 1024);
        r.peer = {.net = self.get()};
        REQUIRE(p.move(r) == Status::success);
        CHECK(std::equal(flat.begin(), flat.begin() + 1024, there.flat().begin()));
    }
    SECTION("local memory with a peer's address is a mistake") {
        CHECK(p.move(p.request(Direction::pull, *shown, 0, *local, 0, 1)) == Status::invalid_arg);
    }
}

TEST_CASE("ranges past the end, however far", "[transfer]") {
    Pair p;
    Buffer there({64}, 1);
    Buffer here({32}, 2);
    auto shown = must(Bulk::create(*p.origin.space, there.segments, Access::read_write));
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
    const BulkRef remote = sent_to(p.target, *shown);
    constexpr std::uint64_t k32 = std::uint64_t{1} << 32;
    const std::uint64_t numbers[] = {0,
                                     1,
                                     32,
                                     33,
                                     64,
                                     65,
                                     k32 - 1,
                                     k32,
                                     k32 + 1,
                                     UINT64_MAX / 2,
                                     UINT64_MAX - 32,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    const auto flat = here.flat();
    for (const std::uint64_t remote_offset : numbers) {
        for (const std::uint64_t local_offset : numbers) {
            for (const std::uint64_t size : numbers) {
                const bool fits =
                    size <= 32 && local_offset <= 32 - size && remote_offset <= 64 - size;
                for (const Direction d : {Direction::pull, Direction::push}) {
                    CHECK(
                        p.move(p.request(d, *remote, remote_offset, *local, local_offset, size)) ==
                        (fits ? Status::success : Status::invalid_arg));
                }
            }
        }
    }
}

TEST_CASE("permissions of both sides", "[transfer]") {
    Pair p;
    Buffer there({64}, 1);
    Buffer here({64}, 2);
    for (const Access origin : {Access::read, Access::write, Access::read_write}) {
        for (const Access mine : {Access::read, Access::write, Access::read_write}) {
            auto shown = must(Bulk::create(*p.origin.space, there.segments, origin));
            auto local = must(Bulk::create(*p.target.space, here.segments, mine));
            for (const bool eager : {false, true}) {
                const BulkRef remote = sent_to(p.target, *shown, {.eager = eager});
                CHECK(p.move(p.request(Direction::pull, *remote, 0, *local, 0, 64)) ==
                      (allows(origin, Access::read) && allows(mine, Access::write)
                           ? Status::success
                           : Status::permission));
                CHECK(p.move(p.request(Direction::push, *remote, 0, *local, 0, 64)) ==
                      (allows(origin, Access::write) && allows(mine, Access::read)
                           ? Status::success
                           : Status::permission));
            }
        }
    }
}

TEST_CASE("other mistakes are refused at once", "[transfer]") {
    Pair p;
    Buffer there({64}, 1);
    Buffer here({64}, 2);
    auto shown = must(Bulk::create(*p.origin.space, there.segments, Access::read_write));
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
    const BulkRef remote = sent_to(p.target, *shown);
    auto r = p.request(Direction::pull, *remote, 0, *local, 0, 64);
    SECTION("no peer") {
        r.peer = {};
    }
    SECTION("no origin") {
        r.origin = nullptr;
    }
    SECTION("no local") {
        r.local = nullptr;
    }
    SECTION("a descriptor of another class") {
        r.local = shown.get();
    }
    SECTION("a local side that is remote") {
        r.local = remote.get();
    }
    CHECK(p.target.engine->start(r) == Status::invalid_arg);
    CHECK(p.target.engine->idle());
}

TEST_CASE("nothing moves at once", "[transfer]") {
    Pair p;
    auto shown = must(Bulk::create(*p.origin.space, std::vector<Segment>(1), Access::read_write));
    auto local = must(Bulk::create(*p.target.space, std::vector<Segment>(1), Access::read_write));
    const BulkRef remote = sent_to(p.target, *shown);
    for (const Direction d : {Direction::pull, Direction::push}) {
        REQUIRE(p.target.engine->start(p.request(d, *remote, 0, *local, 0, 0)) == Status::success);
        REQUIRE(p.outcomes.count() == 1);
        CHECK(p.outcomes.take() == Status::success);
    }
    CHECK(p.move(p.request(Direction::pull, *remote, 0, *local, 0, 1)) == Status::invalid_arg);
}

TEST_CASE("a peer that is gone", "[transfer]") {
    Pair p;
    Buffer here({32 << 20}, 2);
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
    BulkRef remote;
    na::AddressRef peer;
    {
        Endpoint gone;
        Buffer there({32 << 20}, 1);
        auto shown = must(Bulk::create(*gone.space, there.segments, Access::read_write));
        remote = sent_to(p.target, *shown);
        peer = must(p.target.cls->lookup(gone.cls->self()->uri()));
    }
    auto r = p.request(Direction::pull, *remote, 0, *local, 0, here.size);
    r.peer = {.net = peer.get()};
    CHECK(p.move(r) == Status::hostunreach);
    CHECK(p.target.engine->idle());
}

TEST_CASE("memory that is gone", "[transfer]") {
    Pair p;
    Buffer there({32 << 20}, 1);
    Buffer here({32 << 20}, 2);
    auto shown = must(Bulk::create(*p.origin.space, there.segments, Access::read_write));
    auto local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
    const BulkRef remote = sent_to(p.target, *shown);
    REQUIRE(p.target.engine->start(p.request(Direction::pull, *remote, 0, *local, 0, here.size)) ==
            Status::success);
    shown.reset();  // in the middle
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(p.outcomes.take() == Status::fault);
}
