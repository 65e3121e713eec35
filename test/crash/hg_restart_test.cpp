// SPDX-License-Identifier: BSD-3-Clause
// A server is killed and comes back at its address while nobody calls it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "crash/hg_side.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

namespace {

using namespace crash;
using support::Link;
using support::Party;

constexpr int kLives = 4;

// One life, from when it is told to begin. Answers how many requests of each kind came.
void serve(Link& link, const std::string& name) {
    link.take_text();
    HgSide side({.name = name});
    link.put("there");
    for (;;) {
        side.turn(20);
        if (link.readable()) {
            link.put(std::to_string(side.requests(static_cast<Kind>(std::stoi(link.take_text())))));
        }
    }
}

}  // namespace

TEST_CASE("a server is killed and is back: who was idle reaches the new one with his first call",
          "[hg][back]") {
    for (const bool listening : {false, true}) {
        // Processes begin before anything is opened.
        const std::string name = support::lasting_host("back-" + std::to_string(getpid()) +
                                                       (listening ? "-both" : "-one"));
        std::vector<std::unique_ptr<Party>> lives;
        lives.reserve(kLives);
        for (int i = 0; i < kLives; ++i) {
            lives.push_back(std::make_unique<Party>(Party::As::process,
                                                    [=](Link& link) { serve(link, name); }));
        }
        HgSide client({.listen = listening});
        hg_addr_t server = HG_ADDR_NULL;
        for (int i = 0; i < kLives; ++i) {
            INFO("listening " << listening << ", life " << i);
            Link& link = lives[static_cast<std::size_t>(i)]->link();
            link.put("begin");
            REQUIRE(link.take_text() == "there");
            if (server == HG_ADDR_NULL) {
                server = client.peer(support::options().protocol + "://" + name);
            }
            // In the middle of its idling, and of several sizes: the kind that moves memory, too.
            for (int n = 0; n < 5 * i; ++n) {
                client.turn(10);
            }
            const Kind kind = std::vector{Kind::echo, Kind::pull, Kind::input,
                                          Kind::echo}[static_cast<std::size_t>(i)];
            Call first(client, server, kind, 7);
            REQUIRE(first.forward() == HG_SUCCESS);
            REQUIRE(support::until([&] { return !first.in_flight(); }, [&] { client.turn(100); }));
            CHECK(first.ret == HG_SUCCESS);
            // It came once.
            call(client, server, Kind::hold == kind ? Kind::echo : kind, 8);
            link.put(std::to_string(static_cast<int>(kind)));
            CHECK(support::until([&] { return link.readable(); }, [&] { client.turn(1); }));
            CHECK(link.take_text() == "2");
            lives[static_cast<std::size_t>(i)]->kill(SIGKILL);
        }
        client.close();
    }
}

TEST_CASE(
    "a request that a server had when it was killed is not sent again, however long ago it came",
    "[hg][back]") {
    // Numbers of messages come again after 65,536.
    for (const unsigned after : {10U, 20'000U, 40'000U, 65'530U}) {
        const std::string name =
            support::lasting_host("had-" + std::to_string(getpid()) + "-" + std::to_string(after));
        std::vector<std::unique_ptr<Party>> lives;
        for (int i = 0; i < 2; ++i) {
            lives.push_back(std::make_unique<Party>(Party::As::process,
                                                    [=](Link& link) { serve(link, name); }));
        }
        INFO(after << " calls after it");
        lives[0]->link().put("begin");
        REQUIRE(lives[0]->link().take_text() == "there");
        HgSide client({.listen = false});
        const hg_addr_t server = client.peer(support::options().protocol + "://" + name);
        auto held = std::make_unique<Call>(client, server, Kind::hold, 1);
        REQUIRE(held->forward() == HG_SUCCESS);
        std::vector<std::unique_ptr<Call>> calls;
        for (int i = 0; i < 10; ++i) {
            calls.push_back(std::make_unique<Call>(client, server, Kind::echo, 2));
        }
        for (unsigned i = 0; i < after; i += 10) {
            for (const auto& c : calls) {
                REQUIRE(c->forward() == HG_SUCCESS);
            }
            REQUIRE(support::until(
                [&] {
                    return std::none_of(calls.begin(), calls.end(),
                                        [](const auto& c) { return c->in_flight(); });
                },
                [&] { client.turn(100); }));
        }
        lives[0]->kill(SIGKILL);
        lives[1]->link().put("begin");
        REQUIRE(lives[1]->link().take_text() == "there");
        REQUIRE(support::until([&] { return !held->in_flight(); }, [&] { client.turn(100); }));
        CHECK(held->ret == HG_HOSTUNREACH);
        call(client, server, Kind::echo, 3);
        lives[1]->link().put(std::to_string(static_cast<int>(Kind::hold)));
        CHECK(support::until([&] { return lives[1]->link().readable(); }, [&] { client.turn(1); }));
        CHECK(lives[1]->link().take_text() == "0");
        lives[1]->kill(SIGKILL);
        held.reset();
        calls.clear();
        client.close();
    }
}
