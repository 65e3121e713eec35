// SPDX-License-Identifier: BSD-3-Clause
#include "na/context.hpp"

#include <algorithm>
#include <climits>
#include <new>

#include <fmt/format.h>

#include "na/cxx/state.hpp"
#include "na/util/log.hpp"

namespace na::inline v1 {

using detail::ContextState;
using detail::Multi;
using detail::Peer;
using detail::Record;
using detail::Ref;
using detail::Single;

namespace detail {

void retain(ContextState& state) noexcept {
    state.count.add();
}
void release(ContextState& state) noexcept {
    if (state.count.drop()) {
        delete &state;
    }
}

void ContextState::enter(Listed& op) noexcept {
    const std::lock_guard guard(mutex);
    operations.push_back(op);
}
void ContextState::leave(Listed& op) noexcept {
    const std::lock_guard guard(mutex);
    operations.remove(op);
}

void explain(std::string_view why) noexcept {
    log::set_last_error(why);
}

}  // namespace detail

namespace {

constexpr std::chrono::seconds kCloseLimit{10};

// The trigger() calls that this thread is in, innermost first.
struct Frame {
    explicit Frame(const ContextState& c) noexcept
        : context(&c), outer(std::exchange(innermost(), this)) {}
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    ~Frame() { innermost() = outer; }
    static Frame*& innermost() noexcept {
        thread_local Frame* frame = nullptr;
        return frame;
    }
    static bool inside(const ContextState& c) noexcept {
        for (const Frame* f = innermost(); f != nullptr; f = f->outer) {
            if (f->context == &c) {
                return true;
            }
        }
        return false;
    }
    const ContextState* context;
    Frame* outer;
};

unsigned milliseconds(std::chrono::milliseconds timeout) noexcept {
    return static_cast<unsigned>(std::clamp<std::int64_t>(timeout.count(), 0, INT_MAX));
}

std::size_t run(ContextState& state, std::size_t most) {
    const Frame frame(state);
    std::size_t n = 0;
    for (; n < most; ++n) {
        auto* record = static_cast<Record*>(state.core->completions().pop());
        if (record == nullptr) {
            break;
        }
        record->deliver(*record);
    }
    return n;
}

// A post that fails is rare: its words are made up here, so that PostResult::error() has them.
template <typename... Args>
Status refuse(Status status, fmt::format_string<Args...> why, Args&&... args) noexcept {
    try {
        detail::explain(fmt::format(why, std::forward<Args>(args)...));
    } catch (...) {
        detail::explain("out of memory");
    }
    return status;
}

// What the core or the transport refused.
Status refused(Status status, const char* doing, const v1::Address* peer) noexcept {
    switch (status) {
        case Status::success:
            return status;
        case Status::invalid_arg:
        case Status::overflow:
        case Status::permission:
            return status;  // the core has said why
        default:
            break;
    }
    try {
        return refuse(status, "cannot {}{}{}", doing, peer == nullptr ? "" : " ",
                      peer == nullptr ? "" : peer->uri());
    } catch (...) {
        return refuse(status, "cannot {}", doing);
    }
}

// The core's address behind a target, or null, explained.
impl::Address* target(const ContextState& state, const Target& to) noexcept {
    const v1::Address& address = to.address();
    if (!address || Peer::domain(address) != state.domain.get()) {
        (void)refuse(Status::invalid_arg, "{}",
                     address ? "the address is of another Domain: look it up in this one"
                             : "the address is nobody's");
        return nullptr;
    }
    return Peer::core(address);
}

bool tag_fits(const ContextState& state, std::uint32_t tag) noexcept {
    if (tag <= state.domain->cls->caps().max_tag) [[likely]] {
        return true;
    }
    (void)refuse(Status::invalid_arg, "tag {}: the largest of this transport is {}", tag,
                 state.domain->cls->caps().max_tag);
    return false;
}

// Whether the buffer may be used here for so many bytes.
Status usable(const ContextState& state, const Ref<detail::BufferState>& buffer,
              std::size_t size) noexcept {
    if (!buffer || buffer->domain.get() != state.domain.get()) {
        return refuse(Status::invalid_arg, "{}",
                      buffer ? "the buffer is of another Domain: make it by this one"
                             : "there is no buffer (moved from)");
    }
    if (size > buffer->room) {
        return refuse(Status::overflow, "a message of {} bytes in a buffer of {}", size,
                      buffer->room);
    }
    return Status::success;
}

}  // namespace

Error PostResult::error() const {
    return ok(status_) ? Error{Status::success, {}} : Error{status_, log::last_error()};
}

Context& Context::operator=(Context&& other) noexcept {
    if (this != &other) {
        Context former(std::move(*this));
        state_ = std::move(other.state_);
    }
    return *this;
}

Context::~Context() {
    if (!state_) {
        return;
    }
    if (state_->domain->cls->inherited()) {
        state_.leave();
        return;
    }
    const auto say = [this](std::string_view why) noexcept {
        NA_LOG_ERROR(ctx, "context {} of {}+{} was destroyed, and stays open: {}", state_->id,
                     state_->domain->cls->class_name(), state_->domain->cls->protocol(), why);
    };
    try {
        const auto closed = close(kCloseLimit);
        if (closed) {
            return;
        }
        say(closed.error().text());
    } catch (const std::exception& e) {
        say(e.what());
    } catch (...) {
        say("a callback threw");
    }
    state_.leave();
}

Result<void> Context::close(std::chrono::milliseconds limit) {
    if (!state_) {
        return {};
    }
    ContextState& state = *state_;
    if (state.domain->cls->inherited()) {
        state_.leave();
        return {};
    }
    if (Frame::inside(state)) {
        return Error{Status::busy,
                     "a context cannot be closed by one of its callbacks: leave trigger() first"};
    }
    state.closing.store(true, std::memory_order_seq_cst);
    {
        const std::lock_guard guard(state.mutex);
        for (detail::Listed* op = state.operations.front(); op != nullptr;
             op = state.operations.next(*op)) {
            state.core->cancel(*op->core);
        }
    }
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
        run(state, SIZE_MAX);
        auto can = state.core->closable();
        if (can) {
            break;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) {
            return Error{Status::timeout, can.error().message};
        }
        (void)state.core->wait(milliseconds(left));
    }
    state.core.reset();
    state_.reset();
    return {};
}

