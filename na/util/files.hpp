// SPDX-License-Identifier: BSD-3-Clause
// How many descriptors this process may still open.
#pragma once

#include <cstddef>

namespace na::util {

// Counts free descriptor numbers below the soft limit (RLIMIT_NOFILE) and stops at `most`. Opens
// nothing where the numbers just below the limit are free, which is the usual case. Other threads
// may open files meanwhile: the answer is a judgement of the moment. Does not see the machine's own
// limit (ENFILE).
std::size_t free_descriptors(std::size_t most) noexcept;

}  // namespace na::util
