// SPDX-License-Identifier: BSD-3-Clause
// Peers that do not take their responses. They keep handles of the target busy, up to a share, and
// nobody else notices.
#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <vector>

#include "conformance/hg/setting.hpp"
#include "conformance/hg/side.hpp"
#include "hg/context.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

constexpr unsigned kFlood = 4000;  // calls, twice the limit of requests

hg::Context& core(Side& side) {
    return *reinterpret_cast<hg::Context*>(side.context());
}

// The transport under test, whose expected messages arrive and are never taken.
Side::Settings deaf() {
    const std::string& protocol = support::options().protocol;
    Side::Settings settings;
    settings.info =
        protocol.starts_with("fault+") ? protocol + "&deaf=1" : "fault+" + protocol + "?deaf=1";
    return settings;
}

std::string behind_fault(const std::string& uri) {
    return uri.starts_with("fault+") ? uri : "fault+" + uri;
}

Side::Settings small_target() {
    Side::Settings settings;
    settings.init.request_post_init = 16;
    settings.init.request_post_incr = 16;
    return settings;
}

std::vector<std::unique_ptr<Call>> flood(Side& from, hg_addr_t to) {
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < kFlood; ++i) {
        calls.push_back(std::make_unique<Call>(from, to, from.echo));
        Blob in = blob(i, 150);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    return calls;
}

bool all_done(const std::vector<std::unique_ptr<Call>>& calls) {
    return std::all_of(calls.begin(), calls.end(), [](const auto& c) { return c->done(); });
}

}  // namespace

TEST_CASE("a peer that takes no response is disconnected, and others are served meanwhile") {
    const Setting coalesce("HG_COALESCE", "0");  // no burst of many calls in one message
    const Setting limit("HG_REQUEST_LIMIT", "2048");
    const Setting stall("HG_STALL_TIMEOUT", "100");
    Side target(small_target());
    Side hostile(deaf());
    Side honest;
    const Addr to(hostile, behind_fault(target.uri()));
    const Addr honest_to(honest, target.uri());
    const auto calls = flood(hostile, to);
    const auto pump = [&] {
        target.pump();
        hostile.pump();
        honest.pump();
    };
    unsigned served = 0;
    const auto serve_one = [&] {
        Call call(honest, honest_to, honest.echo);
        Blob in = blob(served, 150);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, pump));
        REQUIRE(call.ret() == HG_SUCCESS);
        ++served;
    };
    REQUIRE(support::until([&] { return core(target).counters().peers_stalled != 0; }, serve_one));
    CHECK(served != 0);
    // What the peer kept busy is free.
    CHECK(support::until([&] { return core(target).counters().requests_active == 0; }, pump));
    for (int i = 0; i < 100; ++i) {
        serve_one();
    }
    CHECK(core(target).counters().peers_stalled == 1);
    CHECK(core(target).counters().requests_refused == 0);
    for (const auto& call : calls) {
        (void)HG_Cancel(call->handle());
    }
    CHECK(support::until([&] { return all_done(calls); }, pump));
}

TEST_CASE("a peer that takes its responses slowly is held back, and keeps its connection") {
    const Setting coalesce("HG_COALESCE", "0");  // no burst of many calls in one message
    const Setting limit("HG_REQUEST_LIMIT", "2048");
    Side target(small_target());
    Side slow;
    Side honest;
    const Addr to(slow, target.uri());
    const Addr honest_to(honest, target.uri());
    const auto calls = flood(slow, to);
    Call other(honest, honest_to, honest.echo);
    unsigned rounds = 0;
    REQUIRE(support::until([&] { return all_done(calls); },
                           [&] {
                               for (int i = 0; i < 20; ++i) {
                                   target.pump();
                               }
                               slow.pump();
                               if (++rounds % 16 == 0) {
                                   Blob in = blob(rounds, 10);
                                   REQUIRE(other.forward(in) == HG_SUCCESS);
                                   REQUIRE(support::until([&] { return other.done(); },
                                                          [&] {
                                                              target.pump();
                                                              honest.pump();
                                                          }));
                                   REQUIRE(other.ret() == HG_SUCCESS);
                                   other.reset();
                               }
                           }));
    CHECK(std::all_of(calls.begin(), calls.end(),
                      [](const auto& c) { return c->ret() == HG_SUCCESS; }));
    CHECK(core(target).counters().peers_stalled == 0);
    CHECK(core(target).counters().requests_refused == 0);
}
