// SPDX-License-Identifier: BSD-3-Clause
// Origin: from HG_Create to the request on its way.
#include <algorithm>
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "hg/loopback.hpp"
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

// Fails before anything is changed: the last RPC is over, its data are released, when all that is
// needed for the next is there. The kit fits the address afterwards.
Status Handle::bind(Address* addr, std::uint64_t id) {
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
    if (kit != nullptr) {
        port_->give_kit(kit_);
        attach(kit);
    }
    if (addr != nullptr) {
        AddressRef::adopt(std::exchange(info_.addr, shared.release())).reset();
    }
    if (registration != nullptr) {
        if (registration_ != nullptr) {
            info_.cls->registry().release(*registration_, info_.context->id());
        }
        registration_ = registration;
        info_.id = id;
    }
    info_.context_id = 0;
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

Status Handle::claim() noexcept {
    if (target_) [[unlikely]] {
        return Status::invalid_arg;
    }
    if (!swap_stage(Stage::idle, Stage::claimed)) [[unlikely]] {
        return Status::busy;
    }
    Status s = Status::success;
    if (info_.addr == nullptr || registration_ == nullptr) [[unlikely]] {
        s = Status::invalid_arg;
    } else if (!registration_->live()) [[unlikely]] {
        // Registered again meanwhile, or no longer.
        Registration* current = info_.cls->registry().acquire(info_.id, info_.context->id());
        if (current == nullptr) {
            s = Status::fault;
        } else {
            info_.cls->registry().release(*std::exchange(registration_, current),
                                          info_.context->id());
        }
    }
    if (!ok(s)) [[unlikely]] {
        unclaim();
        return s;
    }
    clear_call();
    return s;
}

Status Handle::forward(std::size_t payload, const Callback& callback, Block* beyond,
                       std::size_t beyond_size, bool more) noexcept {
    one_way_ = registration_->one_way();
    callback_ = callback;
    sent_ = beyond != nullptr ? beyond_size
                              : payload - std::min(payload, info_.cls->offset(Lane::unexpected));
    looped_ = Loopback::wanted(*this);
    if (more && looped_) [[unlikely]] {
        unclaim();
        return Status::opnotsupported;
    }
    std::uint8_t flags = one_way_ ? wire::kOneWay : 0;
    flags |= more ? wire::kMoreData : 0;
    flags |= info_.cls->checksum_flags();
    if (beyond != nullptr && !looped_) {
        const Status s = write_overflow(input_space(), payload, *beyond, beyond_size, payload);
        if (!ok(s)) {
            unclaim();
            return s;
        }
        flags |= wire::kOverflow;
    }
    ref();
    Status s;
    if (looped_) {
        s = Loopback::forward(*this, payload, beyond, beyond_size);
    } else {
        input_block_ = beyond;
        const Port::Ticket ticket = port_->next_ticket();
        tag_ = ticket.tag;
        cookie_ = ticket.cookie;
        wire::encode(kit_->input + port_->headroom(Lane::unexpected),
                     wire::Request{.flags = flags,
                                   .origin_context = info_.context->id(),
                                   .cookie = cookie_,
                                   .id = info_.id},
                     payload);
        flags_ = flags;
        s = post_forward(port_->input_at() + payload);
    }
    if (!ok(s)) [[unlikely]] {
        input_block_ = nullptr;  // the caller's again
        unclaim();
        refs_.fetch_sub(kLibraryRef,
                        std::memory_order_relaxed);  // never the last: the caller has one
    }
    return s;
}

// Posts the receive of the answer, if there will be one, and then the send. After success the
// handle may be another thread's already.
Status Handle::post_forward(std::size_t size) noexcept {
    Context& context = *info_.context;
    na::Context& na = port_->na();
    na::Address& to = peer();
    const bool wants_answer = !one_way_ || (flags_ & (wire::kOverflow | wire::kMoreData)) != 0;
    // The answer, the request, and this function, which looks once more whether it was canceled.
    start_parts(wants_answer ? 3 : 2);
    stage_.store(Stage::in_flight, std::memory_order_release);
    if (wants_answer) {
        kit_->recv->handler = &Handle::on_response;
        const Status s = na.recv_expected(*kit_->recv, to, info_.context_id, tag_, kit_->output,
                                          port_->size(Lane::expected), kit_->region);
        if (!ok(s)) [[unlikely]] {
            return s;
        }
    }
    kit_->send->handler = &Handle::on_request_sent;
    const Status s = na.send(*kit_->send, Lane::unexpected, to, info_.context_id, tag_, kit_->input,
                             size, kit_->region);
    if (!ok(s)) [[unlikely]] {
        if (!wants_answer) {
            return s;
        }
        note(s);
        na.cancel(*kit_->recv);
        (void)end_part();  // that of the send
        if (end_part()) {
            return s;  // the receive has ended, and nobody else knows of it
        }
        // The transport takes its time to end the receive: the callback reports it then.
        context.settle();
        return Status::success;
    }
    // A cancel() since the handle is in flight has found only what was posted by then; its request
    // is visible here if it came before the locked post.
    if (cancel_asked_.load(std::memory_order_seq_cst)) [[unlikely]] {
        na.cancel(*kit_->send);
        na.cancel(*kit_->recv);
    }
    if (end_part()) {
        forward_ended();
    }
    context.settle();
    return Status::success;
}

void Handle::on_request_sent(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (ok(o.status)) [[likely]] {
        Counters& counters = h.port_->counters;
        h.request_sent_ = true;
        counters.requests_sent.add();
        if ((h.flags_ & wire::kOverflow) != 0) [[unlikely]] {
            counters.requests_overflow.add();
        }
    } else {
        h.note(o.status);
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
    h.port_->na().cancel(*h.kit_->recv);
    h.forward_part_ended();
}

}  // namespace hg
