// SPDX-License-Identifier: BSD-3-Clause
#include "crash/nursery.hpp"

#include <csignal>

#include "support/rest.hpp"

namespace crash {

using support::Link;
using support::Party;

namespace {

void run(Link& link, const Nursery::Body& body) {
    for (std::string word; (word = link.take_text()) != "end";) {
        const std::uint64_t number = std::stoull(word);
        const std::string text = link.take_text().substr(1);
        Party child(Party::As::process, [&](Link& to_nursery) {
            link.close();  // the runner's end is not this child's
            body(number, text, [&] { to_nursery.put("ready"); });
        });
        // If the child ends instead, this throws, and the runner sees that the nursery is gone.
        child.link().take_text();
        link.put(std::to_string(child.pid()));
        link.take_text();
        child.kill(SIGKILL);
        link.put("reaped");
    }
}

}  // namespace

Nursery::Nursery(Body body)
    : party_(Party::As::process, [body = std::move(body)](Link& link) { run(link, body); }) {}

Nursery::~Nursery() {
    try {
        party_.link().put("end");
        party_.join();
    } catch (const std::exception&) {
        // It ended before, and said why.
    }
}

void Nursery::begin(std::uint64_t number, const std::string& text) {
    party_.link().put(std::to_string(number));
    party_.link().put("=" + text);
}

void Nursery::kill(pid_t child, int signal) {
    if (signal == SIGKILL) {
        support::bring_to_rest(child);
    }
    PARTY_REQUIRE(::kill(child, signal) == 0);
}

}  // namespace crash
