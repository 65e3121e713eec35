// SPDX-License-Identifier: BSD-3-Clause
// Target: the response, and its way to the user's callback.
#include <algorithm>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "hg/loopback.hpp"
#include "hg/small.hpp"
#include "na/core/posting.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

Status Handle::respond_beside(std::size_t payload, std::size_t structure,
                              const Callback& callback) noexcept {
    return looped_.load(std::memory_order_relaxed) || !leaves_now()
               ? respond(payload, callback)
               : respond_now(payload, structure, callback);
}

Status Handle::send_response(Status code, std::size_t payload, const Callback& callback,
                             Block* beyond, std::size_t beyond_size, bool more) noexcept {
    callback_ = callback;
    sent_ = beyond != nullptr ? beyond_size
                              : payload - std::min(payload, info_.cls->offset(Lane::expected));
    status_.store(Status::success, std::memory_order_relaxed);
    if (looped_) {
        if (more) {
            return Status::opnotsupported;
        }
        return Loopback::respond(*this, code, payload, beyond, beyond_size);
    }
    std::uint8_t flags = info_.cls->checksum_flags();
    if (beyond != nullptr) [[unlikely]] {
        const Status s = write_overflow(output_space(), payload, *beyond, beyond_size, payload);
        if (!ok(s)) {
            return s;
        }
        flags |= wire::kOverflow;
    }
    flags |= more ? wire::kMoreData : 0;
    // Locals: the compiler cannot know that what is written meanwhile is none of these.
    Port& port = *port_;
    const Kit& kit = *kit_;
    wire::encode(kit.output + port.headroom(Lane::expected),
                 wire::Response{.flags = flags, .code = code, .cookie = cookie_}, payload);
    cancel_asked_.store(false, std::memory_order_relaxed);  // of an answer that could not be sent
    stage_.store(Stage::answered, std::memory_order_release);
    if (beyond != nullptr || more) [[unlikely]] {
        return send_large_response(payload, beyond);
    }
    na::Context& na = port.na();
    na::Posting::Sent sent;
    {
        Status s = Status::success;
        na::Posting posting(na);
        kit.send->handler = &Handle::on_response_sent;
        sent = posting.send(*kit.send, Lane::expected,
                            {.peer = peer(),
                             .context_id = info_.context_id,
                             .tag = tag_,
                             .buffer = kit.output,
                             .size = port.output_at() + payload,
                             .registered = kit.region},
                            s, port.gathers() ? company() : na::Company::none);
        if (sent == na::Posting::Sent::gone) [[likely]] {
            port.counters.responses_sent.add();
        } else if (sent == na::Posting::Sent::failed) {
            return s;
        } else {
            ref();  // the sending's
            start_parts(1);
            wait_for_peer(0);
        }
    }
    // Whoever responds has a reference, that of the answer at least, and the send is not used again
    // before it is given back.
    if (sent == na::Posting::Sent::pending) [[unlikely]] {
        info_.context->settle();
        if (cancel_asked_.load(std::memory_order_seq_cst)) {  // since the handle is answered
            na.cancel(*kit.send);
            info_.context->settle();
        }
    } else if (callback_.run != nullptr || dispatch_due_) [[unlikely]] {
        answered_at_once();
    }
    return Status::success;
}

void Handle::fail_response() noexcept {
    ref();  // of this function, until its last line: afterwards others may answer
    refs_.fetch_and(~kAnswerRef, std::memory_order_relaxed);
    stage_.store(Stage::received, std::memory_order_release);
    unref();
}

// Of a claimed response: an error is the end of it, whether or not it can be sent.
void Handle::end_with(Status code) noexcept {
    if (!ok(send_response(code, 0, {}, nullptr, 0))) {
        stage_.store(Stage::answered, std::memory_order_release);
    }
    unref_answer();
}

// The RPC is one-way, as the program has said only after this request came.
void Handle::expect_none() noexcept {
    if (ok(claim_response())) {  // else it is being answered just now
        refs_.fetch_and(~kAnswerRef, std::memory_order_relaxed);
        unclaim_response();
    }
}

void Handle::drop_beyond(Block& block) noexcept {
    info_.context->overflow_.give(&block);
}

// Before the last reference goes that is not that of the answer.
void Handle::owe() noexcept {
    Owed& owed = info_.context->owed_;
    if (Block* input = owed.add(*this); input != nullptr) {
        drop_beyond(*input);
    }
    while (Handle* oldest = owed.excess(*this)) {
        (void)oldest->end_owed("too many wait");
    }
}

