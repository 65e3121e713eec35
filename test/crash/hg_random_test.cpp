// SPDX-License-Identifier: BSD-3-Clause
// Deaths at random points, counted in calls, one life after the other against the same survivor.
#include <catch2/catch.hpp>

#include <unistd.h>

#include "crash/hg_scene.hpp"
#include "crash/nursery.hpp"
#include "support/payload.hpp"

namespace {

using namespace crash;
using support::until;

// Calls of all kinds, repeated as long as they succeed.
struct Mixture {
    Mixture(HgSide& side, hg_addr_t to, std::uint64_t seed) {
        support::Random random(seed);
        const std::uint64_t window = 1 + random.below(12);
        for (std::uint64_t i = 0; i < window; ++i) {
            // The large transfers would be all that there is.
            Kind kind = kKinds[random.below(3) == 0 ? random.below(kKindCount) : random.below(4)];
            if (kind == Kind::hold) {
                kind = Kind::echo;  // nobody would answer
            }
            for (auto& c : keep_calling(side, to, kind, 1 + random.below(4), &going, &done)) {
                calls.push_back(std::move(c));
            }
        }
    }
    bool going = true;
    std::uint64_t done = 0;
    Calls calls;
};

}  // namespace

TEST_CASE("servers are killed at random points", "[hg]") {
    if (!may_die_at_work()) {
        return;
    }
    const unsigned lives = 25 * support::options().rounds;
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        const std::string name = support::lasting_host("crash-" + std::to_string(getpid()));
        Nursery servers([=](std::uint64_t, const std::string&, const std::function<void()>& ready) {
            HgSide side({.waiting = waiting, .name = name});
            ready();
            for (;;) {
                side.turn(100);
            }
        });
        const std::size_t before = count_descriptors();
        HgSide side({.waiting = waiting, .listen = false});
        support::Random random(support::options().seed);
        for (unsigned life = 0; life < lives; ++life) {
            const std::uint64_t end = random.below(200);
            const std::uint64_t turns = random.below(10);
            INFO((waiting == Waiting::busy ? "busy" : "blocking")
                 << ", life " << life << ", " << end << " calls, " << turns << " turns");
            const pid_t pid = servers.start(life, "", [&] { side.turn(1); });
            const hg_addr_t server = side.peer(support::options().protocol + "://" + name);
            {
                Mixture mixture(side, server, random.next());
                if (!until([&] { return mixture.done >= end; }, [&] { side.turn(5); })) {
                    FAIL("after " << mixture.done << " calls:\n" << describe(mixture.calls));
                }
                for (std::uint64_t i = 0; i < turns; ++i) {
                    side.turn();
                }
                Nursery::kill(pid);
                const Stopwatch since;
                PARTY_REQUIRE(
                    until([&] { return all_ended(mixture.calls); }, [&] { side.turn(5000); }));
                CHECK(since.elapsed() < kNotice);
                CHECK(count(mixture.calls, HG_HOSTUNREACH) == mixture.calls.size());
            }
            side.forget(server);
            servers.reap([&] { side.turn(1); });
            // An answer that still came may have been followed by a word to the server, which took
            // that in on its last breath. Calls before such a connection is seen to end share its
            // fate.
            side.look();
        }
        side.close();
        CHECK(descriptors_are_back(before));
    }
}

TEST_CASE("clients are killed at random points", "[hg]") {
    if (!may_die_at_work()) {
        return;
    }
    const unsigned lives = 25 * support::options().rounds;
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        Nursery clients(
            [=](std::uint64_t seed, const std::string& uri, const std::function<void()>& ready) {
                HgSide side({.waiting = waiting, .listen = seed % 2 == 0});
                ready();
                const Mixture mixture(side, side.peer(uri), seed);
                for (;;) {
                    side.turn(100);
                }
            });
        const std::size_t before = count_descriptors();
        HgSide side({.waiting = waiting});
        const auto pump = [&] { side.turn(1); };
        support::Random random(support::options().seed);
        for (unsigned life = 0; life < lives; ++life) {
            const std::uint64_t end = random.below(200);
            const std::uint64_t turns = random.below(10);
            const std::uint64_t seed = random.next();
            INFO((waiting == Waiting::busy ? "busy" : "blocking")
                 << ", life " << life << ", " << end << " calls, " << turns << " turns");
            const pid_t pid = clients.start(seed, side.uri(), pump);
            const std::uint64_t served = side.requests();
            PARTY_REQUIRE(until([&] { return side.requests() >= served + end; }, pump));
            for (std::uint64_t i = 0; i < turns; ++i) {
                side.turn();
            }
            Nursery::kill(pid);
            clients.reap(pump);
            const Stopwatch since;
            PARTY_REQUIRE(until([&] { return side.pending() == 0; }, pump));
            CHECK(since.elapsed() < kNotice);
        }
        side.close();
        CHECK(descriptors_are_back(before));
    }
}
