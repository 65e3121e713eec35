// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets: which way they go, and the way within this process.
//
//   local      the peer is this endpoint itself
//   shared     the memory came from the peer's allocator and is mapped here: plain copying
//   attached   process_vm_readv and process_vm_writev
//   bounced    neither is possible: through the rings, executed by the peer (stream.cpp)
//
// The two ways in the middle look the descriptor up in the owner's permits first, for each piece
// (permits.hpp).
//
// The first piece is moved by the post itself; what is larger goes on in progress(), piece by
// piece, so that one large transfer does not hold up everything else.
#include "plugins/sm/context.hpp"
#include "plugins/sm/region.hpp"

namespace na::sm {

using plugin::Posted;

namespace {

constexpr std::size_t kPiece = 1 << 20;
// Pieces moved in one poll, of all operations.
constexpr unsigned kPieceBudget = 16;

}  // namespace

// Even towards ourselves a descriptor may come from anybody: what counts is the registration.
Status Context::copy_self(Op& op) noexcept {
    const auto* remote = static_cast<const Region*>(op.remote);
    const auto* local = static_cast<const Region*>(op.local);
    const Access want = op.kind == OpKind::put ? Access::write : Access::read;
    return domain_.regions().use(
        remote->key, want, op.remote_offset, op.length, [&](const LocalRegion& region) {
            if (op.kind == OpKind::put) {
                copy_lists(local->list, op.local_offset, region.list, op.remote_offset, op.length);
            } else {
                copy_lists(region.list, op.remote_offset, local->list, op.local_offset, op.length);
            }
        });
}

Posted Context::transfer(Op& op) noexcept {
    auto& peer = static_cast<Peer&>(*op.peer);
    if (peer.is_self()) {
        ++stats_.rma_local;
        const Status status = copy_self(op);
        return ok(status) ? Posted::done() : Posted::failed(status);
    }
    Posted answer = Posted::again();
    Connection* c = reach(peer, op.target_id, answer);
    if (c == nullptr) {
        return answer;
    }
    if (c->state != Connection::State::open) {
        return Posted::failed(c->why);
    }
    state_of(op) = {c, 0, Stage::copying, 0};
    Status status = Status::success;
    switch (copy_some(op, status)) {
        case Copied::done:
            state_of(op).stage = Stage::idle;
            return Posted::done();
        case Copied::failed:
            state_of(op).stage = Stage::idle;
            return Posted::failed(status);
        case Copied::elsewhere:
            return Posted::pending();
        case Copied::some:
        case Copied::wait:
            break;
    }
    copies_.push_back(op);
    chores_ |= kCopies;
    wake_self();
    return Posted::pending();
}

// Moves the next piece by the best way there is now.
Context::Copied Context::copy_some(Op& op, Status& status) noexcept {
    OpState& s = state_of(op);
    Connection& c = *s.connection;
    bool pending = false;
    if (static_cast<const Region*>(op.remote)->permit() != 0 && c.answered) {
        if (const auto copied = copy_directly(op, status, pending)) {
            return *copied;
        }
    }
    if (!c.attach_known() || pending) {
        return Copied::wait;
    }
    if (s.done != 0) {
        // Part of it was copied over a mapping that is gone: the peer does the whole again.
        s.done = 0;
    }
    c.enqueue(op);
    return Copied::elsewhere;
}

// The next piece without the owner taking part; nothing: that is not possible. `pending`: it may be
// soon.
std::optional<Context::Copied> Context::copy_directly(Op& op, Status& status,
                                                      bool& pending) noexcept {
    OpState& s = state_of(op);
    Connection& c = *s.connection;
    const auto& remote = *static_cast<const Region*>(op.remote);
    PermitUse use = c.use_permit();
    status = use.begin(remote.permit(), remote.seal(),
                       op.kind == OpKind::put ? Access::write : Access::read,
                       remote.list.segments(), remote.allocation, remote.allocation_base,
                       op.remote_offset + s.done, op.length - s.done);
    if (status == Status::again) {
        return std::nullopt;
    }
    if (!ok(status)) {
        return Copied::failed;
    }
    Copied copied = Copied::failed;
    if (std::byte* base = remote.allocation != 0 ? find_mapping(c, op, pending) : nullptr;
        base != nullptr) {
        stats_.rma_shared += s.done == 0;
        copy_shared(op, base, kPiece);
        copied = s.done == op.length ? Copied::done : Copied::some;
    } else if (c.attached()) {
        stats_.rma_attached += s.done == 0;
        copied = copy_attached(op, kPiece, status);
    } else {
        return std::nullopt;
    }
    if (copied != Copied::failed && !use.stands()) {
        status = Status::noentry;
        return Copied::failed;
    }
    return copied;
}

std::size_t Context::run_copies() noexcept {
    std::size_t events = 0;
    for (Op* op = copies_.front(); op != nullptr && events < kPieceBudget;) {
        Op* next = op->next;
        Status status = Status::success;
        if (state_of(*op).connection->state != Connection::State::open) {
            end_copy(*op, state_of(*op).connection->why);
            ++events;
            op = next;
            continue;
        }
        // enqueue() links the operation elsewhere: out of this list first.
        copies_.remove(*op);
        switch (copy_some(*op, status)) {
            case Copied::done:
            case Copied::failed:
                state_of(*op).stage = Stage::idle;
                sink_.complete(
                    *op, plugin::Completion{.status = status, .size = ok(status) ? op->length : 0});
                ++events;
                break;
            case Copied::elsewhere:
                break;
            case Copied::some:
                ++events;
                [[fallthrough]];
            case Copied::wait:
                // Back in its place.
                if (next != nullptr) {
                    copies_.insert_before(*next, *op);
                } else {
                    copies_.push_back(*op);
                }
                break;
        }
        op = next;
    }
    if (copies_.empty()) {
        chores_ &= ~kCopies;
    }
    return events;
}

bool Context::copies_can_run() noexcept {
    for (Op* op = copies_.front(); op != nullptr; op = op->next) {
        Connection& c = *state_of(*op).connection;
        bool pending = false;
        const auto& remote = *static_cast<const Region*>(op->remote);
        const bool shared = remote.allocation != 0 && remote.permit() != 0;
        if (c.attached() || (shared && find_mapping(c, *op, pending) != nullptr) ||
            (c.attach_known() && !pending)) {
            return true;
        }
    }
    return false;
}

bool Context::in_use(const Connection& c) const noexcept {
    for (Op* op = copies_.front(); op != nullptr; op = op->next) {
        if (state_of(*op).connection == &c) {
            return true;
        }
    }
    return c.has_operations();
}

void Context::end_copy(Op& op, Status status) noexcept {
    copies_.remove(op);
    if (copies_.empty()) {
        chores_ &= ~kCopies;
    }
    state_of(op).stage = Stage::idle;
    sink_.complete(op, plugin::Completion{.status = status});
}

void Context::end_copies(Connection& c, Status why, bool complete) noexcept {
    for (Op* op = copies_.front(); op != nullptr;) {
        Op* next = op->next;
        if (state_of(*op).connection == &c) {
            if (complete) {
                end_copy(*op, why);
            } else {
                copies_.remove(*op);
                state_of(*op).stage = Stage::idle;
            }
        }
        op = next;
    }
}

}  // namespace na::sm
