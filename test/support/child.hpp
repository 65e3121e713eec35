// SPDX-License-Identifier: BSD-3-Clause
// A copy of the process, with everything in it, that does something and ends.
#pragma once

#include <csignal>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

namespace support {

// What `run` answers there, 0 to 254; 255: it threw; -1: a signal has ended it, that of its time
// limit among them.
template <typename Run>
int in_child(Run&& run) {
    constexpr unsigned kSeconds = 60;
    const pid_t child = ::fork();
    if (child == -1) {
        throw std::runtime_error("fork failed");
    }
    if (child == 0) {
        for (const int number : {SIGALRM, SIGABRT, SIGSEGV}) {
            (void)::signal(number, SIG_DFL);  // not Catch2's
        }
        ::alarm(kSeconds);
        try {
            ::_exit(run());
        } catch (...) {
            ::_exit(255);
        }
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child) {
        throw std::runtime_error("waitpid failed");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace support
