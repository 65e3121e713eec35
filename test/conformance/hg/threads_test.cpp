// SPDX-License-Identifier: BSD-3-Clause
// Many threads on one context, and on contexts of their own.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "conformance/hg/side.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

// Threads that do one thing until they are told to stop.
class Crew {
 public:
    template <typename Do>
    void add(Do what) {
        threads_.emplace_back([this, what] {
            while (!stop_.load(std::memory_order_relaxed)) {
                what();
            }
        });
    }
    ~Crew() { stop(); }
    void stop() {
        stop_ = true;
        for (std::thread& t : threads_) {
            if (t.joinable()) {
                t.join();
            }
        }
    }

 private:
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

void turn(hg_context_t* context, unsigned timeout_ms) {
    (void)HG_Progress(context, timeout_ms);
    unsigned n = 0;
    while (HG_Trigger(context, 0, 4, &n) == HG_SUCCESS && n != 0) {
    }
}

constexpr unsigned kThreads = 4;
constexpr unsigned kCalls = 400 / support::kSlow;

// A thread that does nothing but one call sleeps in that call.
bool sleeps(pid_t tid) {
    std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t end = line.rfind(')');  // of the name, which the state follows
    return end != std::string::npos && line.size() > end + 2 && line[end + 2] == 'S';
}

// Answers an echo without touching the side: many threads run it.
hg_return_t on_parallel(hg_handle_t h) {
    Blob b;
    hg_return_t ret = HG_Get_input(h, &b);
    if (ret == HG_SUCCESS) {
        Blob out{b.number + 1, b.bytes};
        HG_Free_input(h, &b);
        ret = HG_Respond(h, nullptr, nullptr, &out);
    }
    HG_Destroy(h);
    return ret;
}

// Answers at length, whatever was asked.
hg_return_t on_lengthy(hg_handle_t h) {
    Blob out = blob(1, 70'000);
    const hg_return_t ret = HG_Respond(h, nullptr, nullptr, &out);
    HG_Destroy(h);
    return ret;
}

}  // namespace

TEST_CASE("several threads forward, progress and trigger on one context", "[threads]") {
    Pair pair;
    const hg_id_t id = HG_Register_name(pair.a.cls(), "parallel", proc_blob, proc_blob, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "parallel", proc_blob, proc_blob, on_parallel) == id);
    std::atomic<unsigned> good{0};
    {
        Crew crew;
        crew.add([&] { turn(pair.b.context(), 10); });
        crew.add([&] { turn(pair.b.context(), 10); });
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                Call call(pair.a, pair.to_b, id);
                call.decode_output = true;
                for (unsigned i = 0; i < kCalls; ++i) {
                    const std::size_t size = i % 16 == 0 ? 70'000 : i % 200;
                    const std::uint64_t number = t * 1'000'000 + i;
                    Blob in = blob(number, size);
                    call.reset();
                    if (call.forward(in) != HG_SUCCESS) {
                        return;
                    }
                    if (!support::until([&] { return call.done(); },
                                        [&] { turn(pair.a.context(), 5); })) {
                        return;
                    }
                    good +=
                        call.ret() == HG_SUCCESS && is_blob(call.out(), number + 1, size, number)
                            ? 1
                            : 0;
                }
            });
        }
        for (std::thread& t : threads) {
            t.join();
        }
    }
    CHECK(good == kThreads * kCalls);
    CHECK(pair.a.counters().rpc_req_sent_count == kThreads * kCalls);
}

TEST_CASE("a class of any single mode has a thread that forwards and one that progresses",
          "[threads]") {
    // As users of Mercury do, which keeps its own locks in these modes.
    constexpr std::size_t kAtOnce = 16;
    const unsigned rounds = 200 / support::kSlow;
    const int mode = GENERATE(as<int>{}, NA_THREAD_MODE_SINGLE_CLS, NA_THREAD_MODE_SINGLE_CTX,
                              NA_THREAD_MODE_SINGLE);
    INFO("thread_mode " << mode);
    Side::Settings single;
    single.init.na_init_info.thread_mode = static_cast<std::uint8_t>(mode);
    Pair pair(single, single);
    const hg_id_t id = HG_Register_name(pair.a.cls(), "parallel", proc_blob, proc_blob, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "parallel", proc_blob, proc_blob, on_parallel) == id);
    std::vector<std::unique_ptr<Call>> calls;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, id));
        calls.back()->decode_output = true;
    }
    unsigned good = 0;
    {
        Crew crew;
        crew.add([&] { turn(pair.a.context(), 1); });
        crew.add([&] { turn(pair.b.context(), 1); });
        for (unsigned round = 0; round < rounds; ++round) {
            // One call at a time, and several; small, and beyond what a transport injects.
            const std::size_t used = round % 2 == 0 ? 1 : kAtOnce;
            const std::size_t size = round % 4 < 2 ? 200 : 20;
            for (std::size_t i = 0; i < used; ++i) {
                calls[i]->reset();
                Blob in = blob(round, size);
                REQUIRE(calls[i]->forward(in) == HG_SUCCESS);
            }
            for (std::size_t i = 0; i < used; ++i) {
                REQUIRE(support::until([&] { return calls[i]->done(); },
                                       [] { std::this_thread::yield(); }));
                good += calls[i]->ret() == HG_SUCCESS &&
                                is_blob(calls[i]->out(), round + 1, size, round)
                            ? 1
                            : 0;
            }
        }
    }
    CHECK(good == rounds / 2 * (1 + kAtOnce));
}

