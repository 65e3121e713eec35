// SPDX-License-Identifier: BSD-3-Clause
// Helper programs: a process that starts one by fork and exec hands it nothing that peers or a
// successor would miss. Else a peer does not hear of the process's death, and its port stays taken.
#include <catch2/catch.hpp>

#include <csignal>
#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "crash/na_side.hpp"
#include "na/util/tcp.hpp"

namespace {

using namespace crash;
using support::Link;
using support::Party;

// IP sockets of this process that exec() would hand on.
bool none_is_handed_on() {
    bool any = false;
    na::util::close_on_exec([&](const na::util::IpEndpoint&, const na::util::IpEndpoint&) {
        any = true;
        return false;
    });
    return !any;
}

void server(Link& link) {
    NaSide side({});
    Inbox inbox(side);
    link.put(side.uri());
    const auto pump = [&] { side.turn(1); };
    PARTY_REQUIRE(support::until([&] { return link.readable(); }, pump));
    link.take_text();
    PARTY_REQUIRE(support::until(none_is_handed_on, pump));
    const pid_t helper = fork();
    if (helper == 0) {
        execlp("sleep", "sleep", "60", static_cast<char*>(nullptr));
        _exit(127);
    }
    PARTY_REQUIRE(helper > 0);
    link.put(std::to_string(helper));
    for (;;) {
        side.turn(10);
    }
}

}  // namespace

TEST_CASE("a helper program holds nothing of a server that was killed", "[na][exec]") {
    Party victim(Party::As::process, server);
    {
        NaSide side({});
        const std::string uri = victim.link().take_text();
        na_addr_t* const peer = side.peer(uri);
        ping(side, peer, 1);
        const auto pump = [&] { side.turn(1); };
        CHECK(support::until(none_is_handed_on, pump));
        victim.link().put("start");
        PARTY_REQUIRE(support::until([&] { return victim.link().readable(); }, pump));
        const pid_t helper = static_cast<pid_t>(std::stol(victim.link().take_text()));
        Message message(side, 64);
        NaOp receive(side);
        REQUIRE(receive.receive_expected(message, peer, 7) == NA_SUCCESS);
        victim.kill(SIGKILL);
        CHECK(support::until([&] { return !receive.in_flight(); }, pump));
        CHECK(receive.ret == NA_HOSTUNREACH);
        CHECK(kill(helper, 0) == 0);  // all that happened while it lived
        const std::string name = uri.substr(uri.find("://") + 3);
        if (!support::ip_endpoint(uri).empty()) {
            NaSide successor({.name = name});
            CHECK(successor.uri() == uri);
            successor.close();
        }
        kill(helper, SIGKILL);
        side.close();
    }
}
