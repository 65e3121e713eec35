// SPDX-License-Identifier: BSD-3-Clause
// Handlers whose callers do not wait any more.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <stop_token>

#include "conformance/cxx/scene.hpp"

using namespace cxxtest;
using namespace std::chrono_literals;
using hg::Status;

namespace {

inline constexpr hg::Rpc<int(int)> slow{"slow"};

// What the handler of slow has seen.
struct Seen {
    std::atomic<unsigned> begun{0};
    std::atomic<unsigned> stopped{0};
    std::atomic<unsigned> told{0};  // stop callbacks
};

void serve(hg::Engine& engine, Seen& seen) {
    engine.serve(slow, [&](hg::Request& request, int) -> hg::Task<int> {
        const std::stop_token stop = request.stop();
        const std::stop_callback tell(stop, [&] { ++seen.told; });
        ++seen.begun;
        while (!stop.stop_requested()) {
            co_await engine.sleep(1ms);
        }
        ++seen.stopped;
        co_return 0;
    });
}

}  // namespace

TEST_CASE("a handler is asked to stop when its caller cancels") {
    Pair pair;
    Seen seen;
    serve(pair.server, seen);
    for (unsigned n = 1; n <= 3; ++n) {
        std::stop_source cancel;
        std::atomic<int> status{-1};
        slow(pair.peer, 1, hg::CallOptions{.stop = cancel.get_token()})
            .then([&](const hg::Result<int>& r) { status = static_cast<int>(r.status()); });
        REQUIRE(support::until([&] { return seen.begun == n; }));
        CHECK(seen.stopped == n - 1);
        cancel.request_stop();
        REQUIRE(support::until([&] { return status != -1; }));
        CHECK(static_cast<Status>(status.load()) == Status::canceled);
        REQUIRE(support::until([&] { return seen.stopped == n; }));
        CHECK(seen.told == n);
    }
}

TEST_CASE("a handler is asked to stop when its caller's engine ends") {
    hg::Engine server = hg::Engine::server(support::options().protocol);
    Seen seen;
    serve(server, seen);
    {
        hg::Engine client = hg::Engine::server(support::options().protocol);
        slow(client.connect(server.uri()), 1).then([](const hg::Result<int>&) {});
        REQUIRE(support::until([&] { return seen.begun == 1; }));
        client.shutdown(0ms);
    }
    REQUIRE(support::until([&] { return seen.stopped == 1; }));
}
