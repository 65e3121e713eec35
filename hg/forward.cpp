// SPDX-License-Identifier: BSD-3-Clause
// Origin: from HG_Create to the request on its way.
#include <algorithm>
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "hg/loopback.hpp"
#include "hg/small.hpp"
#include "na/core/posting.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

na::Result<Handle*> Context::create_handle(Address* addr, std::uint64_t id) {
    if (addr != nullptr && &addr->cls() != &cls_) {
        return na::Error{Status::invalid_arg, "the address is of another class"};
    }
    if (addr != nullptr && !addr->live()) {
        return na::Error{Status::invalid_arg, "the address was freed already"};
    }
    Status s = Status::nomem;
    Handle* handle =
        handles_->take(addr != nullptr ? port_for(*addr) : *net_, HandlePool::Hook::call, &s);
    if (handle == nullptr) {
        return na::Error{s, "the handle-create callback refused the handle"};
    }
    handle->target_ = false;
    try {
        s = handle->bind(addr, id);
    } catch (const std::bad_alloc&) {
        // As any failure.
    }
    if (!ok(s)) {
        handle->drop_data();
        handles_->give(*handle);
        return na::Error{
            s, s == Status::noentry ? "no RPC is registered under this id" : "out of memory"};
    }
    handle->refs_.store(Handle::kUserRef, std::memory_order_relaxed);
    handle->stage_.store(Handle::Stage::idle, std::memory_order_release);
    return handle;
}

// Fails before anything is changed (but for what the handler of a call to oneself still had): the
// last RPC is over, its data are released, when all that is
// needed for the next is there. The kit fits the address afterwards.
Status Handle::bind(Address* addr, std::uint64_t id) {
    if (const Status s = Loopback::detach(*this); !ok(s)) {
        return s;
    }
    Registration* registration = nullptr;
    if (id != 0) {
        registration = info_.cls->registry().acquire(id, info_.context->id());
        if (registration == nullptr) {
            return Status::noentry;
        }
    }
    AddressRef shared;
    Kit* kit = nullptr;
    try {
        if (addr != nullptr) {
            shared = AddressRef::share(addr);
            if (Port& port = info_.context->port_for(*addr); &port != port_) {
                kit = port.take_kit();
            }
        }
    } catch (...) {
        if (registration != nullptr) {
            info_.cls->registry().release(*registration, info_.context->id());
        }
        throw;
    }
    clear_call();
    sent_ = 0;
    if (kit != nullptr) {
        port_->give_kit(kit_);
        attach(kit);
    }
    if (addr != nullptr) {
        to_self_ = addr->is_self();
        looped_.store(false, std::memory_order_relaxed);
        AddressRef::adopt(std::exchange(info_.addr, shared.release())).reset();
        peer_ = &peer();
    }
    if (registration != nullptr) {
        if (registration_ != nullptr) {
            info_.cls->registry().release(*registration_, info_.context->id());
        }
        registration_ = registration;
        info_.id = id;
    }
    info_.context_id = 0;
    filled_ = Filled::nothing;
    return Status::success;
}

Status Handle::reset(Address* addr, std::uint64_t id) {
    if (target_) {
        return Status::invalid_arg;
    }
    if (!swap_stage(Stage::idle, Stage::claimed)) {
        return Status::busy;
    }
    Status s = Status::invalid_arg;
    try {
        if (addr == nullptr || (&addr->cls() == info_.cls && addr->live())) {
            s = bind(addr, id);
        }
    } catch (...) {
        unclaim();
        throw;
    }
    unclaim();
    return s;
}

// What a claim seldom has to do. Busy before anything is touched that the handler of a call to
// oneself may still look at.
Status Handle::prepare() noexcept {
    if (info_.addr == nullptr || registration_ == nullptr) {
        return Status::invalid_arg;
    }
    if (const Status s = Loopback::detach(*this); !ok(s)) {
        return s;
    }
    return registration_->live() ? Status::success : renew_registration();
}

// The RPC was registered again meanwhile, or is no longer.
Status Handle::renew_registration() noexcept {
    Registration* current = info_.cls->registry().acquire(info_.id, info_.context->id());
    if (current == nullptr) {
        return Status::fault;
    }
    info_.cls->registry().release(*std::exchange(registration_, current), info_.context->id());
    return Status::success;
}

