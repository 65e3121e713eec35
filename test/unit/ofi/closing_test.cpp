// SPDX-License-Identifier: BSD-3-Clause
// What closing waits for.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "spies.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using namespace std::chrono_literals;
using support::until;

// rxm tells of connections by a descriptor that stays readable when it has taken them up: who waits
// for that to end waits in vain, and polls all the while.
TEST_CASE("a class that somebody has connected to closes without waiting", "[ofi][closing]") {
    const std::string protocol = GENERATE(as<std::string>{}, "ofi+tcp", "ofi+tcp;ofi_rxm");
    if (!can_open(protocol)) {
        support::skip(protocol + " cannot be opened here");
        return;
    }
    INFO(protocol);
    listened().clear();
    Side server(protocol);
    Side client(protocol);
    REQUIRE(listened().size() == 2);
    const na::Buffer in = server.domain.make_buffer(8).value();
    const na::Buffer out = client.domain.make_buffer(8).value();
    na::Operation receive(server.context), send(client.context);
    bool received = false, sent = false;
    REQUIRE(server.context.recv_unexpected(
        receive, in, [&](na::Status s, const na::Message&) { received = ok(s); }));
    REQUIRE(client.context.send_unexpected(send, client.domain.lookup(server.domain.uri()).value(),
                                           1, out.first(1), [&](na::Status s) { sent = ok(s); }));
    REQUIRE(until([&] { return sent && received; },
                  [&] {
                      client.pump();
                      server.pump();
                  }));
    for (int i = 0; i < 100; ++i) {
        client.pump();
        server.pump();
    }
    const std::size_t before = listened()[0]->reads;
    CHECK(server.context.close(10s));
    server.context = {};
    server.domain = {};
    CHECK(listened()[0]->reads - before < 100);
    CHECK(client.context.close(10s));
}