// With a reference of the caller's, which goes. False: somebody is responding to it. `why`: for the
// log, null: nothing is logged.
bool Handle::end_owed(const char* why) noexcept {
    const bool mine = ok(claim_response());
    if (mine) {
        if (why != nullptr) {
            NA_LOG_WARNING(rpc,
                           "RPC {}: its handle was destroyed long ago, and nobody has responded: "
                           "its origin gets an error, as {}",
                           name(), why);
        }
        odd_.abandoned = true;
        end_with(Status::other_error);
    }
    unref();
    return mine;
}

// Drops the last reference of the program where the response is still due, or where structures
// that the program got were never released. n: kUserRef, or kUserRef + kGot.
bool Handle::unref_last_of_program(std::uint64_t n) noexcept {
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    while ((before & kUserRefs) == kUserRef && (before & kGots) != (n & kGots)) {
        const std::uint64_t after = (before & ~kGots) | (n & kGots);
        if (swap_refs(before, after)) {
            before = after;
        }
    }
    if ((before & kAnswerRef) != 0) {
        return unref_owed(n);
    }
    do {
        if ((before & kUserRefs) == 0) {
            return false;
        }
    } while (!swap_refs(before, before - n));
    if (before == n) {
        last_unref();
    }
    return true;
}

// Of a program's or a library's reference, while there may be that of the answer.
// False: another thread has just given the program's last reference back.
bool Handle::unref_owed(std::uint64_t n) noexcept {
    if (!target_) {
        return Loopback::unref(*this, n);
    }
    std::uint64_t before = refs_.load(std::memory_order_relaxed);
    for (bool listed = false;;) {
        if ((n & kUserRefs) != 0 && (before & kUserRefs) == 0) [[unlikely]] {
            return false;
        }
        if (before == n + kAnswerRef && !listed) {
            owe();
            listed = true;
            before = refs_.load(std::memory_order_relaxed);
        } else if (swap_refs(before, before - n)) {
            break;
        }
    }
    if (before == n) {
        last_unref();
    }
    return true;
}

void Handle::unref_answer_last() noexcept {
    if ((refs_.load(std::memory_order_relaxed) & kUserRefs) == 0) {
        responded_late();
    }
    if (was_owed_.load(std::memory_order_relaxed)) {
        // It may have to wait for its acknowledgement, and takes no other's place meanwhile.
        info_.context->owed_.answered(*this);
    }
    if (refs_.fetch_sub(kAnswerRef, std::memory_order_acq_rel) == kAnswerRef) {
        last_unref();
    }
}

// By a program without a reference: now, or before that of the RPC callback has gone.
void Handle::responded_late() noexcept {
    if (was_owed_.load(std::memory_order_relaxed) && !odd_.abandoned) {
        registration_->note_late();
    }
}

// By a program that has given all other references back.
bool Handle::give_up_answer() noexcept {
    if (!ok(claim_response())) {
        return false;
    }
    NA_LOG_WARNING(rpc, "RPC {}: its handle was destroyed once more, without a response", name());
    odd_.abandoned = true;
    end_with(Status::other_error);
    return true;
}

// The origin is gone, as this transport knows at once: as if the response had been lost on its way.
Status Handle::answered_in_vain() noexcept {
    note(Status::hostunreach);
    stage_.store(Stage::answered, std::memory_order_release);
    if (callback_.run != nullptr) {
        answered_at_once();
    }
    return Status::success;
}

// The response has left already, and something is to come of it.
void Handle::answered_at_once() noexcept {
    Context& context = *info_.context;
    ref();  // that of what comes now
    respond_ended(*this);
    context.settle();
}

// One that the origin acknowledges, when it has fetched what belongs to it.
Status Handle::send_large_response(std::size_t payload, Block* beyond) noexcept {
    na::Context& na = port_->na();
    ref();
    // The send, the acknowledgement, and this function.
    start_parts(3);
    output_block_ = beyond;
    ack_awaited_ = true;
    filled_ = Filled::nothing;
    kit_->recv->when_over(&Handle::on_ack);
    Status s =
        na.recv_expected(*kit_->recv, peer(), info_.context_id, tag_, kit_->ack,
                         port_->headroom(Lane::expected) + wire::kResponseSize, kit_->region);
    if (ok(s)) {
        kit_->send->handler = &Handle::on_large_response_sent;
        s = na.send(*kit_->send, Lane::expected, peer(), info_.context_id, tag_, kit_->output,
                    port_->output_at() + payload, kit_->region);
        if (!ok(s)) {
            note(s);
            na.cancel(*kit_->recv);
            (void)end_part();  // that of the send; this function's is left, and perhaps that of the
                               // receive
            if (parts_.load(std::memory_order_acquire) != 1) {
                s = Status::success;  // the callback reports it when the transport has ended the
                                      // receive
            }
        }
    }
    if (!ok(s)) {
        output_block_ = nullptr;  // the caller's again
        ack_awaited_ = false;
        refs_.fetch_sub(kLibraryRef,
                        std::memory_order_relaxed);  // never the last: the caller has one
        return s;
    }
    Context& context = *info_.context;
    wait_for_peer(0);
    // A cancel() since the handle is answered has found only what was posted by then.
    if (cancel_asked_.load(std::memory_order_seq_cst)) [[unlikely]] {
        na.cancel(*kit_->send);
        na.cancel(*kit_->recv);
    }
    // What the program keeps for one that is fetched by other means is not known here.
    context.unacked_.add(*this, beyond == nullptr ? port_->size(Lane::expected) : beyond->size);
    while (Handle* oldest = context.unacked_.excess()) {
        oldest->give_up_response();
        oldest->unref();
    }
    if (end_part()) {
        respond_ended(*this);
    }
    context.settle();
    return Status::success;
}

