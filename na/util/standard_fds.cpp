// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/standard_fds.hpp"

#include <cerrno>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

namespace na::util {
namespace {

constexpr int kStandard = 3;

struct Occupied {
    std::mutex mutex;
    int users = 0;
    bool taken[kStandard] = {};
};

Occupied& occupied() {
    static Occupied& all =
        *new Occupied;  // never destroyed: classes may close while the process ends
    return all;
}

// O_PATH allows neither reading nor writing.
int placeholder() noexcept {
    return open("/", O_PATH | O_CLOEXEC);
}

// A program may have put something of its own in that place meanwhile.
bool is_placeholder(int fd) noexcept {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_PATH) != 0;
}

}  // namespace

int above_standard(int fd) noexcept {
    if (fd < 0 || fd >= kStandard) [[likely]] {
        return fd;
    }
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, kStandard);
    const int error = errno;
    close(fd);
    errno = error;
    return copy;
}

OccupiedStandardFds::OccupiedStandardFds() noexcept {
    Occupied& all = occupied();
    const std::lock_guard guard(all.mutex);
    ++all.users;
    for (int fd = 0; fd < kStandard; ++fd) {
        if (fcntl(fd, F_GETFD) >= 0) {
            continue;
        }
        const int made = placeholder();
        if (made == fd) {
            all.taken[fd] = true;
        } else if (made >= 0) {
            close(made);  // another thread opened something in this place
        }
    }
}

OccupiedStandardFds::~OccupiedStandardFds() {
    Occupied& all = occupied();
    const std::lock_guard guard(all.mutex);
    if (--all.users != 0) {
        return;
    }
    for (int fd = 0; fd < kStandard; ++fd) {
        if (all.taken[fd] && is_placeholder(fd)) {
            close(fd);
        }
        all.taken[fd] = false;
    }
}

}  // namespace na::util
