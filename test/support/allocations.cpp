// SPDX-License-Identifier: BSD-3-Clause
// Counts every allocation of this process by C++. A file of its own: where the compiler sees these
// functions together with their callers, it takes malloc() for another allocator than theirs.
#include <atomic>
#include <cstdlib>
#include <new>

#include "support/allocations.hpp"

namespace {
std::atomic<std::size_t> made{0};
}

std::size_t support::allocations() {
    return made;
}

void* operator new(std::size_t size) {
    ++made;
    if (void* p = std::malloc(size)) {
        return p;
    }
    throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    ++made;
    return std::malloc(size);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
    std::free(p);
}
void operator delete(void* p) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
    std::free(p);
}
