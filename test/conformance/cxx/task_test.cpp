// SPDX-License-Identifier: BSD-3-Clause
// Coroutines on both sides.
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <functional>

#include "conformance/cxx/scene.hpp"

using namespace cxxtest;
using namespace std::chrono_literals;
using hg::Status;
using hg::Task;

namespace {

Task<int> number(int n) {
    co_return n;
}
Task<> thrower() {
    throw hg::Exception(Status::busy, "thrown");
    co_return;
}
Task<int> chain(int depth) {
    if (depth == 0) {
        co_return 0;
    }
    co_return co_await chain(depth - 1) + 1;
}
Task<std::uint64_t> loop(unsigned rounds) {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < rounds; ++i) {
        sum += static_cast<std::uint64_t>(co_await number(1));
    }
    co_return sum;
}

}  // namespace

TEST_CASE("tasks give values and exceptions to whoever awaits them") {
    CHECK(hg::sync_wait(number(5)) == 5);
    CHECK_THROWS_AS(hg::sync_wait(thrower()), hg::Exception);
    CHECK(hg::sync_wait([]() -> Task<int> {
              int caught = 0;
              try {
                  co_await thrower();
              } catch (const hg::Exception& e) {
                  caught = e.status() == Status::busy ? 1 : 2;
              }
              co_return caught + co_await number(10);
          }()) == 11);
    CHECK(hg::sync_wait([]() -> Task<std::unique_ptr<int>> {
              co_return std::make_unique<int>(3);
          }()) != nullptr);
    {
        const Task<int> dropped = number(1);  // never runs
    }
}

TEST_CASE("a task that ends at once takes no stack") {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(hg::sync_wait(loop(3'000'000)) == 3'000'000);  // GCC makes tail calls when it optimizes
#endif
    CHECK(hg::sync_wait(loop(1000)) == 1000);
    CHECK(hg::sync_wait(chain(1000)) == 1000);
}

TEST_CASE("when_all runs everything and keeps the order") {
    const auto [a, b, c] = hg::sync_wait([]() -> Task<std::tuple<int, std::monostate, int>> {
        co_return co_await hg::when_all(
            number(1), []() -> Task<> { co_return; }(), number(3));
    }());
    CHECK(a == 1);
    CHECK(b == std::monostate{});
    CHECK(c == 3);
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 100; ++i) {
        tasks.push_back(number(i));
    }
    const std::vector<int> values = hg::sync_wait(hg::when_all(std::move(tasks)));
    REQUIRE(values.size() == 100);
    CHECK(values[99] == 99);
    CHECK(hg::sync_wait(hg::when_all(std::vector<Task<int>>{})).empty());
    CHECK_THROWS_AS(hg::sync_wait(hg::when_all(number(1), thrower())), hg::Exception);
}

TEST_CASE("calls are awaited, one after the other and all at once") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    pair.server.serve(fail, [](int) -> hg::Result<void> { return hg::Error{Status::busy, "no"}; });
    const int sum = hg::sync_wait([](const hg::Peer& peer) -> Task<int> {
        int n = 0;
        for (int i = 0; i < 100; ++i) {
            n = co_await add(peer, n, 1);
        }
        const hg::Result<void> r = co_await fail(peer, 1).result();
        if (r.status() != Status::busy) {
            co_return -1;
        }
        try {
            co_await fail(peer, 1);
            co_return -2;
        } catch (const hg::Exception& e) {
        }
        const auto [x, y] = co_await hg::when_all(add(peer, 1, 2), add(peer, 3, 4));
        co_return n + x + y;
    }(pair.peer));
    CHECK(sum == 110);
    std::vector<hg::AsResult<hg::Call<int>>> calls;
    for (int i = 0; i < 200; ++i) {
        calls.push_back(add(pair.peer, i, i).result());
    }
    const auto results = hg::sync_wait(hg::when_all(std::move(calls)));
    REQUIRE(results.size() == 200);
    for (int i = 0; i < 200; ++i) {
        REQUIRE(results[static_cast<std::size_t>(i)]);
        CHECK(*results[static_cast<std::size_t>(i)] == 2 * i);
    }
}

TEST_CASE("handlers are coroutines") {
    static constexpr hg::Rpc<std::string(std::string_view, int)> relay{"relay"};
    Pair pair;
    pair.client.serve(echo, [](std::string text) -> Task<std::string> { co_return text + "?"; });
    pair.server.serve(
        relay, [](hg::Request& request, std::string_view text, int times) -> Task<std::string> {
            const hg::Peer origin = request.peer();
            std::string all;
            for (int i = 0; i < times; ++i) {
                all += co_await echo(origin, text);  // a view into the request, still there
            }
            co_return all;
        });
    pair.server.serve(fail, [](int how) -> Task<hg::Result<void>> {
        if (how == 1) {
            throw hg::Exception(Status::noentry, "thrown");
        }
        co_return hg::Error{Status::busy, "returned"};
    });
    CHECK(relay(pair.peer, "ab", 3).get() == "ab?ab?ab?");
    CHECK(fail(pair.peer, 1).wait().error().message == "thrown");
    CHECK(fail(pair.peer, 2).wait().error().message == "returned");
    std::vector<hg::Call<std::string>> calls;
    for (int i = 0; i < 50; ++i) {
        calls.push_back(relay(pair.peer, std::to_string(i), 2));
    }
    const auto all = hg::sync_wait(hg::when_all(std::move(calls)));
    CHECK(all[49] == "49?49?");
}