std::uint8_t Context::id() const noexcept {
    return state_ ? state_->id : std::uint8_t{0};
}

// --- posts -----------------------------------------------------------------------------

Status Context::claim(Operation& op) noexcept {
    auto* single = static_cast<Single*>(op.op_.get());
    if (single == nullptr || !state_ || single->context.get() != state_.get()) [[unlikely]] {
        return refuse(Status::invalid_arg, "{}",
                      single == nullptr ? "there is no operation (moved from)"
                                        : "the operation is of another Context: make one for this");
    }
    if (state_->closing.load(std::memory_order_relaxed)) [[unlikely]] {
        return refuse(Status::canceled, "the context is being closed");
    }
    if (!single->claim()) [[unlikely]] {
        return refuse(Status::busy, "the operation is in use: wait for its callback");
    }
    return Status::success;
}

void Context::unclaim(detail::Slot& slot) noexcept {
    auto& op = static_cast<Single&>(slot);
    op.buffer.reset();
    op.local.reset();
    op.remote.reset();
    op.free();
}

Status Context::post_send(detail::Slot& slot, Lane lane, const Target& to, std::uint32_t tag,
                          const Payload& message) noexcept {
    auto& op = static_cast<Single&>(slot);
    impl::Address* peer = target(*state_, to);
    if (peer == nullptr || !tag_fits(*state_, tag)) [[unlikely]] {
        return Status::invalid_arg;
    }
    if (const Status s = usable(*state_, message.buffer_->state_, message.size_); !ok(s))
        [[unlikely]] {
        return s;
    }
    const impl::Class& cls = *state_->domain->cls;
    const std::size_t whole = message.size_ + cls.headroom(lane);  // (no more than the buffer has)
    if (whole > cls.max_message(lane)) [[unlikely]] {
        return refuse(
            Status::overflow,
            "a message of {} bytes: {}+{} takes at most {} on the {} lane (see InitInfo::max_{})",
            message.size_, cls.class_name(), cls.protocol(),
            cls.max_message(lane) - cls.headroom(lane),
            lane == Lane::unexpected ? "unexpected" : "expected",
            lane == Lane::unexpected ? "unexpected" : "expected");
    }
    op.buffer = message.buffer_->state_;
    const detail::BufferState& buffer = *op.buffer;
    const Status s = state_->core->send(*op.core, lane, *peer, to.context(), tag,
                                        buffer.start(lane), whole, buffer.memory.region.get());
    return ok(s) ? s : refused(s, "send to", &to.address());
}

