// SPDX-License-Identifier: BSD-3-Clause
#include "hg/owed.hpp"

#include <mutex>
#include <utility>

namespace hg {

Block* Owed::add(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    const Handle::Stage stage = handle.stage();
    if (handle.owed_hook_.linked() ||
        (stage != Handle::Stage::received && stage != Handle::Stage::answering)) {
        return nullptr;
    }
    handle.was_owed_.store(true, std::memory_order_relaxed);
    if (!handle.registration_->late()) {
        oldest_first_.push_back(handle);
        ++count_;
    }
    handle.call_.input = false;
    handle.input_.beyond = {};
    return std::exchange(handle.input_block_, nullptr);
}

void Owed::answered(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    if (handle.owed_hook_.linked()) {
        take_out(handle);
    }
}

void Owed::remove(Handle& handle) noexcept {
    answered(handle);
    handle.was_owed_.store(false, std::memory_order_relaxed);
}

void Owed::take_out(Handle& handle) noexcept {
    List::remove(handle);
    --count_;
}

// What is in the list has its registration: whoever ends a request takes it out first.
Handle* Owed::pop(std::size_t most, const Handle* newest) noexcept {
    const std::lock_guard guard(lock_);
    for (Handle* h = oldest_first_.front(); h != nullptr && count_ > most;) {
        Handle& handle = *h;
        h = oldest_first_.next(handle);
        if (handle.registration_->late()) {
            take_out(handle);  // as has turned out since
        } else if (&handle != newest && handle.stage() == Handle::Stage::received) {
            // Not what is being responded to, or has been and is on its way to remove().
            take_out(handle);
            if (handle.ref_if_held()) {
                return &handle;
            }
        }
    }
    return nullptr;
}

}  // namespace hg
