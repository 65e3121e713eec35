// SPDX-License-Identifier: BSD-3-Clause
// UCX's own thread and its table of handlers. Both belong to the process, not to a worker. The
// thread waits on an epoll set and calls the handlers of what is ready: it accepts connections of
// tcp, and wakes workers. Two things go wrong there, and UCX offers no call for either:
//
//  - Where accept() fails (EMFILE), tcp closes the socket that it listens at, and its handler stays
//    in the table (1.10 to 1.18). The handler refers to the worker. What UCX opens later under the
//    number of that socket finds the number taken, and ends the process when it closes.
//  - A child of fork() has the table and the thread's descriptors, but no thread. Its workers hear
//    of no connection. What it adds to the set goes to its parent's.
//
// Two functions of libucs mend both. They are exported and in no public header; where a UCX lacks
// them, everything stays as UCX does it.
#pragma once

#include <vector>

#include "na/session/engine.hpp"

namespace na::ucx::async {

// Finds the set of UCX's thread: the one that holds a descriptor which UCX has opened. `before`:
// open_descriptors() before UCX opened something. Throws std::bad_alloc. Any thread.
void find_set(const std::vector<int>& before);

// Before the first call of UCX in a class. In a child of a process whose UCX has a thread, the set
// is replaced by one of the child's own, which its contexts drain. Errors: the system's;
// opnotsupported: this UCX lacks what a child needs. Any thread.
Error enter();

// Removes the handler of a descriptor that UCX closed without doing so.
void remove_handler(int fd) noexcept;

// Does the work of UCX's thread where there is none.
class Drain final : public session::Watcher {
 public:
    // The set to wait on; -1: UCX's thread does so.
    static int fd() noexcept;
    void ready(std::uint32_t events) override;
};

}  // namespace na::ucx::async
