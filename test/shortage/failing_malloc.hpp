// SPDX-License-Identifier: BSD-3-Clause
// Allocations of the library that fail on demand. Linking failing_malloc.cpp replaces malloc() and
// operator new of the process.
//
// An allocation is the library's if the code that asks for it lies in one of our shared objects, or
// in libstdc++ or libfmt, which allocate for ours. The test's own allocations never fail, as the
// test is part of the executable; it must not call functions inside libstdc++ that allocate
// (std::string beyond its header) while allocations fail.
//
// One thread, before others exist.
#pragma once

#include <cstdint>

namespace shortage {

// Notes where the shared objects lie: again after plugins were loaded.
void find_libraries() noexcept;

// From now on the library's allocations are counted, and number `first` (from 1) fails; with
// `all_later` every one after that, too. 0: none fails.
void fail(std::uint64_t first, bool all_later) noexcept;
// None fails any more. Answers how many were counted since fail().
std::uint64_t succeed() noexcept;
// How many have failed since fail().
std::uint64_t failures() noexcept;
// Writes to stderr where the first of them was asked for.
void show_failure() noexcept;

// Bytes that the process has in use; -1: unknown (sanitizers have their own allocator, and look for
// leaks themselves).
long in_use() noexcept;

}  // namespace shortage