void Handle::on_response_sent(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (ok(o.status)) [[likely]] {
        h.port_->counters.responses_sent.add();
    } else {
        h.note(o.status);
    }
    h.respond_part_ended();
}

void Handle::on_large_response_sent(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (ok(o.status)) {
        h.port_->counters.responses_overflow.add(h.output_block_ != nullptr ? 1 : 0);
    } else if (!h.kit_->recv->idle()) {
        // No acknowledgement will come. This part goes on as the cancellation of its receive,
        // outside the lock.
        h.note(o.status);
        h.defer(&Handle::cancel_ack);
        return;
    }
    on_response_sent(op, o);
}

// Outside of handlers; the caller has a reference.
void Handle::give_up_response() noexcept {
    NA_LOG_WARNING(rpc,
                   "RPC {}: its origin does not acknowledge a response of {} bytes, which is "
                   "given up: too many "
                   "wait (see HG_UNACKED_LIMIT)",
                   name(), unacked_bytes_);
    info_.context->given_up_.fetch_add(1, std::memory_order_relaxed);
    note(Status::timeout);
    port_->na().cancel(*kit_->recv);
    port_->na().cancel(*kit_->send);
}

void Handle::cancel_ack(Completion& c) {
    Handle& h = of(c);
    h.port_->na().cancel(*h.kit_->recv);
    h.respond_part_ended();
}

void Handle::on_ack(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (!ok(o.status)) {
        h.note(o.status);
    } else {
        const std::size_t headroom = h.port_->headroom(Lane::expected);
        const std::span<const std::byte> message =
            o.size < headroom ? std::span<const std::byte>{}
                              : std::span(h.kit_->ack + headroom, o.size - headroom);
        wire::Response ack;
        const wire::Received received = wire::decode(message, ack);
        if (!ok(received.status) || ack.cookie != h.cookie_ ||
            (ack.flags & (wire::kOverflow | wire::kMoreData)) != 0) {
            h.port_->counters.malformed.add();
            NA_LOG_WARNING(rpc, "a malformed acknowledgement {}", received.what);
            h.note(Status::protocol_error);
        } else if (!ok(ack.code)) {
            h.note(ack.code);
        }
    }
    h.respond_part_ended();
}

// Inside handlers.
void Handle::respond_part_ended() noexcept {
    if (end_part()) {
        defer(&Handle::respond_ended);
    }
}

// Outside of handlers.
void Handle::respond_ended(Completion& c) {
    Handle& h = of(c);
    h.peer_waited_for(0);
    if (std::exchange(h.ack_awaited_, false)) [[unlikely]] {
        h.info_.context->unacked_.remove(h);
    }
    if (h.output_block_ != nullptr) [[unlikely]] {
        // Who has not acknowledged it may be reading it just now: not for another response then.
        h.info_.context->overflow_.give(std::exchange(h.output_block_, nullptr),
                                        ok(h.status_.load(std::memory_order_relaxed)));
    }
    if (std::exchange(h.dispatch_due_, false)) [[unlikely]] {
        h.hand_on();
    } else if (h.callback_.run != nullptr) {
        h.finish(&Handle::run_respond);
    } else {
        h.unref();
    }
}

namespace {

// Whether the callback returns or throws.
class Told {
 public:
    explicit Told(Handle& handle) noexcept : handle_(handle) {}
    ~Told() { Loopback::told(handle_); }
    Told(const Told&) = delete;
    Told& operator=(const Told&) = delete;

 private:
    Handle& handle_;
};

}  // namespace

void Handle::run_respond(Completion& c) {
    Handle& h = of(c);
    const Callback callback = h.callback_;
    const Unref after(h);
    const Told told(h);
    callback.run(h, h.status_.load(std::memory_order_relaxed), callback.user, callback.arg);
}

}  // namespace hg
