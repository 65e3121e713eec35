// SPDX-License-Identifier: BSD-3-Clause
// Engines on an io_context and on a strand, and Asio's completion tokens.
#include <utility>

#include <boost/asio.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#if BOOST_VERSION >= 107900
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#endif

#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <thread>

#include "conformance/cxx/scene.hpp"
#include "hg/asio.hpp"
#include "support/allocations.hpp"

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

// An allocator that counts bytes, and a callback that has it.
template <typename T>
struct Counted {
    using value_type = T;
    std::size_t* taken;
    std::size_t* given;
    Counted(std::size_t* t, std::size_t* g) noexcept : taken(t), given(g) {}
    template <typename U>
    Counted(const Counted<U>& other) noexcept : taken(other.taken), given(other.given) {}
    T* allocate(std::size_t n) {
        *taken += n * sizeof(T);
        return static_cast<T*>(::operator new(n * sizeof(T)));
    }
    void deallocate(T* p, std::size_t n) noexcept {
        *given += n * sizeof(T);
        ::operator delete(p);
    }
    friend bool operator==(const Counted&, const Counted&) noexcept { return true; }
};
template <typename A, typename F>
struct WithAllocator {
    using allocator_type = A;
    A allocator;
    F f;
    A get_allocator() const noexcept { return allocator; }
    void operator()(hg::Result<int> r) { f(std::move(r)); }
};
template <typename A, typename F>
WithAllocator(A, F) -> WithAllocator<A, F>;

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

TEST_CASE("handlers that cannot be copied, and the memory that they bring") {
    struct Count {
        std::size_t taken = 0;
        std::size_t given = 0;
    };
    Count count;
    Loop loop;
    int sum = 0;
    auto unique = std::make_unique<int>(10);
    auto handler = WithAllocator{Counted<void>{&count.taken, &count.given},
                                 [&, unique = std::move(unique)](hg::Result<int> r) {
                                     sum = *r + *unique;
                                     CHECK(count.taken == count.given);  // before it is called
                                     loop.stop();
                                 }};
    hg::asio::async(add(loop.pair.peer, 1, 2), std::move(handler));
    CHECK(count.taken >= 1);
    hg::asio::async(fail(loop.pair.peer, 1), ba::detached);
    loop.io.run();
    CHECK(sum == 13);
    CHECK(count.taken == count.given);
}

#if !defined(__SANITIZE_ADDRESS__)  // which keeps nothing
TEST_CASE("calls with a token allocate nothing in the long run") {
    if (support::options().protocol.starts_with("loop") ||
        support::options().protocol.starts_with("fault")) {
        support::skip("the test transports allocate themselves");
        return;
    }
    Loop loop;
    const hg::Peer& peer = loop.pair.peer;
    int left = 0;
    constexpr int kRounds = 200;
    // Calls one after the other, within one run(): what Asio recycles, it keeps for that long.
    const auto count = [&](auto&& first) {
        left = kRounds;
        loop.io.restart();
        const std::size_t before = support::allocations();
        first();
        loop.io.run();
        return support::allocations() - before;
    };
    struct Again {  // a callback that makes the next call
        void (*call)(Again);
        Loop* loop;
        int* left;
        void operator()(hg::Result<int> r) const {
            if (!r || --*left == 0) {
                loop->io.stop();
            } else {
                call(*this);
            }
        }
    };
    const Again plain_call{[](Again a) { add(a.loop->pair.peer, 1, 2).then(a); }, &loop, &left};
    const Again inline_call{
        [](Again a) { hg::asio::async(add(a.loop->pair.peer, 1, 2), Again(a)); }, &loop, &left};
    const Again bound_call{[](Again a) {
                               hg::asio::async(add(a.loop->pair.peer, 1, 2),
                                               ba::bind_executor(a.loop->io, Again(a)));
                           },
                           &loop, &left};
    std::size_t made = 0;
    std::size_t bound = 0;
    std::size_t awaited = 0;
    std::size_t plain = 0;
    for (int turn = 0; turn < 2; ++turn) {  // the first fills the pools
        plain = count([&] { plain_call.call(plain_call); });
        made = count([&] { inline_call.call(inline_call); });
        bound = count([&] { bound_call.call(bound_call); });
        awaited = count([&] {
            ba::co_spawn(
                loop.io,
                [&]() -> ba::awaitable<void> {
                    for (int i = 0; i < kRounds; ++i) {
                        (void)co_await hg::asio::async(add(peer, i, 1));
                    }
                    loop.io.stop();
                },
                ba::detached);
        });
    }
    CHECK(left == kRounds);
    INFO("in " << kRounds << " calls: " << made << " with a callback, " << bound
               << " on an executor, " << awaited << " awaited, " << plain << " by then()");
    // Nothing per call; a pool of the transport's may grow once in a while.
    CHECK(made < 20);
    CHECK(bound < 20);
    CHECK(awaited < 20);
    CHECK(plain < 20);
    loop.stop();
    loop.io.restart();
    loop.io.run();
}
#endif

