// SPDX-License-Identifier: BSD-3-Clause
// Who makes progress, deadlines and cancellation, and the end of an engine.
#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "conformance/cxx/scene.hpp"
#include "support/child.hpp"

using namespace cxxtest;
using namespace std::chrono_literals;
using hg::Status;

namespace {

// A pool of threads as a user may have one.
class Pool final : public hg::Executor {
 public:
    explicit Pool(unsigned threads) {
        for (unsigned i = 0; i < threads; ++i) {
            threads_.emplace_back([this] { run(); });
        }
    }
    ~Pool() override {
        {
            const std::lock_guard guard(mutex_);
            stop_ = true;
        }
        signal_.notify_all();
        for (std::thread& t : threads_) {
            t.join();
        }
    }
    void execute(hg::Job job) noexcept override {
        {
            const std::lock_guard guard(mutex_);
            jobs_.push_back(job);
            ++taken_;
        }
        signal_.notify_one();
    }
    unsigned taken() {
        const std::lock_guard guard(mutex_);
        return taken_;
    }
    bool has(std::thread::id id) const {
        for (const std::thread& t : threads_) {
            if (t.get_id() == id) {
                return true;
            }
        }
        return false;
    }

 private:
    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            signal_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
            if (jobs_.empty()) {
                return;
            }
            const hg::Job job = jobs_.front();
            jobs_.pop_front();
            lock.unlock();
            job();
            lock.lock();
        }
    }
    std::mutex mutex_;
    std::condition_variable signal_;
    std::deque<hg::Job> jobs_;
    unsigned taken_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

// Holds what is served until it is opened.
class Door {
 public:
    void open() {
        const std::lock_guard guard(mutex_);
        open_ = true;
        signal_.notify_all();
    }
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        signal_.wait(lock, [this] { return open_; });
    }
    unsigned waiting() {
        const std::lock_guard guard(mutex_);
        return waiting_;
    }

 private:
    std::mutex mutex_;
    std::condition_variable signal_;
    bool open_ = false;
    unsigned waiting_ = 0;
};

hg::EngineOptions by_caller(bool single = false) {
    hg::EngineOptions options;
    options.progress = hg::Progress::caller;
    options.single_thread = single;
    return options;
}

}  // namespace

