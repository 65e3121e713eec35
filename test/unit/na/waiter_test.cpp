// SPDX-License-Identifier: BSD-3-Clause
// The shared waiting machinery on a source of its own: an eventfd that signals only when armed, as
// a transport's does.
#include "na/core/progress.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/until.hpp"

using namespace std::chrono_literals;
using na::Status;
using na::Waiter;

namespace {

constexpr unsigned kForever = 600'000;  // ms; far longer than any deadline here

// Tokens come in, poll() makes them ready, threads take them.
class Source {
 public:
    Source() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (waiter.open() != Status::success || waiter.add(event_) != Status::success) {
            throw std::runtime_error("no descriptors");
        }
    }
    ~Source() { close(event_); }

    // From another thread: as a peer's message.
    void deliver() {
        const std::lock_guard guard(mutex_);
        ++incoming_;
        if (armed_) {
            const std::uint64_t one = 1;
            [[maybe_unused]] const auto n = write(event_, &one, sizeof one);
        }
    }
    // From another thread of this side: as a completion.
    void push() {
        ready_.fetch_add(1);
        waiter.wake_sleepers();
    }
    void poll() {
        waiter.disarm();
        unsigned n = 0;
        {
            const std::lock_guard guard(mutex_);
            if (armed_) {
                armed_ = false;
                std::uint64_t count = 0;
                [[maybe_unused]] const auto r = read(event_, &count, sizeof count);
            }
            n = std::exchange(incoming_, 0U);
        }
        if (n != 0) {
            ready_.fetch_add(n);
            waiter.wake_sleepers();
        }
    }
    bool arm() {
        const std::lock_guard guard(mutex_);
        armed_ = true;
        return incoming_ == 0;
    }
    bool ready() const { return ready_ != 0; }
    bool take() {
        unsigned n = ready_;
        while (n != 0 && !ready_.compare_exchange_weak(n, n - 1)) {
        }
        return n != 0;
    }
    Status wait(unsigned ms) {
        return waiter.drive(
            ms, [this] { poll(); }, [this] { return ready(); }, [this] { return arm(); });
    }
    // As an external event loop does before it sleeps on fd().
    bool try_wait() {
        waiter.set_armed();
        return !ready() && arm() && !ready();
    }
    void poll_and_leave() {
        poll();
        waiter.leave([this] { return arm(); });
    }

    Waiter waiter;

 private:
    std::mutex mutex_;
    unsigned incoming_ = 0;
    bool armed_ = false;
    const int event_;
    std::atomic<unsigned> ready_{0};
};

}  // namespace

TEST_CASE("a wait ends with its timeout", "[waiter]") {
    Source s;
    const auto start = std::chrono::steady_clock::now();
    CHECK(s.wait(0) == Status::timeout);
    CHECK(s.wait(20) == Status::timeout);
    CHECK(std::chrono::steady_clock::now() - start >= 20ms);
    CHECK(support::until([&] { return s.waiter.sleeps() > 0; }, [&] { (void)s.wait(20); }));
    s.deliver();
    CHECK(s.wait(0) == Status::success);
    CHECK(s.take());
}

TEST_CASE("without descriptors a wait only polls", "[waiter]") {
    Waiter w;
    CHECK(w.fd() == -1);
    w.wake();
    int polls = 0;
    const auto start = std::chrono::steady_clock::now();
    CHECK(w.drive(
              5, [&] { ++polls; }, [] { return false; }, [] { return true; }) == Status::timeout);
    CHECK(std::chrono::steady_clock::now() - start >= 5ms);
    CHECK(polls >= 1);
    CHECK(w.drive(
              kForever, [&] { ++polls; }, [&] { return polls > 100; }, [] { return true; }) ==
          Status::success);
}

