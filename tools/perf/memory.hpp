// SPDX-License-Identifier: BSD-3-Clause
// Memory whose pages are there before anything is measured.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace perf {

class Pages {
 public:
    Pages() = default;
    // Touched, not shared. Throws std::bad_alloc.
    explicit Pages(std::size_t bytes) : bytes_(bytes) {
        if (bytes_ == 0) {
            return;
        }
        data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) {
            data_ = nullptr;
            throw std::bad_alloc();
        }
        std::memset(data_, 1, bytes_);
    }
    Pages(Pages&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Pages& operator=(Pages&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Pages() {
        if (data_ != nullptr) {
            munmap(data_, bytes_);
        }
    }

    char* data() const noexcept { return static_cast<char*>(data_); }
    std::size_t size() const noexcept { return bytes_; }

 private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace perf
