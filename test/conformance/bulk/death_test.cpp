// SPDX-License-Identifier: BSD-3-Clause
// Origins that die or leave while their memory is in use: the transfer ends with a code, everybody
// else goes on.
#include <csignal>

#include <catch2/catch.hpp>

#include "party.hpp"

using namespace test;

namespace {

constexpr hg_size_t kMiB = 1 << 20;

// A transfer with somebody else, where the transport promises that it goes on.
void check_survivor(const Node& node, const Address& survivor, const Bulk& alive,
                    const Memory& local, std::uint64_t expected) {
    const hg_return_t ret = transfer(node, HG_BULK_PULL, survivor, alive, 0, local.bulk, 0, kMiB);
    if (ret == HG_SUCCESS) {
        CHECK(hash(local.flat()) == expected);
    } else if (const char* why = support::lacks(support::Promise::others_survive)) {
        CHECK(ret == HG_IO_ERROR);  // at once, and not never
        support::skip(why);
    } else {
        CHECK(ret == HG_SUCCESS);
    }
}

}  // namespace

TEST_CASE("an origin killed in the middle of a transfer", "[death]") {
    const Quiet quiet;
    if (other_party() == support::Party::As::thread) {
        support::skip("needs another process");
        return;
    }
    constexpr hg_size_t kSize = 64 * kMiB;
    for (const hg_bulk_op_t op : {HG_BULK_PULL, HG_BULK_PUSH}) {
        for (const bool own : {false, true}) {
            Origin victim({.sizes = {kSize}, .own_memory = own});
            Origin survivor({.sizes = {kMiB}});
            Node node;
            {
                const Address addr(node, victim.uri());
                const Address other(node, survivor.uri());
                const Bulk remote = victim.descriptor(node);
                const Bulk alive = survivor.descriptor(node);
                const Memory local(node, {kSize}, 2, HG_BULK_READWRITE);
                const Memory small(node, {kMiB}, 3, HG_BULK_READWRITE);
                Ended ended;
                REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, op, addr, remote, 0,
                                         local.bulk, 0, kSize, nullptr) == HG_SUCCESS);
                for (int i = 0; i < 2; ++i) {
                    node.pump();
                }
                REQUIRE(ended.count == 0);
                victim.party().kill(SIGKILL);
                const auto held = support::hold_port(victim.uri());
                REQUIRE(support::until([&] { return ended.count != 0; }, [&] { node.pump(); }));
                // Memory that is mapped here outlives its owner: there the transfer may also end
                // well.
                if (!own || ended.info.ret != HG_SUCCESS) {
                    CHECK(ended.info.ret == HG_HOSTUNREACH);
                }
                CHECK(ended.count == 1);

                check_survivor(node, other, alive, small, survivor.memory_hash(node));
                if (!own && held) {  // else another program is there
                    CHECK(transfer(node, op, addr, remote, 0, local.bulk, 0, kSize) ==
                          HG_HOSTUNREACH);
                }
            }
            node.close();
            CHECK(survivor.end() == "");
        }
    }
}

TEST_CASE("an origin killed in the middle of a transfer that has begun", "[death]") {
    const Quiet quiet;
    if (other_party() == support::Party::As::thread) {
        support::skip("needs another process");
        return;
    }
    constexpr hg_size_t kSize = 64 * kMiB;
    for (const hg_bulk_op_t op : {HG_BULK_PULL, HG_BULK_PUSH}) {
        Origin victim({.sizes = {kSize}});
        Origin survivor({.sizes = {kMiB}});
        Node node;
        {
            const Address addr(node, victim.uri());
            const Address other(node, survivor.uri());
            const Bulk remote = victim.descriptor(node);
            const Bulk alive = survivor.descriptor(node);
            const Memory local(node, {kSize}, 2, HG_BULK_READWRITE);
            const Memory small(node, {kMiB}, 3, HG_BULK_READWRITE);
            // They know each other: the large one is posted at once.
            REQUIRE(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, kMiB) ==
                    HG_SUCCESS);
            victim.party().kill(SIGSTOP);
            Ended ended;
            REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, op, addr, remote, 0,
                                     local.bulk, 0, kSize, nullptr) == HG_SUCCESS);
            for (int i = 0; i < 10; ++i) {
                node.pump();
            }
            victim.party().kill(SIGKILL);
            REQUIRE(support::until([&] { return ended.count != 0; }, [&] { node.pump(); }));
            // Memory of the dead may still be at hand.
            CHECK((ended.info.ret == HG_HOSTUNREACH || ended.info.ret == HG_SUCCESS));
            check_survivor(node, other, alive, small, survivor.memory_hash(node));
        }
        node.close();
        CHECK(survivor.end() == "");
    }
}

TEST_CASE("an origin that has left", "[death]") {
    const Quiet quiet;
    Origin origin({.sizes = {kMiB}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {kMiB}, 2, HG_BULK_READWRITE);
        REQUIRE(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, kMiB) == HG_SUCCESS);
        CHECK(origin.end() == "");
        const auto held = support::hold_port(origin.uri());
        if (held) {  // else another program is there
            CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, kMiB) ==
                  HG_HOSTUNREACH);
            CHECK(transfer(node, HG_BULK_PUSH, addr, remote, 0, local.bulk, 0, kMiB) ==
                  HG_HOSTUNREACH);
        }
    }
    node.close();
}

TEST_CASE("posts that fail end their transfer once, with their code", "[death]") {
    const Quiet quiet;
    const std::string& protocol = support::options().protocol;
    if (protocol.starts_with("fault+")) {
        support::skip("has faults of its own");
        return;
    }
    // Another party: a process copies its own memory without a post.
    Origin origin({.sizes = {12 * kMiB}, .protocol = "fault+" + protocol + "?delay=0"});
    Node node("fault+" + protocol +
              "?fail=0.02&delay=0.3&seed=" + std::to_string(support::options().seed));
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {12 * kMiB}, 2, HG_BULK_READWRITE);
        unsigned failed = 0;
        unsigned good = 0;
        for (int i = 0; i < 40; ++i) {
            switch (transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, 12 * kMiB)) {
                case HG_SUCCESS:
                    ++good;
                    break;
                case HG_IO_ERROR:
                    ++failed;
                    break;
                default:
                    FAIL("another code");
            }
        }
        CHECK(failed > 0);
        CHECK(good > 0);
        CHECK(hash(local.flat()) == origin.memory_hash(node));
    }
    node.close();
    CHECK(origin.end() == "");
}
