// SPDX-License-Identifier: BSD-3-Clause
// Waiting: a blocked thread wakes for every event, an idle one uses no processor time, descriptors
// can be slept on.
//
// Sleeps here last far longer than any deadline: a lost wake-up fails, it does not only slow down.
#include <atomic>
#include <chrono>
#include <thread>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common.hpp"

using namespace na_test;
using namespace std::chrono_literals;

namespace {

constexpr unsigned kForever = 600'000;  // ms

// Of the whole process: a library beneath may have threads of its own.
double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Blocks in NA_Progress, triggers, until `done`.
template <typename Done>
void drive(Endpoint& e, Done&& done, std::size_t context = 0) {
    while (!done()) {
        NA_Progress(e.cls(), e.context(context), kForever);
        NA_Trigger(e.context(context), 100, nullptr);
    }
}

// Waits for a flag of another thread without making progress for it.
bool reached(const std::atomic<bool>& flag) {
    return until([&] { return flag.load(); }, [] { std::this_thread::sleep_for(1ms); });
}

// Blocks on the descriptor as an external event loop does.
template <typename Done>
void drive_by_epoll(Endpoint& e, Done&& done) {
    const int fd = NA_Poll_get_fd(e.cls(), e.context());
    const int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    while (!done()) {
        unsigned n = 1;
        while (n != 0 && !done()) {
            NA_Trigger(e.context(), 1, &n);
        }
        if (done()) {
            break;
        }
        if (NA_Poll_try_wait(e.cls(), e.context())) {
            epoll_wait(set, &event, 1, -1);
        }
        NA_Poll(e.cls(), e.context(), nullptr);
    }
    close(set);
}

// Request and answer `rounds` times, each side driven by its own thread through `loop`.
template <typename Loop>
void ping_pong(Pair& p, unsigned rounds, Loop&& loop) {
    Buffer a_out(p.a);
    Buffer a_in(p.a);
    Buffer b_out(p.b);
    Buffer b_in(p.b);
    std::atomic<bool> finished{false};
    std::thread server([&] {
        unsigned received = 0;
        unsigned answered = 0;
        Op recv(p.b);
        Op send(p.b);
        recv.on_result = [&](Op&, const Result& r) {
            ++received;
            send.reset();
            if (send.send_expected(b_out, p.b.header(true) + 8, p.to_a, r.tag) != NA_SUCCESS) {
                std::abort();
            }
        };
        send.on_result = [&](Op&, const Result&) {
            ++answered;
            if (answered < rounds) {
                recv.reset();
                if (recv.recv_unexpected(b_in) != NA_SUCCESS) {
                    std::abort();
                }
            }
        };
        if (recv.recv_unexpected(b_in) != NA_SUCCESS) {
            std::abort();
        }
        loop(p.b, [&] { return answered == rounds; });
    });
    std::thread client([&] {
        Op send(p.a);
        Op recv(p.a);
        for (unsigned i = 0; i < rounds; ++i) {
            recv.reset();
            send.reset();
            if (recv.recv_expected(a_in, p.to_b, i) != NA_SUCCESS ||
                send.send_unexpected(a_out, p.a.header() + 8, p.to_b, i) != NA_SUCCESS) {
                std::abort();
            }
            loop(p.a, [&] { return recv.done() && send.done(); });
        }
        finished = true;
    });
    CHECK(reached(finished));
    client.join();
    server.join();
}

}  // namespace

TEST_CASE("waiting ends with NA_TIMEOUT, not early", "[wait]") {
    Endpoint e;
    for (const unsigned ms : {0U, 1U, 30U}) {
        const auto start = std::chrono::steady_clock::now();
        CHECK(NA_Progress(e.cls(), e.context(), ms) == NA_TIMEOUT);
        CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(ms));
        unsigned count = 99;
        CHECK(NA_Poll_wait(e.cls(), e.context(), ms, &count) == NA_TIMEOUT);
        CHECK(count == 0);
    }
}

TEST_CASE("an idle context uses no processor time", "[wait]") {
    Pair p;
    // With a connection, and a receive posted.
    Buffer in(p.b);
    Buffer out(p.a);
    Op recv(p.b);
    Op send(p.a);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, 1), p.to_b, 1) == NA_SUCCESS);
    REQUIRE(until([&] { return recv.done() && send.done(); }, [&] { p.pump(); }));
    recv.reset();
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    const double before = cpu_seconds();
    for (int i = 0; i < 4; ++i) {
        CHECK(NA_Progress(p.b.cls(), p.b.context(), 100) == NA_TIMEOUT);
    }
    CHECK(cpu_seconds() - before < 0.1);
}