Status Context::post_recv_unexpected(detail::Slot& slot, const Buffer& buffer) noexcept {
    auto& op = static_cast<Single&>(slot);
    if (const Status s = usable(*state_, buffer.state_, 0); !ok(s)) [[unlikely]] {
        return s;
    }
    op.buffer = buffer.state_;
    const detail::BufferState& b = *op.buffer;
    const Status s = state_->core->recv_unexpected(
        *op.core, b.start(Lane::unexpected), b.room + state_->domain->headroom(Lane::unexpected),
        b.memory.region.get());
    return ok(s) ? s : refused(s, "receive", nullptr);
}

Status Context::post_recv_expected(detail::Slot& slot, const Target& from, std::uint32_t tag,
                                   const Buffer& buffer) noexcept {
    auto& op = static_cast<Single&>(slot);
    impl::Address* peer = target(*state_, from);
    if (peer == nullptr || !tag_fits(*state_, tag)) [[unlikely]] {
        return Status::invalid_arg;
    }
    if (const Status s = usable(*state_, buffer.state_, 0); !ok(s)) [[unlikely]] {
        return s;
    }
    op.buffer = buffer.state_;
    const detail::BufferState& b = *op.buffer;
    const Status s = state_->core->recv_expected(
        *op.core, *peer, from.context(), tag, b.start(Lane::expected),
        b.room + state_->domain->headroom(Lane::expected), b.memory.region.get());
    return ok(s) ? s : refused(s, "receive from", &from.address());
}

PostResult Context::recv_multi(MultiOperation& operation, const Buffer& buffer) {
    Multi* op = operation.op_.get();
    if (op == nullptr || !state_ || op->context.get() != state_.get()) {
        return refuse(Status::invalid_arg, "{}",
                      op == nullptr ? "there is no operation (moved from)"
                                    : "the operation is of another Context: make one for this");
    }
    if (state_->closing.load(std::memory_order_relaxed)) {
        return refuse(Status::canceled, "the context is being closed");
    }
    if (const Status s = usable(*state_, buffer.state_, 0); !ok(s)) {
        return s;
    }
    bool idle = false;
    if (!op->posted.compare_exchange_strong(idle, true, std::memory_order_acquire)) {
        return refuse(Status::busy, "the operation is in use: wait for its last message");
    }
    op->buffer = buffer.state_;
    op->count.add();
    const detail::BufferState& b = *op->buffer;
    const Status s = state_->core->recv_multi(*op->core, b.start(Lane::unexpected),
                                              b.room + state_->domain->headroom(Lane::unexpected),
                                              b.memory.region.get());
    if (!ok(s)) {
        op->posted.store(false, std::memory_order_release);
        detail::release(*op);  // (the owner has it)
        return refused(s, "receive", nullptr);
    }
    return s;
}

