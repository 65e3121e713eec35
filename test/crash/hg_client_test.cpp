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
    // What is taken grows until pools, and those of libraries below, have as much as is ever in use
    // at a time; a batch has to come in which it does not.
    const unsigned batch = 50 * support::options().rounds;
    constexpr unsigned kMostBatches = 10;
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
        Memory most{};
        Memory now{};
        // Of buffers for long payloads: for each call of a client one to land in and one to send,
        // of 128 KiB.
        constexpr std::size_t kPool = kCalls * 2 * (std::size_t{128} << 10);
        const auto settled = [&] {
            return now.heap <= most.heap + kPool + (std::size_t{64} << 10) &&
                   now.mappings <= most.mappings + 16;
        };
        unsigned clients = 0;
        for (unsigned done = 0; done < 2 || (done < kMostBatches && !settled()); ++done) {
            most.heap = std::max(most.heap, now.heap);
            most.mappings = std::max(most.mappings, now.mappings);
            pid_t pid = 0;
            for (unsigned i = 0; i < batch; ++i, ++clients) {
                const std::uint64_t served = side.requests();
                pid = nursery.start(clients, uri, pump);
                // Its first call, and at times at least one of the others.
                const std::uint64_t wanted = served + 1 + clients % 2;
                PARTY_REQUIRE(until([&] { return side.requests() >= wanted; }, pump));
                Nursery::kill(pid);
                nursery.reap(pump);
                side.release();
            }
            // The one that has just died may be on its way out.
            const auto gone = [&] {
                return side.pending() == 0 && abstract_sockets(pid).empty() &&
                       count_descriptors() <= before + kOwn;
            };
            PARTY_REQUIRE(until_noticed(gone, pump));
            now = memory_used();
            if (done == 0) {
                descriptors = count_descriptors();
            }
        }
        INFO(clients << " clients, heap " << now.heap << " after " << most.heap << ", mappings "
                     << now.mappings << " after " << most.mappings);
        CHECK(settled());
        CHECK(count_descriptors() <= descriptors + kOwn / 4);
        CHECK(side.requests(Kind::echo) >= clients);
        side.close();
        CHECK(descriptors_are_back(before));
    }
}