TEST_CASE("completions that wait are not slept over", "[wait]") {
    Pair p;
    Buffer in(p.b);
    Op recv(p.b);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(recv.cancel() == NA_SUCCESS);
    REQUIRE(until([&] { return NA_Context_get_completion_count(p.b.context()) == 1; },
                  [&] { NA_Poll(p.b.cls(), p.b.context(), nullptr); }));
    CHECK_FALSE(NA_Poll_try_wait(p.b.cls(), p.b.context()));
    unsigned count = 0;
    CHECK(NA_Poll_wait(p.b.cls(), p.b.context(), kForever, &count) == NA_SUCCESS);
    CHECK(count == 1);
    CHECK(NA_Poll(p.b.cls(), p.b.context(), &count) == NA_SUCCESS);
    CHECK(count == 1);
    unsigned ran = 0;
    CHECK(NA_Trigger(p.b.context(), 0, &ran) == NA_SUCCESS);
    CHECK(ran == 0);
    CHECK(NA_Trigger(p.b.context(), 10, &ran) == NA_SUCCESS);
    CHECK(ran == 1);
    CHECK(recv.ret() == NA_CANCELED);
}

TEST_CASE("two blocked sides wake each other", "[wait]") {
    Pair p;
    ping_pong(p, 1500 / support::kSlow, [](Endpoint& e, auto done) { drive(e, done); });
}

TEST_CASE("two external event loops wake each other", "[wait]") {
    Pair p;
    if (NA_Poll_get_fd(p.a.cls(), p.a.context()) < 0) {
        support::skip("no descriptor to wait on");
        return;
    }
    ping_pong(p, 1500 / support::kSlow, [](Endpoint& e, auto done) { drive_by_epoll(e, done); });
}

TEST_CASE("a blocked and an external side wake each other", "[wait]") {
    Pair p;
    if (NA_Poll_get_fd(p.a.cls(), p.a.context()) < 0) {
        support::skip("no descriptor to wait on");
        return;
    }
    ping_pong(p, 1000 / support::kSlow, [&](Endpoint& e, auto done) {
        if (&e == &p.a) {
            drive(e, done);
        } else {
            drive_by_epoll(e, done);
        }
    });
}

TEST_CASE("a blocked thread wakes although another one polls its context", "[wait][threads]") {
    Pair p;
    Buffer in(p.b);
    Buffer out(p.a);
    for (unsigned i = 0; i < 30; ++i) {
        Op recv(p.b);
        Op send(p.a);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        std::atomic<bool> woken{false};
        std::thread sleeper([&] {
            drive(p.b, [&] { return recv.done(); });
            woken = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
        // Polls that see nothing, between its going to sleep and the event.
        NA_Poll(p.b.cls(), p.b.context(), nullptr);
        NA_Progress(p.b.cls(), p.b.context(), 0);
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, i), p.to_b, i) == NA_SUCCESS);
        CHECK(until([&] { return woken.load(); }, [&] { p.a.pump(); }));
        sleeper.join();
        REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
    }
}

TEST_CASE("a thread that sleeps on the descriptor wakes although another one polls",
          "[wait][threads]") {
    Pair p;
    if (NA_Poll_get_fd(p.b.cls(), p.b.context()) < 0) {
        support::skip("no descriptor to wait on");
        return;
    }
    Buffer in(p.b);
    Buffer out(p.a);
    for (unsigned i = 0; i < 30; ++i) {
        Op recv(p.b);
        Op send(p.a);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        std::atomic<bool> woken{false};
        std::thread sleeper([&] {
            drive_by_epoll(p.b, [&] { return recv.done(); });
            woken = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
        NA_Poll(p.b.cls(), p.b.context(), nullptr);
        NA_Progress(p.b.cls(), p.b.context(), 0);
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, i), p.to_b, i) == NA_SUCCESS);
        CHECK(until([&] { return woken.load(); }, [&] { p.a.pump(); }));
        sleeper.join();
        REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
    }
}

