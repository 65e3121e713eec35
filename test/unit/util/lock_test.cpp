// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/lock.hpp"

#include <catch2/catch.hpp>
#include <mutex>
#include <thread>
#include <vector>

using na::util::OptionalLock;

TEST_CASE("an enabled lock excludes", "[lock]") {
    OptionalLock lock(true);
    CHECK(lock.enabled());
    CHECK(lock.try_lock());
    CHECK_FALSE(lock.try_lock());
    lock.unlock();
    long counter = 0;  // not atomic: the lock has to do it
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 5000; ++i) {
                if (t % 2 == 0) {
                    const std::lock_guard guard(lock);
                    ++counter;
                } else {
                    while (!lock.try_lock()) {
                        std::this_thread::yield();
                    }
                    ++counter;
                    lock.unlock();
                }
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(counter == 20000);
}

TEST_CASE("a disabled lock does nothing", "[lock]") {
    OptionalLock lock(false);
    CHECK_FALSE(lock.enabled());
    lock.lock();
    CHECK(lock.try_lock());
    lock.lock();
    lock.unlock();
}
