// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/files.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <sys/resource.h>

#include "na/util/fd.hpp"

namespace na::util {
namespace {

constexpr std::size_t kMostCounted = 64;
// Numbers that are looked at from the limit downwards before descriptors are opened to find out.
constexpr int kMostLooks = 512;

// Duplicates a descriptor until no number is left. For a moment others find fewer than there are.
std::size_t count_by_opening(std::size_t most) noexcept {
    UniqueFd taken[kMostCounted];
    const UniqueFd source(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!source) {
        return 0;
    }
    std::size_t count = 1;  // `source` is one of them
    while (count < most) {
        taken[count].reset(fcntl(source.get(), F_DUPFD_CLOEXEC, 0));
        if (!taken[count]) {
            break;
        }
        ++count;
    }
    return count;
}

}  // namespace

std::size_t free_descriptors(std::size_t most) noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return most;
    }
    const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX));
    const int last = std::max(0, end - kMostLooks);
    std::size_t count = 0;
    for (int fd = end - 1; fd >= last && count < most; --fd) {
        count += fcntl(fd, F_GETFD) == -1 && errno == EBADF ? 1 : 0;
    }
    return count >= most || last == 0
               ? count
               : std::max(count, count_by_opening(std::min(most, kMostCounted)));
}

}  // namespace na::util
