// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/posting.hpp"

namespace na::inline impl {

// What cannot be injected: it is large, others wait, or the transport wants an operation.
Posting::Sent Posting::send_operation(Operation& op, Lane lane, const Message& m, Status& status,
                                      Company company) noexcept {
    Context& c = context_;
    fill(op, lane == Lane::unexpected ? OpKind::send_unexpected : OpKind::send_expected, m);
    op.remote = nullptr;
    op.joins_ = company != Company::none;
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
    if (!c.retry_.blocks(op)) [[likely]] {
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

bool Posting::withdraw(Operation& op) noexcept {
    if (op.state() != Operation::State::matching) {
        return false;
    }
    op.handler = [](Operation&, const Outcome&) noexcept {};
    context_.match_.cancel(op);
    return true;
}

}  // namespace na::inline impl
