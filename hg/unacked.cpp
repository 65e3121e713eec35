// SPDX-License-Identifier: BSD-3-Clause
#include "hg/unacked.hpp"

#include <mutex>

#include "hg/port.hpp"

namespace hg {
namespace {

constexpr int kOldest = 16;

}  // namespace

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
    // A peer that floods this context shall push out its own, and not those of others.
    Handle* victim = oldest_first_.front();
    std::uint64_t most = 0;
    Handle* h = victim;
    for (int i = 0; i < kOldest && oldest_first_.next(*h) != nullptr;
         ++i, h = oldest_first_.next(*h)) {
        const std::uint64_t waiting = h->port_->shares.waiting(h->peer());
        if (waiting > most) {
            most = waiting;
            victim = h;
        }
    }
    take_out(*victim);
    victim->ref();  // it has one of the library's while it is in the list
    return victim;
}

}  // namespace hg
