// SPDX-License-Identifier: BSD-3-Clause
#include "crash/na_scene.hpp"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

namespace crash {

using support::Link;
using support::Party;

std::string to_string(const Setup& s) {
    return std::string(s.busy ? "busy" : "blocking") + (s.company ? ", in company" : ", alone") +
           (s.attach ? "" : ", without attach");
}

std::vector<Setup> all_setups() {
    std::vector<Setup> all;
    for (const bool attach : {true, false}) {
        for (const bool busy : {false, true}) {
            for (const bool company : {false, true}) {
                all.push_back({busy, company, attach});
            }
        }
    }
    return all;
}

void NaScene::keep_company(Link& link, bool busy) {
    const std::string uri = link.take_text();
    NaSide side({.busy = busy});
    na_addr_t* survivor = side.peer(uri);
    for (std::uint64_t n = 0; !link.readable(); ++n) {
        ping(side, survivor, n);
        if (n == 0) {
            link.put("talking");
        }
    }
    side.close();
}

NaScene::NaScene(const Setup& setup_, const NaSide::Options& options, Victim victim,
                 Inbox::Deliver deliver)
    : setup(setup_),
      attach_("NA_SM_CMA", setup_.attach ? "1" : "0"),
      victim_(Party::As::process,
              [=](Link& link) {
                  const std::string uri = link.take_text();
                  NaSide side(options);
                  link.put(side.uri());
                  victim(side, link, side.peer(uri));
                  for (;;) {
                      side.turn(100);
                  }
              }),
      company_(setup.company ? std::make_unique<Party>(
                                   Party::As::process,
                                   [=](Link& link) { keep_company(link, setup_.busy); })
                             : nullptr),
      descriptors_(count_descriptors()),
      side_(std::make_unique<NaSide>(
          NaSide::Options{.busy = setup_.busy, .max_message = options.max_message})),
      inbox_(std::make_unique<Inbox>(*side_, std::max<std::size_t>(options.max_message, 4096),
                                     std::move(deliver))) {
    if (company_ != nullptr) {
        company_->link().put(side_->uri());
        until([this] { return company_->link().readable(); });
        PARTY_REQUIRE(company_->link().take_text() == "talking");
    }
    victim_.link().put(side_->uri());
    address_ = side_->peer(hear());
}

void NaScene::stop() {
    // Stopped, and not only told to.
    PARTY_REQUIRE(::kill(victim_.pid(), SIGSTOP) == 0);
    int status = 0;
    PARTY_REQUIRE(waitpid(victim_.pid(), &status, WUNTRACED) == victim_.pid() && WIFSTOPPED(status));
}

void NaScene::kill() {
    const std::vector<std::string> files = named_files(victim_.pid());
    victim_.kill(SIGKILL);
    since_death_.emplace();
    PARTY_REQUIRE(files.empty());
}

void NaScene::finish() {
    if (company_ != nullptr) {
        const std::uint64_t before = inbox_->pings();
        until([&] { return inbox_->pings() >= before + 50; });
        company_->link().put("stop");
        // It sees the end of its last ping before it looks for this.
        until([this] {
            siginfo_t info{};
            return waitid(P_PID, static_cast<id_t>(company_->pid()), &info,
                          WEXITED | WNOHANG | WNOWAIT) == 0 &&
                   info.si_pid != 0;
        });
        const std::string failure = company_->join();
        if (!failure.empty()) {
            throw std::runtime_error("the company: " + failure);
        }
    }
    PARTY_REQUIRE(named_files(getpid()).empty());
    inbox_->close();
    side_->close();
    if (count_descriptors() != descriptors_) {
        throw std::runtime_error("descriptors are left:\n" + list_descriptors());
    }
    PARTY_REQUIRE(abstract_sockets(victim_.pid()).empty());
    PARTY_REQUIRE(places_.left_behind({victim_.pid(), getpid()}).empty());
}

}  // namespace crash
