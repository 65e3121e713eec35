// SPDX-License-Identifier: BSD-3-Clause
// A victim: a process with an sm endpoint of its own, that does something until it is killed.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "support/two_process.hpp"
#include "unit/sm/fake_peer.hpp"
#include "unit/sm/node.hpp"

namespace crash {

using namespace sm_test;

// Runs `body(node, link, parent's address)` in a new process. Make victims before any endpoint of
// this process.
class Victim {
 public:
    using Body = std::function<void(Node&, support::Link&, const std::string& parent)>;
    explicit Victim(Body body, na::plugin::OpenSpec spec = kDefaults)
        : party_(support::Party::As::process, [body, spec](support::Link& link) {
              while (!link.readable()) {
                  usleep(1000);  // its turn may come late, longer than a link waits
              }
              const std::string parent = link.take_text();
              Node node(spec);
              link.put(node.uri());
              body(node, link, parent);
          }) {}

    // Gives it our address; answers its own.
    const std::string& start(const std::string& parent) {
        party_.link().put(parent);
        uri_ = party_.link().take_text();
        return uri_;
    }
    const std::string& uri() const noexcept { return uri_; }
    support::Link& link() noexcept { return party_.link(); }
    pid_t pid() const noexcept { return party_.pid(); }
    void kill(int signal = SIGKILL) { party_.kill(signal); }
    std::string join() { return party_.join(); }

 private:
    support::Party party_;
    std::string uri_;
};

// Progress until the process is killed, or its parent has gone.
inline void loiter(Node& node, support::Link& link) {
    while (!link.readable()) {
        node.poll();
        std::this_thread::yield();
    }
}

// The endpoint still serves a friendly one, in both directions.
inline bool serves(Node& server, Node& client) {
    TestOp op;
    const std::size_t at_server = server->messages.size();
    const std::size_t at_client = client->messages.size();
    client.send(op, server, Lane::unexpected, 4711, "x", 1);
    if (!settle([&] { return server->messages.size() > at_server; }, server, client)) {
        return false;
    }
    server.send(op, client, Lane::expected, 4712, "y", 1);
    return settle([&] { return client->messages.size() > at_client; }, server, client);
}

}  // namespace crash
