// SPDX-License-Identifier: BSD-3-Clause
// All of this program's memory: refused when a test says so. Alone in a file, so that no compiler
// looks into it from where memory is used.
#include <cstdlib>
#include <new>

#include "unit/session/net.hpp"

namespace session_test {

thread_local long allocations_left = kPlenty;

}  // namespace session_test

void* operator new(std::size_t size) {
    using session_test::allocations_left;
    void* memory = allocations_left == 0 ? nullptr : std::malloc(size != 0 ? size : 1);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    allocations_left -= allocations_left > 0 ? 1 : 0;
    return memory;
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return std::malloc(size != 0 ? size : 1);
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
