// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/lock.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "na/util/biased_lock.hpp"

using na::util::BiasedLock;
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

#ifndef NDEBUG
namespace {

// How a process ends whose two threads are inside one lock of a class that was opened for one.
template <typename Lock>
int two_inside() {
    const pid_t child = fork();
    if (child == 0) {
        Lock lock(false);
        lock.lock();
        lock.lock();  // the same thread may come in again
        lock.unlock();
        std::thread([&] { lock.lock(); }).join();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

template <typename Lock>
void one_after_another() {
    Lock lock(false);
    for (int i = 0; i < 3; ++i) {
        std::thread([&] { const std::lock_guard guard(lock); }).join();
    }
}

}  // namespace

TEST_CASE("a debug build reports two threads in a class for one", "[lock]") {
    CHECK(two_inside<OptionalLock>() == SIGABRT);
    CHECK(two_inside<BiasedLock>() == SIGABRT);
    one_after_another<OptionalLock>();
    one_after_another<BiasedLock>();
}
#endif
