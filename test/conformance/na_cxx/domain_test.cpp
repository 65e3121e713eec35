// SPDX-License-Identifier: BSD-3-Clause
// Opening, addresses, results and exceptions, waiting, and what posts cost.
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <unordered_set>

#include "na.h"
#include "side.hpp"
#include "support/allocations.hpp"
#include "support/until.hpp"

using namespace cxx_test;
using namespace std::chrono_literals;
using na::Status;

namespace cxx_test {

Quiet::Quiet() {
    NA_Set_log_level("none");
}
Quiet::~Quiet() {
    NA_Set_log_level("error");
}

}  // namespace cxx_test

TEST_CASE("opening what is not there", "[cxx][domain]") {
    const Quiet quiet;
    const auto none = na::Domain::open("nosuch+thing");
    REQUIRE_FALSE(none);
    CHECK(none.status() == Status::protonosupport);
    CHECK_THAT(none.error().message, Catch::Contains("nosuch"));
    try {
        (void)none.value();
        FAIL("no exception");
    } catch (const na::Failure& e) {
        CHECK(e.status() == Status::protonosupport);
        CHECK_THAT(std::string(e.what()),
                   Catch::StartsWith("protocol not supported: ") && Catch::Contains("nosuch"));
    }
    CHECK_THROWS_AS(na::Domain::listen("").value(), std::runtime_error);
}

TEST_CASE("a domain says what it is", "[cxx][domain]") {
    Side side;
    CHECK_THAT(side.uri, Catch::StartsWith(side.domain.class_name() + "+"));
    CHECK_FALSE(side.domain.protocol().empty());
    CHECK(side.domain.listening());
    CHECK(side.domain.max_unexpected() > 0);
    CHECK(side.domain.max_expected() > 0);
    CHECK(side.domain.max_tag() > 0);
    CHECK(side.context.id() == 0);
    CHECK(side.domain.open_context(99).status() == Status::invalid_arg);  // max_contexts is 1
}

TEST_CASE("addresses", "[cxx][domain]") {
    const Quiet quiet;
    Pair p;
    CHECK(p.to_b.uri() == p.b.uri);
    CHECK_FALSE(p.to_b.is_self());
    CHECK(p.a.domain.self().is_self());
    CHECK(p.a.domain.lookup(p.a.uri).value() == p.a.domain.self());
    const na::Address decoded = p.a.domain.decode_address(p.to_b.encode()).value();
    CHECK(decoded == p.to_b);
    CHECK_FALSE(decoded == p.a.domain.self());
    na::Address copy = decoded;
    const na::Address& same = copy;
    copy = same;
    na::Address moved = std::move(copy);
    CHECK(moved == p.to_b);
    CHECK_FALSE(copy);  // NOLINT
    CHECK(copy.uri().empty());
    CHECK(copy.encode().empty());
    CHECK_FALSE(copy == p.to_b);
    std::unordered_set<na::Address> set{moved, decoded, p.a.domain.self()};
    CHECK(set.size() == 2);
    const auto wrong = p.a.domain.lookup("nosuch+thing://x");
    CHECK(wrong.status() == Status::invalid_arg);
    CHECK_THAT(wrong.error().message, Catch::Contains("nosuch+thing://x"));
    CHECK_FALSE(p.a.domain.decode_address({}));
}

TEST_CASE("results", "[cxx][domain]") {
    na::Result<int> good = 3;
    CHECK(good.value() == 3);
    CHECK(std::move(good).value_or(4) == 3);
    na::Result<int> bad = na::Error{Status::busy, "because"};
    CHECK_THROWS_WITH(bad.value(), "busy: because");
    CHECK(std::move(bad).value_or(4) == 4);
    na::Result<void> fine;
    CHECK(fine);
    CHECK(ok(fine.status()));
    fine.value();
    na::Result<void> failed = na::Error{Status::timeout, {}};
    CHECK_FALSE(failed);
    CHECK_THROWS_WITH(failed.value(), "timed out");
    CHECK_NOTHROW(na::check(Status::success, "nothing"));
    CHECK_THROWS_WITH(na::check(Status::hostunreach, "put"), "peer unreachable: put");
    const na::PostResult posted = Status::success;
    CHECK(posted);
    posted.value();
    CHECK(ok(posted.error().status));
}

