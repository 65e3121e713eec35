// SPDX-License-Identifier: BSD-3-Clause
// A descriptor that closes itself. It is never one of 0 to 2: see standard_fds.hpp.
#pragma once

#include <utility>

#include <unistd.h>

#include "na/util/standard_fds.hpp"

namespace na::util {

class UniqueFd {
 public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) noexcept : fd_(above_standard(fd)) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~UniqueFd() { reset(); }

    int get() const noexcept { return fd_; }
    int release() noexcept { return std::exchange(fd_, -1); }
    void reset(int fd = -1) noexcept {
        if (fd_ >= 0) {
            close(fd_);
        }
        fd_ = above_standard(fd);
    }
    explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
    int fd_ = -1;
};

}  // namespace na::util