TEST_CASE("a blocked sender wakes when a full receiver has room again",
          "[wait][backpressure][threads]") {
    Pair p;
    constexpr unsigned kCount = 2000;
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 100, 1);
    std::vector<std::unique_ptr<Op>> ops;
    for (unsigned i = 0; i < kCount; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
    }
    std::atomic<bool> woken{false};
    std::thread sender([&] {
        drive(p.a, [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        });
        woken = true;
    });
    Buffer in(p.b);
    Op recv(p.b);
    unsigned received = 0;
    recv.on_result = [&](Op& op, const Result&) {
        if (++received < kCount) {
            op.reset();
            REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    CHECK(until([&] { return received == kCount && woken; }, [&] { p.b.pump(); },
                [] { std::this_thread::sleep_for(100us); }));
    sender.join();
}

TEST_CASE("a post by another thread wakes the one that sleeps", "[wait][threads]") {
    Pair p;
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 10, 1);
    Buffer in(p.b);
    for (unsigned i = 0; i < 20; ++i) {
        Op send(p.a);
        Op recv(p.b);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        std::atomic<bool> woken{false};
        std::thread sleeper([&] {
            drive(p.a, [&] { return send.done(); });
            woken = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
        REQUIRE(send.send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
        CHECK(until([&] { return woken.load() && recv.done(); }, [&] { p.b.pump(); }));
        sleeper.join();
    }
}

TEST_CASE("a cancel by another thread wakes the one that sleeps", "[wait][cancel][threads]") {
    Endpoint e;
    Buffer in(e);
    for (unsigned i = 0; i < 20; ++i) {
        Op recv(e);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        std::atomic<bool> woken{false};
        std::thread sleeper([&] {
            drive(e, [&] { return recv.done(); });
            woken = true;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
        REQUIRE(recv.cancel() == NA_SUCCESS);
        CHECK(reached(woken));
        sleeper.join();
        CHECK(recv.ret() == NA_CANCELED);
    }
}

TEST_CASE("several threads asleep in one context all get their messages", "[wait][threads]") {
    Pair p;
    constexpr unsigned kThreads = 3;
    constexpr unsigned kCount = 300;
    std::atomic<unsigned> received{0};
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recv;
    for (unsigned i = 0; i < kThreads; ++i) {
        in.push_back(std::make_unique<Buffer>(p.b));
        recv.push_back(std::make_unique<Op>(p.b));
        recv.back()->on_result = [&, i](Op& op, const Result&) {
            if (received.fetch_add(1) + 1 + kThreads <= kCount) {
                op.reset();
                if (op.recv_unexpected(*in[i]) != NA_SUCCESS) {
                    std::abort();
                }
            }
        };
        REQUIRE(recv.back()->recv_unexpected(*in.back()) == NA_SUCCESS);
    }
    std::atomic<unsigned> left{kThreads};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            // Shorter waits here: at the end nothing comes for most of them.
            while (received < kCount) {
                NA_Progress(p.b.cls(), p.b.context(), 50);
                NA_Trigger(p.b.context(), 100, nullptr);
            }
            --left;
        });
    }
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 10, 1);
    for (unsigned i = 0; i < kCount; ++i) {
        Op send(p.a);
        REQUIRE(send.send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done(); }, [&] { p.a.pump(); }));
    }
    CHECK(until([&] { return left == 0; }, [&] { p.a.pump(); }));
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(received == kCount);
}

TEST_CASE("with NA_NO_BLOCK nothing sleeps", "[wait]") {
    Endpoint::Settings busy;
    busy.init.progress_mode = NA_NO_BLOCK;
    Pair p(busy, Endpoint::Settings{});
    CHECK(NA_Poll_get_fd(p.a.cls(), p.a.context()) == -1);
    CHECK_FALSE(NA_Poll_try_wait(p.a.cls(), p.a.context()));
    CHECK(NA_Progress(p.a.cls(), p.a.context(), 0) == NA_TIMEOUT);
    CHECK(NA_Progress(p.a.cls(), p.a.context(), 20) == NA_TIMEOUT);
    // A busy side and a blocked one talk to each other, in both roles.
    ping_pong(p, 300 / support::kSlow, [](Endpoint& e, auto done) { drive(e, done); });
    Pair q(Endpoint::Settings{}, busy);
    ping_pong(q, 300 / support::kSlow, [](Endpoint& e, auto done) { drive(e, done); });
}

TEST_CASE("the descriptor is readable when there is something to do", "[wait]") {
    Pair p;
    const int fd = NA_Poll_get_fd(p.b.cls(), p.b.context());
    if (fd < 0) {
        support::skip("no descriptor to wait on");
        return;
    }
    Buffer in(p.b);
    Buffer out(p.a);
    Op recv(p.b);
    Op send(p.a);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    // Connection set-up may make events: until all is quiet.
    REQUIRE(until([&] { return NA_Poll_try_wait(p.b.cls(), p.b.context()); }, [&] { p.pump(); }));
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, 1), p.to_b, 1) == NA_SUCCESS);
    REQUIRE(until(
        [&] {
            pollfd set{fd, POLLIN, 0};
            return poll(&set, 1, 0) == 1;
        },
        [&] { p.a.pump(); }));
    REQUIRE(until([&] { return recv.done() && send.done(); }, [&] { p.pump(); }));
    // And quiet again soon: a stale signal may wake once, not for ever.
    CHECK(until(
        [&] {
            pollfd set{fd, POLLIN, 0};
            return NA_Poll_try_wait(p.b.cls(), p.b.context()) && poll(&set, 1, 0) == 0;
        },
        [&] { p.pump(); }));
}
