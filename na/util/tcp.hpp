// SPDX-License-Identifier: BSD-3-Clause
// TCP connections that a library of this process made by itself, and tells nobody of.
#pragma once

#include <chrono>
#include <cstddef>

#include "na/util/ip.hpp"

namespace na::util {

// The connections of this process to `there`, and those that somebody of that host made to `here`:
// the kernel gives them up, and whoever uses them learns that, when the host has said nothing for
// `patience` (and not after TCP's own retries, 15 minutes or more). One that answers loses nothing.
// Returns how many there are. From any thread; reads /proc.
std::size_t limit_patience(const IpEndpoint& there, const IpEndpoint& here,
                           std::chrono::seconds patience) noexcept;

}  // namespace na::util
