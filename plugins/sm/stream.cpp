// SPDX-License-Identifier: BSD-3-Clause
// What takes several steps on the way out: large messages, puts and gets that go through the rings,
// and the answers that this side owes the peer.
//
// Operations wait in one queue per connection, in the order of posting. The first one is worked on
// until it is in the ring; an operation that the peer has to answer then moves to a slot. Bytes
// that do not go by cross-memory attach travel through the inject buffers, a bufferful per line, as
// fast as the peer gives buffers back.
#include <bit>
#include <cstring>

#include "plugins/sm/context.hpp"
#include "plugins/sm/region.hpp"

namespace na::sm {

using plugin::Posted;

namespace {

// Buffers filled in one poll: the peer may empty them as fast as we fill them, and others wait.
constexpr std::uint32_t kPieces = 64;

template <typename Body>
struct Message {
    Head head;
    Body body;
};

Head head_of(Kind kind, unsigned slot, std::uint8_t aux = 0, std::uint32_t tag = 0) noexcept {
    return {kind, aux, static_cast<std::uint16_t>(slot), tag};
}

bool is_message(const Op& op) noexcept {
    return op.kind == OpKind::send_unexpected || op.kind == OpKind::send_expected;
}

}  // namespace

Posted Connection::send_large(Op& op) noexcept {
    const auto lane = static_cast<std::size_t>(op.lane());
    if (op.length > peer_max_[lane]) {
        return Posted::failed(Status::msgsize);
    }
    sent_unexpected |= lane == 0;
    const bool first = queue_.empty();
    enqueue(op);
    // The usual case needs no further poll: the line that offers the memory is written at once.
    if (first && peer_attach() == Attach::yes && offer(op)) {
        notify();
    }
    return Posted::pending();
}

void Connection::enqueue(Op& op) noexcept {
    OpState& s = state_of(op);
    s = {this, 0, Stage::queued, 0};
    queue_.push_back(op);
    if (is_message(op)) {
        change_busy(static_cast<std::size_t>(op.lane()), 1);
    }
    context.add_work(*this);
}

void Connection::leave_queue(Op& op) noexcept {
    queue_.remove(op);
    if (is_message(op)) {
        change_busy(static_cast<std::size_t>(op.lane()), -1U);
    }
}

int Connection::take_slot(Use use, Op* op, std::uint64_t left) noexcept {
    if (slots_free_ == 0) {
        blocked_ = Blocked::slot;
        return -1;
    }
    const int slot = std::countr_zero(slots_free_);
    slots_free_ &= slots_free_ - 1;
    ++slots_used_;
    slots_[slot] = {use, op, left};
    return slot;
}

void Connection::free_slot(unsigned slot) noexcept {
    slots_[slot] = {};
    slots_free_ |= std::uint64_t{1} << slot;
    --slots_used_;
}

bool Connection::room() noexcept {
    if (!tx_.room(1)) {
        blocked_ = Blocked::credit;
        return false;
    }
    return true;
}

bool Connection::buffer() noexcept {
    if (pieces_ == 0) {
        return false;  // enough for this poll, and nothing blocks the next one
    }
    if (!room()) {
        return false;
    }
    if (!pool_.available(tx_)) {
        blocked_ = Blocked::credit;
        return false;
    }
    --pieces_;
    return true;
}

// A large message that the peer reads from our memory.
bool Connection::offer(Op& op) noexcept {
    if (!room()) {
        return false;
    }
    const int slot = take_slot(Use::iov, &op, 0);
    if (slot < 0) {
        return false;
    }
    out_.claims[slot].store(static_cast<std::uint32_t>(Claim::offered), std::memory_order_relaxed);
    tx_.write(Message<Iov>{head_of(Kind::iov, static_cast<unsigned>(slot),
                                   static_cast<std::uint8_t>(op.lane()), op.tag),
                           {reinterpret_cast<std::uintptr_t>(op.buffer), op.length}});
    leave_queue(op);
    state_of(op).stage = Stage::waiting;
    state_of(op).slot = static_cast<std::uint8_t>(slot);
    ++context.counters().attached_messages;
    return true;
}

// Works on the first operation of the queue. False: it stays first, and blocked_ says why.
bool Connection::advance(Op& op) noexcept {
    OpState& s = state_of(op);
    if (s.stage == Stage::streaming) {
        return stream(op);
    }
    if (is_message(op)) {
        const Attach attach = peer_attach();
        if (attach == Attach::unknown) {
            blocked_ = Blocked::attach;
            return false;
        }
        if (attach == Attach::yes) {
            return offer(op);
        }
    }
    if (!room()) {
        return false;
    }
    const Use use = is_message(op) ? Use::message : op.kind == OpKind::put ? Use::put : Use::get;
    const int slot = take_slot(use, &op, op.length);
    if (slot < 0) {
        return false;
    }
    const auto index = static_cast<unsigned>(slot);
    s.slot = static_cast<std::uint8_t>(slot);
    if (use == Use::message) {
        tx_.write(Message<Announce>{
            head_of(Kind::bounce, index, static_cast<std::uint8_t>(op.lane()), op.tag),
            {op.length}});
        ++context.counters().bounced;
    } else {
        const RemoteRange range{static_cast<const Region*>(op.remote)->key, op.remote_offset,
                                op.length};
        tx_.write(
            Message<RemoteRange>{head_of(use == Use::put ? Kind::put : Kind::get, index), range});
        ++context.counters().rma_bounced;
    }
    if (use == Use::get) {
        s.stage = Stage::waiting;
        leave_queue(op);
        return true;
    }
    s.stage = Stage::streaming;
    return stream(op);
}

bool Connection::stream(Op& op) noexcept {
    OpState& s = state_of(op);
    while (s.done < op.length) {
        if (!buffer()) {
            return false;
        }
        const std::size_t n = std::min<std::size_t>(geometry_.buffer_bytes, op.length - s.done);
        const std::uint32_t b = pool_.take();
        if (is_message(op)) {
            std::memcpy(pool_.at(b), static_cast<const std::byte*>(op.buffer) + s.done, n);
        } else {
            copy_out(static_cast<const Region*>(op.local)->list, op.local_offset + s.done,
                     pool_.at(b), n);
        }
        tx_.write(Message<Inject>{head_of(Kind::data, s.slot), {b, static_cast<std::uint32_t>(n)}});
        pool_.sent(b, tx_.position());
        s.done += n;
    }
    leave_queue(op);
    if (is_message(op)) {
        free_slot(s.slot);
        complete(op, Status::success);
    } else {
        s.stage = Stage::waiting;
    }
    return true;
}

bool Connection::flush_acks() noexcept {
    while (acks_owed_ != 0) {
        if (!room()) {
            return false;
        }
        const auto slot = static_cast<unsigned>(std::countr_zero(acks_owed_));
        acks_owed_ &= acks_owed_ - 1;
        tx_.write(head_of(Kind::ack, slot, static_cast<std::uint8_t>(served_[slot].status)));
    }
    while (aborts_owed_ != 0) {
        if (!room()) {
            return false;
        }
        const auto slot = static_cast<unsigned>(std::countr_zero(aborts_owed_));
        aborts_owed_ &= aborts_owed_ - 1;
        tx_.write(head_of(Kind::abort, slot));
        if (slots_[slot].use == Use::message) {
            change_busy(slots_[slot].left, -1U);  // take_back() left the lane there
            free_slot(slot);
        }
    }
    return true;
}

// Sends what peers asked for, a bufferful of each in turn.
bool Connection::serve_gets() noexcept {
    while (gets_served_ != 0) {
        for (std::uint64_t turn = gets_served_; turn != 0; turn &= turn - 1) {
            if (!buffer()) {
                return false;
            }
            const auto slot = static_cast<unsigned>(std::countr_zero(turn));
            Served& g = served_[slot];
            const std::size_t n = std::min<std::size_t>(geometry_.buffer_bytes, g.left);
            // The region may have been deregistered since the last piece.
            std::uint32_t b = 0;
            const Status status = context.domain().regions().use(
                g.key, Access::read, g.offset + g.done, n, [&](const LocalRegion& region) {
                    b = pool_.take();
                    copy_out(region.list, g.offset + g.done, pool_.at(b), n);
                });
            if (ok(status)) {
                tx_.write(Message<Inject>{head_of(Kind::reply, slot),
                                          {b, static_cast<std::uint32_t>(n)}});
                pool_.sent(b, tx_.position());
                g.done += n;
                g.left -= n;
            } else {
                tx_.write(head_of(Kind::ack, slot, static_cast<std::uint8_t>(status)));
                g.left = 0;
            }
            if (g.left == 0) {
                g.use = Use::none;
                gets_served_ &= ~(std::uint64_t{1} << slot);
            }
        }
    }
    return true;
}

bool Connection::pump() noexcept {
    if (state != State::open) {
        return false;
    }
    const std::uint32_t before = tx_.position();
    blocked_ = Blocked::no;
    pieces_ = kPieces;
    if (flush_acks() && serve_gets()) {
        while (Op* op = queue_.front()) {
            if (!advance(*op)) {
                break;
            }
        }
    }
    if (tx_.position() != before) {
        notify();
    }
    if (tx_.broken()) {
        context.fail(*this, "a peer that claims to have read what was not written");
        return false;
    }
    return acks_owed_ != 0 || aborts_owed_ != 0 || gets_served_ != 0 || !queue_.empty();
}

bool Connection::unblocked() noexcept {
    switch (blocked_) {
        case Blocked::no:
            return true;
        case Blocked::credit:
            return tx_.refresh() || tx_.broken();
        case Blocked::attach:
            return peer_attach() != Attach::unknown;
        case Blocked::slot:
            return slots_free_ != 0;
    }
    return true;
}

void Connection::acknowledge(unsigned slot, Status status) noexcept {
    served_[slot].status = status;
    acks_owed_ |= std::uint64_t{1} << slot;
    context.add_work(*this);
}

std::optional<Status> Connection::take_back(Op& op) noexcept {
    OpState& s = state_of(op);
    Status end = Status::canceled;
    switch (s.stage) {
        case Stage::queued:
            leave_queue(op);
            break;
        case Stage::streaming:
            // What the peer has of it is of no use: tell it. Until then the lane stays closed.
            queue_.remove(op);
            if (is_message(op)) {
                slots_[s.slot].left = static_cast<std::uint64_t>(op.lane());
            }
            slots_[s.slot].op = nullptr;
            aborts_owed_ |= std::uint64_t{1} << s.slot;
            context.add_work(*this);
            break;
        case Stage::waiting: {
            // Also if the peer is reading it: that may take for ever, and it finds out afterwards.
            // The slot stays taken until the peer answers.
            if (slots_[s.slot].use == Use::iov &&
                out_.claims[s.slot].exchange(static_cast<std::uint32_t>(Claim::revoked),
                                             std::memory_order_acq_rel) ==
                    static_cast<std::uint32_t>(Claim::taken)) {
                end = Status::success;
            }
            slots_[s.slot].op = nullptr;
            break;
        }
        case Stage::idle:
        case Stage::copying:
            return {};
    }
    s.stage = Stage::idle;
    return end;
}

}  // namespace na::sm
