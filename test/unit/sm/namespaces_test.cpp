// SPDX-License-Identifier: BSD-3-Clause
// Endpoints in different pid or network namespaces: two containers of one machine.
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include "na/util/host.hpp"
#include "na/util/log.hpp"
#include "plugins/sm/address.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"
#include "unit/sm/node.hpp"

using namespace sm_test;

namespace {

// A party whose body runs as process 1 or 2 of new namespaces.
support::Party::Body inside(int spaces, support::Party::Body body) {
    return [spaces, body = std::move(body)](support::Link& link) {
        if (unshare(spaces) != 0) {
            link.put("may not");
            return;
        }
        link.put("may");
        // A new pid namespace is that of the next process.
        const pid_t child = fork();
        if (child == 0) {
            try {
                body(link);
                _exit(0);
            } catch (const std::exception& failure) {
                std::fprintf(stderr, "%s\n", failure.what());
                _exit(1);
            }
        }
        int status = 1;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        PARTY_REQUIRE(status == 0);
    };
}

bool may(support::Party& party) {
    if (party.link().take_text() == "may") {
        return true;
    }
    support::skip("no new namespaces for this user");
    return false;
}

bool last_error_has(const char* text) {
    return na::log::last_error().find(text) != std::string::npos;
}

// How one message ends: at once, or by what the peer answers.
Status outcome(Node& node, const std::string& uri) {
    TestOp op;
    const Posted p = node.try_send(op, uri, Lane::unexpected, 1, "x", 1);
    if (p.what == Posted::What::failed) {
        return p.status;
    }
    return settle([&] { return !node->lost.empty(); }, node) ? node->lost[0].second
                                                             : Status::success;
}

}  // namespace

TEST_CASE("namespaces: endpoints of equal processes have different names") {
    const int spaces = GENERATE(CLONE_NEWPID, CLONE_NEWPID | CLONE_NEWNET);
    const auto open = [](support::Link& link) {
        Node node;
        link.put(node.uri());
        link.take_text();
    };
    support::Party one(support::Party::As::process, inside(spaces, open));
    support::Party two(support::Party::As::process, inside(spaces, open));
    if (!may(one) || !may(two)) {
        return;
    }
    const std::string first = one.link().take_text();
    const std::string second = two.link().take_text();
    CHECK(first.starts_with("sm://1-"));
    CHECK(second.starts_with("sm://1-"));
    CHECK(first != second);
    one.link().put("end");
    two.link().put("end");
    CHECK(one.join().empty());
    CHECK(two.join().empty());
}

TEST_CASE("namespaces: an endpoint elsewhere is alive, and not reached") {
    const int spaces = GENERATE(CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWPID | CLONE_NEWNET);
    support::Party party(support::Party::As::process, inside(spaces, [](support::Link& link) {
                             const std::string parent = link.take_text();
                             Node node;
                             PARTY_REQUIRE(outcome(node, parent) == Status::addrnotavail);
                             PARTY_REQUIRE(last_error_has("namespace"));
                             link.put(node.uri());
                             link.take_text();
                         }));
    Node node;
    if (!may(party)) {
        return;
    }
    party.link().put(node.uri());
    const std::string uri = party.link().take_text();
    CHECK(outcome(node, uri) == Status::addrnotavail);
    CHECK(last_error_has("namespace"));
    party.link().put("end");
    CHECK(party.join().empty());
}

TEST_CASE("namespaces: names that a user chose do not tell, the kernel does") {
    const std::string name = "unit-namespaces." + std::to_string(getpid());
    // One network namespace: the sockets meet.
    support::Party party(support::Party::As::process,
                         inside(CLONE_NEWPID, [&](support::Link& link) {
                             const std::string parent = link.take_text();
                             auto named = kDefaults;
                             named.host = name + ".inside";
                             Node node(named);
                             PARTY_REQUIRE(outcome(node, parent) == Status::addrnotavail);
                             PARTY_REQUIRE(last_error_has("pid namespace"));
                             link.put(node.uri());
                             while (!link.readable()) {
                                 node.poll();
                             }
                             PARTY_REQUIRE(node->messages.empty());
                             PARTY_REQUIRE(node->stat("sm_refused") == 1);
                         }));
    auto named = kDefaults;
    named.host = name;
    Node node(named);
    if (!may(party)) {
        return;
    }
    party.link().put(node.uri());
    const std::string uri = party.link().take_text();
    CHECK(outcome(node, uri) == Status::addrnotavail);
    CHECK(last_error_has("pid namespace"));
    party.link().put("end");
    CHECK(party.join().empty());
}

TEST_CASE("namespaces: nobody listens at the name, and why") {
    Node node;
    SECTION("nobody") {
        const std::string gone = na::sm::make_name(
            {.process = getpid(), .namespaces = na::util::find_namespaces()}, 4'000'000'000, 1);
        CHECK(outcome(node, "sm://" + gone) == Status::hostunreach);
    }
    SECTION("a library with another layout") {
        const std::string name = "unit-layout." + std::to_string(getpid());
        const std::uint32_t other =
            GENERATE(na::sm::kLayoutVersion - 1, na::sm::kLayoutVersion + 1);
        auto listener = na::sm::bind_socket(na::sm::socket_name(name, 0, other), 8);
        REQUIRE(listener);
        CHECK(outcome(node, "sm://" + name) == Status::protonosupport);
        CHECK(last_error_has("version"));
    }
}
