// SPDX-License-Identifier: BSD-3-Clause
// Requests for memory of a peer's allocator, which go over the connection's socket, from who may
// say anything.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <catch2/catch.hpp>

#include "plugins/sm/region.hpp"
#include "unit/sm/exchange.hpp"
#include "unit/sm/fake_peer.hpp"

using namespace sm_test;
using namespace na::sm;

TEST_CASE("hostile: requests for memory whose answers are not read") {
    Node server;
    Node friendly;
    check_alive(server, friendly);
    FakePeer peer;
    peer.join(server.uri(), [&] { server.poll(); });
    void* memory = server.domain->allocate(4096);
    REQUIRE(memory != nullptr);
    auto region = server.region(memory, 4096);
    MapMessage ask{};
    ask.control = Control::map;
    ask.allocation = static_cast<const Region&>(*region).allocation;
    ask.key = static_cast<const Region&>(*region).key;
    const std::size_t files = open_files();
    // Until the server has taken what was said.
    const auto look = [&] {
        REQUIRE(settle(
            [&] {
                int left = 0;
                return ioctl(peer.socket.get(), SIOCOUTQ, &left) == 0 && left == 0;
            },
            server));
    };
    // Until the answers have nowhere to go.
    std::size_t asked = 0;
    const auto answers_fit = [&] {
        ++asked;
        REQUIRE(send_message(peer.socket.get(), &ask, sizeof ask) == 0);
        look();
        return server->stat("sm_replies_waiting") == 0;
    };
    while (answers_fit()) {
        REQUIRE(asked < 100'000);
    }
    CHECK(asleep(server));
    SECTION("they come when they are") {
        for (std::uint32_t i = 1; i < kMapRequests; ++i) {
            ++asked;
            REQUIRE(send_message(peer.socket.get(), &ask, sizeof ask) == 0);
        }
        look();
        CHECK(asleep(server));
        std::size_t answered = 0;
        while (answered < asked) {
            const Received r = peer.wait([&] { server.poll(); });
            if (r.bytes == 1) {
                continue;  // a knock
            }
            ++answered;
            MapMessage reply{};
            REQUIRE(r.get(reply));
            REQUIRE(reply.control == Control::mapping);
            REQUIRE(reply.ok == 1);
            REQUIRE(r.fd_count == 1);
        }
        CHECK(settle([&] { return server->stat("sm_replies_waiting") == 0; }, server));
        CHECK(server->lost.empty());
        CHECK(asleep(server));
    }
    SECTION("and no end of them") {
        for (std::uint32_t i = 0; i < kMapRequests + 1; ++i) {
            send_message(peer.socket.get(), &ask, sizeof ask);
        }
        CHECK(settle([&] { return server->stat("sm_connections") == 1; }, server));
        CHECK_FALSE(server->complaints.empty());
    }
    check_alive(server, friendly);
    peer.socket.reset();
    CHECK(settle([&] { return open_files() <= files; }, server));
    region.reset();
    server.domain->deallocate(memory, 4096);
}
