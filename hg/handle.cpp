// SPDX-License-Identifier: BSD-3-Clause
#include "hg/handle.hpp"

#include <utility>

#include "hg/context.hpp"
#include "hg/loopback.hpp"
#include "hg/pass.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

Handle::Handle(Context& context, Kit* kit)
    : info_{.cls = &context.cls(), .context = &context},
      threaded_(context.threaded()),
      source_(context.cls(), context.id()) {
    attach(kit);
}

// The context destroys its handles when they are free and the transports are idle.
Handle::~Handle() {
    drop_data();
    if (release_shell != nullptr) {
        release_shell(shell);
    }
}

void Handle::attach(Kit* kit) noexcept {
    kit_ = kit;
    port_ = kit->port;
    filled_ = Filled::nothing;
    kit->send->owner = this;
    kit->recv->owner = this;
}

na::Company Handle::company() const noexcept {
    return Pass::goes_on(*info_.context) ? na::Company::await : na::Company::take;
}

// --- references
// ------------------------------------------------------------------------------------------------------

void Handle::last_unref_of_origin() noexcept {
    (void)Loopback::detach(*this);
    clear_call();
    drop_data();
    AddressRef::adopt(std::exchange(info_.addr, nullptr)).reset();
    if (registration_ != nullptr) {
        info_.cls->registry().release(*std::exchange(registration_, nullptr), info_.context->id());
    }
    info_.id = 0;
    info_.context_id = 0;
    info_.context->handles_->give(*this);
}

// What they need beyond their messages.
void Handle::drop_payloads() noexcept {
    if (more_acquired_) {
        release_more();
    }
    input_.beyond = {};
    output_.beyond = {};
    OverflowPool& pool = info_.context->overflow_;
    if (input_block_ != nullptr) {
        pool.give(std::exchange(input_block_, nullptr));
    }
    if (output_block_ != nullptr) {
        pool.give(std::exchange(output_block_, nullptr));
    }
}

// --- parts
// -----------------------------------------------------------------------------------------------------------

void Handle::add_part() noexcept {
    if (threaded_) {
        parts_.fetch_add(1, std::memory_order_relaxed);
    } else {
        parts_.store(static_cast<std::uint8_t>(parts_.load(std::memory_order_relaxed) + 1),
                     std::memory_order_relaxed);
    }
}

void Handle::note(Status status) noexcept {
    if (status_.load(std::memory_order_relaxed) == Status::success) {
        status_.store(status, std::memory_order_relaxed);
    }
}

// --- user data
// -------------------------------------------------------------------------------------------------------

void Handle::set_data(void* data, void (*release)(void*)) noexcept {
    data_ = data;
    release_data_ = release;
    user_data_kept_ = false;
}

void Handle::drop_data() noexcept {
    void* data = std::exchange(data_, nullptr);
    void (*release)(void*) = std::exchange(release_data_, nullptr);
    user_data_kept_ = false;
    if (release != nullptr) {
        release(data);
    }
}

void Handle::release_input() noexcept {
    if (!call_.input) {
        return;
    }
    call_.input = false;
    input_.beyond = {};
    if (input_block_ != nullptr) {
        info_.context->overflow_.give(std::exchange(input_block_, nullptr));
    }
    if (target_ && !looped_ && !odd_.mute && !std::exchange(odd_.input_released, true)) {
        port_->buffer_released();  // another handle may be posted in its place
    }
}

}  // namespace hg