TEST_CASE("each thread has a context of its own", "[threads]") {
    Side::Settings s;
    s.contexts = kThreads;
    Pair pair(s, s);
    const hg_id_t id = HG_Register_name(pair.a.cls(), "parallel", proc_blob, proc_blob, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "parallel", proc_blob, proc_blob, on_parallel) == id);
    std::atomic<unsigned> good{0};
    {
        Crew crew;
        for (unsigned t = 0; t < kThreads; ++t) {
            crew.add([&, t] { turn(pair.b.context(t), 10); });
        }
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
                for (unsigned i = 0; i < kCalls / 2; ++i) {
                    Call call(pair.a, pair.to_b, id, t);  // made anew each time
                    call.decode_output = true;
                    HG_Set_target_id(call.handle(), static_cast<std::uint8_t>((t + i) % kThreads));
                    const std::size_t size = i % 16 == 0 ? 70'000 : i % 200;
                    Blob in = blob(i, size);
                    if (call.forward(in) != HG_SUCCESS) {
                        return;
                    }
                    if (!support::until([&] { return call.done(); },
                                        [&] { turn(pair.a.context(t), 5); })) {
                        return;
                    }
                    good += call.ret() == HG_SUCCESS && is_blob(call.out(), i + 1, size, i) ? 1 : 0;
                }
            });
        }
        for (std::thread& t : threads) {
            t.join();
        }
    }
    CHECK(good == kThreads * (kCalls / 2));
}

TEST_CASE("registrations change while their RPCs run", "[threads]") {
    Pair pair;
    const hg_id_t id = HG_Register_name(pair.a.cls(), "parallel", proc_blob, proc_blob, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "parallel", proc_blob, proc_blob, on_parallel) == id);
    unsigned answered = 0;
    unsigned unknown = 0;
    {
        Crew crew;
        crew.add([&] { turn(pair.b.context(), 10); });
        crew.add([&] {
            HG_Deregister(pair.b.cls(), id);
            if (HG_Register_name(pair.b.cls(), "parallel", proc_blob, proc_blob, on_parallel) !=
                id) {
                std::abort();
            }
            HG_Register_data(pair.b.cls(), id, new int(5),
                             [](void* p) { delete static_cast<int*>(p); });
            std::this_thread::yield();
        });
        Call call(pair.a, pair.to_b, id);
        call.decode_output = true;
        for (unsigned i = 0; i < kCalls; ++i) {
            Blob in = blob(i, 10);
            call.reset();
            REQUIRE(call.forward(in) == HG_SUCCESS);
            REQUIRE(
                support::until([&] { return call.done(); }, [&] { turn(pair.a.context(), 5); }));
            answered += call.ret() == HG_SUCCESS ? 1 : 0;
            unknown += call.ret() == HG_NOENTRY ? 1 : 0;
        }
    }
    CHECK(answered + unknown == kCalls);
}

TEST_CASE("calls are canceled by another thread", "[threads]") {
    Pair pair;
    const hg_id_t id = HG_Register_name(pair.a.cls(), "parallel", proc_blob, proc_blob, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "parallel", proc_blob, proc_blob, on_parallel) == id);
    unsigned ended = 0;
    {
        Crew crew;
        crew.add([&] { turn(pair.b.context(), 10); });
        crew.add([&] { turn(pair.a.context(), 5); });
        for (unsigned i = 0; i < kCalls; ++i) {
            auto call = std::make_unique<Call>(pair.a, pair.to_b, id);
            Blob in = blob(i, i % 8 == 0 ? 70'000 : 20);
            REQUIRE(call->forward(in) == HG_SUCCESS);
            if (i % 3 == 0) {
                std::this_thread::yield();
            }
            HG_Cancel(call->handle());
            REQUIRE(
                support::until([&] { return call->done(); }, [] { std::this_thread::yield(); }));
            ended += call->ret() == HG_SUCCESS || call->ret() == HG_CANCELED ? 1 : 0;
        }
    }
    CHECK(ended == kCalls);
}

