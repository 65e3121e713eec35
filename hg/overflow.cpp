// SPDX-License-Identifier: BSD-3-Clause
// Payloads beyond the eager size, in either direction: the message carries a descriptor of the
// sender's buffer, the receiver pulls it into one of its own, and says so to a sender that would
// not learn otherwise (a response is the acknowledgement of a request).
//
// Everything here but on_pulled() and on_ack_sent() runs outside of handlers, from the work queue.
#include <utility>

#include "bulk/wire.hpp"
#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "hg/proc/checksum.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

// --- sender
// ----------------------------------------------------------------------------------------------------------

Status Handle::write_overflow(std::span<std::byte> room, std::size_t user_bytes, Block& beyond,
                              std::size_t size, std::size_t& payload) noexcept {
    const std::size_t fixed = user_bytes + wire::kOverflowSize;
    if (!info_.cls->options().overflow) {
        return Status::overflow;
    }
    if (room.size() < fixed) {
        return Status::msgsize;
    }
    const bool summed = (info_.cls->checksum_flags() & wire::kPayloadChecksum) != 0;
    const std::uint32_t checksum = summed ? proc::crc32c(0, beyond.data, size) : 0;
    try {
        const auto descriptor = beyond.describe(uses_sm(), room.subspan(fixed));
        if (!descriptor) {
            const bool small = descriptor.status() == Status::overflow;
            NA_LOG_ERROR(rpc, "RPC {}: {}", name(),
                         small ? "no room for the descriptor of a large structure: reserve fewer "
                                 "bytes of the message"
                               : descriptor.error().message);
            return small ? Status::msgsize : descriptor.status();
        }
        wire::encode_overflow(room.data() + user_bytes, size, checksum, *descriptor);
        payload = fixed + *descriptor;
    } catch (const std::bad_alloc&) {
        return Status::nomem;
    }
    return Status::success;
}

// --- receiver
// --------------------------------------------------------------------------------------------------------

// Makes remote_ of it.
Status Handle::take_descriptor(const wire::Overflow& overflow) noexcept {
    try {
        auto remote = bulk::decode(info_.cls->space(), overflow.descriptor);
        if (!remote) {
            NA_LOG_WARNING(rpc, "RPC {}: {}", name(), remote.error().message);
            return remote.status();
        }
        if (!(*remote)->covers(0, overflow.size)) {
            return Status::protocol_error;
        }
        remote_ = std::move(*remote);
    } catch (const std::bad_alloc&) {
        return Status::nomem;
    }
    return Status::success;
}

// Begins to pull what `payload` describes behind the user's bytes, into a block of its own. After
// success `next` runs from the work queue.
Status Handle::start_pull(std::span<std::byte> payload, std::size_t user_bytes, Block*& block,
                          Run then) noexcept {
    Context& context = *info_.context;
    wire::Overflow overflow;
    if (const Status s = wire::decode(payload.subspan(user_bytes), overflow); !ok(s)) {
        NA_LOG_WARNING(rpc, "RPC {}: malformed announcement of a large payload", name());
        return s;
    }
    if (overflow.size > info_.cls->options().overflow_limit) {
        NA_LOG_WARNING(rpc, "RPC {}: a peer announces {} bytes, more than HG_OVERFLOW_LIMIT",
                       name(), overflow.size);
        return Status::msgsize;
    }
    pull_size_ = static_cast<std::size_t>(overflow.size);
    pull_checksum_ = overflow.checksum;
    bulk::Plain plain;
    const bool is_plain =
        pull_size_ <= na::Context::kMostAtOnce &&
        bulk::glance(info_.cls->space(), overflow.descriptor, port_->rail(), plain) &&
        plain.size >= pull_size_;
    if (const Status s = is_plain ? Status::success : take_descriptor(overflow); !ok(s)) {
        return s;
    }
    if (target_ && !port_->shares.admits(peer(), pull_size_, context.overflow_.landing_limit()))
        [[unlikely]] {
        context.overflow_.note_refused();
        remote_.reset();
        return Status::again;
    }
    Status why = Status::nomem;
    block = context.overflow_.take(pull_size_, Block::Use::land, &why);
    if (block == nullptr) {
        remote_.reset();
        return why;
    }
    if (is_plain) {
        // What is no more than a copy for the transport needs no transfer.
        if (port_->na().get_at_once(plain.memory, 0, {block->data, pull_size_}, peer(),
                                    info_.context_id)) {
            pull_status_ = Status::success;
            then(*this);
            context.settle();
            return Status::success;
        }
        if (const Status s = take_descriptor(overflow); !ok(s)) {
            context.overflow_.give(std::exchange(block, nullptr));
            return s;
        }
    }
    pulled_ = then;
    transfer_ = nullptr;
    const Address& from = target_ ? source_ : *info_.addr;
    const bulk::Request request{.direction = bulk::Direction::pull,
                                .origin = remote_.get(),
                                .origin_offset = 0,
                                .local = block->bulk.get(),
                                .local_offset = 0,
                                .size = pull_size_,
                                .peer = {.net = from.net(), .sm = from.sm()},
                                .origin_context = info_.context_id,
                                .done = &Handle::on_pulled,
                                .owner = this};
    start_parts(2);  // the transfer, and this function
    bulk::TransferId id = 0;
    if (const Status s = context.bulk_->start(request, &id); !ok(s)) {
        remote_.reset();
        context.overflow_.give(std::exchange(block, nullptr));
        return s;
    }
    if (target_) {
        wait_for_peer(pull_size_);
    }
    transfer_id_.store(id, std::memory_order_seq_cst);
    if (cancel_asked_.load(std::memory_order_seq_cst)) {
        context.bulk_->cancel(id);
    }
    if (end_part()) {
        defer(then);
        context.settle();
    }
    return Status::success;
}

