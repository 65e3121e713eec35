// SPDX-License-Identifier: BSD-3-Clause
#include "shortage/failing_malloc.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include <execinfo.h>
#include <link.h>
#include <malloc.h>

#include "support/options.hpp"

namespace {

struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
};
constexpr std::size_t kMostRanges = 32;
Range ranges[kMostRanges];
std::size_t range_count = 0;

bool counting = false;
bool all_later = false;
std::uint64_t first = 0;
std::uint64_t counted = 0;
std::uint64_t failed = 0;
constexpr int kMostFrames = 48;
void* frames[kMostFrames];  // of the first that failed
int frame_count = 0;

int note_object(dl_phdr_info* object, std::size_t, void*) {
    constexpr const char* kNames[] = {"libcinnabar", "libna_plugin_", "libstdc++", "libfmt"};
    const char* slash = std::strrchr(object->dlpi_name, '/');
    const char* name = slash == nullptr ? object->dlpi_name : slash + 1;
    for (const char* wanted : kNames) {
        // The loop transport is part of the tests, and knows no shortage.
        if (std::strncmp(name, wanted, std::strlen(wanted)) != 0 ||
            std::strstr(name, "_loop") != nullptr) {
            continue;
        }
        for (int i = 0; i < object->dlpi_phnum; ++i) {
            const ElfW(Phdr)& part = object->dlpi_phdr[i];
            if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0 && range_count < kMostRanges) {
                const std::uintptr_t at = object->dlpi_addr + part.p_vaddr;
                ranges[range_count++] = {at, at + part.p_memsz};
            }
        }
    }
    return 0;
}

// Whether an allocation that returns to `caller` is to fail.
bool fails(const void* caller) noexcept {
    if (!counting) {
        return false;
    }
    const auto at = reinterpret_cast<std::uintptr_t>(caller);
    bool ours = false;
    for (std::size_t i = 0; i < range_count; ++i) {
        ours = ours || (at >= ranges[i].begin && at < ranges[i].end);
    }
    if (!ours) {
        return false;
    }
    ++counted;
    const bool now = first != 0 && (all_later ? counted >= first : counted == first);
    failed += now ? 1 : 0;
    if (now) {
        if (failed == 1) {
            frame_count = backtrace(frames, kMostFrames);
        }
        errno = ENOMEM;
    }
    return now;
}

void* make(std::size_t size, std::size_t alignment) noexcept {
    return alignment <= alignof(std::max_align_t) ? std::malloc(size)
                                                  : std::aligned_alloc(alignment, size);
}

void* make_or_throw(std::size_t size, std::size_t alignment, const void* caller) {
    void* p = fails(caller) ? nullptr : make(size, alignment);
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return p;
}

}  // namespace

void shortage::find_libraries() noexcept {
    range_count = 0;
    dl_iterate_phdr(note_object, nullptr);
}

void shortage::fail(std::uint64_t which, bool later) noexcept {
    first = which;
    all_later = later;
    counted = failed = 0;
    frame_count = 0;
    counting = true;
}

std::uint64_t shortage::succeed() noexcept {
    counting = false;
    return counted;
}

std::uint64_t shortage::failures() noexcept {
    return failed;
}

void shortage::show_failure() noexcept {
    backtrace_symbols_fd(frames, frame_count, 2);
}

long shortage::in_use() noexcept {
    if (support::kSlow != 1) {
        return -1;
    }
    const struct mallinfo2 info = mallinfo2();
    return static_cast<long>(info.uordblks + info.hblkhd);
}

// --- replaced

#define SHORTAGE_CALLER __builtin_return_address(0)

void* operator new(std::size_t n) {
    return make_or_throw(n, 0, SHORTAGE_CALLER);
}
void* operator new[](std::size_t n) {
    return make_or_throw(n, 0, SHORTAGE_CALLER);
}
void* operator new(std::size_t n, std::align_val_t a) {
    return make_or_throw(n, static_cast<std::size_t>(a), SHORTAGE_CALLER);
}
void* operator new[](std::size_t n, std::align_val_t a) {
    return make_or_throw(n, static_cast<std::size_t>(a), SHORTAGE_CALLER);
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
    return fails(SHORTAGE_CALLER) ? nullptr : make(n, 0);
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
    return fails(SHORTAGE_CALLER) ? nullptr : make(n, 0);
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
    return fails(SHORTAGE_CALLER) ? nullptr : make(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept {
    std::free(p);
}
void operator delete[](void* p) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
    std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
    std::free(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
    std::free(p);
}
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept {
    std::free(p);
}
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept {
    std::free(p);
}

// Sanitizers have their own malloc(): there only C++ runs out of memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
    return fails(SHORTAGE_CALLER) ? nullptr : __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
    return fails(SHORTAGE_CALLER) ? nullptr : __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
    return fails(SHORTAGE_CALLER) ? nullptr : __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
    return fails(SHORTAGE_CALLER) ? nullptr : __libc_memalign(alignment, n);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t n) {
    void* made = fails(SHORTAGE_CALLER) ? nullptr : __libc_memalign(alignment, n);
    if (made == nullptr) {
        return ENOMEM;
    }
    *p = made;
    return 0;
}
}
#endif
