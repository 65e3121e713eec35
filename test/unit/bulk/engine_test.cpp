// SPDX-License-Identifier: BSD-3-Clause
// Many transfers at a time, windows, cancel, names, threads.
#include <atomic>
#include <thread>

#include "bulk/transfer.hpp"
#include "fixture.hpp"

using namespace test;

namespace {

constexpr std::size_t kMiB = 1 << 20;

// Memory on both sides, and the remote descriptor.
struct Sides {
    Buffer there;
    Buffer here;
    BulkRef shown;
    BulkRef local;
    BulkRef remote;

    Sides(Pair& p, std::size_t size) : there({size}, 1), here({size}, 2) {
        shown = must(Bulk::create(*p.origin.space, there.segments, Access::read_write));
        local = must(Bulk::create(*p.target.space, here.segments, Access::read_write));
        remote = sent_to(p.target, *shown);
    }
};

}  // namespace

TEST_CASE("a bounded window, refilled by progress", "[engine]") {
    Pair p;
    Sides s(p, 40 * kMiB);
    REQUIRE(p.target.engine->start(p.request(Direction::pull, *s.remote, 0, *s.local, 0,
                                             s.here.size)) == Status::success);
    const auto& counters = p.target.engine->counters();
    const std::uint64_t window = counters.pieces.get();
    CHECK(window > 1);
    CHECK(window <= bulk::kMaxWindow);
    CHECK_FALSE(p.target.engine->idle());
    p.target.context->poll();  // pieces end; nothing may be posted before progress()
    CHECK(counters.pieces.get() == window);
    CHECK(p.target.engine->runnable());
    CHECK(p.target.wakes > 0);
    p.target.engine->progress();
    CHECK(counters.pieces.get() > window);
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(counters.pieces.get() == 40);
    CHECK_FALSE(p.target.engine->runnable());
    CHECK_FALSE(p.target.engine->idle());  // until its outcome was handled
    CHECK(p.outcomes.take() == Status::success);
    CHECK(p.target.engine->idle());
    CHECK(s.here.flat() == s.there.flat());
}

TEST_CASE("descriptors may be freed while a transfer uses them", "[engine]") {
    Pair p;
    Sides s(p, 20 * kMiB);
    REQUIRE(p.target.engine->start(p.request(Direction::pull, *s.remote, 0, *s.local, 0,
                                             s.here.size)) == Status::success);
    s.remote.reset();
    s.local.reset();
    CHECK(p.target.space->live() == 2);
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(p.target.space->live() == 2);
    CHECK(p.outcomes.take() == Status::success);
    CHECK(p.target.space->live() == 0);
    CHECK(s.here.flat() == s.there.flat());
}

TEST_CASE("many transfers share the pool", "[engine]") {
    Pair p;
    Sides s(p, 100 * 1000);
    for (int round = 0; round < 3; ++round) {
        for (std::uint64_t i = 0; i < 100; ++i) {
            REQUIRE(p.target.engine->start(p.request(Direction::pull, *s.remote, i * 1000, *s.local,
                                                     (99 - i) * 1000, 1000)) == Status::success);
        }
        CHECK(p.target.engine->used() == 100);
        until(p.target, [&] { return p.outcomes.count() == 100; });
        for (int i = 0; i < 100; ++i) {
            CHECK(p.outcomes.take() == Status::success);
        }
        CHECK(p.target.engine->idle());
    }
    CHECK(std::equal(s.here.parts[0].begin(), s.here.parts[0].begin() + 1000,
                     s.there.parts[0].end() - 1000));
}

TEST_CASE("a small transfer does not wait for the end of a large one", "[engine]") {
    Pair p;
    Sides s(p, 40 * kMiB);
    REQUIRE(p.target.engine->start(p.request(Direction::pull, *s.remote, 0, *s.local, 0,
                                             40 * kMiB)) == Status::success);
    REQUIRE(p.target.engine->start(p.request(Direction::pull, *s.remote, 0, *s.local, 0, 100)) ==
            Status::success);
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(p.outcomes.ended[0].first->request().size == 100);
    until(p.target, [&] { return p.outcomes.count() == 2; });
    CHECK(p.outcomes.take() == Status::success);
    CHECK(p.outcomes.take() == Status::success);
}

TEST_CASE("cancel ends a transfer once", "[engine]") {
    Pair p;
    Sides s(p, 40 * kMiB);
    TransferId id = 0;
    REQUIRE(p.target.engine->start(
                p.request(Direction::pull, *s.remote, 0, *s.local, 0, s.here.size), &id) ==
            Status::success);
    CHECK(id > 1);
    SECTION("by its engine") {
        p.target.engine->cancel(id);
    }
    SECTION("by its name alone") {
        Engine::cancel_any(id);
    }
    SECTION("twice") {
        p.target.engine->cancel(id);
        p.target.engine->cancel(id);
    }
    SECTION("in the middle") {
        p.target.poll();
        p.target.engine->cancel(id);
    }
    SECTION("while it waits for progress") {
        p.target.context->poll();
        p.target.engine->cancel(id);
    }
    SECTION("with all others") {
        p.target.engine->cancel_all();
    }
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(p.outcomes.take() == Status::canceled);
    CHECK(p.target.engine->idle());
    CHECK(p.target.engine->counters().pieces.get() < 40);

    Engine::cancel_any(id);
    p.target.poll();
    CHECK(p.outcomes.count() == 0);
}

