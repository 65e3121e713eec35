// SPDX-License-Identifier: BSD-3-Clause
#include "hg/handle_pool.hpp"

#include <algorithm>
#include <mutex>

#include "hg/context.hpp"
#include "na/util/log.hpp"

namespace hg {

HandlePool::HandlePool(Context& context)
    : context_(context),
      lock_(context.threaded()),
      create_(context.cls().handle_create()),
      most_aside_(std::max<std::size_t>(context.cls().options().request_limit / 2, kLeastAside)) {}

HandlePool::~HandlePool() = default;

Handle* HandlePool::take(Port& port, Hook hook, na::Status* refused) {
    Handle* handle = nullptr;
    Class::HandleCreate create;
    {
        const std::lock_guard guard(lock_);
        create = create_;
        Handle*& head = free_[bulk::index(port.rail())];
        if (head != nullptr) {
            handle = std::exchange(head, head->next_);
        }
    }
    if (handle == nullptr) {
        handle = make(port);
    }
    return hook == Hook::skip || show(*handle, create, refused) ? handle : nullptr;
}

Handle* HandlePool::take_mute(Port& port) {
    Class::HandleCreate create;
    {
        const std::lock_guard guard(lock_);
        create = create_;
        Queue& mutes = mutes_[bulk::index(port.rail())];
        if (mutes.count > kMutesAside) {
            return &mutes.pop();
        }
    }
    Handle& handle = *make(port);
    if (!show(handle, create, nullptr)) {
        return nullptr;
    }
    handle.odd_.mute = handle.target_ = handle.one_way_ = true;
    return &handle;
}

Handle* HandlePool::make(Port& port) {
    Kit* kit = port.take_kit();
    try {
        const std::lock_guard guard(lock_);
        return &handles_.emplace_back(context_, kit);
    } catch (...) {
        port.give_kit(kit);
        throw;
    }
}

// To the user's hook, if there is one. False: that refused it, and it is back here.
bool HandlePool::show(Handle& handle, const Class::HandleCreate& create, na::Status* refused) {
    if (create.hook == nullptr) {
        return true;
    }
    const na::Status s = create.hook(handle, create.user, create.arg);
    if (!ok(s)) {
        NA_LOG_ERROR(rpc, "the handle-create callback refused a handle: {}", to_string(s));
        handle.drop_data();
        give(handle);
        if (refused != nullptr) {
            *refused = s;
        }
        return false;
    }
    handle.user_data_kept_ = handle.data_ != nullptr;
    return true;
}

void HandlePool::set_create(const Class::HandleCreate& create) noexcept {
    const std::lock_guard guard(lock_);
    create_ = create;
}

// False: in a child of fork(), where whoever had the lock does not exist. What was to be kept is
// left.
inline bool HandlePool::lock_here() noexcept {
    if (!lock_.try_lock()) [[unlikely]] {
        if (context_.cls().inherited()) {
            return false;
        }
        lock_.lock();
    }
    return true;
}

void HandlePool::give(Handle& handle) noexcept {
    if (!lock_here()) [[unlikely]] {
        return;
    }
    const std::lock_guard guard(lock_, std::adopt_lock);
    put(handle);
}

// Under the lock: who finds with used() that no handle is out may destroy the pool at once.
void HandlePool::put(Handle& handle) noexcept {
    // Whoever takes it next is somebody else.
    handle.looped_.store(false, std::memory_order_relaxed);
    handle.sent_ = 0;
    handle.stage_.store(Handle::Stage::free, std::memory_order_release);
    const std::size_t rail = bulk::index(handle.port_->rail());
    if (!handle.odd_.mute) [[likely]] {
        handle.next_ = std::exchange(free_[rail], &handle);
        return;
    }
    mutes_[rail].push(handle);
}

void HandlePool::Queue::push(Handle& handle) noexcept {
    handle.next_ = nullptr;
    Handle*& last = count++ == 0 ? oldest : newest->next_;
    last = newest = &handle;
}

Handle& HandlePool::Queue::pop() noexcept {
    --count;
    return *std::exchange(oldest, oldest->next_);
}

void HandlePool::set_aside(Handle& handle) noexcept {
    if (!lock_here()) [[unlikely]] {
        return;
    }
    const std::lock_guard guard(lock_, std::adopt_lock);
    handle.stage_.store(Handle::Stage::free, std::memory_order_release);
    aside_.push(handle);
    if (aside_.count > most_aside_) {
        Handle& oldest = aside_.pop();
        oldest.target_ = false;
        put(oldest);
    }
}

std::size_t HandlePool::used() noexcept {
    const std::lock_guard guard(lock_);
    return static_cast<std::size_t>(std::count_if(
        handles_.begin(), handles_.end(),
        [](const Handle& h) { return h.refs() > 0 || h.stage() != Handle::Stage::free; }));
}

std::size_t HandlePool::size() noexcept {
    const std::lock_guard guard(lock_);
    return handles_.size();
}

Handle& HandlePool::nth(std::size_t index) noexcept {
    const std::lock_guard guard(lock_);  // the table of the deque may be moved meanwhile
    return handles_[index];
}

}  // namespace hg
