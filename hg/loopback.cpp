// SPDX-License-Identifier: BSD-3-Clause
#include "hg/loopback.hpp"

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "hg/context.hpp"

namespace hg {

using na::Status;
using Stage = Handle::Stage;

bool Loopback::wanted(const Handle& origin) noexcept {
    const Info& info = origin.info_;
    if (!info.cls->options().loopback || !info.addr->is_self()) [[likely]] {
        return false;
    }
    // Another context of this class is reached over the transport, if it takes requests.
    return info.context_id == info.context->id() || !info.cls->listening() ||
           !info.cls->has_context(info.context_id);
}

Status Loopback::forward(Handle& origin, std::size_t payload, Block* beyond,
                         std::size_t beyond_size, std::uint8_t flags) noexcept {
    Context& context = *origin.info_.context;
    if (!context.cls().options().overflow && beyond != nullptr) {
        return Status::overflow;
    }
    Handle* target = nullptr;
    try {
        target = context.handles_->take(*origin.port_);
    } catch (const std::bad_alloc&) {
        return Status::nomem;
    }
    if (target == nullptr) {
        return Status::other_error;
    }
    Handle& t = *target;
    t.registration_ = context.cls().registry().acquire(origin.info_.id, context.id());
    const bool runs = t.registration_ != nullptr && t.registration_->functions().invoke != nullptr;
    const Status refused = t.registration_ == nullptr ? Status::noentry : Status::invalid_arg;
    t.target_ = true;
    t.looped_.store(true, std::memory_order_relaxed);
    t.one_way_ = origin.one_way_;
    t.info_.id = origin.info_.id;
    t.info_.context_id = context.id();
    t.info_.addr = &t.source_;
    t.source_.set(context.cls().net().self(),
                  context.cls().sm() == nullptr ? na::AddressRef{} : context.cls().sm()->self());
    t.source_.set_context(context.id());
    if ((flags & wire::kTimed) != 0) [[unlikely]] {
        t.call_.flags = wire::kTimed;
        t.came_ = std::chrono::steady_clock::now();
    }
    const std::size_t at = t.port_->input_at();
    std::memcpy(t.kit_->input + at, origin.kit_->input + at, payload);
    Handle::take_payload(t.input_, t.call_.input, t.kit_->input + at, payload);
    if (beyond != nullptr) {
        t.input_block_ = beyond;
        t.input_.beyond = {beyond->data, beyond_size};
    }
    origin.stage_.store(Stage::in_flight, std::memory_order_release);
    {
        const std::lock_guard guard(context.loop_lock_);
        context.loop_counters_.requests_sent.add();
        context.loop_counters_.requests_received.add();
        if (!origin.one_way_ && runs) {
            origin.partner_ = &t;
            t.partner_ = &origin;
        }
    }
    if (runs) {
        // Read before: the target may be dispatched, answered and in its next life on another
        // thread.
        const bool one_way = origin.one_way_;
        t.arrived();
        if (one_way) {
            end(origin, Status::success);
        }
    } else {
        t.one_way_ = true;  // nobody to answer
        t.refs_.store(Handle::kLibraryRef, std::memory_order_relaxed);
        t.stage_.store(Stage::answered, std::memory_order_release);
        t.unref();
        end(origin, origin.one_way_ ? Status::success : refused);
    }
    context.settle();
    return Status::success;
}

Status Loopback::respond(Handle& target, Status code, std::size_t payload, Block* beyond,
                         std::size_t beyond_size) noexcept {
    Context& context = *target.info_.context;
    if (!context.cls().options().overflow && beyond != nullptr) {
        return Status::overflow;
    }
    Handle* origin = nullptr;
    // Shown to the program: until the callback has run, if there is one.
    Handle* const shown = target.callback_.run == nullptr ? take_twin(target) : nullptr;
    {
        const std::lock_guard guard(context.loop_lock_);
        context.loop_counters_.responses_sent.add();
        origin = std::exchange(target.partner_, nullptr);
        if (origin != nullptr) {
            origin->partner_ = nullptr;
            context.loop_counters_.responses_received.add();
        }
        Handle* const stands = shown != nullptr ? shown : twin(target);
        if (stands != nullptr && twin(*stands) == &target) {
            stands->refs_.fetch_and(~Handle::kAnswerRef, std::memory_order_relaxed);
            if (!stands->holds_twin_) {
                twin(*stands, nullptr);
            }
        }
    }
    target.ref();
    target.stage_.store(Stage::answered, std::memory_order_release);
    if (origin != nullptr && ok(code)) {
        const std::size_t at = origin->port_->output_at();
        std::memcpy(origin->kit_->output + at, target.kit_->output + at, payload);
        Handle::take_payload(origin->output_, origin->call_.output, origin->kit_->output + at,
                             payload);
        if (beyond != nullptr) {
            origin->output_block_ = beyond;
            origin->output_.beyond = {beyond->data, beyond_size};
        }
    } else if (beyond != nullptr) {
        context.overflow_.give(beyond);  // canceled meanwhile
    }
    // The order of callbacks is that of a remote RPC: the response has left before it arrives.
    Handle::respond_ended(target);
    // Before the origin is told, whose program may look whether its reference is the last.
    if (shown != nullptr) {
        shown->unref();
    }
    if (origin != nullptr) {
        end(*origin, code);
    }
    context.settle();
    return Status::success;
}

void Loopback::told(Handle& target) noexcept {
    if (Handle* const shown = take_twin(target); shown != nullptr) {
        shown->unref();
    }
}

void Loopback::cancel(Handle& origin) noexcept {
    Context& context = *origin.info_.context;
    {
        const std::lock_guard guard(context.loop_lock_);
        if (origin.partner_ == nullptr) {
            return;  // ended already
        }
        std::exchange(origin.partner_, nullptr)->partner_ = nullptr;
    }
    end(origin, Status::canceled);
    context.settle();
}

Handle& Loopback::expose(Handle& target) noexcept {
    const std::lock_guard guard(target.info_.context->loop_lock_);
    Handle* const origin = target.partner_;
    if (origin == nullptr ||
        (target.refs_.load(std::memory_order_relaxed) & Handle::kAnswerRef) == 0) {
        return target;
    }
    twin(*origin, &target);
    twin(target, origin);
    origin->holds_twin_ = true;
    // The library's is the target's, which is answered, and tells of it, by the origin's handle.
    origin->add_refs(Handle::kUserRef + Handle::kLibraryRef + Handle::kAnswerRef);
    return *origin;
}

Status Loopback::detach(Handle& origin) noexcept {
    if (twin(origin) == nullptr) {
        return Status::success;
    }
    if (unanswered(origin) != nullptr) {
        return Status::busy;
    }
    let_go(origin);
    return Status::success;
}

// Gives the program's reference to the target's back.
void Loopback::let_go(Handle& origin) noexcept {
    Handle* held = nullptr;
    {
        const std::lock_guard guard(origin.info_.context->loop_lock_);
        if (std::exchange(origin.holds_twin_, false)) {
            held = twin(origin);
        }
        // Who has no reference may still respond.
        if (unanswered(origin) == nullptr) {
            twin(origin, nullptr);
        }
    }
    if (held != nullptr) {
        (void)held->unref_user();
    }
}

bool Loopback::unref(Handle& origin, std::uint64_t n) noexcept {
    std::uint64_t before = origin.refs_.load(std::memory_order_relaxed);
    std::uint64_t after = 0;
    bool last_of_program = false;
    do {
        const std::uint64_t users = before & Handle::kUserRefs;
        if ((n & Handle::kUserRefs) != 0 && users == 0) {
            return false;
        }
        last_of_program = (n & Handle::kUserRefs) != 0 && users == Handle::kUserRef &&
                          (before & Handle::kAnswerRef) != 0;
        after = before - n + (last_of_program ? Handle::kLibraryRef : 0);
    } while (!origin.swap_refs(before, after));
    if (last_of_program) {
        let_go(origin);  // while it is not another call's
        origin.unref();
        return true;
    }
    if (after == 0) {
        origin.last_unref();
    }
    return true;
}

void Loopback::end(Handle& origin, Status status) noexcept {
    origin.note(status);
    origin.finish(&Handle::run_forward);
}

}  // namespace hg
