// SPDX-License-Identifier: BSD-3-Clause
// Handlers that are Asio's coroutines, or run on an executor of Asio's; and the end of an engine
// that has them.
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <catch2/catch.hpp>

#include <optional>
#include <thread>

#include "conformance/cxx/scene.hpp"
#include "hg/asio.hpp"

using namespace cxxtest;
using namespace std::chrono_literals;
using hg::Status;
namespace ba = boost::asio;

namespace {

inline constexpr hg::Rpc<std::uint64_t(int)> work{"work"};
inline constexpr hg::Rpc<void()> wait_long{"wait_long"};

hg::EngineOptions on_asio() {
    hg::EngineOptions options;
    options.progress = hg::Progress::caller;
    return options;
}

// Refused as those of the engine's own coroutines are.
[[maybe_unused]] constexpr auto kByReference = [](const std::vector<int>&) -> ba::awaitable<void> {
    co_return;
};
using ByReference = hg::asio::On<ba::io_context::executor_type, decltype(kByReference)>;
static_assert(!hg::detail::parameters_last<ByReference, std::tuple<std::initializer_list<int>>> &&
              hg::detail::parameters_last<ByReference, std::tuple<std::vector<int>>>);

ba::awaitable<void> pause(std::chrono::milliseconds time) {
    ba::steady_timer timer(co_await ba::this_coro::executor, time);
    co_await timer.async_wait(ba::use_awaitable);
}

// A server on an io_context of one thread, and a client with a thread of its own.
struct Scene {
    explicit Scene(hg::EngineOptions server = on_asio())
        : pair(std::move(server)), driver(std::in_place, pair.server, io.get_executor()) {}
    ~Scene() { stop(); }
    void start() {
        thread = std::thread([this] { io.run(); });
    }
    void stop() {
        if (thread.joinable()) {
            ba::post(io, [this] { driver->stop(); });
            thread.join();
        }
    }
    Pair pair;
    ba::io_context io;
    std::optional<hg::asio::Driver> driver;
    std::thread thread;
};

}  // namespace

TEST_CASE("handlers that are awaitables answer and fail as others do") {
    Scene scene;
    hg::Engine& server = scene.pair.server;
    const hg::Peer& peer = scene.pair.peer;
    std::atomic<bool> here{true};
    server.serve(add, [&](int a, int b) -> ba::awaitable<int> {
        here = here && scene.io.get_executor().running_in_this_thread();
        co_await pause(1ms);
        here = here && scene.io.get_executor().running_in_this_thread();
        co_return a + b;
    });
    server.serve(shout,
                 [](hg::Request& request, std::string_view text) -> ba::awaitable<std::string> {
                     co_await pause(1ms);
                     // The view is there for as long as the coroutine.
                     co_return std::string(text) + "!" + std::string(request.name());
                 });
    server.serve(fail, [](int how) -> ba::awaitable<hg::Result<void>> {
        co_await pause(0ms);
        if (how == 1) {
            throw hg::Exception(Status::busy, "thrown");
        }
        if (how == 2) {
            co_return hg::Error{Status::exist, "answered"};
        }
        co_return hg::Result<void>();
    });
    std::atomic<int> notes{0};
    server.serve(note, [&](const std::string&) -> ba::awaitable<void> {
        ++notes;
        co_return;
    });
    server.serve(nothing, [](hg::Request& request) -> ba::awaitable<void> {
        // Calls that serve a call.
        const int sum = co_await hg::asio::async(add(request.peer(), 1, 1, request.options()));
        if (sum != 2) {
            throw hg::Exception(Status::other_error, "no sum");
        }
    });
    scene.pair.client.serve(add, [](int a, int b) { return a + b; });
    scene.start();
    for (int i = 0; i < 20; ++i) {
        CHECK(add(peer, i, 1).get() == i + 1);
    }
    CHECK(shout(peer, std::string(100, 'x')).get() == std::string(100, 'x') + "!shout");
    CHECK(fail(peer, 0).wait());
    const auto thrown = fail(peer, 1).wait();
    CHECK(thrown.status() == Status::busy);
    CHECK(thrown.error().message == "thrown");
    const auto answered = fail(peer, 2).wait();
    CHECK(answered.status() == Status::exist);
    CHECK(answered.error().message == "answered");
    CHECK(nothing(peer).wait());
    note(peer, "x").get();
    CHECK(support::until([&] { return notes == 1; }));
    CHECK(here);
    CHECK(support::until([&] { return server.requests() == 0; }));
}