TEST_CASE("waiting ends with the time, with an event, with wake()", "[cxx][wait]") {
    Pair p;
    // (A transport may have something of its own to do at first.)
    CHECK(p.a.context.progress(1ms) == Status::timeout);
    CHECK(p.a.context.progress() == Status::timeout);
    CHECK(p.a.context.ready() == 0);
    CHECK_FALSE(p.a.context.run_until([] { return false; }, 5ms));
    CHECK(p.a.context.run_until([] { return true; }, 0ms));

    p.a.context.wake();
    CHECK(ok(p.a.context.progress(1h)));  // it was called before
    CHECK(p.a.context.progress(1ms) == Status::timeout);

    std::atomic<bool> done{false};
    std::thread waker([&] {
        done = true;
        p.a.context.wake();
    });
    CHECK(p.a.context.run_until([&] { return done.load(); }, 1h));
    waker.join();

    // Two that wait on one context, each for its own: both hear of it.
    std::atomic<bool> go{false};
    std::atomic<int> ended{0};
    const auto wait = [&] {  // (Catch2 asserts in one thread only.)
        ended += p.b.context.run_until([&] { return go.load(); }, 1h) ? 1 : 0;
    };
    std::thread one(wait), two(wait);
    go = true;
    p.b.context.wake();
    one.join();
    two.join();
    CHECK(ended == 2);
}

TEST_CASE("an event loop sleeps on the descriptor", "[cxx][wait]") {
    Pair p;
    if (p.b.context.wait_fd() < 0) {
        support::skip("no descriptor");
        return;
    }
    const na::Buffer in = p.b.domain.make_buffer(64).value();
    const na::Buffer out = p.a.domain.make_buffer(64).value();
    na::Operation recv(p.b.context), send(p.a.context);
    Outcome receiving;
    REQUIRE(p.b.context.recv_unexpected(recv, in, receiving.on_message()));
    std::atomic<bool> posted{false}, left{false}, stop{false};
    std::thread sender([&] {
        posted = static_cast<bool>(p.a.context.send_unexpected(
            send, p.to_b, 1, out.holding("knock"), [&](Status s) { left = ok(s); }));
        p.a.context.run_until([&] { return left.load() && stop.load(); }, 60s);
    });
    while (!receiving.done()) {
        if (p.b.context.arm()) {
            pollfd set{.fd = p.b.context.wait_fd(), .events = POLLIN, .revents = 0};
            REQUIRE(support::uninterrupted([&] { return ::poll(&set, 1, 60'000); }) == 1);
        }
        p.b.pump();
    }
    stop = true;
    p.a.context.wake();
    sender.join();
    CHECK(posted);
    CHECK(left);
    CHECK(receiving.succeeded());
}

TEST_CASE("posts and callbacks allocate nothing", "[cxx][cost]") {
    if (options().protocol.starts_with("loop") || options().protocol.starts_with("fault")) {
        support::skip("the test transports allocate themselves");
        return;
    }
    const bool single = GENERATE(false, true);
    na::InitInfo info;
    info.single_class = single;
    Pair p(info);
    const na::Buffer out = p.a.domain.make_buffer(64).value();
    const na::Buffer in = p.b.domain.make_buffer(64).value();
    na::Operation send(p.a.context), recv(p.b.context), put(p.a.context);
    std::vector<std::byte> theirs(4096), mine(4096);
    na::Memory exposed = p.b.domain.register_memory(theirs, na::Access::write).value();
    const na::Memory local = p.a.domain.register_memory(mine).value();
    const na::RemoteMemory remote = p.a.domain.decode_memory(exposed.encode()).value();
    const auto round = [&] {
        int done = 0;
        struct Big {  // as large as may be
            int* done;
            std::byte more[56];
            void operator()(Status s) const { *done += ok(s) ? 1 : 0; }
            void operator()(Status s, const na::Message& m) const {
                *done += ok(s) && m.data.size() == 5 ? 1 : 0;
            }
        };
        const Big f{&done, {}};
        static_assert(sizeof f == 64);
        bool good = static_cast<bool>(p.b.context.recv_unexpected(recv, in, f)) &&
                    static_cast<bool>(
                        p.a.context.send_unexpected(send, p.to_b, 1, out.holding("hello"), f)) &&
                    static_cast<bool>(p.a.context.put(put, p.to_b, local.all(), remote.at(0), f));
        return good && p.until([&] { return done == 3; });
    };
    for (int i = 0; i < 100; ++i) {  // connections, pools
        REQUIRE(round());
    }
    const std::size_t before = support::allocations();
    bool good = true;
    for (int i = 0; i < 200 && good; ++i) {
        good = round();
    }
    const std::size_t made = support::allocations() - before;
    REQUIRE(good);
    INFO(made << " allocations in 200 rounds");
    // Nothing per round; a pool of the transport's may grow once in a while.
    CHECK(made < 20);
}