namespace {

// Both sides of a transfer, or why not.
Status both(const ContextState& state, const Ref<detail::MemoryState>& local,
            const Ref<detail::MemoryState>& remote) noexcept {
    if (!local || !remote) {
        return refuse(Status::invalid_arg, "there is no {} memory (moved from)",
                      local ? "remote" : "local");
    }
    if (local->domain.get() != state.domain.get() || remote->domain.get() != state.domain.get()) {
        return refuse(Status::invalid_arg,
                      "the memory is of another Domain: register or decode it by this one");
    }
    return Status::success;
}

}  // namespace

template <auto kMove>
Status Context::transfer(detail::Slot& slot, const Target& target_of, const LocalRange& local,
                         const RemotePlace& remote, const char* what) noexcept {
    auto& op = static_cast<Single&>(slot);
    impl::Address* peer = target(*state_, target_of);
    if (peer == nullptr) [[unlikely]] {
        return Status::invalid_arg;
    }
    if (const Status s = both(*state_, local.memory_->state_, remote.memory_->state_); !ok(s))
        [[unlikely]] {
        return s;
    }
    op.local = local.memory_->state_;
    op.remote = remote.memory_->state_;
    const Status s =
        ((*state_->core).*kMove)(*op.core, *op.local->memory, local.offset_, *op.remote->memory,
                                 remote.offset_, local.size_, *peer, target_of.context());
    return ok(s) ? s : refused(s, what, &target_of.address());
}

Status Context::post_put(detail::Slot& slot, const Target& to, const LocalRange& local,
                         const RemotePlace& remote) noexcept {
    return transfer<&impl::Context::put>(slot, to, local, remote, "put to");
}

Status Context::post_get(detail::Slot& slot, const Target& from, const LocalRange& local,
                         const RemotePlace& remote) noexcept {
    return transfer<&impl::Context::get>(slot, from, local, remote, "get from");
}

void Context::cancel(Operation& op) noexcept {
    auto* single = static_cast<Single*>(op.op_.get());
    if (single != nullptr && state_ && single->context.get() == state_.get() &&
        single->state.load(std::memory_order_acquire) == detail::Slot::State::posted) {
        state_->core->cancel(*single->core);
    }
}

void Context::cancel(MultiOperation& op) noexcept {
    Multi* multi = op.op_.get();
    if (multi != nullptr && state_ && multi->context.get() == state_.get() &&
        multi->posted.load(std::memory_order_acquire)) {
        state_->core->cancel(*multi->core);
    }
}

// --- progress -----------------------------------------------------------------------------

Status Context::progress(std::chrono::milliseconds timeout) noexcept {
    if (!state_) {
        return refuse(Status::invalid_arg, "there is no context (moved from, or closed)");
    }
    ContextState& state = *state_;
    const std::uint64_t heard = state.heard.load(std::memory_order_relaxed);
    const Status s = state.core->wait(milliseconds(timeout), [&] {
        return state.wakes.load(std::memory_order_acquire) != heard;
    });
    if (const std::uint64_t wakes = state.wakes.load(std::memory_order_acquire); wakes != heard)
        [[unlikely]] {
        state.heard.store(wakes, std::memory_order_relaxed);
    }
    return s;
}

void Context::wait(std::chrono::milliseconds timeout, std::uint64_t seen) noexcept {
    if (state_) {
        (void)state_->core->wait(milliseconds(timeout), [&] {
            return state_->wakes.load(std::memory_order_acquire) != seen;
        });
    }
}

std::uint64_t Context::wakes() const noexcept {
    return state_ ? state_->wakes.load(std::memory_order_acquire) : 0;
}

std::size_t Context::trigger(std::size_t most) {
    return state_ ? run(*state_, most) : 0;
}

std::size_t Context::ready() const noexcept {
    return state_ ? state_->core->completions().count() : 0;
}

void Context::wake() noexcept {
    if (state_) {
        state_->wakes.fetch_add(1, std::memory_order_release);
        state_->core->wake();
    }
}

int Context::wait_fd() const noexcept {
    return state_ ? state_->core->wait_fd() : -1;
}

bool Context::arm() noexcept {
    return state_ && state_->core->arm();
}

}  // namespace na::inline v1
