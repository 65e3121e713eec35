// SPDX-License-Identifier: BSD-3-Clause
// Origin: from the response, or whatever ended the RPC, to the user's callback.
#include <new>

#include <fmt/format.h>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

namespace {

// Requests sent since, so that na::Context::undelivered() knows which one is meant.
constexpr std::uint32_t kNotOld = 16'384;

}  // namespace

using na::Lane;
using na::Status;

void Handle::forward_part_ended() noexcept {
    if (end_part()) {
        forward_ended();
    }
}

void Handle::on_response(na::Operation& op, const na::Outcome& o) noexcept {
    if (ok(o.status)) [[likely]] {
        take_response(op, o.size, o.source, o.tag);
        return;
    }
    Handle& h = of(op);
    h.call_.answer_canceled = o.status == Status::canceled || h.call_.undelivered;
    if (o.status == Status::hostunreach && h.call_.request_sent && !h.call_.repeated &&
        h.port_->tickets_since(h.cookie_) < kNotOld) {
        h.lost_undelivered(h.port_->na().undelivered(h.kit_->input, h.tag_));
    }
    h.note(o.status);
    h.forward_part_ended();
}

void Handle::take_response(na::Operation& op, std::size_t size, na::Address*,
                           std::uint32_t) noexcept {
    Handle& h = of(op);
    Port& port = *h.port_;
    port.counters.responses_received.add();
    const std::size_t headroom = port.headroom(Lane::expected);
    const std::span<std::byte> message =
        size < headroom ? std::span<std::byte>{}
                        : std::span(h.kit_->output + headroom, size - headroom);
    wire::Response response;
    if (wire::glance(message, response) && response.cookie == h.cookie_ && !h.one_way_ &&
        message.size() - wire::kResponseSize >= h.info_.cls->offset(Lane::expected)) [[likely]] {
        take_payload(h.output_, h.call_.output, message.data() + wire::kResponseSize,
                     message.size() - wire::kResponseSize);
    } else {
        h.take_unusual_response(message);
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
        NA_LOG_WARNING(rpc, "RPC {}: {}", name(), received.what);
        note(received.status);
        return;
    }
    call_.flags = response.flags;
    if (!ok(response.code)) {
        call_.answer_is_code = true;
        note(response.code);
        return;
    }
    if (!one_way_) {
        take_payload(output_, call_.output, message.data() + wire::kResponseSize,
                     message.size() - wire::kResponseSize);
        if ((call_.flags & wire::kOverflow) != 0) {
            counters.responses_overflow.add();
            call_.ack_wanted = true;
        } else if ((call_.flags & wire::kMoreData) != 0) {
            call_.more_wanted = true;
        }
    }
}

// Request sent, answer there, or either failed. May run inside a handler.
void Handle::forward_ended() noexcept {
    if (!(call_.ack_wanted || call_.more_wanted || call_.answer_canceled)) [[likely]] {
        finish(&Handle::run_forward);
    } else {
        forward_ended_otherwise();
    }
}

void Handle::forward_ended_otherwise() noexcept {
    if (call_.undelivered) {
        defer(&Handle::send_again);
        return;
    }
    if (call_.ack_wanted) {
        defer(
            &Handle::pull_output);  // whatever the status: the target waits for the acknowledgement
        return;
    }
    if (call_.more_wanted) {
        finish(&Handle::acquire_output);
        return;
    }
    if (call_.request_sent) {
        defer(&Handle::leave_straggler);
        return;
    }
    finish(&Handle::run_forward);
}

namespace {

// Null: the code does not say why a peer is not reached. Only hostunreach means that it is gone.
const char* why_unreached(Status status) noexcept {
    switch (status) {
        case Status::hostunreach:
            return "nobody is there (any more)";
        case Status::busy:
            return "it is alive, and has no descriptor left for another peer (ulimit -n there)";
        case Status::nomem:
            return "this process has no descriptor or memory left to reach it (ulimit -n)";
        case Status::permission:
            return "it is alive, and does not admit this user";
        case Status::addrnotavail:
            return "it may be alive, but there is no way to it from here";
        default:
            return nullptr;
    }
}

}  // namespace

// Before the callback of a call that failed.
[[gnu::cold, gnu::noinline]] void Handle::say_failed(Status status) const noexcept {
    if (status == Status::noentry && (call_.answer_is_code || looped_)) {
        NA_LOG_WARNING(rpc, "RPC {}: it is not registered at its target {}", name(),
                       info_.addr->uri());
    }
    if (callback_.run != nullptr && !call_.answer_is_code) {
        say_unreachable(status);
    }
}

// For HG_Get_last_error() in the callback only: a peer that is gone is no mistake of the program,
// whose log it would fill.
void Handle::say_unreachable(Status status) const noexcept {
    const char* why = why_unreached(status);
    if (why == nullptr) {
        return;
    }
    try {
        na::log::set_last_error(
            status == Status::hostunreach
                ? fmt::format("RPC {}: nobody is at {} (any more)", name(), info_.addr->uri())
                : fmt::format("RPC {} to {}: {}", name(), info_.addr->uri(), why));
    } catch (const std::bad_alloc&) {
        na::log::set_last_error(why);
    }
}

void Handle::run_forward(Completion& c) {
    Handle& h = of(c);
    const Callback callback = h.callback_;
    const Status status = h.status_.load(std::memory_order_relaxed);
    if (!ok(status)) [[unlikely]] {
        h.call_.output = false;
        h.say_failed(status);
    }
    if (h.input_block_ != nullptr) [[unlikely]] {
        // Without an answer the target may be reading it just now: not for another request then.
        h.info_.context->overflow_.give(std::exchange(h.input_block_, nullptr),
                                        ok(status) || h.call_.answer_is_code);
    }
    // The callback may use the handle for the next RPC, and may throw.
    h.stage_.store(Stage::idle, std::memory_order_release);
    const Unref after(h);
    if (callback.run != nullptr) {
        callback.run(h, status, callback.user, callback.arg);
    }
}

}  // namespace hg