// With the transport's lock held.
inline void Handle::count_sent_request() noexcept {
    Counters& counters = port_->counters;
    call_.request_sent = true;
    counters.requests_sent.add();
    if ((call_.flags & wire::kOverflow) != 0) [[unlikely]] {
        counters.requests_overflow.add();
    }
}

// Posts the receive of the answer, if there will be one, then sends the request. Both under one
// lock: neither can end in between. After success another thread may own the handle already.
Status Handle::post_forward(std::size_t size) noexcept {
    Context& context = *info_.context;
    // Locals: the compiler cannot know that what is written meanwhile is none of these.
    Port& port = *port_;
    const Kit& kit = *kit_;
    const bool large = (call_.flags & (wire::kOverflow | wire::kMoreData)) != 0;
    const bool wants_answer = !one_way_ || large;
    na::Posting::Message message{.peer = peer(),
                                 .context_id = info_.context_id,
                                 .tag = tag_,
                                 .buffer = kit.input,
                                 .size = size,
                                 .registered = kit.region};
    bool over = false;
    bool late = false;
    stage_.store(Stage::in_flight, std::memory_order_release);
    {
        na::Posting posting(port.na());
        // A cancel() since the handle is in flight has found nothing to cancel if it came before
        // this lock, and then its request is visible here.
        if (cancel_asked_.load(std::memory_order_relaxed)) [[unlikely]] {
            note(Status::canceled);
            over = true;
        } else {
            Status s = Status::success;
            std::uint8_t parts = 0;
            if (wants_answer) [[likely]] {
                filled_ = Filled::nothing;
                kit.recv->when_over(&Handle::on_response, &Handle::take_response);
                message.buffer = kit.output;
                message.size = port.size(Lane::expected);
                s = posting.recv_expected(*kit.recv, message);
                if (!ok(s)) [[unlikely]] {
                    return s;
                }
                ++parts;
                message.buffer = kit.input;
                message.size = size;
            }
            kit.send->handler = &Handle::on_request_sent;
            const auto sent =
                posting.send(*kit.send, Lane::unexpected, message, s,
                             port.gathers() && !large ? company() : na::Company::none);
            if (sent == na::Posting::Sent::gone) [[likely]] {
                count_sent_request();
            } else if (sent == na::Posting::Sent::pending) {
                ++parts;
            } else if (!wants_answer || posting.withdraw(*kit.recv)) {
                return s;
            } else {
                // The transport matches receives itself: the receive ends by a cancel, which work
                // from the queue asks for, outside the lock. That work is the second part.
                note(s);
                defer(&Handle::cancel_receive);
                parts = 2;
                late = true;
            }
            start_parts(parts);
            over = parts == 0;
        }
    }
    if (over) [[unlikely]] {
        forward_ended();
        context.settle();
    } else if (late) [[unlikely]] {
        context.settle();
    }
    return Status::success;
}

Status Handle::forward(std::size_t payload, const Callback& callback, Block* beyond,
                       std::size_t beyond_size, bool more, bool timed) noexcept {
    Port& port = *port_;
    const Class& cls = *info_.cls;
    const bool one_way = one_way_ = registration_->one_way();
    callback_ = callback;
    sent_ =
        beyond != nullptr ? beyond_size : payload - std::min(payload, cls.offset(Lane::unexpected));
    const bool looped = to_self_ && Loopback::wanted(*this);
    looped_.store(looped, std::memory_order_relaxed);
    if (more && looped) [[unlikely]] {
        unclaim();
        return Status::opnotsupported;
    }
    std::uint8_t flags = one_way ? wire::kOneWay : 0;
    flags |= more ? wire::kMoreData : 0;
    flags |= timed ? wire::kTimed : 0;
    flags |= cls.checksum_flags();
    if (beyond != nullptr && !looped) [[unlikely]] {
        const Status s = write_overflow(input_space(), payload, *beyond, beyond_size, payload);
        if (!ok(s)) {
            unclaim();
            return s;
        }
        flags |= wire::kOverflow;
    }
    ref();
    Status s;
    if (looped) [[unlikely]] {
        s = Loopback::forward(*this, payload, beyond, beyond_size, flags);
    } else {
        input_block_ = beyond;
        const Port::Ticket ticket = [&port] {
            const na::Posting posting(port.na());
            return port.next_ticket();
        }();
        tag_ = ticket.tag;
        cookie_ = ticket.cookie;
        wire::encode(kit_->input + port.headroom(Lane::unexpected),
                     wire::Request{.flags = flags,
                                   .origin_context = info_.context->id(),
                                   .cookie = ticket.cookie,
                                   .id = info_.id},
                     payload);
        call_.flags = flags;
        return post_claimed(port.input_at() + payload);
    }
    if (!ok(s)) [[unlikely]] {
        give_up_claim();
    }
    return s;
}

