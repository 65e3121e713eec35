// SPDX-License-Identifier: BSD-3-Clause
// Descriptors that UCX opens, and tells nobody of. What /proc says about this process: every
// function reads it, and may throw std::bad_alloc unless it says otherwise. Any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace na::ucx {

// Their numbers, in ascending order.
std::vector<int> open_descriptors();
// Those that are not among `before`, an earlier answer of open_descriptors().
std::vector<int> opened_since(const std::vector<int>& before);

bool is_epoll_set(int fd);

struct Member {
    int fd;  // its number when it was added
    std::uint64_t data;
};
// Members of an epoll set.
std::vector<Member> members_of(int set);
// The same without an allocation, member by member, for polls.
void for_each_member(int set, void (*visit)(void* argument, const Member& member), void* argument);

// exec() closes it. Reads nothing, throws nothing.
void close_on_exec(int fd) noexcept;

}  // namespace na::ucx
