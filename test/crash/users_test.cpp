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

// False: it cannot be tried here. The other end is told.
bool begins_as_another_user(Link& link) {
    if (!becomes_another_user()) {
        link.put("no other user");
        return false;
    }
    na_class_t* probe = NA_Initialize(support::options().protocol.c_str(), false);
    link.put(probe == nullptr ? "no class" : "ready");
    if (probe == nullptr) {
        return false;
    }
    NA_Finalize(probe);
    return true;
}

bool can_begin(Party& other) {
    const std::string how = other.link().take_text();
    if (how != "ready") {
        support::skip("another user cannot use this build: " + how);
    }
    return how == "ready";
}

bool reaches_other_users() {
    const std::string& protocol = support::options().protocol;
    return protocol != "na+sm" && !protocol.ends_with("+shm");
}

void other_user(Link& link) {
    if (!begins_as_another_user(link)) {
        return;
    }
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

// Calls once, and tells what became of that.
void refused_user(Link& link) {
    if (!begins_as_another_user(link)) {
        return;
    }
    NA_Set_log_level("none");
    NaSide side({});
    na_addr_t* const to = side.peer(link.take_text());
    Message message(side, 64);
    NaOp receive(side);
    PARTY_REQUIRE(receive.receive_expected(message, to, 7) == NA_SUCCESS);
    Message request(side, 64);
    NaOp send(side);
    (void)send.send_unexpected(request, request.size, to, Inbox::kPing);
    PARTY_REQUIRE(support::until([&] { return !send.in_flight() && !receive.in_flight(); },
                                 [&] { side.turn(1); }));
    link.put(NA_Error_to_string(receive.ret));
    side.close();
}

}  // namespace

TEST_CASE("a process of another user calls and is called", "[na][users]") {
    if (!reaches_other_users()) {
        support::skip("shared memory of one user");
        return;
    }
    if (geteuid() != 0) {
        support::skip("needs root");
        return;
    }
    Party other(Party::As::process, other_user);
    if (!can_begin(other)) {
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

TEST_CASE("a living process of another user is not called dead", "[na][users]") {
    if (support::options().protocol != "ucx+shm") {
        support::skip("other users are reached, or are tested elsewhere");
        return;
    }
    if (geteuid() != 0) {
        support::skip("needs root");
        return;
    }
    Party other(Party::As::process, refused_user);
    if (!can_begin(other)) {
        return;
    }
    NA_Set_log_level("none");
    NaSide side({});
    Inbox inbox(side);
    other.link().put(side.uri());
    CHECK(support::until([&] { return other.link().readable(); }, [&] { side.turn(1); }));
    CHECK(other.link().take_text() == "NA_ADDRNOTAVAIL");
    NA_Set_log_level("error");
    CHECK(other.join() == "");
    inbox.close();
    side.close();
}
