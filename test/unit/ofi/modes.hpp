// SPDX-License-Identifier: BSD-3-Clause
// A provider that wants more of memory than the real one below it (mr_mode): what it wants is
// checked, or taken back out, on the way down.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>

namespace modes {

// Of classes opened from now on. 0: the real one as it is.
void want(int bits);
int wanted();

// Of classes opened from now on: the largest message that the provider says it sends. 0: what the
// real one says.
void limit_messages(std::size_t bytes);
struct Limited {
    explicit Limited(std::size_t bytes) { limit_messages(bytes); }
    ~Limited() { limit_messages(0); }
    Limited(const Limited&) = delete;
    Limited& operator=(const Limited&) = delete;
};

// What has not been given back.
std::size_t registrations();
std::size_t mapped_keys();
// What went through it since want(): posts whose local memory was checked, puts and gets.
std::size_t checked();
std::size_t translated();

// For spies.cpp: as the real provider understands it.
fi_info* real_info(const fi_info* info);
void watch_domain(fid_domain* domain);
void watch_endpoint(fid_ep* endpoint);

}  // namespace modes
