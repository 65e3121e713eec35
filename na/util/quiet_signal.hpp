// SPDX-License-Identifier: BSD-3-Clause
// Some system calls raise a signal that ends the process, where an answer would do: SIGXFSZ for a
// file that would grow beyond RLIMIT_FSIZE (`ulimit -f`, which batch systems set; shared memory is
// a file), SIGPIPE for a pipe that nobody reads.
#pragma once

#include <cerrno>
#include <csignal>
#include <ctime>

namespace na::util {

// While an object of this type lives, system calls of this thread answer with an error (EFBIG,
// EPIPE) instead of this signal. A signal that was pending before stays pending.
class QuietSignal {
 public:
    explicit QuietSignal(int signal) noexcept {
        sigset_t pending;
        sigemptyset(&one_);
        sigaddset(&one_, signal);
        sigpending(&pending);
        was_pending_ = sigismember(&pending, signal) == 1;
        pthread_sigmask(SIG_BLOCK, &one_, &before_);
    }
    ~QuietSignal() {
        const int error = errno;
        if (!was_pending_) {
            constexpr timespec kNow{};
            while (sigtimedwait(&one_, nullptr, &kNow) == -1 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        errno = error;
    }
    QuietSignal(const QuietSignal&) = delete;
    QuietSignal& operator=(const QuietSignal&) = delete;

 private:
    sigset_t one_;
    sigset_t before_;
    bool was_pending_ = false;
};

}  // namespace na::util
