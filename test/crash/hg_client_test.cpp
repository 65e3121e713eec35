// SPDX-License-Identifier: BSD-3-Clause
// A client is killed in the middle of its calls: what the server does for it ends, others are
// served, nothing is left.
#include <algorithm>

#include <catch2/catch.hpp>

#include "crash/hg_scene.hpp"
#include "crash/nursery.hpp"
#include "support/payload.hpp"

namespace {

using namespace crash;
using support::Link;
using support::until;

[[noreturn]] void call_for_ever(HgSide& side, hg_addr_t server, Kind kind, std::uint64_t window) {
    const bool going = true;
    std::uint64_t done = 0;
    const Calls calls = keep_calling(side, server, kind, window, &going, &done);
    for (;;) {
        side.turn(100);
    }
}

std::uint64_t window_of(Kind kind) {
    return kind == Kind::pull || kind == Kind::push ? 4 : 16;
}

}  // namespace

TEST_CASE("a client is killed in the middle of its calls", "[hg]") {
    if (!may_die_at_work()) {
        return;
    }
    support::Random random(support::options().seed);
    for (unsigned round = 0; round < support::options().rounds; ++round) {
        for (const Kind kind : kKinds) {
            for (const Setup& setup : half_of_setups(round + index(kind))) {
                const std::uint64_t end =
                    kind == Kind::hold ? random.below(16) + 1 : random.below(40) + 1;
                const std::uint64_t turns = random.below(10);
                const bool stopped = random.below(4) == 0;
                INFO(to_string(setup)
                     << ", " << to_string(kind) << ", round " << round << ", killed after " << end
                     << " calls and " << turns << " turns" << (stopped ? ", stopped" : ""));
                HgScene scene(setup, [=](HgSide& side, Link&, hg_addr_t server) {
                    call_for_ever(side, server, kind, window_of(kind));
                });
                scene.until([&] { return scene.side().requests(kind) >= end; });
                if (stopped) {
                    scene.stop();
                }
                for (std::uint64_t i = 0; i < turns; ++i) {
                    scene.turn();
                }
                scene.kill();
                scene.side().release();
                scene.until_noticed([&] { return scene.side().pending() == 0; }, 1);
                scene.finish();
            }
        }
    }
}

TEST_CASE("clients are killed one after the other", "[hg]") {
    if (!may_die_at_work()) {
        return;
    }
    const unsigned clients = 100 * support::options().rounds;
    // Descriptors that a server has for itself: buffers from the library's allocator among them.
    constexpr std::size_t kOwn = 40;
    constexpr unsigned kCalls = 5;  // of a client at a time
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        // Each dies in the middle of something else.
        Nursery nursery(
            [=](std::uint64_t n, const std::string& uri, const std::function<void()>& ready) {
                HgSide side({.waiting = waiting, .listen = n % 3 == 0});
                const hg_addr_t server = side.peer(uri);
                call(side, server, Kind::echo, n);
                ready();
                call_for_ever(side, server, kKinds[n % kKindCount], 1 + n % kCalls);
            });
        const std::size_t before = count_descriptors();
        HgSide side({.waiting = waiting});
        const auto pump = [&] { side.turn(1); };
        const std::string uri = side.uri();
        std::size_t descriptors = 0;
        Memory memory{};
        const unsigned warm = clients / 2;
        for (unsigned n = 0; n < clients; ++n) {
            const std::uint64_t served = side.requests();
            const pid_t pid = nursery.start(n, uri, pump);
            // Its first call, and at times at least one of the others.
            const std::uint64_t wanted = served + 1 + n % 2;
            PARTY_REQUIRE(until([&] { return side.requests() >= wanted; }, pump));
            Nursery::kill(pid);
            nursery.reap(pump);
            side.release();
            if (n == warm || n == clients - 1) {
                // The one that has just died may be on its way out.
                const auto gone = [&] {
                    return side.pending() == 0 && abstract_sockets(pid).empty() &&
                           count_descriptors() <= before + kOwn;
                };
                PARTY_REQUIRE(support::until_for(kNotice, gone, pump));
            }
            if (n <= warm) {
                // The most at any time: pools of libraries below fill up, and are not always full.
                const Memory used = memory_used();
                memory.heap = std::max(memory.heap, used.heap);
                memory.mappings = std::max(memory.mappings, used.mappings);
            }
            if (n == warm) {
                descriptors = count_descriptors();
            }
        }
        CHECK(count_descriptors() <= descriptors + kOwn / 4);
        const Memory now = memory_used();
        CHECK(now.mappings <= memory.mappings + 16);
        // The pool of buffers for long payloads still fills up, to as many as are in use at a time:
        // for each call of a client one to land in and one to send, of 128 KiB.
        constexpr std::size_t kPool = kCalls * 2 * (std::size_t{128} << 10);
        // So do those of requests, by 32 with room for a message each, on both ways.
        constexpr std::size_t kRequests = 2 * 32 * (std::size_t{17} << 10);
        CHECK(now.heap <= memory.heap + kPool + kRequests + (std::size_t{64} << 10));
        CHECK(side.requests(Kind::echo) >= clients);
        side.close();
        CHECK(descriptors_are_back(before));
    }
}