void Handle::on_pulled(bulk::Transfer& transfer, Status status) noexcept {
    auto& h = *static_cast<Handle*>(transfer.owner());
    h.transfer_ = &transfer;
    h.pull_status_ = status;
    if (h.end_part()) {
        h.defer(h.pulled_);
        h.info_.context->settle();
    }
}

Status Handle::end_pull(Payload& payload, std::size_t user_bytes, const Block& block) noexcept {
    transfer_id_.store(0, std::memory_order_release);
    if (target_) {
        peer_waited_for(pull_size_);
    }
    if (transfer_ != nullptr) {
        info_.context->bulk_->release(*std::exchange(transfer_, nullptr));
        remote_.reset();
    }
    if (!ok(pull_status_)) {
        return pull_status_;
    }
    if ((call_.flags & wire::kPayloadChecksum) != 0 &&
        proc::crc32c(0, block.data, pull_size_) != pull_checksum_) {
        NA_LOG_WARNING(rpc, "RPC {}: the checksum of {} bytes does not match", name(), pull_size_);
        return Status::checksum_error;
    }
    payload.message = payload.message.first(user_bytes);
    payload.beyond = {block.data, pull_size_};
    return Status::success;
}

// --- target: arguments
// -----------------------------------------------------------------------------------------------

void Handle::pull_input(Completion& c) {
    Handle& h = of(c);
    const Status s = h.start_pull(h.input_.message, h.info_.cls->offset(Lane::unexpected),
                                  h.input_block_, &Handle::input_pulled);
    if (!ok(s)) {
        h.note(s);
        reject(h);
    }
}

void Handle::input_pulled(Completion& c) {
    Handle& h = of(c);
    const Status s = h.end_pull(h.input_, h.info_.cls->offset(Lane::unexpected), *h.input_block_);
    if (!ok(s)) {
        h.note(s);
        reject(h);
        return;
    }
    if (!h.one_way_) {
        h.arrived();
        return;
    }
    // Its origin has no response to learn from that its buffer is free.
    h.dispatch_due_ = true;
    h.refs_.store(kUserRef, std::memory_order_relaxed);  // that of the sending becomes dispatch()'s
    h.stage_.store(Stage::answering, std::memory_order_release);
    if (!ok(h.send_response(Status::success, 0, {}, nullptr, 0))) {
        h.dispatch_due_ = false;
        h.arrived();
    }
}

// --- origin: results
// -------------------------------------------------------------------------------------------------

void Handle::pull_output(Completion& c) {
    Handle& h = of(c);
    if (ok(h.status_.load(std::memory_order_relaxed))) {
        const Status s = h.start_pull(h.output_.message, h.info_.cls->offset(Lane::expected),
                                      h.output_block_, &Handle::output_pulled);
        if (ok(s)) {
            return;
        }
        h.note(s);
    }
    h.acknowledge();
}

void Handle::output_pulled(Completion& c) {
    Handle& h = of(c);
    const Status s = h.end_pull(h.output_, h.info_.cls->offset(Lane::expected), *h.output_block_);
    if (!ok(s)) {
        h.note(s);
    }
    h.acknowledge();
}

// Tells the target that its buffer is free, and then the user.
void Handle::acknowledge() noexcept {
    call_.ack_wanted = false;
    Ack none = Ack::none;
    if (!ack_.compare_exchange_strong(none, Ack::sent, std::memory_order_seq_cst) &&
        none == Ack::given_up) {
        forward_ended();
        return;
    }
    if (!ok(send_ack(status_.load(std::memory_order_relaxed), &Handle::on_ack_sent))) {
        forward_ended();
    }
    info_.context->settle();
}

Status Handle::send_ack(Status code, na::Operation::Handler handler) noexcept {
    const std::size_t headroom = port_->headroom(Lane::expected);
    wire::encode(
        kit_->ack + headroom,
        wire::Response{.flags = info_.cls->checksum_flags(), .code = code, .cookie = cookie_}, 0);
    kit_->send->handler = handler;
    return port_->na().send(*kit_->send, Lane::expected, peer(), info_.context_id, tag_, kit_->ack,
                            headroom + wire::kResponseSize, kit_->region);
}

void Handle::on_ack_sent(na::Operation& op, const na::Outcome& o) noexcept {
    Handle& h = of(op);
    if (o.status == Status::canceled && h.ack_.load(std::memory_order_seq_cst) == Ack::sent) {
        // By a cancel() that looked before there was an acknowledgement, and meant the RPC.
        h.defer(&Handle::repeat_ack);
        return;
    }
    // Where it could not be sent, the target learns from the same cause.
    h.forward_ended();
}

void Handle::repeat_ack(Completion& c) {
    of(c).acknowledge();
}

}  // namespace hg
