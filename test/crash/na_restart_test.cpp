// SPDX-License-Identifier: BSD-3-Clause
// After the death of a peer: another one under the same name, and many in sequence.
#include <catch2/catch.hpp>

#include <unistd.h>

#include "crash/na_side.hpp"
#include "crash/nursery.hpp"
#include "crash/residue.hpp"

namespace {

using namespace crash;
using support::Link;
using support::until;

Waiting by_turns(std::uint64_t n) {
    return n % 2 == 1 ? Waiting::busy : Waiting::blocking;
}

}  // namespace

TEST_CASE("a peer that was killed comes back under its name", "[na]") {
    for (std::uint64_t round = 0; round < 2 * support::options().rounds; ++round) {
        const std::string name = support::lasting_host("crash-" + std::to_string(getpid()));
        Nursery servers([=](std::uint64_t, const std::string&, const std::function<void()>& ready) {
            NaSide side({.waiting = by_turns(round), .name = name});
            Inbox inbox(side);
            ready();
            for (;;) {
                side.turn(100);
            }
        });
        const std::size_t descriptors = count_descriptors();
        NaSide side({.waiting = by_turns(round), .listen = false});
        const auto pump = [&] { side.turn(1); };
        const std::string uri = support::options().protocol + "://" + name;
        na_addr_t* server = side.peer(uri);
        for (std::uint64_t life = 0; life < 8; ++life) {
            INFO("round " << round << ", life " << life);
            const pid_t pid = servers.start(life, "", pump);
            // By the address of the life before, or by a new one.
            if (life % 2 == 1) {
                side.forget(server);
                server = side.peer(uri);
            }
            // Until the end of the last life has been noticed, its successor cannot be reached.
            ping(side, server, life);
            servers.kill(pid);
            Message message(side, 64);
            NaOp receive(side);
            REQUIRE(receive.receive_expected(message, server, 7) == NA_SUCCESS);
            const Stopwatch since;
            PARTY_REQUIRE(until([&] { return !receive.in_flight(); }, [&] { side.turn(5000); }));
            CHECK(receive.ret == NA_HOSTUNREACH);
            CHECK(since.elapsed() < kNotice);
            servers.reap(pump);
            CHECK(abstract_sockets(name).empty());
        }
        side.close();
        CHECK(descriptors_are_back(descriptors));
    }
}

TEST_CASE("peers are killed one after the other", "[na]") {
    if (!may_die_at_work()) {
        return;
    }
    const unsigned clients = 100 * support::options().rounds;
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        // Each dies with something else unfinished.
        Nursery nursery(
            [=](std::uint64_t n, const std::string& uri, const std::function<void()>& ready) {
                NaSide side({.waiting = waiting, .listen = n % 3 == 0, .max_message = 1 << 20});
                na_addr_t* server = side.peer(uri);
                Message message(side, 1 << 20);
                ping(side, server, n);
                NaOps ops;
                for (unsigned i = 0; i < n % 7; ++i) {
                    ops.push_back(std::make_unique<NaOp>(side));
                    ops.back()->send_unexpected(message, n % 2 == 0 ? 1 << 20 : 1000, server, 100);
                }
                ready();
                for (;;) {
                    side.turn(100);
                }
            });
        const std::size_t before = count_descriptors();
        NaSide side({.waiting = waiting, .max_message = 1 << 20});
        {
            Inbox inbox(side, 1 << 20);
            const auto pump = [&] { side.turn(1); };
            const std::string uri = side.uri();
            std::size_t descriptors = 0;
            Memory memory{};
            const unsigned warm = clients / 5;
            for (unsigned n = 0; n < clients; ++n) {
                const pid_t pid = nursery.start(n, uri, pump);
                nursery.kill(pid);
                nursery.reap(pump);
                if (n == warm) {
                    // The one that has just died may be on its way out. (The class itself has
                    // up to twenty.)
                    PARTY_REQUIRE(until([&] { return count_descriptors() <= before + 24; }, pump));
                    descriptors = count_descriptors();
                    memory = memory_used();
                }
            }
            CHECK(until_noticed([&] { return count_descriptors() <= descriptors; }, pump));
            // How many of them are still being noticed depends on how fast they die.
            const Memory most{memory.heap + 64 * 1024 + clients * 512, memory.mappings + 16};
            Memory now{};
            CHECK(until_noticed(
                [&] {
                    now = memory_used();
                    return now.heap <= most.heap && now.mappings <= most.mappings;
                },
                pump));
            CHECK(now.mappings <= most.mappings);
            CHECK(now.heap <= most.heap);
            CHECK(inbox.pings() == clients);
            inbox.close();
        }
        side.close();
        CHECK(descriptors_are_back(before));
    }
}
