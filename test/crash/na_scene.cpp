// SPDX-License-Identifier: BSD-3-Clause
#include "crash/na_scene.hpp"

#include <algorithm>
#include <utility>

namespace crash {

using support::Link;

namespace {

void keep_company(Link& link, Waiting waiting) {
    const std::string uri = link.take_text();
    NaSide side({.waiting = waiting});
    na_addr_t* survivor = side.peer(uri);
    for (std::uint64_t n = 0; !link.readable(); ++n) {
        ping(side, survivor, n);
        if (n == 0) {
            link.put("talking");
        }
    }
    side.close();
}

}  // namespace

NaScene::NaScene(const Setup& setup_, const NaSide::Options& options, Victim victim,
                 Inbox::Deliver deliver)
    : Scene(
          setup_,
          [=](Link& link) {
              const std::string uri = link.take_text();
              NaSide side(options);
              link.put(side.uri());
              victim(side, link, side.peer(uri));
              for (;;) {
                  side.turn(100);
              }
          },
          [=](Link& link) { keep_company(link, setup_.waiting); }),
      side_(std::make_unique<NaSide>(
          NaSide::Options{.waiting = setup_.waiting, .max_message = options.max_message})),
      inbox_(std::make_unique<Inbox>(*side_, std::max<std::size_t>(options.max_message, 4096),
                                     std::move(deliver))) {
    introduce(side_->uri());
    address_ = side_->peer(hear());
}

void NaScene::close() {
    inbox_->close();
    side_->close();
}

}  // namespace crash
