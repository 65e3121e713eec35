// SPDX-License-Identifier: BSD-3-Clause
// A server is killed while it serves: each call in flight ends once, with success where that came
// first, else with HG_HOSTUNREACH, and nobody else notices.
#include <catch2/catch.hpp>

#include "crash/hg_scene.hpp"
#include "support/payload.hpp"

namespace {

using namespace crash;

template <typename Case>
void for_setups(Case&& run) {
    support::Random random(support::options().seed);
    for (unsigned round = 0; round < support::options().rounds; ++round) {
        for (const Setup& setup : all_setups()) {
            INFO(to_string(setup) << ", round " << round);
            run(setup, random);
        }
    }
}

}  // namespace

TEST_CASE("a server is killed that holds requests", "[hg]") {
    for_setups([](const Setup& setup, support::Random&) {
        HgScene scene(setup);
        call(scene.side(), scene.victim(), Kind::echo, 1);
        Calls calls;
        for (std::uint64_t i = 0; i < 200; ++i) {
            calls.push_back(std::make_unique<Call>(scene.side(), scene.victim(), Kind::hold, i));
            REQUIRE(calls.back()->forward() == HG_SUCCESS);
        }
        for (int i = 0; i < 20; ++i) {
            scene.turn();
        }
        scene.kill();
        scene.until_noticed([&] { return all_ended(calls); });
        CHECK(count(calls, HG_HOSTUNREACH) == calls.size());
        // Handles are as good as before, only the server is not.
        for (const auto& c : calls) {
            CHECK(c->forward() == HG_SUCCESS);
        }
        scene.until([&] { return all_ended(calls); });
        CHECK(count(calls, HG_HOSTUNREACH) == calls.size());
        calls.clear();
        scene.finish();
    });
}

TEST_CASE("a server is killed while it serves", "[hg]") {
    if (!may_die_at_work()) {
        return;
    }
    support::Random random(support::options().seed);
    for (const Kind kind : kKinds) {
        unsigned interrupted = 0;
        if (kind == Kind::hold) {
            continue;
        }
        for (unsigned round = 0; round < support::options().rounds; ++round) {
            for (const Setup& setup : half_of_setups(round + index(kind))) {
                const std::uint64_t end = random.below(40);
                const std::uint64_t turns = random.below(10);
                const bool stopped = random.below(4) == 0;
                INFO(to_string(setup)
                     << ", " << to_string(kind) << ", round " << round << ", killed after " << end
                     << " calls and " << turns << " turns" << (stopped ? ", stopped" : ""));
                HgScene scene(setup);
                bool going = true;
                std::uint64_t done = 0;
                const std::uint64_t window = kind == Kind::pull || kind == Kind::push ? 4 : 16;
                Calls calls =
                    keep_calling(scene.side(), scene.victim(), kind, window, &going, &done);
                scene.until([&] { return done >= end; });
                if (stopped) {
                    scene.stop();
                }
                for (std::uint64_t i = 0; i < turns; ++i) {
                    scene.turn();
                }
                scene.kill();
                interrupted += all_ended(calls) ? 0 : 1;
                scene.until_noticed([&] { return all_ended(calls); });
                CHECK(count(calls, HG_HOSTUNREACH) == calls.size());
                going = false;
                calls.clear();
                scene.finish();
            }
        }
        INFO(to_string(kind));
        CHECK(interrupted != 0);
    }
}

TEST_CASE("a server is killed and the client only closes", "[hg]") {
    for_setups([](const Setup& setup, support::Random&) {
        HgScene scene(setup);
        for (const Kind kind : kKinds) {
            if (kind != Kind::hold) {
                call(scene.side(), scene.victim(), kind, 1);
            }
        }
        scene.kill();
        scene.finish();
    });
}

TEST_CASE("a server is killed that has never answered", "[hg]") {
    for_setups([](const Setup& setup, support::Random&) {
        HgScene scene(setup);
        scene.stop();
        Calls calls;
        for (std::uint64_t i = 0; i < 64; ++i) {
            const Kind kind = kKinds[i % kKindCount];
            calls.push_back(std::make_unique<Call>(scene.side(), scene.victim(), kind, i));
            REQUIRE(calls.back()->forward() == HG_SUCCESS);
        }
        for (int i = 0; i < 10; ++i) {
            scene.turn();
        }
        scene.kill();
        scene.until_noticed([&] { return all_ended(calls); });
        // One-way requests may have left before.
        CHECK(count(calls, HG_HOSTUNREACH) + count(calls, HG_SUCCESS) == calls.size());
        CHECK(count(calls, HG_HOSTUNREACH) >= calls.size() - calls.size() / kKindCount);
        calls.clear();
        scene.finish();
    });
}

TEST_CASE("calls are canceled while their server dies", "[hg]") {
    if (!may_die_at_work()) {
        return;
    }
    for_setups([](const Setup& setup, support::Random& random) {
        HgScene scene(setup);
        Calls calls;
        for (std::uint64_t i = 0; i < 64; ++i) {
            const Kind kind = kKinds[i % kKindCount];
            calls.push_back(std::make_unique<Call>(scene.side(), scene.victim(), kind, i));
            REQUIRE(calls.back()->forward() == HG_SUCCESS);
        }
        for (std::uint64_t i = random.below(20); i != 0; --i) {
            scene.turn();
        }
        for (std::size_t i = 0; i < calls.size(); i += 2) {
            calls[i]->cancel();
        }
        scene.kill();
        for (std::size_t i = 1; i < calls.size(); i += 4) {
            calls[i]->cancel();
        }
        scene.until_noticed([&] { return all_ended(calls); });
        CHECK(count(calls, HG_SUCCESS) + count(calls, HG_CANCELED) + count(calls, HG_HOSTUNREACH) ==
              calls.size());
        calls.clear();
        scene.finish();
    });
}

TEST_CASE("a server is stopped for a while", "[hg]") {
    for_setups([](const Setup& setup, support::Random&) {
        HgScene scene(setup);
        call(scene.side(), scene.victim(), Kind::echo, 1);
        for (int time = 0; time < 2; ++time) {
            scene.stop();
            Calls calls;
            for (std::uint64_t i = 0; i < 150; ++i) {
                const Kind kind = i % 10 == 9 ? kKinds[2 + i / 10 % (kKindCount - 2)] : Kind::echo;
                calls.push_back(std::make_unique<Call>(scene.side(), scene.victim(), kind, i));
                REQUIRE(calls.back()->forward() == HG_SUCCESS);
            }
            for (int i = 0; i < 50; ++i) {
                scene.turn(1);
            }
            CHECK_FALSE(all_ended(calls));
            scene.resume();
            scene.until([&] { return all_ended(calls); });
            CHECK(count(calls, HG_SUCCESS) == calls.size());
        }
        scene.kill();
        scene.finish();
    });
}
