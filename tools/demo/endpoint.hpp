// SPDX-License-Identifier: BSD-3-Clause
// What client and server share: an opened class with one context, failures, interruption.
#pragma once

#include <mercury.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace demo {

// Ends the client or the server; what() is for the user.
class Failure : public std::runtime_error {
 public:
    using std::runtime_error::runtime_error;
};

// The user pressed Ctrl-C, or the process is to end.
class Interrupted : public Failure {
 public:
    Interrupted() : Failure("interrupted") {}
};

// Throws with `what`, the code's name and the library's own words, unless `code` is HG_SUCCESS.
void check(hg_return_t code, const std::string& what);

// "what: HG_HOSTUNREACH".
std::string describe(const std::string& what, hg_return_t code);

// SIGINT and SIGTERM set a flag from now on instead of ending the process.
void catch_signals();
bool interrupted() noexcept;

class Endpoint {
 public:
    // Throws Failure.
    Endpoint(const std::string& info, bool listen);
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    hg_class_t* hg_class() const noexcept { return class_; }
    hg_context_t* context() const noexcept { return context_; }
    std::string address() const;

    // Waits up to `timeout_ms` for something to happen and runs the callbacks.
    void progress(unsigned timeout_ms);

 private:
    hg_class_t* class_ = nullptr;
    hg_context_t* context_ = nullptr;
};

// "12.5 MiB".
std::string human_bytes(double bytes);

}  // namespace demo
