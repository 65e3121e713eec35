// SPDX-License-Identifier: BSD-3-Clause
// Ends a process that hangs, with a message that says where. One per process; a forked child needs
// its own. By a signal and a timer, not by a thread, so that the process may still fork.
#pragma once

#include <string_view>

namespace support {

// From now on the process has `seconds` until the next call; then it writes `what` to stderr and
// aborts. 0: switches it off. What a loaded machine withholds is not counted (hindrance.hpp), up to
// as much again: after twice the time it is over in any case, so that the limit of the whole
// program (Meson's) does not come first, which says nothing of where it hangs. `what` is copied
// (its first 200 characters).
//
// When it gives more time it interrupts a system call: those that are not restarted after a signal
// (poll, epoll_wait, nanosleep) are called through uninterrupted() where their result matters
// (until.hpp).
void watchdog(unsigned seconds, std::string_view what);

}  // namespace support
