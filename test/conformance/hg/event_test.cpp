// SPDX-License-Identifier: BSD-3-Clause
// Waiting: blocking progress and trigger, the event interface with epoll, wake-ups from other
// threads.
#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;
using Clock = std::chrono::steady_clock;

namespace {

long long milliseconds_since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

// Serves a side with blocking progress until told to stop.
class Server {
 public:
    explicit Server(Side& side) : side_(side), thread_([this] { run(); }) {}
    ~Server() {
        stop_ = true;
        thread_.join();
    }

 private:
    void run() {
        while (!stop_) {
            HG_Progress(side_.context(), 20);
            unsigned n = 0;
            while (HG_Trigger(side_.context(), 0, 16, &n) == HG_SUCCESS && n != 0) {
            }
        }
    }
    Side& side_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace

// With one thread trigger does not wait: nobody could complete anything meanwhile.
TEST_CASE("progress and trigger wait as long as they are told, and no longer than needed",
          "[threads]") {
    Side side;
    auto start = Clock::now();
    CHECK(HG_Progress(side.context(), 50) == HG_TIMEOUT);
    CHECK(milliseconds_since(start) >= 50);
    start = Clock::now();
    unsigned n = 5;
    CHECK(HG_Trigger(side.context(), 50, 1, &n) == HG_TIMEOUT);
    CHECK(milliseconds_since(start) >= 50);
    CHECK(n == 0);
    CHECK(HG_Trigger(side.context(), 0, 0, &n) == HG_SUCCESS);
    CHECK(HG_Progress(side.context(), 0) == HG_TIMEOUT);
    CHECK(HG_Event_trigger(side.context(), 10, &n) == HG_SUCCESS);
    CHECK(n == 0);
    CHECK(HG_Event_progress(side.context(), &n) == HG_SUCCESS);
    CHECK(n == 0);
}

TEST_CASE("an idle context uses no processor time") {
    Side side;
    if (HG_Event_get_wait_fd(side.context()) < 0) {
        support::skip("the transport cannot be waited on");
        return;
    }
    (void)HG_Progress(side.context(), 20);
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    CHECK(HG_Progress(side.context(), 400) == HG_TIMEOUT);
    rusage after{};
    getrusage(RUSAGE_SELF, &after);
    const auto used = [](const rusage& u) {
        return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
               (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
    };
    CHECK(used(after) - used(before) < 100);
}

TEST_CASE("blocking progress on both sides") {
    Pair pair;
    const Server server(pair.b);
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (unsigned i = 0; i < 300 / support::kSlow; ++i) {
        Blob in = blob(i, i % 7 == 0 ? 70'000 : 20);
        call.reset();
        REQUIRE(call.forward(in) == HG_SUCCESS);
        const auto deadline = Clock::now() + support::kDeadline;
        while (!call.done() && Clock::now() < deadline) {
            (void)HG_Progress(pair.a.context(), 1000);
            unsigned n = 0;
            (void)HG_Trigger(pair.a.context(), 0, 1, &n);
        }
        REQUIRE(call.ret() == HG_SUCCESS);
        REQUIRE(call.out().number == i + 1);
    }
}

TEST_CASE("the event interface with epoll: no event is missed") {
    Pair pair;
    const int fd = HG_Event_get_wait_fd(pair.a.context());
    if (fd < 0) {
        support::skip("the transport cannot be waited on");
        return;
    }
    const Server server(pair.b);
    const int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) {
        // The decorator's set is one too many of those that the kernel follows.
        REQUIRE((errno == ELOOP && support::options().protocol.starts_with("fault+")));
        close(set);
        support::skip("too many epoll sets within each other");
        return;
    }
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (unsigned i = 0; i < 500 / support::kSlow; ++i) {
        Blob in = blob(i, i % 9 == 0 ? 70'000 : 20);
        call.reset();
        REQUIRE(call.forward(in) == HG_SUCCESS);
        while (!call.done()) {
            if (!HG_Event_ready(pair.a.context())) {
                REQUIRE(support::uninterrupted([&] {
                            return epoll_wait(set, &event, 1,
                                              static_cast<int>(support::kDeadline.count()) * 1000);
                        }) == 1);
            }
            unsigned due = 0;
            REQUIRE(HG_Event_progress(pair.a.context(), &due) == HG_SUCCESS);
            unsigned ran = 0;
            if (due != 0) {
                REQUIRE(HG_Event_trigger(pair.a.context(), due, &ran) == HG_SUCCESS);
                REQUIRE(ran >= 1);
            }
        }
        REQUIRE(call.ret() == HG_SUCCESS);
    }
    close(set);
}

TEST_CASE("a completion made by another thread wakes who sleeps in progress, and on the descriptor",
          "[threads]") {
    Side side;
    const int fd = HG_Event_get_wait_fd(side.context());
    struct Found {
        hg_class_t* cls;
        std::atomic<unsigned> count{0};
    } found{side.cls()};
    const auto on_found = [](const struct hg_cb_info* info) -> hg_return_t {
        auto& f = *static_cast<Found*>(info->arg);
        ++f.count;
        return HG_Addr_free(f.cls, info->info.lookup.addr);
    };
    // A lookup completes at once, through the completion queue, on the thread that asks for it.
    const auto later = [&] {
        return std::thread([&] {
            std::this_thread::sleep_for(
                std::chrono::milliseconds(100));  // let the other one fall asleep
            HG_Addr_lookup1(side.context(), on_found, &found, side.uri().c_str(), nullptr);
        });
    };
    unsigned n = 0;
    {
        std::thread t = later();
        CHECK(HG_Progress(side.context(), 10'000) == HG_SUCCESS);
        t.join();
        CHECK(HG_Trigger(side.context(), 0, 1, &n) == HG_SUCCESS);
    }
    {
        std::thread t = later();
        CHECK(HG_Trigger(side.context(), 10'000, 1, &n) == HG_SUCCESS);
        t.join();
    }
    if (fd >= 0) {
        CHECK(!HG_Event_ready(side.context()));
        std::thread t = later();
        pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
        CHECK(support::uninterrupted([&] { return poll(&p, 1, 10'000); }) == 1);
        t.join();
        CHECK(HG_Event_progress(side.context(), &n) == HG_SUCCESS);
        CHECK(n == 1);
        CHECK(HG_Event_trigger(side.context(), 5, &n) == HG_SUCCESS);
    }
    CHECK(found.count == (fd >= 0 ? 3 : 2));
}

TEST_CASE("one thread progresses, another triggers", "[threads]") {
    Pair pair;
    const Server server(pair.b);
    std::atomic<bool> stop{false};
    std::thread progress([&] {
        while (!stop) {
            (void)HG_Progress(pair.a.context(), 10);
            if (HG_Event_ready(pair.a.context())) {
                std::this_thread::yield();
            }
        }
    });
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (unsigned i = 0; i < 200 / support::kSlow; ++i) {
        Blob in = blob(i, 20);
        call.reset();
        REQUIRE(call.forward(in) == HG_SUCCESS);
        const auto deadline = Clock::now() + support::kDeadline;
        while (!call.done() && Clock::now() < deadline) {
            unsigned n = 0;
            (void)HG_Trigger(pair.a.context(), 1000, 1, &n);
        }
        REQUIRE(call.ret() == HG_SUCCESS);
    }
    stop = true;
    progress.join();
}

// A poll ends the effect of an arm, also of another thread's: who polls and goes passes the duty
// on.
TEST_CASE("a single poll by somebody else does not put a sleeper to sleep for good", "[threads]") {
    Pair pair;
    if (HG_Event_get_wait_fd(pair.b.context()) < 0) {
        support::skip("the transport cannot be waited on");
        return;
    }
    std::atomic<bool> stop{false};
    std::thread sleeper([&] {
        while (!stop) {
            // Far longer than any deadline.
            (void)HG_Progress(pair.b.context(), 600'000);
            unsigned n = 0;
            while (HG_Trigger(pair.b.context(), 0, 16, &n) == HG_SUCCESS && n != 0) {
            }
        }
    });
    Call call(pair.a, pair.to_b, pair.a.empty);
    const auto ask = [&] {
        call.reset();
        return call.forward() == HG_SUCCESS &&
               support::until([&] { return call.done(); }, [&] { pair.a.pump(); });
    };
    bool answered = true;
    for (unsigned i = 0; i < 20 && answered; ++i) {
        // Only to let the other one fall asleep: where it does not, the case finds nothing.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        unsigned due = 0;
        (void)HG_Event_progress(pair.b.context(), &due);
        answered = ask();
    }
    CHECK(answered);
    stop = true;
    // Woken in any case, so that the case ends.
    (void)HG_Addr_lookup1(
        pair.b.context(),
        [](const struct hg_cb_info* info) -> hg_return_t {
            return HG_Addr_free(static_cast<hg_class_t*>(info->arg), info->info.lookup.addr);
        },
        pair.b.cls(), pair.b.uri().c_str(), nullptr);
    sleeper.join();
}
