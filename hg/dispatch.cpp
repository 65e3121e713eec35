// SPDX-License-Identifier: BSD-3-Clause
// Target: runs the user's handler of an arrived request.
#include <new>
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

void Handle::dispatch(Completion& c) {
    Handle& h = of(c);
    const Unref after(h);
    if (!h.registration_->live() && !h.look_again()) [[unlikely]] {
        return;
    }
    if (h.registration_->one_way() && !h.one_way_) [[unlikely]] {
        h.expect_none();
    }
    const Registration::Functions& f = h.registration_->functions();
    try {
        const Status s = f.invoke(h, f.user);
        if (!ok(s)) [[unlikely]] {
            h.handler_failed(s);
        }
    } catch (const std::bad_alloc&) {
        h.handler_failed(Status::nomem);
        throw;
    } catch (...) {  // for the program, which catches it around trigger
        h.handler_failed(Status::other_error);
        throw;
    }
}

void Handle::dispatch_due(Completion& c) {
    of(c).port_->request_begun();
    dispatch(c);
}

// The RPC was registered again while the request waited, or is no longer. False: the request has
// been refused, as one that comes now, and the program's reference is gone with it.
bool Handle::look_again() noexcept {
    Registry& registry = info_.cls->registry();
    const unsigned shard = info_.context->id();
    Registration* const now = registry.acquire(info_.id, shard);
    registry.release(*std::exchange(registration_, now), shard);
    // (One-way requests of RPCs that are not are the business of mutes.)
    if (now != nullptr && now->functions().invoke != nullptr &&
        (!one_way_ || odd_.mute || now->one_way())) {
        return true;
    }
    if (one_way_) {
        info_.context->unanswered_.fetch_add(1, std::memory_order_relaxed);
    }
    handler_failed(now == nullptr ? Status::noentry : Status::invalid_arg);
    (void)unref_user();
    return false;
}

// Its code goes to the origin, unless the handler has answered itself.
void Handle::handler_failed(Status s) noexcept {
    if (!one_way_ && swap_stage(Stage::received, Stage::answering)) {
        // Whoever has no reference might still respond.
        odd_.abandoned = (refs_.load(std::memory_order_relaxed) & kUserRefs) == 0;
        end_with(s);
    }
}

}  // namespace hg
