// SPDX-License-Identifier: BSD-3-Clause
#include "crash/scene.hpp"

#include <csignal>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace crash {

using support::Party;

std::string to_string(const Setup& s) {
    static constexpr const char* kWaiting[] = {"blocking", "busy", "events"};
    return std::string(kWaiting[static_cast<std::size_t>(s.waiting)]) +
           (s.company ? ", in company" : ", alone") + (s.attach ? "" : ", without attach");
}

std::vector<Setup> all_setups() {
    std::vector<Setup> all;
    for (const bool attach : {true, false}) {
        for (const bool company : {false, true}) {
            all.push_back({Waiting::blocking, company, attach});
            all.push_back({Waiting::busy, company, attach});
        }
        all.push_back({Waiting::events, !attach, attach});
    }
    // Others know no cross-memory attach that could be refused.
    if (support::options().protocol.find("na+sm") == std::string::npos) {
        std::erase_if(all, [](const Setup& s) { return !s.attach; });
    }
    return all;
}

std::vector<Setup> half_of_setups(std::uint64_t which) {
    std::vector<Setup> half = all_setups();
    std::erase_if(half, [&](const Setup& s) {
        return (static_cast<unsigned>(s.waiting) + unsigned{s.company} + unsigned{s.attach}) % 2 !=
               which % 2;
    });
    return half;
}

Scene::Scene(const Setup& setup_, Party::Body victim, Party::Body company)
    : setup(setup_),
      attach_("NA_SM_CMA", setup_.attach ? "1" : "0"),
      victim_(Party::As::process, std::move(victim)),
      company_(setup_.company ? std::make_unique<Party>(Party::As::process, std::move(company))
                              : nullptr),
      descriptors_(count_descriptors()),
      descriptor_list_(list_descriptors()) {}

void Scene::introduce(const std::string& uri) {
    if (company_ != nullptr) {
        company_->link().put(uri);
        until([this] { return company_->link().readable(); });
        PARTY_REQUIRE(company_->link().take_text() == "talking");
    }
    victim_.link().put(uri);
}

void Scene::stop() {
    // Stopped, and not only told to.
    victim_.kill(SIGSTOP);
    int status = 0;
    PARTY_REQUIRE(waitpid(victim_.pid(), &status, WUNTRACED) == victim_.pid() &&
                  WIFSTOPPED(status));
}

void Scene::resume() {
    PARTY_REQUIRE(::kill(victim_.pid(), SIGCONT) == 0);
}

void Scene::kill() {
    const std::vector<std::string> files = named_files(victim_.pid());
    victim_.kill(SIGKILL);
    since_death_.emplace();
    PARTY_REQUIRE(files.empty() || endpoints_are_files());
}

void Scene::go_on(std::uint64_t rounds) {
    if (company_ != nullptr) {
        const std::uint64_t before = traffic();
        until([&] { return traffic() >= before + rounds; });
    }
}

void Scene::finish() {
    if (company_ != nullptr) {
        go_on(50);
        company_->link().put("stop");
        // It finishes what it is doing before it looks for this.
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
    PARTY_REQUIRE(named_files(getpid()).empty() || endpoints_are_files());
    close();
    if (!descriptors_are_back(descriptors_)) {
        throw std::runtime_error("descriptors are left:\n" + list_descriptors() + "before:\n" +
                                 descriptor_list_);
    }
    PARTY_REQUIRE(abstract_sockets(victim_.pid()).empty());
    if (const auto left = places_.left_behind({victim_.pid(), getpid()}); !left.empty()) {
        throw std::runtime_error(fmt::format("files of {} or {} are left: {}", victim_.pid(),
                                             getpid(), fmt::join(left, ", ")));
    }
}

}  // namespace crash
