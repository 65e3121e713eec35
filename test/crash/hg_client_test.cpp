// SPDX-License-Identifier: BSD-3-Clause
// A client is killed in the middle of its calls: what the server does for it ends, others are
// served, nothing is left.
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
    support::Random random(support::options().seed);
    for (unsigned round = 0; round < support::options().rounds; ++round) {
        for (const Setup& setup : all_setups()) {
            for (const Kind kind : kKinds) {
                const std::uint64_t end =
                    kind == Kind::hold ? random.below(16) + 1 : random.below(40) + 1;
                const std::uint64_t turns = random.below(10);
                const bool stopped = random.below(4) == 0;
                INFO(to_string(setup) << ", " << to_string(kind) << ", round " << round
                                      << ", killed after " << end << " calls and " << turns
                                      << " turns" << (stopped ? ", stopped" : ""));
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
    const unsigned clients = 100 * support::options().rounds;
    for (const bool busy : {false, true}) {
        // Each dies in the middle of something else.
        Nursery nursery([=](std::uint64_t n, const std::string& uri,
                            const std::function<void()>& ready) {
            HgSide side({.busy = busy, .listen = n % 3 == 0});
            const hg_addr_t server = side.peer(uri);
            call(side, server, Kind::echo, n);
            ready();
            call_for_ever(side, server, kKinds[n % kKindCount], 1 + n % 5);
        });
        const std::size_t before = count_descriptors();
        HgSide side({.busy = busy});
        const auto pump = [&] { side.turn(1); };
        const std::string uri = side.uri();
        std::size_t descriptors = 0;
        Memory memory{};
        const unsigned warm = clients / 2;
        for (unsigned n = 0; n < clients; ++n) {
            const pid_t pid = nursery.start(n, uri, pump);
            const std::uint64_t served = side.requests();
            PARTY_REQUIRE(until([&] { return side.requests() > served || n % 2 == 0; }, pump));
            Nursery::kill(pid);
            nursery.reap(pump);
            side.release();
            if (n == warm || n == clients - 1) {
                // The one that has just died may be on its way out.
                const auto gone = [&] {
                    return side.pending() == 0 && abstract_sockets(pid).empty() &&
                           count_descriptors() <= before + 16;
                };
                PARTY_REQUIRE(support::until_for(kNotice, gone, pump));
            }
            if (n == warm) {
                descriptors = count_descriptors();
                memory = memory_used();
            }
        }
        CHECK(support::until_for(kNotice, [&] { return count_descriptors() <= descriptors; }, pump));
        const Memory now = memory_used();
        CHECK(now.mappings <= memory.mappings + 16);
        CHECK(now.heap <= memory.heap + 256 * 1024 + clients * 512);
        CHECK(side.requests(Kind::echo) >= clients);
        side.close();
        CHECK(count_descriptors() == before);
    }
}
