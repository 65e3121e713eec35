// SPDX-License-Identifier: BSD-3-Clause
// Ending an RPC early, and what comes for it afterwards.
//
// A canceled RPC whose request has left may still be answered. The answer has to be looked at: a
// target whose response is beyond the eager size waits for its acknowledgement. So another handle,
// the straggler, takes the place of the canceled one until the answer comes, or the peer goes, or
// the context. Its receive is posted under the lock under which that of the canceled RPC goes: an
// answer that waits in the transport finds one of the two. It also keeps the buffer of a request
// beyond the eager size, which the target may read until it answers. Answers for which there is no
// straggler are dropped when they come (see Context::open()).
#include <new>
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "hg/loopback.hpp"
#include "na/core/posting.hpp"

namespace hg {

using na::Lane;
using na::Status;

namespace {

// Beyond this, answers that come late are dropped; a target gives up what it kept for them in time.
constexpr std::uint32_t kMaxStragglers = 1024;

}  // namespace

void Handle::cancel() noexcept {
    const Stage now = stage();
    if (now != Stage::in_flight && now != Stage::straggler &&
        !(now == Stage::answered && !looped_)) {
        return;  // not in flight
    }
    // First: what is posted only now is ended by who posts it, when it sees this.
    cancel_asked_.store(true, std::memory_order_seq_cst);
    if (looped_) {
        Loopback::cancel(*this);
        return;
    }
    if (now == Stage::in_flight && ack_.load(std::memory_order_seq_cst) != Ack::none) {
        return;  // over but for the acknowledgement, without which the target would wait
    }
    na::Context& na = port_->na();
    na.cancel(*kit_->send);
    // While the request is on its way, its end goes on with the receive: on_request_sent().
    if (now != Stage::in_flight || (!replace_receive() && kit_->send->idle())) {
        na.cancel(*kit_->recv);
    }
    if (const bulk::TransferId id = transfer_id_.load(std::memory_order_seq_cst); id != 0) {
        info_.context->bulk_->cancel(id);
    }
    info_.context->settle();
}

void Handle::give_up() noexcept {
    cancel();
    Ack sent = Ack::sent;
    if (stage() == Stage::in_flight &&
        ack_.compare_exchange_strong(sent, Ack::given_up, std::memory_order_seq_cst)) {
        port_->na().cancel(*kit_->send);
    }
}

// Of a canceled RPC whose request has left: a straggler waits for the answer from here on, and the
// RPC has ended. False: nothing has happened, as the RPC is not in this state (any more), there are
// too many stragglers, or the transport has the receive. Outside of handlers; any thread.
bool Handle::replace_receive() noexcept {
    if (kit_->recv->idle()) {
        return false;
    }
    Context& context = *info_.context;
    if (context.stragglers_.fetch_add(1, std::memory_order_relaxed) >= kMaxStragglers) {
        context.stragglers_.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    Handle* straggler = nullptr;
    try {
        straggler = context.handles_->take(*port_, HandlePool::Hook::skip);
    } catch (const std::bad_alloc&) {
        context.stragglers_.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    bool posted = false;
    {
        na::Posting posting(port_->na());
        if (stage() == Stage::in_flight && call_.request_sent &&
            cancel_asked_.load(std::memory_order_relaxed) && posting.waits(*kit_->recv)) {
            straggler->stand_in_for(*this);
            posted = ok(posting.recv_expected(*straggler->kit_->recv,
                                              {.peer = straggler->peer(),
                                               .context_id = straggler->info_.context_id,
                                               .tag = straggler->tag_,
                                               .buffer = straggler->kit_->output,
                                               .size = port_->size(Lane::expected),
                                               .registered = straggler->kit_->region}));
            if (posted) {
                call_.request_sent = false;  // the straggler's business
                posting.cancel(*kit_->recv);
            } else {
                straggler->step_back(*this);
            }
        }
    }
    if (!posted) {
        context.handles_->give(*straggler);
        context.stragglers_.fetch_sub(1, std::memory_order_relaxed);
    }
    return posted;
}

// From the work queue, in the place of the end of a canceled RPC whose receive was the transport's.
void Handle::leave_straggler(Completion& c) {
    Handle& h = of(c);
    Context& context = *h.info_.context;
    if (context.stragglers_.fetch_add(1, std::memory_order_relaxed) < kMaxStragglers) {
        try {
            Handle* straggler = context.handles_->take(*h.port_, HandlePool::Hook::skip);
            if (straggler->post_straggler(h)) {
                h.finish(&Handle::run_forward);
                context.settle();
                return;
            }
        } catch (const std::bad_alloc&) {
            // As if there were too many.
        }
    }
    context.stragglers_.fetch_sub(1, std::memory_order_relaxed);
    h.finish(&Handle::run_forward);
}

void Handle::stand_in_for(Handle& canceled) noexcept {
    target_ = false;
    canceled.info_.addr->ref();
    info_.addr = canceled.info_.addr;
    info_.context_id = canceled.info_.context_id;
    tag_ = canceled.tag_;
    cookie_ = canceled.cookie_;
    input_block_ = std::exchange(canceled.input_block_, nullptr);
    stage_.store(Stage::straggler, std::memory_order_release);
    filled_ = Filled::nothing;
    kit_->recv->when_over(&Handle::on_straggler);
}

void Handle::step_back(Handle& canceled) noexcept {
    canceled.input_block_ = std::exchange(input_block_, nullptr);
    AddressRef::adopt(std::exchange(info_.addr, nullptr)).reset();
    info_.context_id = 0;
}

bool Handle::post_straggler(Handle& canceled) noexcept {
    stand_in_for(canceled);
    const Status s =
        port_->na().recv_expected(*kit_->recv, peer(), info_.context_id, tag_, kit_->output,
                                  port_->size(Lane::expected), kit_->region);
    if (!ok(s)) {
        step_back(canceled);
        info_.context->handles_->give(*this);
        return false;
    }
    return true;
}

void Handle::on_straggler(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    const std::size_t headroom = h.port_->headroom(Lane::expected);
    if (ok(o.status) && o.size >= headroom) {
        wire::Response response;
        const wire::Received received =
            wire::decode(std::span(h.kit_->output + headroom, o.size - headroom), response);
        if (ok(received.status) && response.cookie == h.cookie_ &&
            (response.flags & (wire::kOverflow | wire::kMoreData)) != 0) {
            h.defer(&Handle::acknowledge_straggler);
            return;
        }
    }
    h.straggler_lost_ = !ok(o.status);
    h.defer(&Handle::straggler_ended);
}

void Handle::acknowledge_straggler(Completion& c) {
    Handle& h = of(c);
    if (!ok(h.send_ack(Status::canceled, &Handle::on_straggler_acknowledged))) {
        straggler_ended(h);
    }
}

void Handle::on_straggler_acknowledged(na::Operation& op, const na::Outcome&) noexcept {
    of(op).defer(&Handle::straggler_ended);
}

void Handle::straggler_ended(Completion& c) {
    Handle& h = of(c);
    Context& context = *h.info_.context;
    AddressRef::adopt(std::exchange(h.info_.addr, nullptr)).reset();
    h.info_.context_id = 0;
    h.cancel_asked_.store(false, std::memory_order_relaxed);
    // Without an answer the target may be reading it just now.
    context.overflow_.give(std::exchange(h.input_block_, nullptr),
                           !std::exchange(h.straggler_lost_, false));
    context.handles_->give(h);
    context.stragglers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace hg
