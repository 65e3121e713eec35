// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/context.hpp"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>

#include "na/util/config.hpp"
#include "na/util/log.hpp"
#include "na/util/quiet_signal.hpp"

namespace na::inline impl {

using plugin::Posted;
using State = Operation::State;

namespace {

// Of the largest message, that many have room in any case: fewer, and one would have to wait for
// all others to go.
constexpr std::uint64_t kLeastHeld = 8;

std::uint64_t held_bytes(const Class& cls) {
    return std::max<std::uint64_t>(
        config::number(config::kUnexpectedBytes),
        kLeastHeld * std::max(cls.max_message(Lane::unexpected), cls.max_message(Lane::expected)));
}

}  // namespace

Context::Context(Class& cls, std::uint8_t id)
    : cls_(cls),
      id_(id),
      no_retry_(cls.info().no_retry),
      inject_limit_(cls.caps().inject == 0 ? 0 : cls.caps().inject + 1),
      inject_below_(inject_limit_),
      matched_here_(!cls.caps().matches[0] && !cls.caps().matches[1] &&
                    !cls.caps().watches_receives),
      lock_(cls.threaded()),
      match_({.max_unexpected = cls.max_message(Lane::unexpected),
              .max_expected = cls.max_message(Lane::expected),
              .held_messages = config::number(config::kUnexpectedLimit),
              .held_bytes = held_bytes(cls)},
             counters_, &Context::end_matched, this),
      outbox_(*this),
      completions_(cls.threaded()) {}

Result<std::unique_ptr<Context>> Context::open(Class& cls, std::uint8_t id) {
    if (id >= cls.contexts()) {
        return Error{Status::invalid_arg,
                     fmt::format("context id {} is not below {}: set max_contexts of na_init_info",
                                 id, cls.contexts())};
    }
    std::unique_ptr<Context> context(new Context(cls, id));
    // First, because a plugin opens each id once at a time.
    if (const Status s = cls.enter(*context); !ok(s)) {
        return Error{s, fmt::format("context {} exists already", id)};
    }
    auto engine = [&] {
        const util::QuietSignal quiet(SIGXFSZ);  // libfabric and UCX make segments
        return cls.domain().open_context(id, *context);
    }();
    if (!engine) {
        Error error = std::move(engine).error();
        if (error.status == Status::addrinuse && id >= cls.info().max_contexts) {
            error.message +=
                ": set max_contexts of na_init_info, for which ports are taken when a class opens";
        }
        return error;
    }
    {
        const std::lock_guard guard(context->lock_);  // others may know of the context already
        context->plugin_ = std::move(*engine);
    }
    if (!cls.info().no_block) {
        const int fd = cls.caps().waitable ? context->plugin_->wait_fd() : -1;
        if (fd < 0) {
            context->waiter_.nap_between_polls();
        } else {
            if (const Status s = context->waiter_.open(); !ok(s)) {
                return Error{s, "no descriptor to wait on"};
            }
            for (const int source : {fd, context->plugin_->side_fd()}) {
                if (const Status s = source < 0 ? Status::success : context->waiter_.add(source);
                    !ok(s)) {
                    return Error{s, "the plugin's descriptor cannot be waited on"};
                }
            }
        }
    }
    NA_LOG_DEBUG(ctx, "opened context {} of {}+{}", id, cls.class_name(), cls.protocol());
    return context;
}

Context::~Context() {
    NA_LOG_DEBUG(ctx, "closed context {} of {}+{}", id_, cls_.class_name(), cls_.protocol());
    {
        // References of the plugin end with it; until then it is to hear of peers that go.
        const std::lock_guard guard(lock_);
        plugin_.reset();
    }
    cls_.leave(*this);
}

Result<bool> Context::closable() {
    const std::lock_guard guard(lock_);
    if (const std::uint32_t n = completions_.count(); n != 0) {
        return Error{Status::busy, fmt::format("{} completions wait for trigger", n)};
    }
    if (posted_ != 0 || !retry_.empty() || outbox_.waiting() != 0) {
        return Error{
            Status::busy,
            fmt::format("{} operations are in flight and {} queued: wait for them or cancel them",
                        posted_, retry_.size() + outbox_.waiting())};
    }
    if (!match_.empty()) {
        return Error{Status::busy,
                     "receives are still posted, or being written: cancel or await them first"};
    }
    return true;
}

// --- posting
// ---------------------------------------------------------------------------------------------------------

Status Context::check_message(const Operation& op, Lane lane, const void* buffer,
                              std::size_t size) const noexcept {
    if (!op.idle()) [[unlikely]] {
        return Status::busy;
    }
    if (size > cls_.max_message(lane)) [[unlikely]] {
        NA_LOG_ERROR(msg,
                     "message of {} bytes: {}+{} takes at most {} on the {} lane (see max_{}_size "
                     "of na_init_info)",
                     size, cls_.class_name(), cls_.protocol(), cls_.max_message(lane),
                     lane == Lane::unexpected ? "unexpected" : "expected",
                     lane == Lane::unexpected ? "unexpected" : "expected");
        return Status::overflow;
    }
    if ((buffer == nullptr && size != 0) || size < cls_.headroom(lane)) [[unlikely]] {
        NA_LOG_ERROR(msg, "null buffer, or {} bytes where the header takes {}", size,
                     cls_.headroom(lane));
        return Status::invalid_arg;
    }
    return Status::success;
}

Posted Context::to_plugin(Operation& op) noexcept {
    switch (op.kind) {
        case OpKind::send_unexpected:
        case OpKind::send_expected:
            return plugin_->send(op);
        case OpKind::put:
            return plugin_->put(op);
        case OpKind::get:
            return plugin_->get(op);
        case OpKind::multi_recv_unexpected:
            return plugin_->recv_multi(op);
        case OpKind::recv_unexpected:
        case OpKind::recv_expected:
            return plugin_->recv(op);
    }
    return Posted::failed(Status::invalid_arg);
}

// Hands a filled-in operation to the plugin, or queues it behind others to the same context of the
// peer.
Status Context::post(Operation& op, Address& peer, Counter& counter) noexcept {
    const std::lock_guard guard(lock_);
    counter.add();
    op.address_ = &peer;
    op.peer = &peer.peer();
    if (outbox_.waiting() != 0) [[unlikely]] {
        outbox_.flush(peer);
    }
    const Posted answer = retry_.blocks(op) ? Posted::again() : to_plugin(op);
    if (answer.what == Posted::What::done) {
        end(op, Outcome{.status = Status::success, .size = op.length});
        return Status::success;
    }
    return not_gone(op, answer, Hold::address);
}

// What the plugin, or those that wait for it, left to be done for a post. The lock is held.
Status Context::not_gone(Operation& op, Posted answer, Hold hold) noexcept {
    const auto keep = [&](State state) {
        op.set_state(state);
        op.referenced_ = hold == Hold::address;
        if (op.referenced_) {
            op.address_->ref();
        }
    };
    switch (answer.what) {
        case Posted::What::pending:
            keep(State::posted);
            ++posted_;
            return Status::success;
        case Posted::What::again:
            counters_.retries.add();
            if (no_retry_) {
                return Status::again;
            }
            keep(State::queued);
            if (!queue(op)) {
                unposted(op, op.referenced_);
                return Status::nomem;
            }
            return Status::success;
        case Posted::What::done:
        case Posted::What::failed:
            break;
    }
    return answer.status;
}

// To the retry queue. False: out of memory.
bool Context::queue(Operation& op) noexcept {
    op.set_state(State::queued);
    attend();
    if (!retry_.push(op)) {
        plugin_->withdrawn(op);
        return false;
    }
    if (lock_.enabled()) {
        waiter_.wake_sleepers();  // a sleeping thread has to retry it
    }
    return true;
}

void Context::unposted(Operation& op, bool referenced) noexcept {
    op.set_state(State::idle);
    if (referenced) {
        op.referenced_ = false;
        op.address_->unref();
    }
}

Status Context::send(Operation& op, Lane lane, Address& to, std::uint8_t target_id,
                     std::uint32_t tag, const void* buffer, std::size_t size,
                     plugin::Region* registered) noexcept {
    if (const Status s = check_message(op, lane, buffer, size); !ok(s)) [[unlikely]] {
        return s;
    }
    if (&to.cls() != &cls_ || tag > cls_.caps().max_tag) [[unlikely]] {
        return Status::invalid_arg;
    }
    op.kind = lane == Lane::unexpected ? OpKind::send_unexpected : OpKind::send_expected;
    op.target_id = target_id;
    op.tag = tag;
    op.buffer = const_cast<void*>(buffer);
    op.length = size;
    op.local = registered;
    op.remote = nullptr;
    op.joins_ = false;  // its receiver may know nothing of bundles
    return post(op, to, counters_.sends);
}

Status Context::recv_unexpected(Operation& op, void* buffer, std::size_t size,
                                plugin::Region* registered) noexcept {
    if (!op.idle()) {
        return Status::busy;
    }
    if (buffer == nullptr) {
        return Status::invalid_arg;
    }
    op.from_anybody(OpKind::recv_unexpected, buffer, size, registered);
    const std::lock_guard guard(lock_);
    return receive_unexpected(op);
}

// Of a filled-in operation, with the lock held.
Status Context::receive_unexpected(Operation& op) noexcept {
    if (!cls_.caps().matches[0]) [[likely]] {
        match_.post_unexpected(op);
        if (match_.wants_poll()) [[unlikely]] {
            waiter_.wake_sleepers();
        }
        return Status::success;
    }
    return post_receive(op);
}

Status Context::recv_multi(Operation& op, void* buffer, std::size_t size,
                           plugin::Region* registered) noexcept {
    if (!op.idle()) {
        return Status::busy;
    }
    if (buffer == nullptr || !op.multi_ || size < cls_.max_message(Lane::unexpected)) {
        NA_LOG_ERROR(msg,
                     "multi-receive needs an operation made with NA_OP_MULTI and a buffer of at "
                     "least {} bytes, got {}",
                     cls_.max_message(Lane::unexpected), size);
        return Status::invalid_arg;
    }
    if (cls_.caps().matches[0] && !cls_.caps().multi_recv) {
        return Status::opnotsupported;
    }
    op.from_anybody(OpKind::multi_recv_unexpected, buffer, size, registered);
    const std::lock_guard guard(lock_);
    return receive_unexpected(op);
}

Status Context::recv_expected(Operation& op, Address& from, std::uint8_t source_id,
                              std::uint32_t tag, void* buffer, std::size_t size,
                              plugin::Region* registered) noexcept {
    if (!op.idle()) [[unlikely]] {
        return Status::busy;
    }
    if (buffer == nullptr || &from.cls() != &cls_ || tag > cls_.caps().max_tag) [[unlikely]] {
        return Status::invalid_arg;
    }
    op.kind = OpKind::recv_expected;
    op.target_id = source_id;
    op.tag = tag;
    op.buffer = buffer;
    op.length = size;
    op.local = registered;
    op.peer = &from.peer();
    op.address_ = &from;
    const std::lock_guard guard(lock_);
    from.ref();
    op.referenced_ = true;
    return receive_expected(op);
}

// The same.
Status Context::receive_expected(Operation& op) noexcept {
    if (!cls_.caps().matches[1]) [[likely]] {
        if (cls_.caps().watches_receives) {
            plugin_->awaits(op, true);
        }
        match_.post_expected(op);
        if (match_.room()) [[unlikely]] {  // it has taken a held one
            waiter_.wake_sleepers();
        }
        return Status::success;
    }
    return post_receive(op);
}

// A receive on a lane that the fabric matches. The lock is held.
Status Context::post_receive(Operation& op) noexcept {
    Posted answer = Posted::again();
    if (!retry_.blocks(op)) [[likely]] {
        op.set_state(State::posted);
        answer = to_plugin(op);
    }
    switch (answer.what) {
        case Posted::What::done:
        case Posted::What::pending:
            ++posted_;
            return Status::success;
        case Posted::What::again:
            if (!no_retry_) {
                op.set_state(State::queued);
                attend();
                if (retry_.push(op)) {
                    return Status::success;
                }
            }
            break;
        case Posted::What::failed:
            break;
    }
    unposted(op, op.referenced_);
    return answer.status;
}

Status Context::post_transfer(Operation& op, OpKind kind, Memory& local, std::uint64_t local_offset,
                              Memory& remote, std::uint64_t remote_offset, std::uint64_t size,
                              Address& peer, std::uint8_t target_id) noexcept {
    if (!op.idle()) {
        return Status::busy;
    }
    if (&peer.cls() != &cls_ || &local.cls() != &cls_ || &remote.cls() != &cls_ ||
        !local.is_local()) {
        NA_LOG_ERROR(
            rma,
            "the handles and the address must be of the context's class, the local handle local");
        return Status::invalid_arg;
    }
    if (!local.covers(local_offset, size) || !remote.covers(remote_offset, size)) {
        NA_LOG_ERROR(rma,
                     "{} bytes at offsets {} (local, of {} bytes) and {} (remote, of {} bytes): "
                     "past the end",
                     size, local_offset, local.length(), remote_offset, remote.length());
        return Status::overflow;
    }
    const Access at_remote = kind == OpKind::put ? Access::write : Access::read;
    const Access at_local = kind == OpKind::put ? Access::read : Access::write;
    if (!allows(remote.access(), at_remote) || !allows(local.access(), at_local)) {
        NA_LOG_ERROR(rma, "{} needs a remote handle that allows {} and a local one that allows {}",
                     kind == OpKind::put ? "put" : "get",
                     kind == OpKind::put ? "writing" : "reading",
                     kind == OpKind::put ? "reading" : "writing");
        return Status::permission;
    }
    plugin::Region* local_region = local.region();
    plugin::Region* remote_region = remote.region();
    if (local_region == nullptr || remote_region == nullptr) {
        return Status::nomem;
    }
    op.kind = kind;
    op.target_id = target_id;
    op.buffer = nullptr;
    op.length = size;
    op.local = local_region;
    op.remote = remote_region;
    op.local_offset = local_offset;
    op.remote_offset = remote_offset;
    if (size == 0) {
        const std::lock_guard guard(lock_);
        op.address_ = nullptr;
        end(op, Outcome{.status = Status::success});
        return Status::success;
    }
    return post(op, peer, kind == OpKind::put ? counters_.puts : counters_.gets);
}

Status Context::put(Operation& op, Memory& local, std::uint64_t local_offset, Memory& remote,
                    std::uint64_t remote_offset, std::uint64_t size, Address& to,
                    std::uint8_t target_id) noexcept {
    return post_transfer(op, OpKind::put, local, local_offset, remote, remote_offset, size, to,
                         target_id);
}

Status Context::get(Operation& op, Memory& local, std::uint64_t local_offset, Memory& remote,
                    std::uint64_t remote_offset, std::uint64_t size, Address& from,
                    std::uint8_t source_id) noexcept {
    return post_transfer(op, OpKind::get, local, local_offset, remote, remote_offset, size, from,
                         source_id);
}

bool Context::get_at_once(std::span<const std::byte> descriptor, std::uint64_t offset,
                          std::span<std::byte> to, Address& from, std::uint8_t source_id) noexcept {
    Memory::Described memory;
    if (&from.cls() != &cls_ || to.empty() || to.size() > kMostAtOnce ||
        !ok(Memory::describe(descriptor, memory)) || !memory.covers(offset, to.size()) ||
        !allows(memory.access, Access::read)) {
        return false;
    }
    const std::lock_guard guard(lock_);
    if (!plugin_->copy_now(from.peer(), source_id, memory.region, memory.length, offset, to)) {
        return false;
    }
    counters_.gets.add();
    return true;
}

void Context::cancel(Operation& op) noexcept {
    const std::lock_guard guard(lock_);
    if (op.state() == State::bundled && !retry_.empty()) {
        // One that has not left yet is taken apart again.
        retry_.visit(op, [&](RetryQueue::Waiting& waiting) { outbox_.part_with(op, waiting); });
    }
    switch (op.state()) {
        case State::idle:
        case State::landing:
            return;  // the result has won
        case State::queued:
            retry_.remove(op);
            plugin_->withdrawn(op);
            counters_.canceled.add();
            end(op, Outcome{.status = Status::canceled});
            return;
        case State::matching:
            counters_.canceled.add();
            match_.cancel(op);
            return;
        case State::gathered:
            outbox_.remove(op);
            counters_.canceled.add();
            end(op, Outcome{.status = Status::canceled});
            return;
        case State::bundled:
            outbox_.forget(op);
            return;
        case State::posted:
            plugin_->cancel(op);
            return;
    }
}

bool Context::withdraw(Operation& op, std::uint32_t credits) noexcept {
    const std::lock_guard guard(lock_);
    if (op.state() != State::matching || op.landings_ != 0 || op.credits() != credits) {
        return false;
    }
    op.handler = [](Operation&, const Outcome&) noexcept {};
    match_.cancel(op);
    return true;
}

// Everything that ends, ends here: idle first, so that the handler may store the operation away for
// its next use.
void Context::end(Operation& op, const Outcome& outcome) noexcept {
    if (outcome.last) {
        op.set_state(State::idle);
        if (op.referenced_) {
            op.referenced_ = false;
            op.address_->unref();
        }
    }
    op.handler(op, outcome);
}

void Context::end_matched(void* context, Operation& op, const Outcome& outcome) noexcept {
    auto& self = *static_cast<Context*>(context);
    if (op.kind == OpKind::recv_expected && self.cls_.caps().watches_receives &&
        self.plugin_ != nullptr) {
        self.plugin_->awaits(op, false);
    }
    self.end(op, outcome);
}

// --- the rest
// ----------------------------------------------------------------------------------------------------

void Context::drop_unmatched_expected() noexcept {
    const std::lock_guard guard(lock_);
    match_.hold_expected(false);
}

void Context::take_latest_receive() noexcept {
    const std::lock_guard guard(lock_);
    match_.latest_first(true);
}

bool Context::mute(Address& peer) noexcept {
    const std::lock_guard guard(lock_);
    attend();
    return match_.mute(peer);
}

void Context::unmute(Address& peer) noexcept {
    {
        const std::lock_guard guard(lock_);
        attend();
        match_.unmute(peer);
    }
    wake_sleepers();  // what the transport holds is to be announced again
}

void Context::disconnect(Address& peer) noexcept {
    {
        const std::lock_guard guard(lock_);
        attend();
        match_.drop_muted(peer);
        plugin_->disconnect(peer.peer());
    }
    wake_sleepers();
}

void Context::split_bundles() noexcept {
    const std::lock_guard guard(lock_);
    match_.split(bundle_tag(), cls_.headroom(Lane::unexpected), cls_.headroom(Lane::expected));
}

void Context::gather(std::size_t message) noexcept {
    const std::lock_guard guard(lock_);
    if (!no_retry_) {
        outbox_.open(message);
    }
}

void Context::flush() noexcept {
    const std::lock_guard guard(lock_);
    outbox_.flush();
}

std::vector<plugin::Stat> Context::stats() {
    const std::lock_guard guard(lock_);
    std::vector<plugin::Stat> list = {
        {"sends", counters_.sends.get()},
        {"receives", counters_.receives.get()},
        {"puts", counters_.puts.get()},
        {"gets", counters_.gets.get()},
        {"retries", counters_.retries.get()},
        {"held", counters_.held.get()},
        {"refused", counters_.refused.get()},
        {"truncated", counters_.truncated.get()},
        {"canceled", counters_.canceled.get()},
        {"dropped", counters_.dropped.get()},
        {"peers_lost", counters_.peers_lost.get()},
        {"bundles_sent", counters_.bundles_sent.get()},
        {"bundled_sent", counters_.bundled_sent.get()},
        {"bundles_received", counters_.bundles_received.get()},
        {"bundled_received", counters_.bundled_received.get()},
        {"sleeps", waiter_.sleeps()},
        {"wakes", waiter_.wakes()},
    };
    if (plugin_ != nullptr) {
        plugin_->stats(list);
    }
    return list;
}

}  // namespace na::inline impl
