// SPDX-License-Identifier: BSD-3-Clause
// A peer is killed while messages are under way: each operation that was posted ends once, with
// success where that came first, else because the peer is gone, and nobody else notices.
#include <catch2/catch.hpp>

#include "crash/na_scene.hpp"
#include "support/payload.hpp"

namespace {

using namespace crash;
using support::Link;

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr na_tag_t kData = 100;  // and above: payload with the tag for a seed

std::uint64_t rounds() {
    return support::options().rounds;
}

// The last part of each case.
void require_lost(const NaOps& ops) {
    for (const auto& op : ops) {
        CHECK((op->ret == NA_SUCCESS || op->ret == NA_HOSTUNREACH));
    }
    CHECK(count(ops, NA_HOSTUNREACH) != 0);
}

// What the survivor gets of the victim is whole, or not there at all.
Inbox::Deliver require_whole(std::uint64_t& count) {
    return [&count](NaSide&, na_tag_t tag, std::span<const std::byte> bytes, na_addr_t*) {
        PARTY_REQUIRE(tag >= kData && support::mismatch(bytes, tag) == -1);
        ++count;
    };
}

template <typename Case>
void for_all_setups(Case&& run) {
    for (std::uint64_t round = 0; round < rounds(); ++round) {
        for (const Setup& setup : all_setups()) {
            INFO(to_string(setup) << ", round " << round);
            run(setup, round);
        }
    }
}

void serve(NaSide& side, Link&, na_addr_t*) {
    Inbox inbox(side);
    for (;;) {
        side.turn(100);
    }
}

}  // namespace

TEST_CASE("a peer is killed that has nothing to do", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        NaScene scene(setup, {.waiting = setup.waiting}, serve);
        ping(scene.side(), scene.victim(), 1);
        scene.kill();
        // Until it is noticed a message may still be accepted; after that none is.
        Message message(scene.side(), 64);
        NaOps sends;
        scene.until_noticed(
            [&] {
                sends.push_back(std::make_unique<NaOp>(scene.side()));
                NaOp& op = *sends.back();
                if (op.send_unexpected(message, 64, scene.victim(), kData) == NA_SUCCESS) {
                    scene.until([&] { return !op.in_flight(); });
                }
                return op.ret == NA_HOSTUNREACH;
            },
            1);
        for (const bool expected : {false, true}) {
            NaOp op(scene.side());
            if ((expected ? op.send_expected(message, 64, scene.victim(), kData)
                          : op.send_unexpected(message, 64, scene.victim(), kData)) == NA_SUCCESS) {
                scene.until([&] { return !op.in_flight(); });
            }
            CHECK(op.ret == NA_HOSTUNREACH);
        }
        scene.finish();
    });
}

TEST_CASE("a peer is killed and the survivor only closes", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        NaScene scene(setup, {.waiting = setup.waiting}, serve);
        ping(scene.side(), scene.victim(), 1);
        scene.kill();
        scene.finish();
    });
}

TEST_CASE("a peer is killed while its answers are awaited", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        NaScene scene(setup, {.waiting = setup.waiting}, serve);
        ping(scene.side(), scene.victim(), 1);
        Message message(scene.side(), 4096);
        NaOps receives;
        for (na_tag_t tag = 0; tag < 64; ++tag) {
            receives.push_back(std::make_unique<NaOp>(scene.side()));
            REQUIRE(receives.back()->receive_expected(message, scene.victim(), kData + tag) ==
                    NA_SUCCESS);
        }
        scene.turn();
        scene.kill();
        scene.until_noticed([&] { return all_ended(receives); });
        CHECK(count(receives, NA_HOSTUNREACH) == receives.size());
        scene.finish();
    });
}

TEST_CASE("a client is killed while its answers are awaited", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        // The survivor knows it by its message only.
        na_addr_t* client = nullptr;
        NaScene scene(
            setup, {.waiting = setup.waiting, .listen = false},
            [](NaSide& victim, Link&, na_addr_t* survivor) {
                Message m(victim, 64);
                NaOp send(victim);
                PARTY_REQUIRE(send.send_unexpected(m, 64, survivor, kData) == NA_SUCCESS);
                PARTY_REQUIRE(
                    support::until([&] { return !send.in_flight(); }, [&] { victim.turn(100); }));
                for (;;) {
                    victim.turn(100);
                }
            },
            [&](NaSide& side, na_tag_t, std::span<const std::byte>, na_addr_t* source) {
                PARTY_REQUIRE(NA_Addr_dup(side.cls(), source, &client) == NA_SUCCESS);
            });
        scene.until([&] { return client != nullptr; });
        Message message(scene.side(), 4096);
        NaOps receives;
        for (na_tag_t tag = 0; tag < 16; ++tag) {
            receives.push_back(std::make_unique<NaOp>(scene.side()));
            REQUIRE(receives.back()->receive_expected(message, client, kData + tag) == NA_SUCCESS);
        }
        scene.kill();
        scene.until_noticed([&] { return all_ended(receives); });
        CHECK(count(receives, NA_HOSTUNREACH) == receives.size());
        NA_Addr_free(scene.side().cls(), client);
        scene.finish();
    });
}