TEST_CASE("an engine that is shut down by its own handler says so") {
    if (support::options().protocol.find("loop") == std::string::npos &&
        support::options().protocol.find("na+sm") == std::string::npos) {
        support::skip("the transport's library does not survive a fork");
        return;
    }
    const bool caller = GENERATE(false, true);
    const pid_t child = ::fork();
    if (child == 0) {
        (void)::signal(SIGABRT, SIG_DFL);  // not Catch2's
        (void)::close(2);
        ::alarm(30);
        hg::Engine engine = hg::Engine::server(support::options().protocol,
                                               caller ? by_caller() : hg::EngineOptions());
        engine.serve(nothing, [&] { engine.shutdown(1s); });
        nothing(engine.self()).get();
        ::_exit(0);
    }
    REQUIRE(child > 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("a child that destroys an engine it has inherited takes nothing from its parent") {
    const bool caller = GENERATE(false, true);
    std::optional<Pair> pair;
    pair.emplace(caller ? by_caller() : hg::EngineOptions());
    pair->server.serve(add, [](int a, int b) { return a + b; });
    const auto sum = [&](int a, int b) {
        std::optional<int> answer;
        std::atomic<bool> done{false};
        add(pair->peer, a, b).then([&](hg::Result<int> r) {
            answer = r ? *r : -1;
            done = true;
        });
        REQUIRE(support::until([&] { return done.load(); },
                               [&] {
                                   if (caller) {
                                       pair->server.poll();
                                   }
                               }));
        return *answer;
    };
    CHECK(sum(1, 2) == 3);
    CHECK(support::in_child([&] {
              pair.reset();
              return 0;
          }) == 0);
    CHECK(sum(3, 4) == 7);
}

TEST_CASE("one thread drives both sides") {
    const bool single = GENERATE(false, true);
    Pair pair(by_caller(single), by_caller(single));
    const auto here = std::this_thread::get_id();
    pair.server.serve(add, [&](int a, int b) {
        CHECK(std::this_thread::get_id() == here);
        return a + b;
    });
    std::optional<int> sum;
    add(pair.peer, 1, 2).then([&](hg::Result<int> r) { sum = *r; });
    REQUIRE(support::until([&] { return sum.has_value(); }, [&] { pair.server.poll(); },
                           [&] { pair.client.poll(); }));
    CHECK(*sum == 3);
    // Deadlines pass there too.
    hg::Result<int> late = hg::Error{};
    bool done = false;
    add(pair.peer, 1, 2, hg::within(20ms)).then([&](hg::Result<int> r) {
        late = std::move(r);
        done = true;
    });
    REQUIRE(support::until([&] { return done; }, [&] { pair.client.poll(); }));
    CHECK(late.status() == Status::timeout);
}

TEST_CASE("a blocking call of a caller-driven engine makes progress itself") {
    Pair pair({}, by_caller());
    pair.server.serve(add, [](int a, int b) { return a + b; });
    for (int i = 0; i < 100; ++i) {
        REQUIRE(add(pair.peer, i, 1).get() == i + 1);
    }
    // Of several threads that wait, one sees the other's answer.
    std::atomic<unsigned> good{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 100; ++i) {
                good += add(pair.peer, i, 1).get() == i + 1;
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(good == 300);
}

TEST_CASE("run() until stop(), from another thread and from a handler") {
    Pair pair(by_caller());
    pair.server.serve(nothing, [&] { pair.server.stop(); });
    std::atomic<bool> answered{false};
    std::thread server([&] {
        pair.server.run();
        while (!answered) {  // some transports send with the next progress
            pair.server.poll();
        }
    });
    CHECK(nothing(pair.peer).wait());
    answered = true;
    server.join();
    std::thread again([&] { pair.server.run(); });
    pair.server.stop();
    again.join();
    const auto start = hg::Clock::now();
    pair.server.run_for(30ms);
    CHECK(hg::Clock::now() - start >= 30ms);
}

TEST_CASE("no stop() is lost, however close it comes to the sleep of who runs") {
    hg::Engine engine = hg::Engine::server(support::options().protocol, by_caller());
    constexpr int kRounds = 20'000 / support::kSlow;
    std::atomic<int> entered{0};
    std::atomic<int> left{0};
    std::atomic<bool> enough{false};
    bool lost = false;
    // Two switches each: on a processor that many share those in this time are enough.
    const auto end = hg::Clock::now() + 10s;
    std::thread runner([&] {
        for (int i = 1; i <= kRounds && !enough; ++i) {
            entered = i;
            engine.run();
            left = i;
        }
    });
    for (int i = 1; i <= kRounds && !enough; ++i) {
        while (entered != i) {
            std::this_thread::yield();  // the runner may need this processor
        }
        for (std::atomic<int> pause = i % 256; pause > 0; --pause) {
        }
        engine.stop();
        // Less than an engine sleeps without a look around.
        lost = !support::until_for(30s, [&] { return left == i; });
        enough = lost || hg::Clock::now() >= end;
    }
    CHECK_FALSE(lost);
    engine.stop();
    runner.join();
}

TEST_CASE("another event loop sleeps on the descriptor") {
    Pair pair(by_caller());
    if (pair.server.descriptor() < 0) {
        support::skip("the transport cannot be waited on");
        return;
    }
    bool slept = false;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    pair.server.spawn([](hg::Engine& engine, bool& out) -> hg::Task<> {
        out = co_await engine.sleep(50ms);
    }(pair.server, slept));
    std::atomic<bool> stop{false};
    std::atomic<bool> answered{false};
    std::thread caller([&] {
        answered = add(pair.peer, 1, 2).get() == 3;
        stop = true;
    });
    const bool ended = support::until(
        [&] { return stop && slept; },
        [&] {
            if (pair.server.poll() || !pair.server.ready_to_sleep()) {
                return;
            }
            pollfd fd{.fd = pair.server.descriptor(), .events = POLLIN, .revents = 0};
            (void)::poll(&fd, 1, 1000);
        });
    caller.join();
    CHECK(ended);
    CHECK(answered);
}

TEST_CASE("handlers run on the user's threads, as many as there are") {
    Pool pool(3);
    hg::EngineOptions options;
    options.progress = hg::Progress::executor;
    options.executor = &pool;
    Pair pair(options, options);
    std::atomic<unsigned> elsewhere{0};
    Door door;
    pair.server.serve(nothing, [&] {
        elsewhere += !pool.has(std::this_thread::get_id());
        door.pass();
    });
    pair.server.serve(add, [](int a, int b) { return a + b; });
    std::atomic<unsigned> ended{0};
    for (int i = 0; i < 2; ++i) {
        nothing(pair.peer).then([&](hg::Result<void> r) { ended += static_cast<bool>(r); });
    }
    REQUIRE(support::until([&] { return door.waiting() == 2; }));
    CHECK(add(pair.peer, 1, 1).get() == 2);  // the third thread
    door.open();
    REQUIRE(support::until([&] { return ended == 2; }));
    CHECK(elsewhere == 0);
}

TEST_CASE("a deadline ends a call whatever the target does") {
    Pool pool(2);
    hg::EngineOptions options;
    options.progress = hg::Progress::executor;
    options.executor = &pool;
    Pair pair(options);
    Door door;
    std::atomic<bool> told{false};
    pair.server.serve(nothing, [&](hg::Request& request) {
        told = request.deadline() != hg::Clock::time_point::max();
        door.pass();
    });
    const auto start = hg::Clock::now();
    const auto r = nothing(pair.peer, hg::within(100ms)).wait();
    CHECK(hg::Clock::now() - start >= 100ms);
    CHECK(r.status() == Status::timeout);
    CHECK(r.error().message.find("deadline") != std::string::npos);
    CHECK(nothing(pair.peer, hg::within(-1s)).wait().status() == Status::timeout);
    door.open();
    CHECK(nothing(pair.peer, hg::within(1h)).wait());
    CHECK(told);
    CHECK(nothing(pair.peer, hg::within(hg::Clock::duration::max())).wait());
}

TEST_CASE("deadlines that are far away, and none at all") {
    static constexpr hg::Rpc<std::int64_t()> left{"left"};
    constexpr auto none = hg::Clock::time_point::max();
    Pair pair;
    pair.server.serve(left, [](hg::Request& request) -> std::int64_t {
        return request.deadline() == hg::Clock::time_point::max()
                   ? -1
                   : std::chrono::floor<std::chrono::minutes>(request.deadline() - hg::Clock::now())
                         .count();
    });
    const std::int64_t hour = left(pair.peer, hg::within(1h)).get();
    CHECK(hour >= 0);
    CHECK(hour <= 60);
    // A message has room for 71 minutes: beyond them the caller alone knows.
    for (const auto time : {72h, 24h * 365}) {
        CHECK(left(pair.peer, hg::within(time)).get() == -1);
    }
    CHECK(hg::within(std::chrono::seconds::max()).deadline == none);
    CHECK(hg::within(std::chrono::hours::max()).deadline == none);
    CHECK(hg::within(std::chrono::duration<double>(1e30)).deadline == none);
    CHECK(hg::within(hg::Clock::duration::max()).deadline == none);
    const auto soon = hg::within(std::chrono::duration<std::int64_t, std::pico>(1'000'000));
    CHECK(soon.deadline <= hg::Clock::now() + 1us);
    CHECK(hg::within(std::chrono::seconds::min()).deadline < hg::Clock::now());
    CHECK(left(pair.peer, hg::within(std::chrono::seconds::max())).get() == -1);
    CHECK(left(pair.peer, hg::within(std::chrono::seconds::min())).wait().status() ==
          Status::timeout);
    pair.client.shutdown(std::chrono::milliseconds::max());
}

TEST_CASE("a request whose deadline has passed is not begun") {
    Pair pair(by_caller());
    std::atomic<unsigned> served{0};
    pair.server.serve(nothing, [&] { ++served; });
    CHECK(nothing(pair.peer, hg::within(5ms)).wait().status() == Status::timeout);
    // On its arrival the time that was left when it was sent begins: it waits here for longer.
    for (int i = 0; i < 20; ++i) {
        pair.server.poll();
    }
    const unsigned before = served;
    CHECK(before <= 1);
    CHECK(pair.server.requests() == 0);
}

TEST_CASE("the time that a request waits for its handler counts") {
    Pool pool(1);
    hg::EngineOptions options;
    options.progress = hg::Progress::executor;
    options.executor = &pool;
    options.stats = true;
    Pair pair(options);
    Door door;
    std::atomic<unsigned> begun{0};
    pair.server.serve(nothing, [&] {
        ++begun;
        door.pass();
    });
    std::atomic<unsigned> ended{0};
    nothing(pair.peer).then([&](hg::Result<void>) { ++ended; });
    REQUIRE(support::until([&] { return door.waiting() == 1; }));
    const unsigned before = pool.taken();
    constexpr unsigned kCalls = 5;
    for (unsigned i = 0; i < kCalls; ++i) {
        nothing(pair.peer, hg::within(20ms)).then([&](hg::Result<void> r) {
            ended += r.status() == Status::timeout;
        });
    }
    // They are there, and behind the one that does not end, for longer than they have.
    REQUIRE(support::until([&] { return pool.taken() == before + kCalls; }));
    std::this_thread::sleep_for(25ms);
    door.open();
    REQUIRE(support::until([&] {
        return ended == kCalls + 1 && pair.server.stats().at(0).requests.count == kCalls + 1;
    }));
    CHECK(begun == 1);
    CHECK(pair.server.stats().at(0).requests.expired == kCalls);
}

TEST_CASE("a call to an engine that does not listen is answered") {
    // The server calls who has called it.
    hg::Engine server = hg::Engine::server(support::options().protocol);
    hg::Engine client = hg::Engine::client(support::options().protocol);
    hg::Result<int> back;
    server.serve(add, [&](hg::Request& request, int a, int b) -> hg::Task<int> {
        back = co_await add(request.peer(), a, b).result();
        co_return a + b;
    });
    CHECK(add(client.connect(server.uri()), 1, 2).get() == 3);
    CHECK(back.status() == Status::opnotsupported);
    CHECK(back.error().message.find("does not listen") != std::string::npos);
}

TEST_CASE("a stop token cancels a call, before, while and after it is sent") {
    Pool pool(2);
    hg::EngineOptions options;
    options.progress = hg::Progress::executor;
    options.executor = &pool;
    Pair pair(options);
    Door door;
    pair.server.serve(nothing, [&] { door.pass(); });
    std::stop_source stopped;
    stopped.request_stop();
    CHECK(nothing(pair.peer, hg::CallOptions{.stop = stopped.get_token()}).wait().status() ==
          Status::canceled);
    std::stop_source source;
    std::atomic<bool> done{false};
    hg::Result<void> result;
    nothing(pair.peer, hg::CallOptions{.stop = source.get_token()}).then([&](hg::Result<void> r) {
        result = std::move(r);
        done = true;
    });
    REQUIRE(support::until([&] { return door.waiting() == 1; }));
    source.request_stop();
    REQUIRE(support::until([&] { return done.load(); }));
    CHECK(result.status() == Status::canceled);
    CHECK(result.error().message.find("stop") != std::string::npos);
    door.open();
    std::stop_source never;
    CHECK(nothing(pair.peer, hg::CallOptions{.stop = never.get_token()}).wait());
    never.request_stop();
}

TEST_CASE("a stop races with the answer, and one of them wins") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    for (int i = 0; i < 200; ++i) {
        std::stop_source source;
        std::thread stopper([&] { source.request_stop(); });
        const auto r =
            add(pair.peer, i, 1,
                hg::CallOptions{.deadline = hg::Clock::now() + 5s, .stop = source.get_token()})
                .wait();
        stopper.join();
        CAPTURE(static_cast<int>(r.status()), r ? *r : -1, r ? "" : r.error().message);
        CHECK(((r && *r == i + 1) || r.status() == Status::canceled));
    }
    CHECK(add(pair.peer, 1, 1).get() == 2);
}

TEST_CASE("shutdown waits for what is in flight") {
    Pool pool(2);
    hg::EngineOptions options;
    options.progress = hg::Progress::executor;
    options.executor = &pool;
    Pair pair(options);
    Door door;
    pair.server.serve(add, [&](int a, int b) {
        door.pass();
        return a + b;
    });
    std::atomic<bool> done{false};
    hg::Result<int> result = hg::Error{};
    add(pair.peer, 1, 2).then([&](hg::Result<int> r) {
        result = std::move(r);
        done = true;
    });
    REQUIRE(support::until([&] { return door.waiting() == 1; }));
    std::thread opener([&] { door.open(); });
    pair.server.shutdown(20s);
    opener.join();
    REQUIRE(support::until([&] { return done.load(); }));
    REQUIRE(result);
    CHECK(*result == 3);
    CHECK(nothing(pair.server.self()).wait().status() == Status::canceled);
}

TEST_CASE("shutdown does not wait for calls that were described and never started") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    CHECK(add(pair.peer, 1, 2).get() == 3);
    auto described = add(pair.peer, 3, 4);
    auto guarded = add(pair.peer, 5, 6, hg::within(100h));
    std::optional dropped(add(pair.peer, 7, 8));
    auto large = echo(pair.peer, std::string(1 << 20, 'x'));
    CHECK(pair.client.calls() == 0);
    pair.client.shutdown(100h);
    dropped.reset();
    CHECK(std::move(described).wait().status() == Status::canceled);
    CHECK(std::move(guarded).wait().status() == Status::canceled);
    CHECK(std::move(large).wait().status() == Status::canceled);
    CHECK(add(pair.peer, 1, 2).wait().status() == Status::canceled);
}

TEST_CASE("shutdown ends what does not end by itself, and says so to everybody") {
    Pool pool(2);
    hg::EngineOptions options;
    options.progress = hg::Progress::executor;
    options.executor = &pool;
    options.drain = 50ms;
    Door door;
    std::atomic<bool> stopped{false};
    std::optional<hg::Engine> server(hg::Engine::server(support::options().protocol, options));
    hg::Engine client = hg::Engine::server(support::options().protocol, {});
    hg::Engine caller = hg::Engine::client(support::options().protocol, {});
    const hg::Peer peer = client.connect(server->uri());
    server->serve(nothing, [&](hg::Request& request) {
        door.pass();
        stopped = request.stop().stop_requested();
    });
    std::atomic<int> status{-1};
    nothing(peer).then([&](hg::Result<void> r) { status = static_cast<int>(r.status()); });
    REQUIRE(support::until([&] { return door.waiting() == 1; }));
    const hg::Peer lasting = server->self();
    server.reset();
    REQUIRE(support::until([&] { return status != -1; }));
    CHECK(static_cast<Status>(status.load()) == Status::canceled);
    CHECK(nothing(lasting).wait().status() == Status::canceled);
    door.open();
    REQUIRE(support::until([&] { return stopped.load(); }));

    // The other end: calls that nobody answers.
    Door none;
    client.serve(add, [&](int a, int b) { return none.pass(), a + b; });
    std::atomic<int> ended{-1};
    {
        hg::EngineOptions quick;
        quick.drain = 20ms;
        hg::Engine origin = hg::Engine::client(support::options().protocol, quick);
        const hg::Peer to = origin.connect(client.uri());
        add(to, 1, 2).then([&](hg::Result<int> r) { ended = static_cast<int>(r.status()); });
        REQUIRE(support::until([&] { return none.waiting() == 1; }));
    }
    CHECK(static_cast<Status>(ended.load()) == Status::canceled);
    none.open();
}

TEST_CASE("threads that drive an engine leave it when it ends") {
    hg::EngineOptions options = by_caller();
    options.drain = 20ms;
    Pair pair({}, by_caller());
    for (int i = 0; i < 20; ++i) {
        std::optional<hg::Engine> engine(hg::Engine::client(support::options().protocol, options));
        const hg::Peer peer = engine->connect(pair.client.uri());  // which nobody drives
        std::atomic<unsigned> inside{0};
        std::atomic<int> status{-1};
        std::thread runner([&, &e = *engine] {
            ++inside;
            e.run();
        });
        std::thread caller([&] {
            auto call = add(peer, 1, 2);
            ++inside;
            status = static_cast<int>(std::move(call).wait().status());
        });
        REQUIRE(support::until([&] { return inside == 2; }));
        engine->shutdown(1ms);
        runner.join();
        caller.join();
        CHECK(static_cast<Status>(status.load()) == Status::canceled);
        CHECK(!engine->poll());
        CHECK(engine->descriptor() == -1);
        CHECK(engine->ready_to_sleep());
        engine->run_for(1ms);
        engine->stop();
    }
}

TEST_CASE("a peer that is gone ends its calls") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    CHECK(add(pair.peer, 1, 2).get() == 3);
    const std::string uri = pair.server.uri();
    { const hg::Engine gone = std::move(pair.server); }
    const auto held = support::hold_port(uri);
    if (!held) {
        return;  // another program is there
    }
    const auto r = add(pair.peer, 1, 2, hg::within(2s)).wait();
    CHECK(!r);
    CHECK((r.status() == Status::hostunreach || r.status() == Status::timeout));
}
