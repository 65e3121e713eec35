// SPDX-License-Identifier: BSD-3-Clause
// What the cases of this suite share.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/na_endpoint.hpp"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

namespace na_test {

using support::Addr;
using support::Buffer;
using support::Endpoint;
using support::Mem;
using support::Op;
using support::options;
using support::Pair;
using support::Result;
using support::until;

// The transport under test is one process's: the other party of a test is a thread.
inline bool one_process_only() {
    return options().protocol.find("loop") != std::string::npos;
}
// Behind a decorator that makes things go wrong.
inline bool faulty() {
    return options().protocol.starts_with("fault");
}

// Payload of a message: what follows the header.
inline std::size_t fill_message(Endpoint& e, Buffer& buffer, std::size_t payload,
                                std::uint64_t seed, bool expected = false) {
    const std::size_t header = e.header(expected);
    support::fill(buffer.data() + header, payload, seed);
    return header + payload;
}

inline bool holds(const Endpoint& e, const void* data, std::size_t size, std::uint64_t seed,
                  bool expected = false) {
    const std::size_t header = e.header(expected);
    return size >= header && support::mismatch(static_cast<const std::byte*>(data) + header,
                                               size - header, seed) == -1;
}

// Sets an environment variable for the life of the object.
class Environment {
 public:
    Environment(const char* name, const char* value) : name_(name) {
        if (const char* old = std::getenv(name)) {
            old_ = std::make_unique<std::string>(old);
        }
        setenv(name, value, 1);
    }
    ~Environment() {
        if (old_ != nullptr) {
            setenv(name_, old_->c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

 private:
    const char* name_;
    std::unique_ptr<std::string> old_;
};

// Errors that a case provokes on purpose need not be in the log of a run.
class Quiet {
 public:
    Quiet() { NA_Set_log_level("none"); }
    ~Quiet() { NA_Set_log_level("error"); }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
};

// One message, however often it has to be tried: for cases about what comes after the first
// contact, which may take its time. `from` drops nothing.
inline void meet(Endpoint& from, Endpoint& to) {
    Addr address(from, to.uri());
    Buffer out(from);
    Buffer in(to);
    Op recv(to);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    std::unique_ptr<Op> send;
    REQUIRE(until([&] { return recv.done() && (send == nullptr || send->done()); },
                  [&] {
                      if (!recv.done() &&
                          (send == nullptr || (send->done() && send->ret() != NA_SUCCESS))) {
                          send = std::make_unique<Op>(from);
                          if (send->send_unexpected(out, fill_message(from, out, 1, 1), address,
                                                    1) != NA_SUCCESS) {
                              send.reset();
                          }
                      }
                      from.pump();
                      to.pump();
                  }));
    REQUIRE(recv.ret() == NA_SUCCESS);
}

// Both endpoints for `rounds` rounds: to see that nothing more happens.
template <typename Pump>
void settle(Pump&& pump, int rounds = 50) {
    for (int i = 0; i < rounds; ++i) {
        pump();
    }
}

}  // namespace na_test