TEST_CASE("a peer is killed whose queue is full", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t round) {
        NaScene scene(setup, {.waiting = setup.waiting}, serve);
        ping(scene.side(), scene.victim(), 1);
        scene.stop();
        Message message(scene.side(), 4096);
        support::Random random(support::options().seed + round);
        NaOps sends;
        for (int i = 0; i < 1500; ++i) {
            sends.push_back(std::make_unique<NaOp>(scene.side()));
            const std::size_t size = 32 + random.below(random.below(8) == 0 ? 4000 : 300);
            REQUIRE((i % 3 == 0 ? sends.back()->send_expected(message, size, scene.victim(), kData)
                                : sends.back()->send_unexpected(message, size, scene.victim(),
                                                                kData)) == NA_SUCCESS);
        }
        for (int i = 0; i < 10; ++i) {
            scene.turn();
        }
        CHECK_FALSE(all_ended(sends));
        scene.kill();
        scene.until_noticed([&] { return all_ended(sends); });
        require_lost(sends);
        scene.finish();
    });
}

TEST_CASE("a peer is killed that has never answered", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        NaScene scene(setup, {.waiting = setup.waiting, .max_message = kLarge}, serve);
        scene.stop();
        Message message(scene.side(), kLarge);
        NaOps ops;
        for (unsigned i = 0; i < 60; ++i) {
            ops.push_back(std::make_unique<NaOp>(scene.side()));
            NaOp& op = *ops.back();
            const std::size_t size = i % 10 == 9 ? kLarge : 100 + 100 * i;
            const na_return_t ret =
                i % 3 == 0   ? op.send_expected(message, size, scene.victim(), kData)
                : i % 3 == 1 ? op.send_unexpected(message, size, scene.victim(), kData)
                             : op.receive_expected(message, scene.victim(), kData + i);
            REQUIRE(ret == NA_SUCCESS);
        }
        for (int i = 0; i < 10; ++i) {
            scene.turn();
        }
        scene.kill();
        scene.until_noticed([&] { return all_ended(ops); });
        require_lost(ops);
        scene.finish();
    });
}

TEST_CASE("a peer is killed whose messages nobody has looked at", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        std::uint64_t received = 0;
        NaScene scene(
            setup, {.waiting = setup.waiting, .max_message = kLarge},
            [](NaSide& side, Link& link, na_addr_t* survivor) {
                link.take_text();
                Message message(side, kLarge);
                support::fill(message.bytes(kLarge), kData);
                NaOps sends;
                for (int i = 0; i < 30; ++i) {
                    sends.push_back(std::make_unique<NaOp>(side));
                    PARTY_REQUIRE(sends.back()->send_unexpected(message, i % 10 == 9 ? kLarge : 200,
                                                                survivor, kData) == NA_SUCCESS);
                }
                for (int i = 0; i < 10; ++i) {
                    side.turn();
                }
                link.put("sent");
                for (;;) {
                    side.turn(100);
                }
            },
            require_whole(received));
        scene.link().put("now");
        REQUIRE(scene.link().take_text() == "sent");
        scene.kill();
        // Other classes, of any program, may find what it has left before the survivor looks.
        NaSide({.waiting = setup.waiting}).close();
        for (int i = 0; i < 100; ++i) {
            scene.turn(1);
        }
        CHECK(received <= 30);
        scene.finish();
    });
}

TEST_CASE("a stopped peer is killed that large messages wait for", "[na]") {
    for_all_setups([](const Setup& setup, std::uint64_t) {
        NaScene scene(setup, {.waiting = setup.waiting, .max_message = kLarge}, serve);
        ping(scene.side(), scene.victim(), 1);
        scene.stop();
        Message message(scene.side(), kLarge);
        NaOps sends;
        for (int i = 0; i < 8; ++i) {
            sends.push_back(std::make_unique<NaOp>(scene.side()));
            REQUIRE((i % 2 == 0
                         ? sends.back()->send_expected(message, kLarge, scene.victim(), kData)
                         : sends.back()->send_unexpected(message, kLarge, scene.victim(), kData)) ==
                    NA_SUCCESS);
        }
        for (int i = 0; i < 100; ++i) {
            scene.turn();
        }
        // Some transports have room for a few in the kernel.
        const std::size_t gone = count(sends, NA_SUCCESS);
        CHECK(gone < sends.size());
        scene.kill();
        scene.until_noticed([&] { return all_ended(sends); });
        CHECK(count(sends, NA_HOSTUNREACH) == sends.size() - gone);
        scene.finish();
    });
}

