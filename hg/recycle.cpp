// SPDX-License-Identifier: BSD-3-Clause
// Target: handles that wait for a request, and those that have served one and wait for the next.
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/core/posting.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

inline void Handle::give_back(const Uses& last, na::Posting& posting) noexcept {
    if (last.registration != nullptr) [[likely]] {
        info_.cls->registry().release_in(*last.registration, info_.context->id(), *port_);
    }
    if (last.source != nullptr) [[likely]] {
        posting.unref(*last.source);
    }
}

// The handle is nobody's: in stage free or at the end of its last request, inside the budget.
[[gnu::always_inline]] inline bool Handle::post_now(const Uses& last) noexcept {
    Context& context = *info_.context;
    Registry& registry = info_.cls->registry();
    target_ = true;
    looped_.store(false, std::memory_order_relaxed);
    Status s = Status::canceled;
    {
        na::Posting posting(port_->na());
        give_back(last, posting);
        // Counted first: unpost() looks at the count after it has said that nothing is accepted.
        port_->request_posted();
        stage_.store(Stage::posted, std::memory_order_release);
        if (context.accepting_.load(std::memory_order_seq_cst)) [[likely]] {
            if (filled_ == Filled::request) [[likely]] {
                posting.recv_unexpected_again(*kit_->recv);
                s = Status::success;
            } else {
                kit_->recv->when_over(&Handle::on_request, &Handle::take_message);
                // Before: where a request waits for it already, another thread may be at its
                // answer when this is back.
                filled_ = posting.simple() ? Filled::request : Filled::nothing;
                s = posting.recv_unexpected(*kit_->recv, kit_->input, port_->size(Lane::unexpected),
                                            kit_->region);
            }
        }
        if (!ok(s)) [[unlikely]] {
            filled_ = Filled::nothing;
            port_->request_taken();
        }
    }
    if (last.registration != nullptr) [[likely]] {
        registry.settle(*last.registration);
    }
    if (!ok(s)) [[unlikely]] {
        not_posted(s);
        return false;
    }
    context.settle();  // a request that waited for a receive has arrived at once
    return true;
}

bool Handle::post_request() noexcept {
    return post_now({});
}

void Handle::not_posted(Status why) noexcept {
    if (why != Status::canceled) {
        NA_LOG_ERROR(rpc, "cannot post a receive for requests: {}", to_string(why));
    }
    retire(*this);
}

// Out of use, back to the free list.
void Handle::retire(Completion& c) {
    Handle& h = of(c);
    h.port_->leave_budget();
    h.drop_data();
    h.info_.context->handles_->give(h);
}

void Handle::repost(Completion& c) {
    of(c).post_request();
}

// The last reference is gone: ready for the next request.
void Handle::recycle() noexcept {
    if (was_owed_.load(std::memory_order_relaxed)) [[unlikely]] {
        info_.context->owed_.remove(*this);
    }
    if (stage() == Stage::received && !one_way_) [[unlikely]] {  // and its answer is not owed
        answer_abandoned();
        return;
    }
    const bool looped = looped_.load(std::memory_order_relaxed);
    const bool plain = !(looped || is_odd() || kept_.load(std::memory_order_relaxed));
    clear_call();
    sent_ = 0;
    if (data_ != nullptr && !user_data_kept_) [[unlikely]] {
        drop_data();
    }
    Uses last{.registration = std::exchange(registration_, nullptr), .source = nullptr};
    if (source_.is_held_in()) [[likely]] {
        last.source = peer_;
        source_.leave_in();
    } else {
        source_.clear();
    }
    info_.addr = nullptr;
    info_.id = 0;
    info_.context_id = 0;
    if (plain) [[likely]] {
        one_way_ = false;
    } else {
        if (last.registration != nullptr) {
            info_.cls->registry().release(*std::exchange(last.registration, nullptr),
                                          info_.context->id());
        }
        if (last.source != nullptr) {
            na::Posting(port_->na()).unref(*std::exchange(last.source, nullptr));
        }
        if (!let_go(looped)) {
            return;
        }
    }
    (void)post_now(last);
}

// Its response could not be sent, or was not to be expected, and nobody can answer any more. The
// origin shall not wait for ever.
void Handle::answer_abandoned() noexcept {
    odd_.abandoned = true;
    NA_LOG_WARNING(rpc, "RPC {} was destroyed without a response", name());
    refs_.store(kLibraryRef, std::memory_order_relaxed);
    stage_.store(Stage::answering, std::memory_order_release);
    end_with(Status::other_error);
    unref();
}

// The end of a request that did not go the usual way. True: the handle is for the next one.
bool Handle::let_go(bool looped) noexcept {
    Context& context = *info_.context;
    if (std::exchange(odd_.malformed, false)) {
        context.malformed_.fetch_sub(1, std::memory_order_relaxed);
    }
    const bool surplus = kept_.exchange(false, std::memory_order_relaxed) && !port_->kept_ended();
    const bool abandoned = std::exchange(odd_.abandoned, false);
    const bool released_early = std::exchange(odd_.input_released, false);
    if (released_early) {
        port_->released_ended();
    }
    // Once a handle is back in the pool the context may be destroyed.
    if (odd_.mute) {
        port_->released_ended();
        context.handles_->give(*this);
        return false;
    }
    one_way_ = false;
    if (abandoned) {
        // Its program may respond once more.
        drop_data();
        if (!looped) {
            if (!released_early) {
                port_->leave_budget();
            }
            if (port_->posted() <= Context::kPostLow) {
                (void)context.post_requests(*port_);
            }
        }
        context.handles_->set_aside(*this);
        return false;
    }
    if (surplus && !released_early && !looped) {
        port_->leave_budget();
    }
    if (looped || (released_early ? !port_->enter_budget() : surplus)) {
        drop_data();
        target_ = false;
        context.handles_->give(*this);
        return false;
    }
    return true;
}

}  // namespace hg
