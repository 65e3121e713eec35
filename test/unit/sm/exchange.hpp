// SPDX-License-Identifier: BSD-3-Clause
// What the cases about messages between two endpoints of this process share.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include <poll.h>
#include <catch2/catch.hpp>

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

}  // namespace sm_test