Status Handle::forward_beside(std::size_t payload, std::size_t structure,
                              const Callback& callback) noexcept {
    return to_self_ || registration_->one_way() || !leaves_now()
               ? forward(payload, callback, nullptr, 0)
               : forward_now<false>(payload, structure, callback);
}

// What was claimed, encoded and referenced goes, or is the caller's again.
Status Handle::post_claimed(std::size_t size) noexcept {
    const Status s = post_forward(size);
    if (s == Status::hostunreach) [[unlikely]] {
        forward_in_vain();
        return Status::success;
    }
    if (!ok(s)) [[unlikely]] {
        give_up_claim();
    }
    return s;
}

// Nobody is there. Some transports know that at once and others later: the program hears of it in
// one way, from its callback, after progress. (A callback that tries again and again would keep
// trigger otherwise.)
void Handle::forward_in_vain() noexcept {
    note(Status::hostunreach);
    defer(&Handle::say_in_vain);
    info_.context->settle();
}

void Handle::say_in_vain(Completion& c) {
    of(c).forward_ended();
}

// The peer was killed and is there again, as the first message after a while has found out: it went
// out as one to the old process, and was given to nobody.
void Handle::send_again(Completion& c) {
    Handle& h = of(c);
    NA_LOG_INFO(rpc, "RPC {} is sent again: its target is another process now", h.name());
    h.call_.undelivered = h.call_.answer_canceled = false;
    h.call_.repeated = true;
    h.call_.request_sent = false;
    h.status_.store(Status::success, std::memory_order_relaxed);
    // (What was injected has no operation that would know its length.)
    const std::size_t payload =
        wire::payload_of_own_request(h.kit_->input + h.port_->headroom(Lane::unexpected));
    if (!ok(h.post_forward(h.port_->input_at() + payload))) {
        h.note(Status::hostunreach);  // which it was
        h.forward_ended();
        h.info_.context->settle();
    }
}

// The receive of answers from who the handle is for.
void Handle::fill_response(na::Posting& posting) noexcept {
    kit_->recv->when_over(&Handle::on_response, &Handle::take_response);
    posting.fill_expected(*kit_->recv, {.peer = peer(),
                                        .context_id = info_.context_id,
                                        .tag = 0,
                                        .buffer = kit_->output,
                                        .size = port_->size(Lane::expected),
                                        .registered = kit_->region});
    filled_ = Filled::response;
}

void Handle::give_up_claim() noexcept {
    input_block_ = nullptr;  // the caller's again
    unclaim();
    refs_.fetch_sub(kLibraryRef, std::memory_order_relaxed);  // never the last: the caller has one
}

void Handle::on_request_sent(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (ok(o.status)) [[likely]] {
        h.count_sent_request();
        if (h.cancel_asked_.load(std::memory_order_relaxed) && !h.kit_->recv->idle()) [[unlikely]] {
            h.defer(&Handle::cancel_receive);  // cancel() has left the receive to this
            return;
        }
    } else {
        h.note(o.status);
        // (An answer that is here already was somebody's.)
        h.lost_undelivered(o.status == Status::hostunreach && !h.call_.repeated &&
                           (h.one_way_ || !h.kit_->recv->idle()) &&
                           h.port_->na().undelivered(nullptr, h.tag_));
        if (!h.kit_->recv->idle()) {
            // No answer will come. This part goes on as the cancellation of the receive, outside
            // the lock.
            h.defer(&Handle::cancel_receive);
            return;
        }
    }
    h.forward_part_ended();
}

void Handle::cancel_receive(Completion& c) {
    Handle& h = of(c);
    if (!h.replace_receive()) {
        h.port_->na().cancel(*h.kit_->recv);
    }
    h.forward_part_ended();
}

}  // namespace hg
