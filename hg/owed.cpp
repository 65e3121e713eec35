// SPDX-License-Identifier: BSD-3-Clause
#include "hg/owed.hpp"

#include <mutex>

namespace hg {

// What is in a list has its registration: whoever ends a request takes it out first.
std::size_t Owed::list_of(const Handle& handle) noexcept {
    return handle.registration_->late() ? kLate : kUnknown;
}

void Owed::add(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    if (!handle.owed_hook_.linked()) {
        put(handle);
    }
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

Handle* Owed::excess() noexcept {
    const std::lock_guard guard(lock_);
    Handle* const oldest = pop(kUnknown, most_[kUnknown]);
    return oldest != nullptr ? oldest : pop(kLate, most_[kLate]);
}

Handle* Owed::forgotten() noexcept {
    const std::lock_guard guard(lock_);
    return pop(kUnknown, 0);
}

Handle* Owed::pop(std::size_t list, std::size_t most) noexcept {
    while (count_[list] > most) {
        Handle& oldest = *oldest_first_[list].front();
        take_out(oldest);
        if (list_of(oldest) != list) {
            put(oldest);  // that its RPC is responded to late has turned out since
        } else if (oldest.ref_if_held()) {
            return &oldest;
        }
        // Else it has been responded to, and is on its way to remove().
    }
    return nullptr;
}

}  // namespace hg
