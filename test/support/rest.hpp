// SPDX-License-Identifier: BSD-3-Clause
// Where a process may not be killed at any point of what it does (Promise::deaths_at_work) one that
// is to be killed, or stopped, comes to rest first: at a place where it is in no call of the
// library. Where it may, none of this does anything.
#pragma once

#include <sys/types.h>

namespace support {

// In a forked process, before the runner hears of it: it can be brought to rest from here on.
void rest_when_told();

// Between calls of the library: stops here if told to.
void rest_point() noexcept;

// As long as one lives its process waits for something else than the library, and stops at once
// when told to.
class Resting {
 public:
    Resting() noexcept;
    ~Resting();
    Resting(const Resting&) = delete;
    Resting& operator=(const Resting&) = delete;
};

// The process has stopped at such a place, or is gone, when this returns. False: there is nothing
// it would have to wait for, it may die where it is.
bool bring_to_rest(pid_t process);

}  // namespace support
