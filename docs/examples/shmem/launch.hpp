// SPDX-License-Identifier: BSD-3-Clause
// What `oshrun` is elsewhere: starts the processes of a program, and hands their addresses around.
#pragma once

#include <functional>

#include "shmem.hpp"

namespace shmem {

// Runs `body` in so many processes of its own and waits for them. The status to exit with: 0, or
// that of the first process which failed (128 + signal for one that was killed); then the others
// are ended, too. Call it before anything is opened and before any thread runs.
int launch(int processes, const std::function<int(const Place&)>& body);

}  // namespace shmem