TEST_CASE("a source without a descriptor is looked at every now and then", "[waiter]") {
    Waiter w;
    w.nap_between_polls();
    CHECK(w.fd() == -1);
    rusage before{};
    getrusage(RUSAGE_THREAD, &before);
    int polls = 0;
    CHECK(w.drive(
              500, [&] { ++polls; }, [] { return false; }, [] { return true; }) == Status::timeout);
    rusage after{};
    getrusage(RUSAGE_THREAD, &after);
    const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
    CHECK(us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime) <
          100'000);
    CHECK(polls >= 1);
    // What comes is seen soon, as the nap does not go on growing: hundreds of further naps end.
    polls = 0;
    CHECK(w.drive(
              kForever, [&] { ++polls; }, [&] { return polls > 300; }, [] { return true; }) ==
          Status::success);
}

TEST_CASE("an idle wait uses no processor time", "[waiter]") {
    Source s;
    rusage before{};
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 5; ++i) {
        CHECK(s.wait(50) == Status::timeout);
    }
    rusage after{};
    getrusage(RUSAGE_THREAD, &after);
    const auto us = [](const rusage& r) {
        return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1'000'000 + r.ru_utime.tv_usec +
               r.ru_stime.tv_usec;
    };
    CHECK(us(after) - us(before) < 60'000);
}

TEST_CASE("who spins leaves the processor to who it waits for", "[waiter][threads]") {
    cpu_set_t before;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
        }
    }
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    constexpr unsigned kRounds = 1000;
    Source s;
    std::atomic<unsigned> asked{0};
    std::thread other([&] {  // on the same processor
        for (unsigned i = 1; i <= kRounds; ++i) {
            while (asked < i) {
                std::this_thread::yield();
            }
            s.deliver();
        }
    });
    unsigned done = 0;
    for (unsigned i = 1; i <= kRounds; ++i) {
        asked = i;
        done += s.wait(kForever) == Status::success && s.take() ? 1 : 0;
    }
    other.join();
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    CHECK(done == kRounds);
    // Else each round has to wait until the time for spinning is over. (Others may have the
    // processor in between.)
    INFO(s.waiter.sleeps());
    CHECK(s.waiter.sleeps() < kRounds * 9 / 10);
}

TEST_CASE("no wake-up is lost between one sleeper and its events", "[waiter][threads]") {
    Source s;
    const unsigned count = 3000 / support::kSlow;
    std::atomic<unsigned> taken{0};
    std::thread sleeper([&] {
        while (taken < count) {
            if (s.wait(kForever) == Status::success && s.take()) {
                ++taken;
            }
        }
    });
    for (unsigned i = 0; i < count; ++i) {
        if (i % 3 == 0) {
            s.push();
        } else {
            s.deliver();
        }
        // Sometimes at once, sometimes when it is asleep.
        REQUIRE(support::until([&] { return taken > i || i % 16 != 0; },
                               [] { std::this_thread::yield(); }));
        if (i % 64 == 0) {
            std::this_thread::sleep_for(100us);
        }
    }
    CHECK(
        support::until([&] { return taken == count; }, [] { std::this_thread::sleep_for(100us); }));
    sleeper.join();
}

TEST_CASE("no wake-up is lost between several sleepers", "[waiter][threads]") {
    Source s;
    constexpr unsigned kThreads = 3;
    const unsigned count = 2000 / support::kSlow;
    std::atomic<unsigned> taken{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
            while (!stop) {
                if (s.wait(kForever) == Status::success && s.take()) {
                    ++taken;
                }
            }
        });
    }
    for (unsigned i = 0; i < count; ++i) {
        if (i % 2 == 0) {
            s.push();
        } else {
            s.deliver();
        }
        if (i % 8 == 0) {  // one after another: everybody has gone back to sleep
            REQUIRE(
                support::until([&] { return taken == i + 1; }, [] { std::this_thread::yield(); }));
        }
    }
    CHECK(
        support::until([&] { return taken == count; }, [] { std::this_thread::sleep_for(100us); }));
    stop = true;
    for (unsigned t = 0; t < kThreads; ++t) {
        s.push();
    }
    for (std::thread& t : threads) {
        t.join();
    }
}

