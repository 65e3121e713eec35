// SPDX-License-Identifier: BSD-3-Clause
#include "hg/owed.hpp"

#include <mutex>
#include <utility>

namespace hg {

// What is in a list has its registration: whoever ends a request takes it out first.
std::size_t Owed::list_of(const Handle& handle) noexcept {
    return handle.registration_->late() ? kLate : kUnknown;
}

Block* Owed::add(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    if (handle.owed_hook_.linked()) {
        return nullptr;
    }
    put(handle);
    handle.input_.valid = false;
    return std::exchange(handle.input_block_, nullptr);
}

void Owed::remove(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    if (handle.owed_hook_.linked()) {
        take_out(handle);
    }
    handle.was_owed_.store(false, std::memory_order_relaxed);
}

void Owed::put(Handle& handle) noexcept {
    handle.was_owed_.store(true, std::memory_order_relaxed);
    handle.owed_list_ = list_of(handle);
    oldest_first_[handle.owed_list_].push_back(handle);
    ++count_[handle.owed_list_];
}

void Owed::take_out(Handle& handle) noexcept {
    List::remove(handle);
    --count_[handle.owed_list_];
}

Handle* Owed::excess(const Handle& newest) noexcept {
    const std::lock_guard guard(lock_);
    Handle* const oldest = pop(kUnknown, most_[kUnknown], &newest);
    return oldest != nullptr ? oldest : pop(kLate, most_[kLate], &newest);
}

Handle* Owed::forgotten() noexcept {
    const std::lock_guard guard(lock_);
    return pop(kUnknown, 0, nullptr);
}

Handle* Owed::pop(std::size_t list, std::size_t most, const Handle* newest) noexcept {
    List& oldest_first = oldest_first_[list];
    for (Handle* h = oldest_first.front(); h != nullptr && count_[list] > most;) {
        Handle& handle = *h;
        h = oldest_first.next(handle);
        if (list_of(handle) != list) {
            take_out(handle);
            put(handle);  // that its RPC is responded to late has turned out since
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
