// SPDX-License-Identifier: BSD-3-Clause
// Ends a process that hangs, with a message that says where. One per process; a forked child needs
// its own. By a signal and a timer, not by a thread, so that the process may still fork.
#pragma once

#include <string_view>

namespace support {

// From now on the process has `seconds` until the next call; then it writes `what` to stderr and
// aborts. 0: switches it off. What a loaded machine withholds is not counted (hindrance.hpp).
// `what` is copied (its first 200 characters).
void watchdog(unsigned seconds, std::string_view what);

}  // namespace support
