// SPDX-License-Identifier: BSD-3-Clause
// A client that is stopped, and takes none of thousands of responses: what waits for it ends, and
// others are served all the time.
#include <catch2/catch.hpp>

#include <memory>

#include "crash/hg_scene.hpp"

namespace {

using namespace crash;
using support::Link;

constexpr unsigned kCalls = 4000;
constexpr std::uint64_t kRounds = 50;  // of the company

}  // namespace

TEST_CASE("a client that takes no response holds nobody else up", "[hg][stall]") {
    const Environment limit("HG_REQUEST_LIMIT", "4096");
    const Environment stall("HG_STALL_TIMEOUT", "300");
    for (const Waiting waiting : {Waiting::blocking, Waiting::busy}) {
        INFO((waiting == Waiting::busy ? "busy" : "blocking"));
        HgScene scene({.waiting = waiting, .company = true, .attach = true},
                      [](HgSide& side, Link&, hg_addr_t server) {
                          Calls calls;
                          for (unsigned i = 0; i < kCalls; ++i) {
                              calls.push_back(std::make_unique<Call>(side, server, Kind::hold, i));
                              (void)calls.back()->forward();
                          }
                          for (;;) {
                              side.turn(100);
                          }
                      });
        scene.until([&] { return scene.side().requests(Kind::hold) == kCalls; });
        scene.stop();
        scene.side().release();
        scene.go_on(kRounds);
        scene.until([&] { return scene.side().pending() == 0; });
        scene.go_on(kRounds);
        scene.kill();
        scene.until_noticed([&] { return scene.side().pending() == 0; }, 1);
        scene.finish();
    }
}
