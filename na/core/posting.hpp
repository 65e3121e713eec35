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

    // `status` is written where it failed. `company`: of no meaning without Context::gather(); with
    // it, what leaves by this ends, but for `op`.
    Sent send(Operation& op, Lane lane, const Message& m, Status& status,
              Company company = Company::none) noexcept {
        Context& c = context_;
        fill(op, lane == Lane::unexpected ? OpKind::send_unexpected : OpKind::send_expected, m);
        op.remote = nullptr;
        c.counters_.sends.add();
        if (c.outbox_.enabled()) [[unlikely]] {
            switch (c.outbox_.take(op, company, status)) {
                case Outbox::Taken::no:
                    break;
                case Outbox::Taken::gone:
                    return Sent::gone;
                case Outbox::Taken::waits:
                    return Sent::pending;
                case Outbox::Taken::failed:
                    return Sent::failed;
            }
        }
        plugin::Posted answer = plugin::Posted::again();
        if (!c.retry_.blocks(&m.peer)) [[likely]] {
            answer = c.plugin_->send(op);
            if (answer.what == plugin::Posted::What::done) [[likely]] {
                return Sent::gone;
            }
        }
        const Status s = c.not_gone(op, answer, Context::Hold::none);
        if (!ok(s)) {
            status = s;
            return Sent::failed;
        }
        return Sent::pending;
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

    Status recv_unexpected(Operation& op, void* buffer, std::size_t size,
                           plugin::Region* registered) noexcept {
        Context& c = context_;
        assert(op.idle() && buffer != nullptr);
        op.from_anybody(OpKind::recv_unexpected, buffer, size, registered);
        if (!c.matched_here_) [[unlikely]] {
            return c.receive_unexpected(op);
        }
        c.match_.post_unexpected(op);
        if (c.match_.room()) [[unlikely]] {
            c.waiter_.wake_sleepers();
        }
        return Status::success;
    }

 private:
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
