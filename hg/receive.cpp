// SPDX-License-Identifier: BSD-3-Clause
// Target: from a posted receive to a request that can be dispatched, or to the answer that it
// cannot.
#include <bit>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

namespace {

// A peer that sends garbage and does not read the answers occupies no more handles than this.
constexpr std::uint32_t kMaxRejecting = 64;

}  // namespace

// The handle is nobody's: in stage free or at the end of its last request, inside the budget.
bool Handle::post_request() noexcept {
    Context& context = *info_.context;
    target_ = true;
    looped_ = false;
    kit_->recv->handler = &Handle::on_request;
    // Counted before, so that it is never taken before it was counted.
    port_->request_posted();
    stage_.store(Stage::posted, std::memory_order_seq_cst);
    const Status s = context.accepting_.load(std::memory_order_seq_cst)
                         ? port_->na().recv_unexpected(*kit_->recv, kit_->input,
                                                       port_->size(Lane::unexpected), kit_->region)
                         : Status::canceled;
    if (!ok(s)) [[unlikely]] {
        if (s != Status::canceled) {
            NA_LOG_ERROR(rpc, "cannot post a receive for requests: {}", to_string(s));
        }
        port_->request_taken();
        retire(*this);
        return false;
    }
    if (!context.accepting_.load(std::memory_order_seq_cst) && stage() == Stage::posted)
        [[unlikely]] {
        port_->na().cancel(*kit_->recv);  // unpost() may have looked before this one was posted
    }
    context.settle();  // a request that waited for a receive has arrived at once
    return true;
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

void Handle::on_request(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    Port& port = *h.port_;
    Context& context = *h.info_.context;
    if (o.status == Status::canceled) [[unlikely]] {
        port.request_taken();
        h.defer(&Handle::retire);
        return;
    }
    context.request_taken(port);
    if (!ok(o.status) || o.source == nullptr) [[unlikely]] {
        // Too long for its receive, or lost on the way: nobody to answer.
        port.counters.malformed.add();
        h.defer(&Handle::repost);
        return;
    }
    na::AddressRef source = na::AddressRef::adopt(o.source);
    if (port.rail() == bulk::Rail::sm) {
        h.source_.set({}, std::move(source));
    } else {
        h.source_.set(std::move(source), {});
    }
    h.tag_ = o.tag;
    const std::size_t headroom = port.headroom(Lane::unexpected);
    h.take_request(o.size < headroom ? std::span<std::byte>{}
                                     : std::span(h.kit_->input + headroom, o.size - headroom));
}

void Handle::take_request(std::span<std::byte> message) noexcept {
    Context& context = *info_.context;
    wire::Request request;
    wire::Received received = wire::decode(message, request);
    info_.id = request.id;
    info_.context_id = request.origin_context;
    info_.addr = &source_;
    cookie_ = request.cookie;
    flags_ = request.flags;
    one_way_ = ok(received.status) && (request.flags & wire::kOneWay) != 0;
    if (ok(received.status) && received.payload.size() < info_.cls->offset(Lane::unexpected)) {
        received = {
            Status::protocol_error, "a request shorter than the input offset of this class", {}};
    }
    if (!ok(received.status)) [[unlikely]] {
        port_->counters.malformed.add();
        NA_LOG_WARNING(rpc, "a peer sent {} bytes: {}", message.size(), received.what);
        reject_later(received.status);
        return;
    }
    port_->counters.requests_received.add();
    if (port_->overloaded()) [[unlikely]] {
        port_->counters.requests_refused.add();
        if (std::has_single_bit(port_->counters.requests_refused.get())) {
            NA_LOG_WARNING(
                rpc,
                "{} requests refused so far: this context has as many as HG_REQUEST_LIMIT allows, "
                "none of which the program has finished",
                port_->counters.requests_refused.get());
        }
        reject_later(Status::again);
        return;
    }
    registration_ = info_.cls->registry().acquire(request.id, context.id());
    if (registration_ == nullptr) [[unlikely]] {
        reject_later(Status::noentry);
        return;
    }
    if (registration_->functions().invoke == nullptr) [[unlikely]] {
        reject_later(Status::invalid_arg);
        return;
    }
    input_ = {.message = message.subspan(wire::kRequestSize), .beyond = {}, .valid = true};
    if ((flags_ & wire::kOverflow) != 0) [[unlikely]] {
        port_->counters.requests_overflow.add();
        defer(&Handle::pull_input);
        return;
    }
    if ((flags_ & wire::kMoreData) != 0) [[unlikely]] {
        more_arrived();
        return;
    }
    arrived();
}

// The request is complete. The references are the user's, who destroys the handle, and that of
// dispatch().
void Handle::arrived() noexcept {
    refs_.store(kUserRef + kLibraryRef, std::memory_order_relaxed);
    hand_on();
}

// The same where the two references are there already, perhaps with more of the program's.
void Handle::hand_on() noexcept {
    answer_owed_.store(!one_way_, std::memory_order_relaxed);
    stage_.store(Stage::received, std::memory_order_release);
    finish(&Handle::dispatch);
}

void Handle::reject_later(Status code) noexcept {
    note(code);
    defer(&Handle::reject);
}

// Answers a request that is not dispatched. Outside of handlers.
void Handle::reject(Completion& c) {
    Handle& h = of(c);
    Context& context = *h.info_.context;
    const Status code = h.status_.load(std::memory_order_relaxed);
    h.refs_.store(kLibraryRef, std::memory_order_relaxed);
    h.stage_.store(Stage::answering, std::memory_order_release);
    // A one-way request has nobody who waits, unless its origin waits for the acknowledgement of
    // its payload.
    const bool wanted = !h.one_way_ || (h.flags_ & (wire::kOverflow | wire::kMoreData)) != 0;
    if (wanted) {
        h.rejected_ = true;
        if (context.rejecting_.fetch_add(1, std::memory_order_relaxed) >= kMaxRejecting ||
            !ok(h.send_response(code, 0, {}, nullptr, 0))) {  // the peer may be gone
            context.unanswered_.fetch_add(1, std::memory_order_relaxed);
        }
    } else {
        context.unanswered_.fetch_add(1, std::memory_order_relaxed);
    }
    h.stage_.store(Stage::answered, std::memory_order_release);
    h.unref();
}

}  // namespace hg
