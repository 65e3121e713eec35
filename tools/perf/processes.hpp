// SPDX-License-Identifier: BSD-3-Clause
// The processes of a measurement: where they run, the server that a client starts, clients that
// work together.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "result.hpp"

namespace perf {

// What ends a tool: the text says what and why.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Binds the calling thread to cpus[index % size]; an empty list leaves it alone. Throws Failure: no
// such processor.
void pin(const std::vector<int>& cpus, std::size_t index);
// The same; where there is no such processor, the thread stays where it is.
bool try_pin(const std::vector<int>& cpus, std::size_t index) noexcept;
// Throws Failure: one of them cannot be used. The calling thread stays where it is.
void check_cpus(const std::vector<int>& cpus);

// Told apart by: what a process says of itself, so that who knows it by several addresses sees that
// it is one.
std::uint64_t random_id();

// The addresses of a server: written whole or not at all; what is no file (a pipe, a device) is
// written to, and a link stays one. Read as they are.
void write_hostfile(const std::string& path, const std::vector<std::string>& addresses);
std::vector<std::string> read_hostfile(const std::string& path);

// A server process, of a program that is installed beside this one (or lies beside it in the build
// folder).
class Server {
 public:
    Server() = default;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();  // kills one that has not been awaited

    // Starts it and waits until it has announced its addresses. Throws Failure if it ends before
    // that.
    std::vector<std::string> launch(const std::string& program, std::vector<std::string> arguments);
    // Waits for its end, for 30 s at most. Throws Failure: it failed, or had to be killed.
    void await();
    bool running() const noexcept { return pid_ > 0; }

 private:
    pid_t pid_ = -1;
};

// Client processes that begin together and whose results one of them prints.
class Team {
 public:
    explicit Team(unsigned size);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team();

    // Calls `member` with 0 .. size-1, each in a process of its own; of one, in this process. The
    // result is the exit status: 0 if all of them returned that. When one fails the others are
    // killed.
    int run(const std::function<int(unsigned)>& member);

    void meet();  // returns when all members are here
    Result& result(unsigned member) noexcept;
    unsigned size() const noexcept { return size_; }

 private:
    struct Shared;
    unsigned size_;
    std::size_t bytes_;
    Shared* shared_;
};

}  // namespace perf
