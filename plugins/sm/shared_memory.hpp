// SPDX-License-Identifier: BSD-3-Clause
// Descriptors, mappings and sealed memory files. Nothing has a name anywhere: the kernel frees
// memory when the last process that maps it or holds its descriptor is gone.
#pragma once

#include <cstddef>
#include <utility>

#include "na/result.hpp"
#include "na/util/fd.hpp"

namespace na::sm {

using util::UniqueFd;

class Mapping {
 public:
    Mapping() = default;
    Mapping(void* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
    Mapping(Mapping&& other) noexcept
        : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(base_, other.base_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Mapping();

    std::byte* base() const noexcept { return static_cast<std::byte*>(base_); }
    std::size_t bytes() const noexcept { return bytes_; }
    template <typename T>
    T* at(std::size_t offset) const noexcept {
        return reinterpret_cast<T*>(base() + offset);
    }
    explicit operator bool() const noexcept { return base_ != nullptr; }
    // The memory goes, its addresses stay taken as long as this: who reads or writes there faults.
    // False: not possible, nothing has happened.
    bool vacate() noexcept;

 private:
    void* base_ = nullptr;
    std::size_t bytes_ = 0;
};

struct SharedMemory {
    UniqueFd fd;
    Mapping mapping;
};

// Zeroed memory whose size is sealed, mapped here for writing. `owner_writes`: peers can map it for
// reading only.
Result<SharedMemory> make_shared_memory(std::size_t bytes, bool owner_writes);

// Maps a descriptor that came from a peer, after making sure that it is memory of exactly `bytes`
// which nobody can shrink below us (that would be a SIGBUS).
Result<Mapping> map_peer_memory(int fd, std::size_t bytes, bool writable) noexcept;

// The same file for reading only, whatever the mode of `fd`.
Result<UniqueFd> reopen_read_only(int fd);

// Error with the text of an errno value, and the remedy where there is one.
Error os_error(int error, const char* what);

}  // namespace na::sm
