// SPDX-License-Identifier: BSD-3-Clause
// The linker sends malloc, aligned_alloc and free of this program's objects here (--wrap), but not
// those of shared libraries, strdup's and operator new's among them.
#include "counted_malloc.hpp"

#include <cstdlib>
#include <unordered_set>

namespace {

std::unordered_set<void*>& blocks() {
    static auto* all = new std::unordered_set<void*>;
    return *all;
}

void* remember(void* block) {
    if (block != nullptr) {
        blocks().insert(block);
    }
    return block;
}

}  // namespace

std::size_t proc_test::blocks_alive() noexcept {
    return blocks().size();
}

extern "C" {

void* __real_malloc(std::size_t size);
void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
void __real_free(void* block);
void* __wrap_malloc(std::size_t size);
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size);
void __wrap_free(void* block);

void* __wrap_malloc(std::size_t size) {
    return remember(__real_malloc(size));
}

void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
    return remember(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void* block) {
    blocks().erase(block);
    __real_free(block);
}

}  // extern "C"