TEST_CASE("a handler's executor has work until it was called") {
    Pair pair;  // each with its own thread
    pair.server.serve(add, [](int a, int b) {
        std::this_thread::sleep_for(5ms);
        return a + b;
    });
    ba::io_context io;
    int sum = 0;
    hg::asio::async(add(pair.peer, 1, 2), ba::bind_executor(io, [&](hg::Result<int> r) {
                        CHECK(io.get_executor().running_in_this_thread());
                        sum = *r;
                    }));
    io.run();
    CHECK(sum == 3);
    // What cannot be started is told there, too, and not before async() is back.
    bool back = false;
    Status status = Status::success;
    pair.client.shutdown(1s);
    hg::asio::async(add(pair.peer, 1, 2), ba::bind_executor(io, [&](hg::Result<int> r) {
                        CHECK(back);
                        status = r.status();
                    }));
    back = true;
    io.restart();
    io.run();
    CHECK(status == Status::canceled);
}

TEST_CASE("views are awaited, too") {
    Loop loop;
    loop.pair.server.serve(word, [](int) { return std::string(300, 'w'); });
    std::size_t length = 0;
    ba::co_spawn(
        loop.io,
        [&]() -> ba::awaitable<void> {
            const auto held = co_await hg::asio::async(word(loop.pair.peer, 1));
            length = held->size();
            loop.stop();
        },
        ba::detached);
    loop.io.run();
    CHECK(length == 300);
}

TEST_CASE("deadlines pass while the loop sleeps") {
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
#if BOOST_VERSION >= 107900
TEST_CASE("whichever is first: a call, or a timer") {
    using namespace ba::experimental::awaitable_operators;
    Loop loop;
    bool first = false;
    std::size_t second = 0;
    ba::co_spawn(
        loop.io,
        [&]() -> ba::awaitable<void> {
            ba::steady_timer timer(loop.io, 1h);
            const auto quick =
                co_await (hg::asio::async(add(loop.pair.peer, 1, 2), ba::use_awaitable) ||
                          timer.async_wait(ba::use_awaitable));
            first = quick.index() == 0 && std::get<0>(quick) == 3;
            loop.server.stop();  // nobody serves
            timer.expires_after(5ms);
            const auto slow =
                co_await (hg::asio::async(add(loop.pair.peer, 1, 2), ba::use_awaitable) ||
                          timer.async_wait(ba::use_awaitable));
            second = slow.index();
            loop.client.stop();
        },
        ba::detached);
    loop.io.run();
    CHECK(first);
    CHECK(second == 1);
    CHECK(loop.pair.client.calls() == 0);
}
TEST_CASE("a tuple in place of an exception") {
    Loop loop;
    bool failed = false;
    ba::co_spawn(
        loop.io,
        [&]() -> ba::awaitable<void> {
            const auto [error, sum] = co_await hg::asio::async(add(loop.pair.peer, 1, 2),
                                                               ba::as_tuple(ba::use_awaitable));
            CHECK((error == nullptr && sum == 3));
            const auto [none] =
                co_await hg::asio::async(fail(loop.pair.peer, 1), ba::as_tuple(ba::use_awaitable));
            failed = none != nullptr;
            loop.stop();
        },
        ba::detached);
    loop.io.run();
    CHECK(failed);
}
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
