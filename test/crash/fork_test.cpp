// SPDX-License-Identifier: BSD-3-Clause
// A process that has a class open forks, and its child opens a class of its own: both serve, and
// the end of one is nothing to the other.
#include <catch2/catch.hpp>

#include <string>

#include "crash/na_side.hpp"

namespace {

using namespace crash;
using support::Link;
using support::Party;

// Serves until the other end of `link` speaks.
void serve_until_told(NaSide& side, Link& link) {
    PARTY_REQUIRE(support::until([&] { return link.readable(); }, [&] { side.turn(1); }));
    link.take_text();
}

// Calls its parent, then serves.
void child(Link& link, const std::string& parent) {
    NaSide side({});
    Inbox inbox(side);
    ping(side, side.peer(parent), 1);
    link.put(side.uri());
    serve_until_told(side, link);
    inbox.close();
    side.close();
}

void parent(Link& link) {
    NaSide side({});
    Inbox inbox(side);
    const std::string uri = side.uri();
    const auto pump = [&] { side.turn(1); };
    Party forked(Party::As::process, [&](Link& up) { child(up, uri); });
    PARTY_REQUIRE(support::until([&] { return forked.link().readable(); }, pump));
    link.put(forked.link().take_text());
    link.put(uri);
    serve_until_told(side, link);
    forked.link().put("end");
    PARTY_REQUIRE(forked.join() == "");
    link.put("alone");
    serve_until_told(side, link);
    inbox.close();
    side.close();
}

void visit(const std::string& uri) {
    NaSide side({});
    na_addr_t* const to = side.peer(uri);
    for (std::uint64_t n = 1; n <= 3; ++n) {
        ping(side, to, n);
    }
    side.close();
}

}  // namespace

TEST_CASE("a forked child opens a class of its own", "[na][fork]") {
    Party other(Party::As::process, parent);
    const std::string child_uri = other.link().take_text();
    const std::string uri = other.link().take_text();
    for (int round = 0; round < 3; ++round) {
        visit(child_uri);
        visit(uri);
    }
    other.link().put("end the child");
    CHECK(other.link().take_text() == "alone");
    visit(uri);
    other.link().put("end");
    CHECK(other.join() == "");
}
