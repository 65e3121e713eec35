// SPDX-License-Identifier: BSD-3-Clause
// Engines on an io_context and on a strand, and Asio's completion tokens.
#include <utility>

#include <boost/asio.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#if BOOST_VERSION >= 107800
#include <boost/asio/deferred.hpp>
#endif

#include <catch2/catch.hpp>

#include <future>
#include <thread>

#include "conformance/cxx/scene.hpp"
#include "hg/asio.hpp"

using namespace cxxtest;
using namespace std::chrono_literals;
using hg::Status;
namespace ba = boost::asio;

namespace {

hg::EngineOptions on_asio() {
    hg::EngineOptions options;
    options.progress = hg::Progress::caller;
    return options;
}

// Both engines on one io_context.
struct Loop {
    Loop()
        : pair(on_asio(), on_asio()),
          server(pair.server, io.get_executor()),
          client(pair.client, io.get_executor()) {
        pair.server.serve(add, [](int a, int b) { return a + b; });
        pair.server.serve(fail, [](int) -> hg::Result<void> {
            return hg::Error{Status::busy, "no"};
        });
    }
    void stop() {
        server.stop();
        client.stop();
    }
    ba::io_context io;
    Pair pair;
    hg::asio::Driver server;
    hg::asio::Driver client;
};

}  // namespace

TEST_CASE("a callback, on the loop's thread") {
    Loop loop;
    int sum = 0;
    hg::asio::async(add(loop.pair.peer, 1, 2), [&](hg::Result<int> r) {
        sum = *r;
        hg::asio::async(fail(loop.pair.peer, 1), [&](std::exception_ptr e) {
            CHECK(e != nullptr);
            loop.stop();
        });
    });
    loop.io.run();
    CHECK(sum == 3);
}

TEST_CASE("awaitables, timers and calls in one loop") {
    Loop loop;
    int sum = 0;
    std::string text;
    ba::co_spawn(
        loop.io,
        [&]() -> ba::awaitable<void> {
            for (int i = 0; i < 50; ++i) {
                sum = co_await hg::asio::async(add(loop.pair.peer, sum, 1), ba::use_awaitable);
            }
            ba::steady_timer timer(loop.io, 5ms);
            co_await timer.async_wait(ba::use_awaitable);
            try {
                co_await hg::asio::async(fail(loop.pair.peer, 1), ba::use_awaitable);
            } catch (const hg::Exception& e) {
                text = e.what();
            }
            loop.stop();
        },
        ba::detached);
    loop.io.run();
    CHECK(sum == 50);
    CHECK(text == "no");
}

TEST_CASE("futures, from another thread") {
    Loop loop;
    std::thread runner([&] { loop.io.run(); });
    std::future<int> sum = hg::asio::async(add(loop.pair.peer, 20, 22), ba::use_future);
    std::future<void> none = hg::asio::async(fail(loop.pair.peer, 1), ba::use_future);
    CHECK(sum.get() == 42);
    CHECK_THROWS_AS(none.get(), hg::Exception);
    ba::post(loop.io, [&] { loop.stop(); });
    runner.join();
}

TEST_CASE("a strand, with several threads behind it") {
    ba::io_context io;
    Pair pair(on_asio(), {});
    auto strand = ba::make_strand(io);
    hg::asio::Driver driver(pair.server, strand);
    std::atomic<int> inside{0};
    std::atomic<bool> alone{true};
    pair.server.serve(add, [&](int a, int b) {
        alone = alone && ++inside == 1 && strand.running_in_this_thread();
        --inside;
        return a + b;
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] { io.run(); });
    }
    for (int i = 0; i < 200; ++i) {
        REQUIRE(add(pair.peer, i, 1).get() == i + 1);
    }
    ba::post(strand, [&] { driver.stop(); });
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(alone);
}

TEST_CASE("deadlines pass while the loop sleeps") {
    if (const char* why = support::lacks(support::Promise::short_visits)) {
        support::skip(why);  // the server never looks
        return;
    }
    Loop loop;
    loop.server.stop();  // nobody serves
    hg::Result<int> result = hg::Error{};
    hg::asio::async(add(loop.pair.peer, 1, 2, hg::within(30ms)), [&](hg::Result<int> r) {
        result = std::move(r);
        loop.client.stop();
    });
    loop.io.run();
    CHECK(result.status() == Status::timeout);
}

#if BOOST_VERSION >= 107700
TEST_CASE("a cancellation slot cancels a call") {
    if (const char* why = support::lacks(support::Promise::short_visits)) {
        support::skip(why);  // the server never looks
        return;
    }
    Loop loop;
    loop.server.stop();
    ba::cancellation_signal signal;
    hg::Result<int> result = hg::Error{};
    hg::asio::async(add(loop.pair.peer, 1, 2),
                    ba::bind_cancellation_slot(signal.slot(), [&](hg::Result<int> r) {
                        result = std::move(r);
                        loop.client.stop();
                    }));
    ba::post(loop.io, [&] { signal.emit(ba::cancellation_type::terminal); });
    loop.io.run();
    CHECK(result.status() == Status::canceled);
}
#endif
#if BOOST_VERSION >= 107800
TEST_CASE("a deferred call is sent when it is launched") {
    Loop loop;
    int sum = 0;
    auto later = hg::asio::async(add(loop.pair.peer, 1, 2), ba::deferred);
    std::move(later)([&](std::exception_ptr, int n) {
        sum = n;
        loop.stop();
    });
    loop.io.run();
    CHECK(sum == 3);
}
#endif
