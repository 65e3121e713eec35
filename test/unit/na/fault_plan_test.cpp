// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/fault/plan.hpp"

#include <catch2/catch.hpp>

using na::fault::inner_address;
using na::fault::parse_target;

TEST_CASE("a plan is read from the protocol", "[fault]") {
    const auto t = parse_target(
        "na+sm?again=0.25&fail=0&drop=1&delay=0.5&late_cancel=1e-1&lose_peer_at=12&seed=99");
    REQUIRE(t);
    CHECK(t->class_name == "na");
    CHECK(t->protocol == "sm");
    CHECK(t->plan.again == 0.25);
    CHECK(t->plan.fail == 0);
    CHECK(t->plan.drop == 1);
    CHECK(t->plan.delay == 0.5);
    CHECK(t->plan.late_cancel == 0.1);
    CHECK(t->plan.lose_peer_at == 12);
    CHECK(t->plan.seed == 99);
    const auto plain = parse_target("ofi+tcp;ofi_rxm");
    REQUIRE(plain);
    CHECK(plain->protocol == "tcp;ofi_rxm");
    CHECK(plain->plan.again == 0);
    CHECK(parse_target("na+sm?"));
    for (const char* bad :
         {"", "sm", "+sm", "na+", "?", "na+?x", "na+sm?again", "na+sm?again=", "na+sm?again=2",
          "na+sm?again=-0.1", "na+sm?again=nan", "na+sm?seed=-1", "na+sm?=1", "na+sm?other=1"}) {
        INFO(bad);
        CHECK_FALSE(parse_target(bad));
    }
}

TEST_CASE("addresses lose the decorator's prefix", "[fault]") {
    CHECK(inner_address("sm://1-2") == "sm://1-2");
    CHECK(inner_address("na+sm://1-2") == "sm://1-2");
    CHECK(inner_address("na+sm?again=0.5://1-2") == "sm://1-2");
    CHECK(inner_address("loop://a+b?c") == "loop://a+b?c");
    CHECK(inner_address("") == "");
}
