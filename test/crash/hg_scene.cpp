// SPDX-License-Identifier: BSD-3-Clause
#include "crash/hg_scene.hpp"

#include <utility>

namespace crash {

using support::Link;

namespace {

void keep_company(Link& link, Waiting waiting) {
    const std::string uri = link.take_text();
    HgSide side({.waiting = waiting, .listen = false});
    const hg_addr_t survivor = side.peer(uri);
    for (std::uint64_t n = 0; !link.readable(); ++n) {
        call(side, survivor, Kind::echo, n);
        if (n == 0) {
            link.put("talking");
        }
        // From time to time something that takes more than one message.
        if (n % 64 == 63) {
            call(side, survivor, kKinds[2 + n / 64 % (kKindCount - 2)], n);
        }
    }
    side.close();
}

}  // namespace

HgScene::HgScene(const Setup& setup_, Victim victim)
    : Scene(
          setup_,
          [=](Link& link) {
              const std::string uri = link.take_text();
              HgSide side({.waiting = setup_.waiting});
              link.put(side.uri());
              victim(side, link, side.peer(uri));
              for (;;) {
                  side.turn(100);
              }
          },
          [=](Link& link) { keep_company(link, setup_.waiting); }),
      side_(std::make_unique<HgSide>(HgSide::Options{.waiting = setup_.waiting})) {
    introduce(side_->uri());
    address_ = side_->peer(hear());
}

Calls keep_calling(HgSide& side, hg_addr_t to, Kind kind, std::uint64_t window, const bool* going,
                   std::uint64_t* done) {
    Calls calls;
    for (std::uint64_t i = 0; i < window; ++i) {
        calls.push_back(std::make_unique<Call>(side, to, kind, i));
        calls.back()->then = [=](Call& c) {
            if (c.ret == HG_SUCCESS) {
                ++*done;
                if (*going) {
                    c.forward();
                }
            }
        };
        PARTY_REQUIRE(calls.back()->forward() == HG_SUCCESS);
    }
    return calls;
}

}  // namespace crash
