// SPDX-License-Identifier: BSD-3-Clause
// For programs that link support/allocations.cpp, which replaces operator new.
#pragma once

#include <cstddef>

namespace support {

// How often this process has allocated by C++ so far; any thread.
std::size_t allocations();

}  // namespace support
