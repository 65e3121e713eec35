// SPDX-License-Identifier: BSD-3-Clause
// Typed calls in all their forms, and what becomes of errors.
#include <catch2/catch.hpp>

#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <thread>

#include "conformance/cxx/scene.hpp"
#include "support/payload.hpp"

using namespace cxxtest;
using namespace std::chrono_literals;

TEST_CASE("a call is a function of a peer and its arguments") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    CHECK(add(pair.peer, 1, 2).get() == 3);
    const hg::Result<int> r = add(pair.peer, -1, 1).wait();
    REQUIRE(r);
    CHECK(*r == 0);
    std::promise<hg::Result<int>> promise;
    add(pair.peer, 20, 22).then([&](hg::Result<int> sum) { promise.set_value(std::move(sum)); });
    CHECK(*promise.get_future().get() == 42);
    CHECK(hg::sync_wait(add(pair.peer, 3, 4)) == 7);
    CHECK(hg::sync_wait(add(pair.peer, 3, 4).result()).status() == hg::Status::success);
    CHECK(pair.client.calls() == 0);
}

TEST_CASE("what the standard library has, aggregates and nothing at all travel") {
    Pair pair;
    pair.server.serve(mirror, [](std::vector<Point> points, bool swap) {
        for (Point& p : points) {
            p = swap ? Point{p.y, p.x} : p;
        }
        return points;
    });
    std::atomic<int> calls{0};
    pair.server.serve(nothing, [&] { ++calls; });
    const std::vector<Point> points{{1, 2}, {-3, 4}};
    CHECK(mirror(pair.peer, points, true).get() == std::vector<Point>{{2, 1}, {4, -3}});
    CHECK(mirror(pair.peer, std::vector<Point>{}, false).get().empty());
    nothing(pair.peer).get();
    CHECK(nothing(pair.peer).wait().status() == hg::Status::success);
    CHECK(calls == 2);
}

