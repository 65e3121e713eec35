// SPDX-License-Identifier: BSD-3-Clause
// Target: runs the user's handler of an arrived request; and what becomes of the handle afterwards.
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

void Handle::dispatch(Completion& c) {
    Handle& h = of(c);
    const Registration::Functions& f = h.registration_->functions();
    const Status s = f.invoke(h, f.user);
    // The handler failed and has not answered itself: its code goes to the origin.
    if (!ok(s) && !h.one_way_ && h.swap_stage(Stage::received, Stage::answering)) [[unlikely]] {
        if (!ok(h.respond_error(s, {}))) {
            h.stage_.store(Stage::answered, std::memory_order_release);
        }
    }
    h.unref();
}

// The last reference is gone: ready for the next request.
void Handle::recycle() noexcept {
    if (stage() == Stage::received && !one_way_) [[unlikely]] {
        // Nobody answered, and nobody can any more. The origin shall not wait for ever.
        abandoned_ = true;
        NA_LOG_WARNING(rpc, "RPC {:#x} was destroyed without a response", info_.id);
        refs_.store(kLibraryRef, std::memory_order_relaxed);
        stage_.store(Stage::answering, std::memory_order_release);
        if (!ok(respond_error(Status::other_error, {}))) {
            stage_.store(Stage::answered, std::memory_order_release);
        }
        unref();
        return;
    }
    Context& context = *info_.context;
    const bool looped = looped_;
    clear_call();
    if (data_ != nullptr && !user_data_kept_) {
        drop_data();
    }
    if (registration_ != nullptr) {
        info_.cls->registry().release(*std::exchange(registration_, nullptr), context.id());
    }
    source_.clear();
    info_.addr = nullptr;
    info_.id = 0;
    info_.context_id = 0;
    one_way_ = false;
    if (std::exchange(rejected_, false)) {
        context.rejecting_.fetch_sub(1, std::memory_order_relaxed);
    }
    const bool abandoned = std::exchange(abandoned_, false);
    const bool released_early = std::exchange(input_released_, false);
    if (released_early) {
        port_->released_ended();
    }
    if (abandoned) [[unlikely]] {
        // Some give up the reference of the response that they do not send, too.
        Port& port = *port_;
        drop_data();
        if (!looped && !released_early) {
            port.leave_budget();
        }
        context.handles_->set_aside(*this);
        if (!looped) {
            (void)context.post_requests(port);
        }
        return;
    }
    if (looped || (released_early && !port_->enter_budget())) {
        drop_data();
        target_ = false;
        context.handles_->give(*this);
        return;
    }
    post_request();
}

}  // namespace hg
