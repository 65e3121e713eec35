// SPDX-License-Identifier: BSD-3-Clause
// What this program, and the library's sources in it, have from malloc.
#pragma once

#include <cstddef>

namespace proc_test {

// Blocks that malloc gave and that were not freed.
std::size_t blocks_alive() noexcept;

}  // namespace proc_test