TEST_CASE("messages of any size, both ways") {
    Pair pair;
    pair.server.serve(echo, [](std::string text) { return text; });
    for (const std::size_t size : {0U, 1U, 100U, 3000U, 4096U, 70'000U, 3'000'000U}) {
        std::string text(size, 'x');
        support::fill(text.data(), text.size(), size);
        CHECK(echo(pair.peer, text).get() == text);
    }
}

TEST_CASE("views look into the message, on both sides") {
    Pair pair;
    pair.server.serve(shout, [](std::string_view text) { return std::string(text) + "!"; });
    pair.server.serve(word, [](int n) { return std::string(static_cast<std::size_t>(n), 'w'); });
    CHECK(shout(pair.peer, "hey").get() == "hey!");
    CHECK(shout(pair.peer, std::string("you")).get() == "you!");
    const hg::Held<std::string_view> first = word(pair.peer, 3).get();
    const hg::Held<std::string_view> second = word(pair.peer, 100'000).get();
    CHECK(*first == "www");
    CHECK(second->size() == 100'000);
    auto third = word(pair.peer, 5).wait();
    REQUIRE(third);
    CHECK(**third == "wwwww");
}

// What a temporary result looks into would be gone with it.
template <typename H>
concept readable = requires {
    *std::declval<H>();
    std::declval<H>().operator->();
};
template <typename H>
concept unreadable = !requires {
    *std::declval<H>();
}
&&!requires {
    std::declval<H>().operator->();
};
using HeldText = hg::Held<std::string_view>;
static_assert(unreadable<HeldText> && unreadable<const HeldText> && readable<HeldText&> &&
              readable<const HeldText&>);

TEST_CASE("a handler's error reaches the caller with code and text") {
    Pair pair;
    pair.server.serve(fail, [](int how) -> hg::Result<void> {
        switch (how) {
            case 0:
                return {};
            case 1:
                throw hg::Exception(hg::Status::noentry, "no such thing");
            case 2:
                throw std::runtime_error("an accident");
            case 3:
                throw how;
            case 4:
                throw std::bad_alloc();
            case 6:
                throw hg::Exception(hg::Status::success, "an error without a code");
            default:
                return hg::Error{hg::Status::busy, "come again"};
        }
    });
    CHECK(fail(pair.peer, 0).wait());
    const auto expect = [&](int how, hg::Status status, const std::string& text) {
        const hg::Result<void> r = fail(pair.peer, how).wait();
        REQUIRE(!r);
        CHECK(r.status() == status);
        CHECK(r.error().message == text);
        try {
            fail(pair.peer, how).get();
            FAIL("no exception");
        } catch (const hg::Exception& e) {
            CHECK(e.status() == status);
            CHECK(e.what() == text);
        }
    };
    expect(1, hg::Status::noentry, "no such thing");
    expect(2, hg::Status::other_error, "an accident");
    expect(3, hg::Status::other_error, "an exception that is no std::exception");
    expect(4, hg::Status::nomem, "out of memory");
    expect(5, hg::Status::busy, "come again");
    expect(6, hg::Status::other_error, "an error without a code");
#if defined(NDEBUG)  // builds for debugging end there
    pair.server.serve(echo, [](const std::string& text) -> hg::Result<std::string> {
        return hg::Error{hg::Status::success, text};
    });
    const auto none = echo(pair.peer, "an error without a code").wait();
    CHECK(none.status() == hg::Status::other_error);
    CHECK(none.error().message == "an error without a code");
#endif
}

TEST_CASE("definitions that differ are different RPCs") {
    static constexpr hg::Rpc<int(int, std::int64_t)> other{"add"};
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    const auto r = other(pair.peer, 1, 2).wait();
    REQUIRE(!r);
    CHECK(r.status() == hg::Status::noentry);
    CHECK(r.error().message.find("\"add\"") != std::string::npos);
    CHECK(r.error().message.find("other types") != std::string::npos);
    CHECK(nothing(pair.peer).wait().status() == hg::Status::noentry);
    // Known there as something to call, not to serve.
    CHECK(nothing(pair.server.self()).wait().status() != hg::Status::success);
    CHECK(nothing(pair.peer).wait().status() == hg::Status::invalid_arg);
    // Once it is served it works.
    pair.server.serve(nothing, [] {});
    CHECK(nothing(pair.peer).wait());
}

TEST_CASE("what cannot be done is refused with its reason") {
    Pair pair;
    CHECK(add(hg::Peer(), 1, 2).wait().status() == hg::Status::invalid_arg);
    pair.server.serve(add, [](int a, int b) { return a + b; });
    CHECK_THROWS_AS(pair.server.serve(add, [](int, int) { return 0; }), hg::Exception);
    const auto r = add(pair.peer, 1LL << 40, 2).wait();
    CHECK(r.status() == hg::Status::invalid_arg);
    CHECK(add(pair.peer, 3'000'000'000U, 2).wait().status() == hg::Status::invalid_arg);
    CHECK(add(pair.peer, std::uint64_t{5}, 2L).wait());
    CHECK_THROWS_AS(pair.client.connect("nonsense"), hg::Exception);
    CHECK_THROWS_AS(hg::Engine::client("no+such"), hg::Exception);
    CHECK(!hg::Engine::open("", false));
}

TEST_CASE("numbers arrive as what they were, or not at all") {
    static constexpr hg::Rpc<double(float)> single{"single"};
    static constexpr hg::Rpc<double(double)> real{"real"};
    Pair pair;
    pair.server.serve(single, [](float f) { return static_cast<double>(f); });
    pair.server.serve(real, [](double d) { return d; });
    const auto inf = std::numeric_limits<double>::infinity();
    // Rounding is what a float is asked for.
    CHECK(single(pair.peer, 0.1).get() == static_cast<double>(0.1F));
    CHECK(single(pair.peer, -inf).get() == -inf);
    CHECK(std::isnan(single(pair.peer, std::nan("")).get()));
    CHECK(single(pair.peer, 1e-300).get() == 0);
    CHECK(single(pair.peer, static_cast<double>(std::numeric_limits<float>::max())).wait());
    CHECK(single(pair.peer, 1e300).wait().status() == hg::Status::invalid_arg);
    CHECK(single(pair.peer, -1e300L).wait().status() == hg::Status::invalid_arg);
    // Integers are themselves.
    CHECK(single(pair.peer, 1 << 24).get() == 16777216.0);
    CHECK(single(pair.peer, (1 << 24) + 1).wait().status() == hg::Status::invalid_arg);
    CHECK(single(pair.peer, true).get() == 1);
    constexpr std::int64_t k53 = std::int64_t{1} << 53;
    CHECK(real(pair.peer, -k53).get() == -9007199254740992.0);
    CHECK(real(pair.peer, k53 + 1).wait().status() == hg::Status::invalid_arg);
    CHECK(real(pair.peer, -k53 - 1).wait().status() == hg::Status::invalid_arg);
    CHECK(real(pair.peer, k53 + 2).get() == 9007199254740994.0);
    CHECK(real(pair.peer, std::numeric_limits<std::int64_t>::min()).get() ==
          -9223372036854775808.0);
    CHECK(real(pair.peer, INT64_MAX).wait().status() == hg::Status::invalid_arg);
    CHECK(real(pair.peer, UINT64_MAX).wait().status() == hg::Status::invalid_arg);
    CHECK(real(pair.peer, std::uint64_t{1} << 63).get() == 9223372036854775808.0);
    CHECK(real(pair.peer, 0).get() == 0);
}

TEST_CASE("one-way calls come, and leave no trace when they fail") {
    Pair pair;
    std::atomic<std::size_t> bytes{0};
    std::atomic<unsigned> notes{0};
    pair.server.serve(note, [&](std::string text) {
        bytes += text.size();
        ++notes;
    });
    for (const std::size_t size : {0U, 10U, 100'000U}) {
        CHECK(note(pair.peer, std::string(size, 'n')).wait());
    }
    REQUIRE(support::until([&] { return notes == 3; }));
    CHECK(bytes == 100'010);
}

TEST_CASE("a call that is dropped before it is sent leaves nothing behind") {
    Pair pair;
    std::atomic<unsigned> served{0};
    pair.server.serve(echo, [&](std::string text) {
        ++served;
        return text;
    });
    {
        auto small = echo(pair.peer, "small");
        auto large = echo(pair.peer, std::string(200'000, 'l'));
        auto moved = std::move(large);
    }
    CHECK(pair.client.calls() == 0);
    CHECK(echo(pair.peer, "x").get() == "x");
    CHECK(served == 1);
}

TEST_CASE("a process calls itself") {
    Pair pair;
    pair.client.serve(echo, [](std::string text) { return text; });
    const hg::Peer self = pair.client.self();
    CHECK(echo(self, "me").get() == "me");
    CHECK(echo(self, std::string(100'000, 'm')).get().size() == 100'000);
    CHECK(pair.client.connect(pair.client.uri()) == self);
    CHECK(!(pair.peer == self));
}

TEST_CASE("a handler calls on") {
    static constexpr hg::Rpc<std::string(std::string)> relay{"relay"};
    Pair pair;
    pair.client.serve(echo, [](std::string text) { return text + "?"; });
    pair.server.serve(relay, [](hg::Request& request, std::string text) {
        return echo(request.peer(), text).get();  // blocks the server's own thread
    });
    CHECK(relay(pair.peer, "who").get() == "who?");
}

TEST_CASE("many threads call at once") {
    Pair pair;
    pair.server.serve(add, [](int a, int b) { return a + b; });
    pair.server.serve(echo, [](std::string text) { return text; });
    std::vector<std::thread> threads;
    std::atomic<unsigned> good{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const hg::Peer peer = pair.client.connect(pair.server.uri());
            for (int i = 0; i < 200; ++i) {
                good += add(t % 2 == 0 ? pair.peer : peer, t, i).get() == t + i;
                if (i % 50 == 0) {
                    good += echo(peer, std::string(70'000, 'e')).get().size() == 70'000;
                }
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(good == 4 * 204);
}
