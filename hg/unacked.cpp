// SPDX-License-Identifier: BSD-3-Clause
#include "hg/unacked.hpp"

#include <mutex>

namespace hg {

void Unacked::add(Handle& handle, std::size_t bytes) noexcept {
    const std::lock_guard guard(lock_);
    handle.unacked_bytes_ = bytes;
    bytes_ += bytes;
    ++responses_;
    oldest_first_.push_back(handle);
}

void Unacked::remove(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    if (handle.unacked_hook_.linked()) {
        take_out(handle);
    }
}

void Unacked::take_out(Handle& handle) noexcept {
    List::remove(handle);
    bytes_ -= handle.unacked_bytes_;
    --responses_;
}

Handle* Unacked::excess() noexcept {
    const std::lock_guard guard(lock_);
    if (responses_ < 2 || (bytes_ <= max_bytes_ && responses_ <= max_responses_)) {
        return nullptr;
    }
    Handle& oldest = *oldest_first_.front();
    take_out(oldest);
    oldest.ref();  // it has one of the library's while it is in the list
    return &oldest;
}

}  // namespace hg
