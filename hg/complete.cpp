// SPDX-License-Identifier: BSD-3-Clause
// Origin: from the response, or whatever ended the RPC, to the user's callback.
#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

void Handle::forward_part_ended() noexcept {
    if (end_part()) {
        forward_ended();
    }
}

void Handle::on_response(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (ok(o.status)) [[likely]] {
        h.port_->counters.responses_received.add();
        const std::size_t headroom = h.port_->headroom(Lane::expected);
        const std::span<std::byte> message =
            o.size < headroom ? std::span<std::byte>{}
                              : std::span(h.kit_->output + headroom, o.size - headroom);
        wire::Response response;
        if (wire::glance(message, response) && response.cookie == h.cookie_ && !h.one_way_ &&
            message.size() - wire::kResponseSize >= h.info_.cls->offset(Lane::expected))
            [[likely]] {
            h.output_ = {
                .message = message.subspan(wire::kResponseSize), .beyond = {}, .valid = true};
        } else {
            h.take_unusual_response(message);
        }
    } else {
        h.answer_canceled_ = o.status == Status::canceled;
        h.note(o.status);
    }
    h.forward_part_ended();
}

void Handle::take_unusual_response(std::span<std::byte> message) noexcept {
    Counters& counters = port_->counters;
    wire::Response response;
    wire::Received received = wire::decode(message, response);
    if (ok(received.status)) {
        const bool overflow = (response.flags & (wire::kOverflow | wire::kMoreData)) != 0;
        if (response.cookie != cookie_) {
            received = {Status::protocol_error, "a response to another request", {}};
        } else if (overflow && (one_way_ || !ok(response.code))) {
            received = {
                Status::protocol_error, "a response beyond the eager size where none is due", {}};
        } else if (ok(response.code) && !one_way_ &&
                   received.payload.size() < info_.cls->offset(Lane::expected)) {
            received = {Status::protocol_error,
                        "a response shorter than the output offset of this class",
                        {}};
        }
    }
    if (!ok(received.status)) {
        counters.malformed.add();
        NA_LOG_WARNING(rpc, "RPC {:#x}: {}", info_.id, received.what);
        note(received.status);
        return;
    }
    flags_ = response.flags;
    if (!ok(response.code)) {
        answer_is_code_ = true;
        note(response.code);
        return;
    }
    if (!one_way_) {
        output_ = {.message = message.subspan(wire::kResponseSize), .beyond = {}, .valid = true};
        if ((flags_ & wire::kOverflow) != 0) {
            counters.responses_overflow.add();
            ack_wanted_ = true;
        } else if ((flags_ & wire::kMoreData) != 0) {
            more_wanted_ = true;
        }
    }
}

// Request sent, answer there, or either failed. May run inside a handler.
void Handle::forward_ended() noexcept {
    if (!(ack_wanted_ || more_wanted_ || answer_canceled_)) [[likely]] {
        finish(&Handle::run_forward);
    } else {
        forward_ended_otherwise();
    }
}

void Handle::forward_ended_otherwise() noexcept {
    if (ack_wanted_) {
        defer(
            &Handle::pull_output);  // whatever the status: the target waits for the acknowledgement
        return;
    }
    if (more_wanted_) {
        finish(&Handle::acquire_output);
        return;
    }
    if (request_sent_) {
        defer(&Handle::leave_straggler);
        return;
    }
    finish(&Handle::run_forward);
}

void Handle::run_forward(Completion& c) {
    Handle& h = of(c);
    const Callback callback = h.callback_;
    const Status status = h.status_.load(std::memory_order_relaxed);
    if (!ok(status)) [[unlikely]] {
        h.output_.valid = false;
    }
    if (h.input_block_ != nullptr) [[unlikely]] {
        // Without an answer the target may be reading it just now: not for another request then.
        h.info_.context->overflow_.give(std::exchange(h.input_block_, nullptr),
                                        ok(status) || h.answer_is_code_);
    }
    // The callback may use the handle for the next RPC, and may throw.
    h.stage_.store(Stage::idle, std::memory_order_release);
    const Unref after(h);
    if (callback.run != nullptr) {
        callback.run(h, status, callback.user, callback.arg);
    }
}

}  // namespace hg