TEST_CASE("no more awaitables at a time than the engine allows") {
    hg::EngineOptions options = on_asio();
    options.handlers = 3;
    Scene scene(options);
    int inside = 0;  // one thread
    int most = 0;
    scene.pair.server.serve(work, [&](int n) -> ba::awaitable<std::uint64_t> {
        most = std::max(most, ++inside);
        co_await pause(2ms);
        --inside;
        co_return static_cast<std::uint64_t>(n);
    });
    scene.start();
    std::vector<hg::Call<std::uint64_t>> calls;
    for (int i = 0; i < 30; ++i) {
        calls.push_back(work(scene.pair.peer, i));
    }
    const auto values = hg::sync_wait(hg::when_all(std::move(calls)));
    for (std::uint64_t i = 0; i < 30; ++i) {
        CHECK(values[i] == i);
    }
    scene.stop();
    CHECK(most == 3);
}

TEST_CASE("handlers on an executor of their own") {
    ba::thread_pool pool(2);
    {
        Pair pair;  // no io_context drives it
        std::atomic<bool> there{true};
        pair.server.serve(add, hg::asio::on(pool.get_executor(), [&](int a, int b) {
                              there = there && pool.get_executor().running_in_this_thread();
                              if (a < 0) {
                                  throw hg::Exception(Status::invalid_arg, "negative");
                              }
                              return a + b;
                          }));
        pair.server.serve(
            work, hg::asio::on(pool.get_executor(),
                               [&](hg::Request&, int n) -> ba::awaitable<std::uint64_t> {
                                   co_await pause(1ms);
                                   there = there && pool.get_executor().running_in_this_thread();
                                   co_return static_cast<std::uint64_t>(n);
                               }));
        for (int i = 0; i < 50; ++i) {
            REQUIRE(add(pair.peer, i, 1).get() == i + 1);
            REQUIRE(work(pair.peer, i).get() == static_cast<std::uint64_t>(i));
        }
        CHECK(add(pair.peer, -1, 1).wait().error().message == "negative");
        CHECK(there);
    }
    pool.join();
}

TEST_CASE("an awaitable needs somebody who runs it") {
    const auto handler = [](int) -> ba::awaitable<std::uint64_t> { co_return 1; };
    Pair pair;
    try {
        pair.server.serve(work, handler);
        FAIL("served by a thread of the engine's");
    } catch (const hg::Exception& e) {
        CHECK(e.status() == Status::opnotsupported);
        CHECK_THAT(e.what(), Catch::Contains("hg::asio::on"));
    }
    pair.server.serve(work, [](int) { return 2U; });  // the name is free still
    CHECK(work(pair.peer, 1).get() == 2);

    hg::Engine alone = hg::Engine::server(support::options().protocol, on_asio());
    alone.serve(work, handler);
    const hg::Peer peer = pair.client.connect(alone.uri());
    std::atomic<int> status{-1};
    work(peer, 1).then([&](hg::Result<std::uint64_t> r) { status = static_cast<int>(r.status()); });
    CHECK(support::until([&] { return status != -1; }, [&] { alone.run_for(1ms); }));
    CHECK(static_cast<Status>(status.load()) == Status::opnotsupported);
}

