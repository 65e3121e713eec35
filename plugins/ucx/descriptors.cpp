// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/descriptors.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace na::ucx {

std::vector<int> open_descriptors() {
    std::vector<int> list;
    const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/fd"), closedir);
    while (const dirent* entry = all != nullptr ? readdir(all.get()) : nullptr) {
        char* end = nullptr;
        const int fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
        if (end != entry->d_name && *end == '\0' && fd != dirfd(all.get())) {
            list.push_back(fd);
        }
    }
    std::sort(list.begin(), list.end());
    return list;
}

std::vector<int> opened_since(const std::vector<int>& before) {
    const std::vector<int> now = open_descriptors();
    std::vector<int> list;
    std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                        std::back_inserter(list));
    return list;
}

bool is_epoll_set(int fd) {
    char target[32] = {};
    const ssize_t n =
        readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target - 1);
    return n > 0 && std::strcmp(target, "anon_inode:[eventpoll]") == 0;
}

std::vector<Member> members_of(int set) {
    std::vector<Member> list;
    std::ifstream info(fmt::format("/proc/self/fdinfo/{}", set));
    for (std::string line; std::getline(info, line);) {
        // "tfd:       12 events:       19 data:                c  pos:0 ino:401 sdev:f"
        const std::size_t data = line.find(" data:");
        if (line.starts_with("tfd:") && data != std::string::npos) {
            list.push_back(
                {std::atoi(line.c_str() + 4), std::strtoull(line.c_str() + data + 6, nullptr, 16)});
        }
    }
    return list;
}

void close_on_exec(int fd) noexcept {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

}  // namespace na::ucx