namespace {
template <typename F, typename... A>
constexpr bool kept(const F&) {
    return hg::detail::parameters_last<F, std::tuple<A...>>;
}
struct Base {};
struct Derived : Base {};
using Path = std::filesystem::path;
// A reference to a converted argument does not last until a coroutine has ended.
static_assert(kept<Task<> (*)(const std::string&), std::string>({}));
static_assert(kept<Task<> (*)(std::string&&, Path), std::string, std::string>({}));
static_assert(kept<Task<> (*)(const Base&), Derived>({}));
static_assert(kept<Task<> (*)(std::string_view), std::string>({}));
static_assert(!kept<Task<> (*)(const std::string_view&), std::string>({}));
static_assert(!kept<Task<> (*)(hg::Request&, const double&), int>({}));
static_assert(kept<Task<> (*)(hg::Request&, const double&), double>({}));
static_assert(kept<Task<> (*)(hg::Request&)>({}));
constexpr auto kPath = [](const Path&) -> Task<> { co_return; };
static_assert(!kept<decltype(kPath), std::string>(kPath) && kept<decltype(kPath), Path>(kPath));
constexpr auto kMutable = [](int, Path&&) mutable noexcept -> Task<> { co_return; };
static_assert(!kept<decltype(kMutable), int, std::string>(kMutable));
constexpr auto kGeneric = [](const auto&) -> Task<> { co_return; };
static_assert(kept<decltype(kGeneric), std::string>(kGeneric));
static_assert(!hg::detail::parameters_last<std::function<Task<>(hg::Request&, const Path&)>,
                                           std::tuple<std::string>>);
}  // namespace

TEST_CASE("what a coroutine's arguments convert to lasts as long as it does") {
    Pair pair;
    pair.server.serve(echo, [&](std::filesystem::path path) -> Task<std::string> {
        co_await pair.server.sleep(1ms);
        co_return path.native();
    });
    const std::string path = "/a/rather/long/path/that/is/on/the/heap";
    CHECK(echo(pair.peer, path).get() == path);
}

TEST_CASE("no more handlers run than are allowed, and no request is lost") {
    static constexpr hg::Rpc<int(int)> work{"work"};
    hg::EngineOptions options;
    options.handlers = 3;
    Pair pair(options);
    std::atomic<int> running{0};
    std::atomic<int> most{0};
    pair.server.serve(work, [&](int n) -> Task<int> {
        const int now = ++running;
        most = std::max(most.load(), now);
        co_await pair.server.sleep(1ms);
        --running;
        co_return n;
    });
    std::vector<hg::Call<int>> calls;
    for (int i = 0; i < 60; ++i) {
        calls.push_back(work(pair.peer, i));
    }
    const auto values = hg::sync_wait(hg::when_all(std::move(calls)));
    for (int i = 0; i < 60; ++i) {
        CHECK(values[static_cast<std::size_t>(i)] == i);
    }
    CHECK(most == 3);
    CHECK(support::until([&] { return pair.server.requests() == 0; }));
}

TEST_CASE("beyond the limit of requests callers are told to come again") {
    static constexpr hg::Rpc<void()> hold{"hold"};
    hg::EngineOptions options;
    options.handlers = 1;
    options.requests = 4;
    options.drain = 100ms;
    Pair pair(options);
    pair.server.serve(hold, [&]() -> Task<> { co_await pair.server.sleep(50ms); });
    std::vector<hg::AsResult<hg::Call<void>>> calls;
    for (int i = 0; i < 40; ++i) {
        calls.push_back(hold(pair.peer).result());
    }
    unsigned good = 0;
    unsigned refused = 0;
    for (const auto& r : hg::sync_wait(hg::when_all(std::move(calls)))) {
        good += r.status() == Status::success;
        refused += r.status() == Status::again;
    }
    CHECK(good + refused == 40);
    CHECK(good >= 1);
    CHECK(refused >= 1);
}

TEST_CASE("a lambda that is spawned is kept with what it has captured") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    std::atomic<int> sum{0};
    {
        const auto owned = std::make_unique<int>(40);
        pair.client.spawn([&pair, &sum, own = std::make_unique<int>(*owned)]() -> Task<> {
            co_await pair.client.sleep(5ms);
            sum = co_await add(pair.peer, *own, 2);
        });
    }
    CHECK(support::until([&] { return sum == 42; }));
}

TEST_CASE("sleeps pass, and end early with the engine") {
    hg::EngineOptions options;
    options.drain = 20ms;
    std::atomic<int> early{0};
    {
        hg::Engine engine = hg::Engine::client(support::options().protocol, options);
        const auto start = hg::Clock::now();
        CHECK(hg::sync_wait(engine, engine.sleep(30ms)));
        CHECK(hg::Clock::now() - start >= 30ms);
        const auto sleeper = [](hg::Engine& e, std::atomic<int>& out) -> Task<> {
            out += co_await e.sleep(1h) ? 100 : 1;
        };
        engine.spawn(sleeper(engine, early));
        engine.spawn(sleeper(engine, early));
    }
    CHECK(early == 2);
}