TEST_CASE("a peer is killed in the middle of large messages to it", "[na]") {
    if (!may_die_at_work()) {
        return;
    }
    support::Random random(support::options().seed);
    for_all_setups([&](const Setup& setup, std::uint64_t) {
        NaScene scene(setup, {.waiting = setup.waiting, .max_message = kLarge},
                      [](NaSide& side, Link&, na_addr_t*) {
                          std::uint64_t received = 0;
                          Inbox inbox(side, kLarge, require_whole(received));
                          for (;;) {
                              side.turn(100);
                          }
                      });
        Message message(scene.side(), kLarge);
        support::fill(message.bytes(kLarge), kData);
        const std::uint64_t end = random.below(12);
        const std::uint64_t turns = random.below(16);
        std::uint64_t sent = 0;
        NaOps sends;
        for (int i = 0; i < 4; ++i) {
            sends.push_back(std::make_unique<NaOp>(scene.side()));
            // One after the other, until there is nobody to send to.
            sends.back()->then = [&](NaOp& op) {
                if (op.ret == NA_SUCCESS) {
                    ++sent;
                    op.send_unexpected(message, kLarge, scene.victim(), kData);
                }
            };
            REQUIRE(sends.back()->send_unexpected(message, kLarge, scene.victim(), kData) ==
                    NA_SUCCESS);
        }
        scene.until([&] { return sent >= end; });
        for (std::uint64_t i = 0; i < turns; ++i) {
            scene.turn();
        }
        scene.kill();
        scene.until_noticed([&] { return all_ended(sends); });
        CHECK(count(sends, NA_HOSTUNREACH) == sends.size());
        scene.finish();
    });
}

TEST_CASE("a peer is killed in the middle of large messages from it", "[na]") {
    if (!may_die_at_work()) {
        return;
    }
    support::Random random(support::options().seed);
    for_all_setups([&](const Setup& setup, std::uint64_t) {
        std::uint64_t received = 0;
        NaScene scene(
            setup, {.waiting = setup.waiting, .max_message = kLarge},
            [](NaSide& side, Link&, na_addr_t* survivor) {
                Message message(side, kLarge);
                support::fill(message.bytes(kLarge), kData);
                NaOps sends;
                for (int i = 0; i < 4; ++i) {
                    sends.push_back(std::make_unique<NaOp>(side));
                    const auto send = [&message, survivor, i](NaOp& op) {
                        const na_return_t ret =
                            i % 2 == 0 ? op.send_unexpected(message, kLarge, survivor, kData)
                                       : op.send_expected(message, kLarge, survivor, kData);
                        PARTY_REQUIRE(ret == NA_SUCCESS);
                    };
                    sends.back()->then = send;
                    send(*sends.back());
                }
                for (;;) {
                    side.turn(100);
                }
            },
            require_whole(received));
        // Of the expected ones, only as many as there are receives for.
        Message message(scene.side(), kLarge);
        NaOp receive(scene.side());
        bool dead = false;
        receive.then = [&](NaOp& op) {
            if (op.ret == NA_SUCCESS) {
                PARTY_REQUIRE(support::mismatch(message.bytes(op.size), kData) == -1);
                ++received;
                if (!dead) {
                    op.receive_expected(message, scene.victim(), kData);
                }
            }
        };
        REQUIRE(receive.receive_expected(message, scene.victim(), kData) == NA_SUCCESS);
        const std::uint64_t end = 1 + random.below(12);
        const std::uint64_t turns = random.below(16);
        scene.until([&] { return received >= end; });
        if (random.below(2) == 0) {
            // What it has begun to send is here, the rest never comes.
            scene.stop();
        }
        for (std::uint64_t i = 0; i < turns; ++i) {
            scene.turn();
        }
        scene.kill();
        dead = true;
        scene.until_noticed([&] { return !receive.in_flight(); });
        CHECK((receive.ret == NA_SUCCESS || receive.ret == NA_HOSTUNREACH));
        scene.finish();
    });
}
