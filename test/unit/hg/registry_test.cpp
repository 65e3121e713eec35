// SPDX-License-Identifier: BSD-3-Clause
#include "hg/registry.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "support/options.hpp"

using hg::Registration;
using hg::Registry;

namespace {

struct Port {
    bulk::Rail kind;
    bulk::Rail rail() const noexcept { return kind; }
};

// The data of one registration, known by its number, which stands where the user's function does.
std::vector<std::atomic<bool>>* g_there = nullptr;

Registration::Functions numbered(std::size_t number) {
    Registration::Functions f;
    f.user = reinterpret_cast<Registration::Opaque>(number + 1);
    return f;
}
std::atomic<bool>& data_of(const Registration& registration) {
    return (*g_there)[reinterpret_cast<std::size_t>(registration.functions().user) - 1];
}

}  // namespace

TEST_CASE("what an RPC's data are released after is its last use, wherever that is counted",
          "[registry]") {
    constexpr std::uint64_t kId = 77;
    const bool threaded = GENERATE(false, true);
    std::vector<std::atomic<bool>> there(1);
    g_there = &there;
    Registry registry(threaded);
    REQUIRE(registry.add(kId, numbered(0)));
    there[0] = true;
    (void)registry.set_data(kId, &there[0],
                            [](void* data) { *static_cast<std::atomic<bool>*>(data) = false; });
    const Port net{bulk::Rail::net};
    const Port sm{bulk::Rail::sm};
    Registration* const r = registry.acquire_in(kId, 3, net, nullptr);
    REQUIRE(r != nullptr);
    REQUIRE(registry.acquire_in(kId, 3, sm, r) == r);
    REQUIRE(registry.acquire(kId, 3, r) == r);
    REQUIRE(registry.acquire_in(kId, 200, net, r) == r);
    REQUIRE(ok(registry.remove(kId)));
    CHECK(registry.acquire(kId, 3, r) == nullptr);
    CHECK(registry.acquire_in(kId, 3, net, r) == nullptr);
    // Uses are given back elsewhere than they were taken.
    registry.release(*r, 5);
    registry.release_in(*r, 0, sm);
    registry.settle(*r);
    registry.release_in(*r, 3, net);
    registry.settle(*r);
    CHECK(there[0]);
    registry.release(*r, 200);
    CHECK_FALSE(there[0]);
}

TEST_CASE("an RPC that is registered anew while threads use it keeps its data as long as they do",
          "[registry][threads]") {
    constexpr std::uint64_t kId = 78;
    // One that has its moment each time, or all kinds at once.
    const bool alone = GENERATE(true, false);
    const std::size_t rounds = (alone ? 20'000 : 2000) / support::kSlow;
    std::vector<std::atomic<bool>> there(rounds);
    g_there = &there;
    std::atomic<bool> early{false};
    {
        Registry registry(true);
        std::atomic<bool> done{false};
        // Two ports of one context, each with a lock of its own, one of them used by two threads;
        // and one thread that has no lock.
        std::mutex locks[2];
        const auto use = [&](Port port, std::mutex* lock) {
            Registration* guess = nullptr;
            while (!done) {
                Registration* r = nullptr;
                if (lock != nullptr) {
                    const std::lock_guard guard(*lock);
                    r = registry.acquire_in(kId, 1, port, guess);
                } else {
                    r = registry.acquire(kId, 1, guess);
                }
                guess = r;
                if (r == nullptr) {
                    continue;
                }
                early = early || !data_of(*r);
                for (int i = 0; i < (alone ? 3 : 50); ++i) {
                    na::util::cpu_relax();
                }
                early = early || !data_of(*r);
                if (lock != nullptr) {
                    {
                        const std::lock_guard guard(*lock);
                        registry.release_in(*r, 1, port);
                    }
                    registry.settle(*r);
                } else {
                    registry.release(*r, 1);
                }
            }
        };
        std::vector<std::thread> threads;
        for (const int i : alone ? std::vector{0} : std::vector{0, 1, 1}) {
            threads.emplace_back(
                [&, i] { use({i == 0 ? bulk::Rail::net : bulk::Rail::sm}, &locks[i]); });
        }
        if (!alone) {
            threads.emplace_back([&] { use({bulk::Rail::net}, nullptr); });
        }
        for (std::size_t n = 0; n < rounds; ++n) {
            there[n] = true;  // before anybody can find it
            REQUIRE(registry.add(kId, numbered(n)));
            (void)registry.set_data(
                kId, &there[n], [](void* data) { *static_cast<std::atomic<bool>*>(data) = false; });
            for (std::size_t i = 0; alone && i < n % 200; ++i) {
                na::util::cpu_relax();
            }
            if (!alone && n % 4 != 0) {
                std::this_thread::yield();
            }
            REQUIRE(ok(registry.remove(kId)));
        }
        done = true;
        for (std::thread& t : threads) {
            t.join();
        }
        CHECK_FALSE(early);
        // Nobody has any any more.
        CHECK(registry.add(kId, Registration::Functions{}));
        CHECK(ok(registry.remove(kId)));
        std::size_t left = 0;
        for (const std::atomic<bool>& one : there) {
            left += one ? 1 : 0;
        }
        CHECK(left == 0);
    }
}
