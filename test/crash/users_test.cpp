// SPDX-License-Identifier: BSD-3-Clause
// Two users of one host. Neither can attach the other's shared memory: a transport that has a way
// through the network as well takes that, and messages arrive as between hosts.
#include <catch2/catch.hpp>

#include <string>

#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

#include "crash/na_side.hpp"
#include "support/options.hpp"

namespace {

using namespace crash;
using support::Link;
using support::Party;

constexpr uid_t kOther = 65534;

bool becomes_another_user() {
    return setgroups(0, nullptr) == 0 && setresgid(kOther, kOther, kOther) == 0 &&
           setresuid(kOther, kOther, kOther) == 0;
}

void other_user(Link& link) {
    if (!becomes_another_user()) {
        link.put("no other user");
        return;
    }
    na_class_t* probe = NA_Initialize(support::options().protocol.c_str(), false);
    link.put(probe == nullptr ? "no class" : "ready");
    if (probe == nullptr) {
        return;
    }
    NA_Finalize(probe);
    NaSide side({});
    Inbox inbox(side);
    const std::string server = link.take_text();
    na_addr_t* const to = side.peer(server);
    for (std::uint64_t n = 1; n <= 10; ++n) {
        ping(side, to, n);
    }
    link.put(side.uri());
    PARTY_REQUIRE(support::until([&] { return link.readable(); }, [&] { side.turn(1); }));
    link.take_text();
    inbox.close();
    side.close();
}

}  // namespace

TEST_CASE("a process of another user calls and is called", "[na][users]") {
    const std::string& protocol = support::options().protocol;
    if (protocol == "na+sm" || protocol.ends_with("+shm")) {
        support::skip("shared memory of one user");
        return;
    }
    if (geteuid() != 0) {
        support::skip("needs root");
        return;
    }
    Party other(Party::As::process, other_user);
    if (const std::string how = other.link().take_text(); how != "ready") {
        support::skip("another user cannot use this build: " + how);
        return;
    }
    NaSide side({});
    Inbox inbox(side);
    other.link().put(side.uri());
    CHECK(support::until([&] { return other.link().readable(); }, [&] { side.turn(1); }));
    na_addr_t* const to = side.peer(other.link().take_text());
    for (std::uint64_t n = 1; n <= 10; ++n) {
        ping(side, to, n);
    }
    other.link().put("end");
    CHECK(other.join() == "");
    inbox.close();
    side.close();
}
