// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/biased_lock.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "support/options.hpp"

using na::util::BiasedLock;

namespace {

void take(BiasedLock& lock, std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) {
        const std::lock_guard guard(lock);
    }
}
void rest(unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
        na::util::cpu_relax();
    }
}
void elsewhere(auto&& what) {
    std::thread(what).join();
}

}  // namespace

TEST_CASE("a disabled biased lock does nothing", "[biased_lock]") {
    BiasedLock lock(false);
    CHECK_FALSE(lock.enabled());
    lock.lock();
    CHECK(lock.try_lock());
    lock.lock();
    lock.unlock();
    CHECK_FALSE(lock.granted());
}

TEST_CASE("who takes a lock often is granted it, until another comes", "[biased_lock]") {
    if (!na::util::has_process_fence()) {
        WARN("no membarrier(2) here, or under ThreadSanitizer: locks are never granted");
        BiasedLock lock(true);
        take(lock, 10 * BiasedLock::kFirstRow);
        CHECK_FALSE(lock.granted());
        return;
    }
    BiasedLock lock(true);
    CHECK(lock.enabled());
    std::uint32_t row = BiasedLock::kFirstRow;
    for (int grants = 0; grants < 12; ++grants) {
        INFO("after " << grants << " grants");
        take(lock, row - 1);
        CHECK_FALSE(lock.granted());
        take(lock, 3);
        CHECK(lock.granted());
        take(lock, 5);
        elsewhere([&] { CHECK((lock.try_lock() && (lock.unlock(), true))); });
        CHECK_FALSE(lock.granted());
        row = std::min(row * BiasedLock::kLonger, BiasedLock::kLongestRow);
    }
    // To so many threads, all of which are there, so that none is taken for another.
    BiasedLock popular(true);
    unsigned granted = 0;
    std::vector<std::thread> threads;
    std::mutex turn;
    std::atomic<unsigned> had_it{0};
    for (unsigned i = 0; i < BiasedLock::kCells + 2; ++i) {
        threads.emplace_back([&] {
            {
                const std::lock_guard guard(turn);
                take(popular, BiasedLock::kLongestRow + 1);
                granted += popular.granted() ? 1 : 0;
            }
            for (++had_it; had_it != BiasedLock::kCells + 2;) {
                std::this_thread::yield();
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(granted == BiasedLock::kCells);
    // Not a row.
    BiasedLock shared(true);
    for (std::uint32_t i = 0; i < 8; ++i) {
        take(shared, BiasedLock::kFirstRow / 2);
        elsewhere([&] { take(shared, 1); });
    }
    CHECK_FALSE(shared.granted());
}

TEST_CASE("a biased lock that is held is held, whoever asks", "[biased_lock]") {
    const bool granted = GENERATE(false, true);
    BiasedLock lock(true);
    if (granted) {
        take(lock, BiasedLock::kFirstRow + 1);
    }
    const auto try_elsewhere = [&] {
        bool got = false;
        elsewhere([&] {
            got = lock.try_lock();
            if (got) {
                lock.unlock();
            }
        });
        return got;
    };
    REQUIRE(lock.try_lock());
    CHECK_FALSE(lock.try_lock());
    CHECK_FALSE(try_elsewhere());
    lock.unlock();
    CHECK(try_elsewhere());
    lock.lock();
    CHECK_FALSE(lock.try_lock());
    CHECK_FALSE(try_elsewhere());
    lock.unlock();
    // Also by who has been granted it just then.
    BiasedLock fresh(true);
    for (std::uint32_t i = 0; i < BiasedLock::kFirstRow + 2; ++i) {
        const std::lock_guard guard(fresh);
        REQUIRE_FALSE(fresh.try_lock());
    }
    elsewhere([&] { take(fresh, 1); });
    // Who waits for the owner gets it, and the owner waits for him.
    if (granted) {
        take(lock, BiasedLock::kFirstRow * BiasedLock::kLonger + 1);
    }
    lock.lock();
    std::atomic<int> step{0};
    std::thread other([&] {
        step = 1;
        const std::lock_guard guard(lock);
        step = 2;
        for (int i = 0; i < 100; ++i) {
            std::this_thread::yield();
        }
        step = 3;
    });
    while (step != 1) {
        std::this_thread::yield();
    }
    for (int i = 0; i < 100; ++i) {
        std::this_thread::yield();
        REQUIRE(step == 1);
    }
    lock.unlock();
    while (step < 2) {
        std::this_thread::yield();
    }
    lock.lock();
    CHECK(step == 3);
    lock.unlock();
    other.join();
}

TEST_CASE("a biased lock excludes, whoever is granted it and however often that is revoked",
          "[biased_lock][threads]") {
    struct Guarded {
        BiasedLock lock{true};
        long number = 0;  // not atomic: the lock has to do it
        long twice = 0;
    };
    const auto touch = [](Guarded& g) {
        const bool whole = g.twice == 2 * g.number;
        ++g.number;
        g.twice += 2;
        return whole;
    };
    const long rows = 2000 / support::kSlow;
    std::atomic<bool> whole{true};
    std::atomic<long> total{0};
    // Each lock has an owner for a while, others that look in, by either function, and one that
    // comes when the owner is most likely in the middle.
    std::vector<Guarded> all(32);
    std::atomic<std::size_t> at{0};
    std::atomic<bool> done{false};
    const auto look_in = [&](bool by_try) {
        long mine = 0;
        while (!done) {
            Guarded& g = all[at.load(std::memory_order_relaxed) % all.size()];
            if (!by_try) {
                const std::lock_guard guard(g.lock);
                whole = touch(g) && whole;
                ++mine;
            } else if (g.lock.try_lock()) {
                whole = touch(g) && whole;
                ++mine;
                g.lock.unlock();
            }
            rest(100);
        }
        total += mine;
    };
    std::thread trier([&] { look_in(true); });
    std::thread taker([&] { look_in(false); });
    for (long i = 0; i < rows; ++i) {
        Guarded& g = all[at.load(std::memory_order_relaxed) % all.size()];
        for (int n = 0; n < 3000; ++n) {
            const std::lock_guard guard(g.lock);
            whole = touch(g) && whole;
        }
        total += 3000;
        if (i % 8 == 7) {
            at.fetch_add(1);
        }
    }
    done = true;
    trier.join();
    taker.join();
    CHECK(whole);
    long sum = 0;
    for (const Guarded& g : all) {
        CHECK(g.twice == 2 * g.number);
        sum += g.number;
    }
    CHECK(sum == total);
}

// The moment in which it goes wrong if a fence is missing: the owner is about to enter while
// another revokes. Each lock has that once, so there are many.
TEST_CASE("the owner of a biased lock is not inside when it was revoked",
          "[biased_lock][threads]") {
    struct Guarded {
        BiasedLock lock{true};
        long number = 0;
        // As slow as it takes for others to come in between.
        void add(unsigned turns) {
            const long before = number;
            rest(turns);
            number = before + 1;
        }
    };
    const std::size_t rounds = 8'000 / support::kSlow;
    constexpr int kTurns = 40;
    std::vector<Guarded> all(rounds);
    std::atomic<std::size_t> at{0};
    std::atomic<std::size_t> taken{0};
    std::thread other([&] {
        for (std::size_t i = 0; i < rounds; ++i) {
            for (int turns = 0; at.load(std::memory_order_acquire) <= i; ++turns) {
                turns < 1000 ? na::util::cpu_relax() : std::this_thread::yield();
            }
            rest(static_cast<unsigned>(i % 40));
            {
                const std::lock_guard guard(all[i].lock);
                all[i].add(20);
            }
            taken.store(i + 1, std::memory_order_release);
        }
    });
    for (std::size_t i = 0; i < rounds; ++i) {
        take(all[i].lock, BiasedLock::kFirstRow + 1);
        at.store(i + 1, std::memory_order_release);
        for (int n = 0; n < kTurns; ++n) {
            const std::lock_guard guard(all[i].lock);
            all[i].add(2);
        }
        while (taken.load(std::memory_order_acquire) <= i) {
            std::this_thread::yield();
        }
    }
    other.join();
    std::size_t wrong = 0;
    for (const Guarded& g : all) {
        wrong += g.number != kTurns + 1 ? 1 : 0;
    }
    CHECK(wrong == 0);
}
