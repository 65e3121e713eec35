// SPDX-License-Identifier: BSD-3-Clause
// RPCs without a response.
#include <catch2/catch.hpp>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("a one-way call ends when it has left, and arrives") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.note);
    for (unsigned i = 1; i <= 500; ++i) {
        Blob in = blob(i, i % 300);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, [&] { pair.pump(); }));
        REQUIRE(call.ret() == HG_SUCCESS);
        call.reset();
    }
    REQUIRE(support::until([&] { return pair.b.notes == 500; }, [&] { pair.pump(); }));
    CHECK(pair.b.last_number == 500);
    CHECK(pair.b.counters().rpc_resp_sent_count == 0);
}

TEST_CASE("a one-way call cannot be answered") {
    Pair pair;
    for (Side* side : {&pair.a, &pair.b}) {
        REQUIRE(HG_Registered_disable_response(side->cls(), side->hold, 1) == HG_SUCCESS);
        uint8_t disabled = 0;
        CHECK(HG_Registered_disabled_response(side->cls(), side->hold, &disabled) == HG_SUCCESS);
        CHECK(disabled == 1);
    }
    Call call(pair.a, pair.to_b, pair.a.hold);
    call.decode_output = false;
    CHECK(pair.run(call, 4) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    CHECK(HG_Respond(held[0], nullptr, nullptr, nullptr) == HG_OPNOTSUPPORTED);
    CHECK(HG_Respond_error(held[0], nullptr, nullptr, HG_FAULT) == HG_OPNOTSUPPORTED);
    HG_Destroy(held[0]);
    held.clear();
}

TEST_CASE("a one-way call to an unknown RPC disturbs nobody") {
    Pair pair;
    const hg_id_t id = HG_Register_name(pair.a.cls(), "only here", nullptr, nullptr, nullptr);
    REQUIRE(HG_Registered_disable_response(pair.a.cls(), id, 1) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, id);
    for (int i = 0; i < 100; ++i) {
        CHECK(pair.run(call) == HG_SUCCESS);
    }
    Call echo(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(1, 1);
    CHECK(pair.run(echo, in) == HG_SUCCESS);
}

TEST_CASE("what the handler of a one-way call returns goes nowhere") {
    Pair pair;
    for (Side* side : {&pair.a, &pair.b}) {
        REQUIRE(HG_Registered_disable_response(side->cls(), side->fail, 1) == HG_SUCCESS);
    }
    Call call(pair.a, pair.to_b, pair.a.fail);
    CHECK(pair.run(call, HG_FAULT) == HG_SUCCESS);
    REQUIRE(support::until([&] { return pair.b.served == 1; }, [&] { pair.pump(); }));
}