TEST_CASE("two threads claim one handle, and one of them gets it", "[threads]") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.empty);
    for (unsigned i = 0; i < kCalls; ++i) {
        call.reset();
        std::atomic<unsigned> ready{0};
        hg_return_t rets[2];
        const auto claim = [&](unsigned which) {
            ++ready;
            while (ready != 2) {
                std::this_thread::yield();
            }
            rets[which] = call.forward();
        };
        std::thread other(claim, 0);
        claim(1);
        other.join();
        CHECK(((rets[0] == HG_SUCCESS && rets[1] == HG_BUSY) ||
               (rets[1] == HG_SUCCESS && rets[0] == HG_BUSY)));
        REQUIRE(support::until([&] { return call.done(); }, [&] { pair.pump(); }));
        CHECK(call.ret() == HG_SUCCESS);
    }
    CHECK(pair.b.served == kCalls);
}

// A handle that is posted takes a request that has waited for it, and a second thread answers that
// before the first one is back from posting.
TEST_CASE("requests that waited for a handle are answered at length by several threads",
          "[threads]") {
    Side::Settings few;
    few.init.request_post_init = 2;
    few.init.request_post_incr = -1;
    Pair pair(Side::Settings{}, few);
    const hg_id_t id = HG_Register_name(pair.a.cls(), "lengthy", proc_blob, proc_blob, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "lengthy", proc_blob, proc_blob, on_lengthy) == id);
    constexpr unsigned kInFlight = 24;
    unsigned good = 0;
    {
        Crew crew;
        for (int i = 0; i < 3; ++i) {
            crew.add([&] { turn(pair.b.context(), 1); });
        }
        for (unsigned round = 0; round < 20 / support::kSlow + 1; ++round) {
            std::vector<std::unique_ptr<Call>> calls;
            for (unsigned i = 0; i < kInFlight; ++i) {
                calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, id));
                calls.back()->decode_output = true;
                Blob in = blob(i, 20);
                REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
            }
            REQUIRE(support::until(
                [&] {
                    return std::all_of(calls.begin(), calls.end(),
                                       [](const auto& call) { return call->done(); });
                },
                [&] { pair.a.pump(); }));
            for (const auto& call : calls) {
                good += call->ret() == HG_SUCCESS && is_blob(call->out(), 1, 70'000, 1) ? 1 : 0;
            }
        }
    }
    CHECK(good == kInFlight * (20 / support::kSlow + 1));
}

TEST_CASE("a context that a thread progresses or triggers is not destroyed", "[threads]") {
    Side side;
    hg_context_t* const context = side.context();
    for (const bool progress : {true, false}) {
        INFO((progress ? "progress" : "trigger"));
        constexpr unsigned kLong = 60'000;  // ms: the thread returns because it is woken
        std::atomic<pid_t> tid{0};
        std::atomic<bool> back{false};
        std::atomic<int> ret{-1};
        std::thread inside([&] {
            unsigned n = 0;
            tid = static_cast<pid_t>(syscall(SYS_gettid));
            ret = progress ? HG_Progress(context, kLong) : HG_Trigger(context, kLong, 1, &n);
            back = true;
        });
        REQUIRE(support::until([&] { return tid != 0 && sleeps(tid); },
                               [] { std::this_thread::yield(); }));
        CHECK(HG_Context_destroy(context) == HG_BUSY);
        CHECK(std::string(HG_Get_last_error()).find("let them return first") != std::string::npos);
        CHECK(support::until([&] { return back.load(); }, [] { std::this_thread::yield(); }));
        inside.join();
        CHECK(ret == HG_TIMEOUT);
    }
    // Nobody is inside: the end.
    CHECK(HG_Context_destroy(context) == HG_SUCCESS);
    side.forget_context();
}

TEST_CASE("a context is not destroyed by its own callbacks", "[threads]") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    hg_return_t ret = HG_RETURN_MAX;
    call.on_done = [&](Call&) { ret = HG_Context_destroy(pair.a.context()); };
    Blob in = blob(1, 20);
    CHECK(pair.run(call, in) == HG_SUCCESS);
    CHECK(ret == HG_BUSY);
    Call again(pair.a, pair.to_b, pair.a.echo);
    CHECK(pair.run(again, in) == HG_SUCCESS);
}