TEST_CASE("a cancel that comes too late to stop anything is none", "[engine]") {
    Pair p;
    Sides s(p, 1000);
    TransferId id = 0;
    REQUIRE(p.target.engine->start(p.request(Direction::pull, *s.remote, 0, *s.local, 0, 1000),
                                   &id) == Status::success);
    p.target.engine->cancel(id);  // loop has moved it
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(p.outcomes.take() == Status::success);
    CHECK(s.here.flat() == s.there.flat());
}

TEST_CASE("a stale name touches nobody", "[engine]") {
    Pair p;
    Sides s(p, 40 * kMiB);
    const auto request = p.request(Direction::pull, *s.remote, 0, *s.local, 0, s.here.size);
    TransferId first = 0;
    REQUIRE(p.target.engine->start(request, &first) == Status::success);
    until(p.target, [&] { return p.outcomes.count() != 0; });
    p.target.engine->cancel(first);  // ended, not yet released
    CHECK(p.outcomes.take() == Status::success);

    TransferId second = 0;
    REQUIRE(p.target.engine->start(request, &second) == Status::success);
    CHECK(first != second);
    p.target.engine->cancel(first);
    Engine::cancel_any(first);
    until(p.target, [&] { return p.outcomes.count() != 0; });
    CHECK(p.outcomes.take() == Status::success);

    for (const TransferId garbage :
         {TransferId{0}, TransferId{1}, ~TransferId{0}, second ^ (TransferId{1} << 30)}) {
        Engine::cancel_any(garbage);
    }
    TransferId gone = 0;
    {
        Endpoint other;
        Buffer b({10}, 1);
        auto bulk = must(Bulk::create(*other.space, b.segments, Access::read_write));
        Outcomes outcomes;
        const auto self = other.cls->self();
        REQUIRE(other.engine->start({.origin = bulk.get(),
                                     .local = bulk.get(),
                                     .size = 1,
                                     .peer = {.net = self.get()},
                                     .done = &Outcomes::done,
                                     .owner = &outcomes},
                                    &gone) == Status::success);
        CHECK(outcomes.take() == Status::success);
    }
    Engine::cancel_any(gone);
}

TEST_CASE("threads start, cancel and progress at the same time", "[engine][threads]") {
    Pair p;
    constexpr int kThreads = 3;
    constexpr int kRounds = 150;
    Sides s(p, 4 * kMiB);
    std::atomic<int> started{0};
    std::atomic<int> ended{0};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(seed() + static_cast<unsigned>(t));
            Outcomes outcomes;
            int mine = 0;
            const auto reap = [&] {
                p.target.poll();
                while (outcomes.count() != 0) {
                    std::unique_lock guard(outcomes.mutex);
                    const auto [transfer, status] = outcomes.ended.back();
                    outcomes.ended.pop_back();
                    guard.unlock();
                    transfer->engine().release(*transfer);
                    wrong += status != Status::success && status != Status::canceled;
                    --mine;
                    ++ended;
                }
            };
            for (int i = 0; i < kRounds; ++i) {
                const std::uint64_t size = random() % (i % 10 == 0 ? s.here.size : 5000);
                auto r = p.request(random() % 2 == 0 ? Direction::pull : Direction::push, *s.remote,
                                   random() % (s.here.size - size), *s.local,
                                   random() % (s.here.size - size), size);
                r.owner = &outcomes;
                TransferId id = 0;
                if (p.target.engine->start(r, &id) != Status::success) {
                    ++wrong;
                    continue;
                }
                ++mine;
                ++started;
                if (random() % 3 == 0) {
                    Engine::cancel_any(id);
                }
                if (random() % 4 == 0) {
                    reap();
                }
            }
            while (mine != 0) {
                reap();
            }
        });
    }
    for (auto& t : threads) {
        t.join();
    }
    CHECK(wrong == 0);
    CHECK(started == kThreads * kRounds);
    CHECK(ended == kThreads * kRounds);
    CHECK(p.target.engine->idle());
    CHECK_FALSE(p.target.engine->runnable());
}

TEST_CASE("single-threaded classes work the same", "[engine]") {
    na::InitInfo info;
    info.single_class = true;
    Endpoint there(info);
    Endpoint here(info);
    Buffer from({3 * kMiB, 100}, 1);
    Buffer to({100, 3 * kMiB}, 2);
    auto shown = must(Bulk::create(*there.space, from.segments, Access::read));
    auto local = must(Bulk::create(*here.space, to.segments, Access::write));
    const BulkRef remote = sent_to(here, *shown);
    const auto peer = must(here.cls->lookup(there.cls->self()->uri()));
    Outcomes outcomes;
    REQUIRE(here.engine->start({.direction = Direction::pull,
                                .origin = remote.get(),
                                .local = local.get(),
                                .size = from.size,
                                .peer = {.net = peer.get()},
                                .done = &Outcomes::done,
                                .owner = &outcomes}) == Status::success);
    until(here, [&] { return outcomes.count() != 0; });
    CHECK(outcomes.take() == Status::success);
    CHECK(to.flat() == from.flat());
}