TEST_CASE("a shutdown that does not block lets coroutines end") {
    Scene scene;
    bool closing = false;  // of the loop's thread
    scene.pair.server.serve(work, [&](int n) -> ba::awaitable<std::uint64_t> {
        while (!closing) {
            co_await pause(1ms);
        }
        co_await pause(20ms);
        co_return static_cast<std::uint64_t>(n);
    });
    scene.start();
    std::atomic<int> value{-1};
    work(scene.pair.peer, 7).then([&](hg::Result<std::uint64_t> r) {
        value = r ? static_cast<int>(*r) : -2;
    });
    REQUIRE(support::until([&] { return scene.pair.server.requests() == 1; }));
    std::atomic<bool> told{false};
    ba::post(scene.io, [&] {
        closing = true;
        scene.driver->async_shutdown(30s, [&] { told = true; });
    });
    scene.thread.join();  // the driver's work is gone
    CHECK(told);
    CHECK(support::until([&] { return value != -1; }));
    CHECK(value == 7);
    // And it is over.
    scene.io.restart();
    scene.driver->async_shutdown(1s, [&] { told = false; });
    scene.io.run();
    CHECK_FALSE(told);
}

TEST_CASE("what does not end in time is canceled") {
    Scene scene;
    std::atomic<bool> stopped{false};
    std::atomic<bool> ended{false};
    scene.pair.server.serve(wait_long, [&](hg::Request& request) -> ba::awaitable<void> {
        const std::stop_token stop = request.stop();
        try {
#if BOOST_VERSION >= 107700
            co_await pause(std::chrono::hours(1));  // canceled by the coroutine's slot
#else
            while (!stop.stop_requested()) {
                co_await pause(1ms);
            }
#endif
        } catch (const boost::system::system_error&) {
        }
        stopped = stop.stop_requested();
        ended = true;
    });
    scene.start();
    std::atomic<int> status{-1};
    wait_long(scene.pair.peer).then([&](hg::Result<void> r) {
        status = static_cast<int>(r.status());
    });
    REQUIRE(support::until([&] { return scene.pair.server.requests() == 1; }));
    ba::post(scene.io, [&] { scene.driver->async_shutdown(20ms, [] {}); });
    scene.thread.join();
    CHECK(ended);
    CHECK(stopped);
    CHECK(support::until([&] { return status != -1; }));
    // In time for its own answer, or not.
    CHECK((static_cast<Status>(status.load()) == Status::success ||
           static_cast<Status>(status.load()) == Status::canceled));
}

TEST_CASE("the caller of a coroutine that goes with its executor is told") {
    Pair pair(on_asio());
    std::atomic<int> status{-1};
    {
        auto io = std::make_unique<ba::io_context>();
        std::optional<hg::asio::Driver> driver(std::in_place, pair.server, io->get_executor());
        pair.server.serve(wait_long,
                          []() -> ba::awaitable<void> { co_await pause(std::chrono::hours(1)); });
        wait_long(pair.peer).then(
            [&](hg::Result<void> r) { status = static_cast<int>(r.status()); });
        REQUIRE(support::until([&] { return pair.server.requests() == 1; }, [&] { io->poll(); }));
        driver.reset();
        io.reset();
    }
    CHECK(support::until([&] { return status != -1; }, [&] { pair.server.run_for(1ms); }));
    CHECK(static_cast<Status>(status.load()) == Status::canceled);
    CHECK(pair.server.requests() == 0);
}

TEST_CASE("an engine ends before the executor of its coroutines") {
    std::atomic<bool> gone{false};
    auto io = std::make_unique<ba::io_context>();  // goes last, with the coroutine
    struct Note {
        std::atomic<bool>& gone;
        ~Note() { gone = true; }
    };
    {
        hg::EngineOptions options = on_asio();
        options.drain = 10ms;
        Pair pair(std::move(options));
        hg::asio::Driver driver(pair.server, io->get_executor());
        pair.server.serve(wait_long, [&]() -> ba::awaitable<void> {
            const Note notes{gone};
            co_await pause(std::chrono::hours(1));
        });
        std::atomic<int> status{-1};
        wait_long(pair.peer).then(
            [&](hg::Result<void> r) { status = static_cast<int>(r.status()); });
        REQUIRE(support::until([&] { return pair.server.requests() == 1; }, [&] { io->poll(); }));
        driver.stop();
        { const hg::Engine ends = std::move(pair.server); }
        REQUIRE(support::until([&] { return status != -1; }));
        CHECK(static_cast<Status>(status.load()) == Status::canceled);
        CHECK_FALSE(gone);  // what it uses is still there
        pair.server = hg::Engine::client(support::options().protocol);
    }
    io.reset();
    CHECK(gone);
}
