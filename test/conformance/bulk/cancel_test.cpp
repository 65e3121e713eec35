// SPDX-License-Identifier: BSD-3-Clause
// Transfers that end early, and names of transfers that have ended.
#include <catch2/catch.hpp>

#include "party.hpp"

using namespace test;

namespace {

constexpr hg_size_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("cancel ends a transfer once", "[cancel]") {
    constexpr hg_size_t kSize = 64 * kMiB;
    Origin origin({.sizes = {kSize}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {kSize}, 2, HG_BULK_READWRITE);
        for (int polls = 0; polls < 3; ++polls) {
            Ended ended;
            hg_op_id_t id = HG_OP_ID_NULL;
            REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, HG_BULK_PULL, addr, remote,
                                     0, local.bulk, 0, kSize, &id) == HG_SUCCESS);
            REQUIRE(id != HG_OP_ID_NULL);
            for (int i = 0; i < polls; ++i) {
                node.pump();
            }
            CHECK(HG_Bulk_cancel(id) == HG_SUCCESS);
            CHECK(HG_Bulk_cancel(id) == HG_SUCCESS);
            REQUIRE(support::until([&] { return ended.count != 0; }, [&] { node.pump(); }));
            CHECK(ended.info.ret == HG_CANCELED);
            CHECK(HG_Bulk_cancel(id) == HG_SUCCESS);
            for (int i = 0; i < 100; ++i) {
                node.pump();
            }
            CHECK(ended.count == 1);
        }
        // The memory is as usable as ever.
        CHECK(transfer(node, HG_BULK_PULL, addr, remote, 0, local.bulk, 0, kSize) == HG_SUCCESS);
        CHECK(hash(local.flat()) == origin.memory_hash(node));
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("an id that has been used up touches no other transfer", "[cancel]") {
    constexpr hg_size_t kSize = 40 * kMiB;
    Origin origin({.sizes = {kSize}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {kSize}, 2, HG_BULK_READWRITE);
        std::vector<hg_op_id_t> old;
        for (int i = 0; i < 5; ++i) {
            Ended ended;
            hg_op_id_t id = HG_OP_ID_NULL;
            REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, HG_BULK_PULL, addr, remote,
                                     0, local.bulk, 0, kSize, &id) == HG_SUCCESS);
            for (const hg_op_id_t stale : old) {
                CHECK(stale != id);
                CHECK(HG_Bulk_cancel(stale) == HG_SUCCESS);
            }
            REQUIRE(support::until([&] { return ended.count != 0; }, [&] { node.pump(); }));
            CHECK(ended.info.ret == HG_SUCCESS);
            old.push_back(id);
        }
        CHECK(HG_Bulk_cancel(reinterpret_cast<hg_op_id_t>(~std::uintptr_t{0})) == HG_SUCCESS);
        CHECK(HG_Bulk_cancel(reinterpret_cast<hg_op_id_t>(std::uintptr_t{0x1234})) == HG_SUCCESS);
    }
    node.close();
    CHECK(origin.end() == "");
}

TEST_CASE("a context that is destroyed ends its transfers", "[cancel]") {
    const Quiet quiet;
    constexpr hg_size_t kSize = 64 * kMiB;
    Origin origin({.sizes = {kSize}});
    Node node;
    {
        const Address addr(node, origin.uri());
        const Bulk remote = origin.descriptor(node);
        const Memory local(node, {kSize}, 2, HG_BULK_READWRITE);
        Ended ended;
        REQUIRE(HG_Bulk_transfer(node.context(), note_end, &ended, HG_BULK_PULL, addr, remote, 0,
                                 local.bulk, 0, kSize, nullptr) == HG_SUCCESS);
        node.close_context();
        REQUIRE(ended.count == 1);  // its callback ran
        CHECK(ended.info.ret == HG_CANCELED);
    }
    node.close_class();
    CHECK(origin.end() == "");
}
