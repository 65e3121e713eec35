// SPDX-License-Identifier: BSD-3-Clause
// Descriptors of a transport that the other side knows under another name.
#include <catch2/catch.hpp>

#include <string>

#include "party.hpp"

using namespace test;

namespace {

// False: the origin's addresses are not for the target.
bool moves(const std::string& origin_name, const std::string& target_name, bool own_memory) {
    INFO("from " << origin_name << " to " << target_name);
    constexpr hg_size_t kSize = 3'000'000;
    Origin origin({.sizes = {kSize}, .own_memory = own_memory, .protocol = origin_name});
    Node node(target_name);
    hg_addr_t found = HG_ADDR_NULL;
    bool known = false;
    {
        const Quiet quiet;
        known = HG_Addr_lookup2(node.cls(), origin.uri().c_str(), &found) == HG_SUCCESS;
    }
    if (known) {
        const Bulk remote = origin.descriptor(node);
        Memory local(node, {kSize}, 77, HG_BULK_READWRITE);
        REQUIRE(transfer(node, HG_BULK_PULL, found, remote, 0, local.bulk, 0, kSize) == HG_SUCCESS);
        CHECK(origin.memory_hash(node) == hash(local.flat()));
        fill(local.parts[0].data(), kSize, 4);
        REQUIRE(transfer(node, HG_BULK_PUSH, found, remote, 0, local.bulk, 0, kSize) == HG_SUCCESS);
        CHECK(origin.memory_hash(node) == hash(local.flat()));
    }
    HG_Addr_free(node.cls(), found);
    node.close();
    CHECK(origin.end() == "");
    return known;
}

}  // namespace

TEST_CASE("the other side may name the transport otherwise", "[names]") {
    const auto others = support::other_names();
    if (others.empty()) {
        support::skip("the transport has one name");
        return;
    }
    const std::string& one = support::options().protocol;
    std::size_t met = 0;
    for (const std::string& other : others) {
        const bool there = moves(one, other, false);
        CHECK(moves(other, one, true) == there);
        met += there ? 1 : 0;
    }
    CHECK(met >= 1);
}