TEST_CASE("a poll by somebody else does not put a sleeper to sleep for good", "[waiter][threads]") {
    for (const bool external : {false, true}) {
        Source s;
        for (unsigned i = 0; i < 40; ++i) {
            std::atomic<bool> woken{false};
            std::thread sleeper([&] {
                while (!s.take()) {
                    if (external) {
                        if (s.try_wait()) {
                            pollfd set{s.waiter.fd(), POLLIN, 0};
                            ::poll(&set, 1, -1);
                        }
                        s.poll();
                    } else {
                        (void)s.wait(kForever);
                    }
                }
                woken = true;
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
            s.poll_and_leave();
            if (i % 2 == 0) {
                s.poll_and_leave();
            }
            s.deliver();
            REQUIRE(support::until([&] { return woken.load(); },
                                   [] { std::this_thread::sleep_for(50us); }));
            sleeper.join();
        }
    }
}

TEST_CASE("a thread that ends its wait leaves the sources armed for the others",
          "[waiter][threads]") {
    Source s;
    for (unsigned i = 0; i < 20; ++i) {
        std::atomic<bool> woken{false};
        std::thread sleeper([&] {
            while (!s.take()) {
                (void)s.wait(kForever);
            }
            woken = true;
        });
        std::this_thread::sleep_for(1ms);
        CHECK(s.wait(0) == Status::timeout);
        CHECK(s.wait(1) == Status::timeout);
        s.deliver();
        REQUIRE(support::until([&] { return woken.load(); },
                               [] { std::this_thread::sleep_for(50us); }));
        sleeper.join();
    }
}

// Nobody takes it back at the end of a wait that was over already.
TEST_CASE("a signal that nobody waited for ends one sleep, and no further one", "[waiter]") {
    Source s;
    CHECK(s.wait(2) == Status::timeout);
    s.waiter.wake();
    const std::uint64_t before = s.waiter.sleeps();
    const auto start = std::chrono::steady_clock::now();
    CHECK(s.wait(20) == Status::timeout);
    CHECK(std::chrono::steady_clock::now() - start >= 20ms);
    for (unsigned i = 0; i < 4; ++i) {
        CHECK(s.wait(2) == Status::timeout);
    }
    // Who does not get the processor until the time is over has not slept at all.
    CHECK(s.waiter.sleeps() - before <= 5 + 1);
}

TEST_CASE("a descriptor can be left out again", "[waiter]") {
    Waiter w;
    REQUIRE(w.open() == Status::success);
    const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    REQUIRE(w.add(fd) == Status::success);
    pollfd set{w.fd(), POLLIN, 0};
    CHECK(::poll(&set, 1, 0) == 1);
    w.remove(fd);
    CHECK(::poll(&set, 1, 0) == 0);
    close(fd);
}

// A poll may be a system call or two: who calls with a time-out again and again, as servers do, and
// never gets anything, shall not pay for many of them each time.
TEST_CASE("an idle context polls a few times per call", "[na]") {
    constexpr unsigned kCalls = 30;
    Waiter waiter;
    REQUIRE(waiter.open() == Status::success);
    unsigned polls = 0;
    const auto call = [&] {
        return waiter.drive(
            2,
            [&] {
                ++polls;
                const auto end = std::chrono::steady_clock::now() + 2us;
                while (std::chrono::steady_clock::now() < end) {
                }
            },
            [] { return false; }, [] { return true; });
    };
    for (unsigned i = 0; i < 10; ++i) {  // its budget shrinks to the least
        CHECK(call() == Status::timeout);
    }
    polls = 0;
    for (unsigned i = 0; i < kCalls; ++i) {
        CHECK(call() == Status::timeout);
    }
    // One to begin with, one after the sleep.
    CHECK(polls <= 2 * kCalls);
}
