// SPDX-License-Identifier: BSD-3-Clause
// Posting for the layer above, which knows more than the C API does: several operations under one
// lock, nothing checked that the caller answers for, no reference taken that he holds anyway, and
// what has left by the time of the post is said so instead of being reported to a handler.
//
// While a Posting exists nothing that was posted on its context ends, not even on another thread:
// its operations and what belongs to them are the caller's until then. No user code and no other
// call of the same context meanwhile.
#pragma once

#include <cassert>

#include "na/core/context.hpp"

namespace na::inline impl {

class Posting {
 public:
    // The caller answers for: the operation is idle; the address is of the context's class, and
    // held until the operation has ended; the buffer is not null, its size at least the headroom
    // and at most the lane's limit, the tag within the limit.
    struct Message {
        Address& peer;
        std::uint8_t context_id;  // of the peer
        std::uint32_t tag;
        void* buffer;
        std::size_t size;
        plugin::Region* registered;
    };
    // failed: nothing was posted, and no handler runs. gone: it has left, the operation is idle, no
    // handler runs. pending: the handler runs, later.
    enum class Sent : std::uint8_t { gone, pending, failed };

    explicit Posting(Context& context) noexcept : context_(context) { context.lock_.lock(); }
    ~Posting() { context_.lock_.unlock(); }
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;

    // Nothing of what follows has to be asked of the transport: no other matches receives, or has
    // to hear of them. The same for all of the context's life.
    bool simple() const noexcept { return context_.matched_here_; }
    // A message that needs no operation, and waits for no company; it has left, or (false) is for
    // send(), as it is while others wait.
    bool inject(Lane lane, Address& peer, std::uint8_t context_id, std::uint32_t tag, void* message,
                std::size_t size) noexcept {
        Context& c = context_;
        if (size >= c.inject_below_ || c.retry_.blocks(&peer, context_id) ||
            !c.plugin_->inject(peer.peer(), {context_id, lane}, tag,
                               {static_cast<std::byte*>(message), size})) [[unlikely]] {
            return false;
        }
        c.counters_.sends.add();
        return true;
    }

    // References of this context (Address::ref_in()).
    void unref(Address& address) noexcept { address.unref_in(context_.id_); }

    // `status` is written where it failed. `company`: of no meaning without Context::gather(); with
    // it, what leaves by this ends, but for `op`.
    Sent send(Operation& op, Lane lane, const Message& m, Status& status,
              Company company = Company::none) noexcept {
        if (company != Company::await &&
            inject(lane, m.peer, m.context_id, m.tag, m.buffer, m.size)) [[likely]] {
            return Sent::gone;
        }
        return send_operation(op, lane, m, status, company);
    }

    Status recv_expected(Operation& op, const Message& m) noexcept {
        Context& c = context_;
        fill(op, OpKind::recv_expected, m);
        if (!c.matched_here_) [[unlikely]] {
            return c.receive_expected(op);
        }
        c.match_.post_expected(op);
        if (c.match_.room()) [[unlikely]] {
            c.waiter_.wake_sleepers();
        }
        return Status::success;
    }

    // A receive of an expected message waits for it, and nothing has come yet.
    bool waits(const Operation& op) const noexcept {
        return op.state() == Operation::State::matching;
    }
    // Ends such a receive with `canceled`; its handler runs inside.
    void cancel(Operation& op) noexcept {
        assert(waits(op));
        context_.counters_.canceled.add();
        context_.match_.cancel(op);
    }

    // Where simple(). Of an operation that fill_expected() has filled in, for another tag, and that
    // nobody has used for something else since.
    void fill_expected(Operation& op, const Message& m) noexcept {
        fill(op, OpKind::recv_expected, m);
    }
    // The same where the core matches, but the transport may have to hear of it.
    void recv_expected_next(Operation& op, std::uint32_t tag) noexcept {
        op.tag = tag;
        (void)context_.receive_expected(op);  // which cannot fail there
    }
    // Takes back a receive that was posted under this lock; no handler runs. False: the transport
    // matches receives itself, and only cancel() ends this one.
    [[gnu::cold, gnu::noinline]] bool withdraw(Operation& op) noexcept;
    // Its buffer takes the largest message of the lane.
    void recv_expected_again(Operation& op, std::uint32_t tag) noexcept {
        op.tag = tag;
        if (!context_.match_.post_direct(op)) [[unlikely]] {
            context_.match_.post_expected(op);
            if (context_.match_.room()) {
                context_.waiter_.wake_sleepers();
            }
        }
    }
    // The same of one that recv_unexpected() has posted before.
    void recv_unexpected_again(Operation& op) noexcept {
        if (!context_.match_.post_latest(op)) [[unlikely]] {
            context_.match_.post_unexpected(op);
            if (context_.match_.wants_poll()) {
                context_.waiter_.wake_sleepers();
            }
        }
    }

    Status recv_unexpected(Operation& op, void* buffer, std::size_t size,
                           plugin::Region* registered) noexcept {
        Context& c = context_;
        assert(op.idle() && buffer != nullptr);
        op.from_anybody(OpKind::recv_unexpected, buffer, size, registered);
        if (!c.matched_here_) [[unlikely]] {
            return c.receive_unexpected(op);
        }
        c.match_.post_unexpected(op);
        if (c.match_.wants_poll()) [[unlikely]] {
            c.waiter_.wake_sleepers();
        }
        return Status::success;
    }

 private:
    Sent send_operation(Operation& op, Lane lane, const Message& m, Status& status,
                        Company company) noexcept;
    void fill(Operation& op, OpKind kind, const Message& m) noexcept {
        assert(op.idle() && m.buffer != nullptr);
        op.kind = kind;
        op.target_id = m.context_id;
        op.tag = m.tag;
        op.buffer = m.buffer;
        op.length = m.size;
        op.local = m.registered;
        op.peer = &m.peer.peer();
        op.address_ = &m.peer;
        op.referenced_ = false;
    }

    Context& context_;
};

}  // namespace na::inline impl
