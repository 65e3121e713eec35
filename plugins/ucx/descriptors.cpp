// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/descriptors.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "na/util/fd.hpp"

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

void for_each_member(int set, void (*visit)(void* argument, const Member& member), void* argument) {
    char path[40];
    std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);
    const util::UniqueFd info(open(path, O_RDONLY | O_CLOEXEC));
    char text[4096];
    std::size_t held = 0;
    while (info) {
        const ssize_t n = read(info.get(), text + held, sizeof text - 1 - held);
        if (n <= 0) {
            break;
        }
        held += static_cast<std::size_t>(n);
        text[held] = '\0';
        char* line = text;
        for (char* end = nullptr; (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
            *end = '\0';
            // "tfd:       12 events:       19 data:                c  pos:0 ino:401 sdev:f"
            const char* data = std::strstr(line, " data:");
            if (std::strncmp(line, "tfd:", 4) == 0 && data != nullptr) {
                visit(argument, {std::atoi(line + 4), std::strtoull(data + 6, nullptr, 16)});
            }
        }
        held -= static_cast<std::size_t>(line - text);
        std::memmove(text, line, held);
        if (held == sizeof text - 1) {
            break;  // no line of the kernel is as long
        }
    }
}

std::vector<Member> members_of(int set) {
    std::vector<Member> list;
    for_each_member(
        set, [](void* to, const Member& m) { static_cast<std::vector<Member>*>(to)->push_back(m); },
        &list);
    return list;
}

void close_on_exec(int fd) noexcept {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

}  // namespace na::ucx