TEST_CASE("a handler is told when its caller's deadline has passed") {
    Pair pair;
    std::atomic<int> begun{0};
    std::atomic<int> told{0};
    std::atomic<int> ended{0};
    pair.server.serve(nothing, [&](hg::Request& request) -> Task<> {
        ++begun;
        const std::stop_token stop = request.stop();
        CHECK(stop == request.stop());
        const std::stop_callback count(stop, [&] { ++told; });
        while (!stop.stop_requested()) {
            co_await pair.server.sleep(1ms);
        }
        ++ended;
    });
    // One that comes too late is not begun.
    for (auto time = 30ms; begun == 0 && time < 30s; time *= 2) {
        // Its answer is on the way when the caller's own clock says so, or not.
        const Status status = nothing(pair.peer, hg::within(time)).wait().status();
        CHECK((status == Status::timeout || status == Status::success));
    }
    REQUIRE(begun != 0);
    REQUIRE(support::until([&] { return ended == begun; }));
    CHECK(told == ended);
    // One that is done before.
    pair.server.serve(add, [&](hg::Request& request, int a, int b) {
        return request.stop().stop_requested() ? -1 : a + b;
    });
    for (int i = 0; i < 20; ++i) {
        CHECK(add(pair.peer, i, 1, hg::within(1h)).get() == i + 1);
    }
    // And when the engine ends before it does, which sleeps meanwhile.
    const int done = ended;
    std::atomic<unsigned> rounds{0};
    static constexpr hg::Rpc<void(bool)> patient{"patient"};
    pair.server.serve(patient, [&](hg::Request& request, bool) -> Task<> {
        const std::stop_token stop = request.stop();
        while (!stop.stop_requested()) {
            ++rounds;
            co_await pair.server.sleep(2ms);
        }
        ++ended;
    });
    for (const hg::CallOptions& options : {hg::within(1h), hg::CallOptions{}}) {
        patient(pair.peer, true, options).then([](const hg::Result<void>&) {});
    }
    REQUIRE(support::until([&] { return pair.server.requests() == 2 && rounds >= 2; }));
    const auto begin = hg::Clock::now();
    const unsigned before = rounds;
    pair.server.shutdown(50ms);
    const auto took = std::chrono::ceil<std::chrono::milliseconds>(hg::Clock::now() - begin);
    CHECK(ended == done + 2);
    CHECK(rounds - before <= took.count() + 4);
}

TEST_CASE("a sleep that begins when the others have been ended early ends early, too") {
    // As of a thread that stood still between the look at the engine and the timer.
    hg::Engine engine = hg::Engine::client(support::options().protocol);
    hg::detail::cancel_rest(engine.core(), 0ms);
    CHECK_FALSE(hg::sync_wait(engine, engine.sleep(1h)));
}

TEST_CASE("a call that is described before the end of its engine, and started after it, fails") {
    Pair pair;
    pair.server.serve(echo, [](std::string text) { return text; });
    for (const bool guarded : {false, true}) {
        hg::EngineOptions options;
        options.progress = guarded ? hg::Progress::caller : hg::Progress::own_thread;
        hg::Engine engine = hg::Engine::client(support::options().protocol, options);
        const hg::Peer peer = engine.connect(pair.server.uri());
        auto call =
            guarded ? echo(peer, "small", hg::within(1h)) : echo(peer, std::string(100'000, 'x'));
        engine.shutdown(0ms);
        const hg::Result<std::string> r = std::move(call).wait();
        CHECK(r.status() == Status::canceled);
        CHECK_THAT(r.error().message, Catch::Contains("the engine is shut down"));
    }
}

TEST_CASE("a coroutine that waits at the end of its engine is told, and its caller too") {
    static constexpr hg::Rpc<void()> wait_long{"wait_long"};
    hg::EngineOptions options;
    options.drain = 30ms;
    std::optional<hg::Engine> server(hg::Engine::server(support::options().protocol, options));
    hg::Engine client = hg::Engine::client(support::options().protocol);
    std::atomic<int> ended{0};
    server->serve(wait_long, [&]() -> Task<> {
        const bool passed = co_await server->sleep(1h);
        ended = passed ? 2 : 1;
    });
    const hg::Peer peer = client.connect(server->uri());
    std::atomic<int> status{-1};
    wait_long(peer).then([&](hg::Result<void> r) { status = static_cast<int>(r.status()); });
    REQUIRE(support::until([&] { return server->requests() == 1; }));
    server.reset();
    CHECK(ended == 1);
    REQUIRE(support::until([&] { return status != -1; }));
    // The handler ended when its sleep did: in time for its own answer, or not.
    CAPTURE(to_string(static_cast<Status>(status.load())));
    CHECK((static_cast<Status>(status.load()) == Status::success ||
           static_cast<Status>(status.load()) == Status::canceled));
}
