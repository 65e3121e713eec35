// SPDX-License-Identifier: BSD-3-Clause
// A peer that speaks the protocol by hand, and may say anything.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugins/sm/rendezvous.hpp"
#include "plugins/sm/ring.hpp"
#include "plugins/sm/shared_memory.hpp"

namespace sm_test {

class FakePeer {
 public:
    // A correct greeting, for the tests to spoil.
    explicit FakePeer(const std::string& own_name = {});

    // Connects to a context of an endpoint.
    void connect(const std::string& uri, std::uint8_t context = 0);
    // Sends `hello` with `fds`.
    void greet();
    // Waits for what the endpoint says, while it makes progress.
    na::sm::Received wait(const std::function<void()>& progress);
    // connect(), greet(), and an answer that accepts us.
    void join(const std::string& uri, const std::function<void()>& progress);

    // The next line of our ring, with whatever in it, valid.
    void write_line(const void* bytes, std::size_t size);
    template <typename T>
    void write(const T& message) {
        write_line(&message, sizeof message);
    }
    na::sm::Direction& out() { return region.mapping.at<na::sm::Direction>(0)[0]; }
    na::sm::Direction& in() { return region.mapping.at<na::sm::Direction>(0)[1]; }
    void knock() { na::sm::send_message(socket.get(), "", 1); }

    na::sm::Hello hello{};
    std::vector<int> fds;
    na::sm::UniqueFd socket;
    na::sm::SharedMemory region;
    na::sm::SharedMemory status;
    na::sm::SharedMemory ready;
    na::sm::SharedMemory permits;
    std::uint32_t position = 0;
    std::uint64_t nonce = 0x1234567;
};

std::size_t open_files();  // of this process

}  // namespace sm_test
