// SPDX-License-Identifier: BSD-3-Clause
// A worker of UCX's, its address, and the sockets that it listens at.
//
// UCX's tcp closes the socket that it listens at for good when it cannot accept, which is what
// happens when the process has no descriptor left (uct/tcp, 1.13 to 1.17). Peers that know the
// worker go on; new ones are refused by the kernel. Such a worker is deaf: a Context makes another
// one, and its bootstrap port tells newcomers of that one. UCX leaves the handler of that socket
// behind (async.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "na/session/engine.hpp"
#include "na/util/ip.hpp"
#include "plugins/ucx/library.hpp"

namespace na::ucx {

class Domain;

// UCX's, of one worker.
struct Addresses {
    std::string all;
    std::string far;  // network devices only; empty: there are none
};

class Worker final : public session::Watcher {
 public:
    // Descriptors that it takes at most with one network device.
    static constexpr std::size_t kFiles = 24;

    // Errors: UCX's own; opnotsupported: the address is too long.
    static Result<std::unique_ptr<Worker>> make(Domain& domain);
    ~Worker() { forget_closed(); }

    ucp_worker_h get() const noexcept { return worker_.get(); }
    // Readable when UCX has something to do; -1: the class never waits.
    int fd() const noexcept { return fd_; }
    const Addresses& addresses() const noexcept { return addresses_; }
    // UCX has closed a socket that it listened at.
    bool deaf() const noexcept;
    // Before UCX opens something in place of what it closed: removes handlers of closed sockets.
    void forget_closed() noexcept;
    // Has its connections closed by exec(): a helper program that inherits one keeps it open after
    // this process has died. Reads /proc, throws std::bad_alloc.
    void keep_from_helpers() const;
    // Shuts down connections to it on which nothing was ever said. Answers how many. Reads /proc.
    std::size_t hang_up_on_strangers() const noexcept;
    // Its descriptor ends the sleep; progress is Context::poll()'s.
    void ready(std::uint32_t) override {}

    std::size_t ways = 0;  // endpoints of it that are not closed

 private:
    struct Listener {
        bool closed() const noexcept;

        int fd;
        ino_t inode;
        util::IpEndpoint at;
        bool forgotten = false;  // closed, and its handler is removed
    };
    static std::vector<Listener> listeners_here();
    Worker() = default;
    Error ask_addresses(bool far);
    void find_listeners(const std::vector<Listener>& before);
    void find_sets(const std::vector<int>& before);

    UcpWorker worker_;
    int fd_ = -1;
    Addresses addresses_;
    std::vector<Listener> listeners_;
    std::vector<int> sets_;  // epoll; those of tcp hold its connections
};

}  // namespace na::ucx
