// SPDX-License-Identifier: BSD-3-Clause
// Operations from their post to their callback.
//
// A Single is its owner's while idle, and the library's while posted. Two may want it at its end:
// trigger(), which takes the callback out, and the owner, who may destroy it on another thread
// meanwhile. Slot::state says who has it:
//   idle    the owner's
//   posted  nobody's: who exchanges that for `ending` is the one who ends it
//   ending  of whoever did, for the moment in which he moves the callback, or destroys it
//   left    the owner is gone: trigger() destroys it
// A Multi ends more than once, so that it is counted instead.
#include <mutex>
#include <new>

#include "na/cxx/state.hpp"
#include "na/util/log.hpp"

namespace na::inline v1 {
namespace detail {
namespace {

using State = Slot::State;

// Messages of one multi-receive that may wait for trigger() at a time.
constexpr std::size_t kMultiRecords = 256;

// posted -> ending. False: not posted.
bool end(Slot& slot) noexcept {
    if (!slot.threaded) {
        if (slot.state.load(std::memory_order_relaxed) != State::posted) {
            return false;
        }
        slot.state.store(State::ending, std::memory_order_relaxed);
        return true;
    }
    State posted = State::posted;
    return slot.state.compare_exchange_strong(posted, State::ending, std::memory_order_acq_rel,
                                              std::memory_order_acquire);
}

void destroy(Single& op) noexcept {
    const Ref<ContextState> context = op.context;
    context->leave(op);
    context->domain->cls->destroy_op(op.Listed::core);
    delete &op;
}

// What came, without the header.
std::span<std::byte> payload(const impl::Operation& core, const impl::Outcome& outcome, void* data,
                             std::size_t headroom) noexcept {
    const bool receive = core.kind == OpKind::recv_unexpected ||
                         core.kind == OpKind::recv_expected ||
                         core.kind == OpKind::multi_recv_unexpected;
    if (!receive || !ok(outcome.status) || outcome.size < headroom || data == nullptr) {
        return {};
    }
    return {static_cast<std::byte*>(data) + headroom, outcome.size - headroom};
}

void deliver_single(Record& record) {
    auto& op = *static_cast<Single*>(record.owner);
    const impl::Outcome outcome = record.outcome;
    const Ref<ContextState>& context = op.context;
    const Peer::Lent source(outcome.source, *context->domain);  // (the context outlives trigger())
    while (!end(op))
        [[unlikely]] {
            if (op.state.load(std::memory_order_acquire) == State::left) {
                destroy(op);
                return;
            }
            util::cpu_relax();
        }
    const impl::Operation& core = *op.core;
    const Ended how{
        .status = outcome.status,
        .data = payload(core, outcome, core.buffer, context->domain->headroom(core.lane())),
        .tag = outcome.tag,
        .source = &source.get(),
        .last = true};
    // They stay for the callback, whatever becomes of the operation.
    const Ref<BufferState> buffer = std::move(op.buffer);
    op.local.reset();
    op.remote.reset();
    op.run(op, how);
}

void deliver_multi(Record& record) {
    auto& op = *static_cast<Multi*>(record.owner);
    const impl::Outcome outcome = record.outcome;
    struct Hold {
        Multi* op;
        ~Hold() {
            if (op != nullptr) {
                release(*op);
            }
        }
    };
    const bool with_message = &record != &op.end;
    const Hold message{with_message ? &op : nullptr};
    const Hold post{outcome.last ? &op : nullptr};
    const Peer::Lent source(outcome.source, *op.context->domain);
    if (with_message) {
        {
            const std::lock_guard guard(op.free_lock);
            record.next_free = op.free_records;
            op.free_records = &record;
        }
        op.context->core->add_credits(*op.core, 1);
    }
    if (outcome.last) {
        op.posted.store(false, std::memory_order_release);  // the callback may post it again
    }
    if (op.left.load(std::memory_order_acquire)) {
        return;
    }
    op.callback->call({.status = outcome.status,
                       .data = ok(outcome.status) && outcome.data != nullptr
                                   ? std::span(static_cast<std::byte*>(outcome.data), outcome.size)
                                         .subspan(op.context->domain->headroom(Lane::unexpected))
                                   : std::span<std::byte>(),
                       .tag = outcome.tag,
                       .source = &source.get(),
                       .last = outcome.last});
}

void queue(ContextState& context, Record& record, const impl::Outcome& outcome) noexcept {
    record.outcome = outcome;
    impl::Context& core = *context.core;
    core.completions().push(record);
    // Another thread may have run the callback by now, and the operation be posted again, or gone.
    core.wake_sleepers();
}

}  // namespace

void complete_single(impl::Operation& core, const impl::Outcome& outcome) noexcept {
    auto& op = *static_cast<Single*>(core.owner);
    queue(*op.context, op.record, outcome);
}

void complete_multi(impl::Operation& core, const impl::Outcome& outcome) noexcept {
    auto& op = *static_cast<Multi*>(core.owner);
    if (outcome.data == nullptr) {  // no message, and no credit taken
        queue(*op.context, op.end, outcome);
        return;
    }
    op.count.add();
    Record* record = nullptr;
    {
        const std::lock_guard guard(op.free_lock);
        record = op.free_records;  // the operation's credits say that there is one
        op.free_records = record->next_free;
    }
    queue(*op.context, *record, outcome);
}

void LeaveSingle::operator()(Slot* slot) const noexcept {
    auto& op = *static_cast<Single*>(slot);
    if (op.state.load(std::memory_order_acquire) == State::posted) {
        op.context->core->cancel(*op.core);  // before it can be anybody else's to destroy
    }
    for (;;) {
        if (end(op)) {
            op.drop(op);
            op.state.store(State::left, std::memory_order_release);
            return;
        }
        if (op.state.load(std::memory_order_acquire) == State::idle) {
            destroy(op);
            return;
        }
        util::cpu_relax();  // trigger() is about to move the callback out
    }
}

void release(Multi& op) noexcept {
    if (op.count.drop()) {
        const Ref<ContextState> context = op.context;
        context->leave(op);
        context->domain->cls->destroy_op(op.core);
        delete &op;
    }
}

void LeaveMulti::operator()(Multi* op) const noexcept {
    op->left.store(true, std::memory_order_release);
    if (op->posted.load(std::memory_order_acquire) && !op->context->domain->cls->inherited()) {
        op->context->core->cancel(*op->core);
    }
    release(*op);
}

}  // namespace detail

using detail::Multi;
using detail::Record;
using detail::Single;

namespace {

detail::ContextState& state_of(const detail::Ref<detail::ContextState>& context) {
    if (!context) {
        fail(Error{Status::invalid_arg,
                   "an operation needs a context (this one is moved from, or closed)"});
    }
    return *context;
}

}  // namespace

Operation::Operation(Context& context) {
    detail::ContextState& state = state_of(context.state_);
    auto op = std::make_unique<Single>(state);
    op->core = state.domain->cls->create_op(false);
    op->core->owner = op.get();
    op->core->handler = detail::complete_single;
    op->threaded = state.threaded();
    op->record.deliver = detail::deliver_single;
    op->record.owner = op.get();
    state.enter(*op);
    op_.reset(op.release());
}

MultiOperation::MultiOperation(Context& context, std::unique_ptr<detail::Calls> callback) {
    detail::ContextState& state = state_of(context.state_);
    auto op = std::make_unique<Multi>(state, std::move(callback));
    op->records = std::vector<Record>(detail::kMultiRecords);
    for (Record& r : op->records) {
        r.deliver = detail::deliver_multi;
        r.owner = op.get();
        r.next_free = std::exchange(op->free_records, &r);
    }
    op->end.deliver = detail::deliver_multi;
    op->end.owner = op.get();
    op->core = state.domain->cls->create_op(true);
    op->core->owner = op.get();
    op->core->handler = detail::complete_multi;
    op->core->add_credits(static_cast<std::uint32_t>(op->records.size()));
    state.enter(*op);
    op_.reset(op.release());
}

bool MultiOperation::in_use() const noexcept {
    return op_ != nullptr && op_->posted.load(std::memory_order_acquire);
}

}  // namespace na::inline v1
