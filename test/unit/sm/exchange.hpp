// SPDX-License-Identifier: BSD-3-Clause
// What the cases about messages between two endpoints of this process share.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <poll.h>
#include <catch2/catch.hpp>

#include "support/options.hpp"
#include "unit/sm/node.hpp"

namespace sm_test {

// While it lives, endpoints that are opened do not use cross-memory attach.
struct NoAttach {
    NoAttach() { setenv("NA_SM_CMA", "0", 1); }
    ~NoAttach() { unsetenv("NA_SM_CMA"); }
};

inline bool readable(int fd) {
    pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, 0) == 1;
}

// Armed, and nothing waits in the sockets either.
inline bool asleep(Node& n) {
    return settle([&] { return n->plugin->arm() && !readable(n->plugin->wait_fd()); }, n);
}

// Sends messages of these sizes, all posted before the receiver looks, and checks what arrives, in
// which order.
inline void exchange(Node& a, Node& b, const std::vector<std::size_t>& sizes, Lane lane) {
    std::vector<std::vector<std::byte>> data;
    std::vector<std::unique_ptr<TestOp>> ops;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        data.push_back(support::payload(sizes[i], i));
        ops.push_back(std::make_unique<TestOp>());
        a.send(*ops.back(), b, lane, static_cast<std::uint32_t>(i), data.back().data(), sizes[i]);
    }
    REQUIRE(settle(
        [&] {
            return b->messages.size() == sizes.size() &&
                   std::all_of(ops.begin(), ops.end(), [](const auto& op) { return op->done(); });
        },
        a, b));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const Message& m = b->messages[i];
        REQUIRE(m.tag == i);
        REQUIRE(m.lane == lane);
        REQUIRE(m.status == Status::success);
        REQUIRE(m.source == a.uri());
        REQUIRE(m.data == data[i]);
        REQUIRE(ops[i]->how.status == Status::success);
    }
    b->messages.clear();
}

// Messages to one server in bursts, now of this client, now of that one: with more clients than hot
// rings these go cold and hot all the time. All arrive, in order.
inline void take_turns(Node& server, const std::vector<std::unique_ptr<Node>>& clients) {
    support::Random random(support::options().seed);
    TestOp op;
    std::vector<std::uint32_t> sent(clients.size());
    std::map<std::string, std::uint32_t> got;
    std::uint32_t total = 0;
    for (int round = 0; round < 3000; ++round) {
        const std::size_t i = random.below(clients.size());
        for (std::uint64_t n = random.below(5); n != 0; --n) {
            if (clients[i]
                    ->try_send(op, server.uri(), Lane::unexpected, sent[i], "hello", 5)
                    .what == Posted::What::done) {
                ++sent[i];
                ++total;
            }
        }
        clients[i]->poll();
        for (std::uint64_t n = random.below(200); n != 0; --n) {
            server.poll();
        }
    }
    REQUIRE(settle([&] { return server->messages.size() == total; }, server));
    for (const Message& m : server->messages) {
        REQUIRE(m.tag == got[m.source]++);
    }
}

// The server still serves others.
inline void check_alive(Node& server, Node& friendly) {
    TestOp op;
    const std::size_t before = server->messages.size();
    const auto data = support::payload(100, 1);
    REQUIRE(
        friendly.try_send(op, server.uri(), Lane::unexpected, 42, data.data(), data.size()).what ==
        Posted::What::done);
    REQUIRE(settle(
        [&] { return server->messages.size() > before && server->messages.back().tag == 42; },
        server, friendly));
    REQUIRE(server->messages.back().data == data);
    server->messages.clear();
}

}  // namespace sm_test
