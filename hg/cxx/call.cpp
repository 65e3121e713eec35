// SPDX-License-Identifier: BSD-3-Clause
// One typed call: from a claimed handle to the result, and the ways that it ends early.
#include <fmt/format.h>

#include "hg/cxx/engine_core.hpp"
#include "hg/rpc.hpp"
#include "hg/small.hpp"

namespace hg::detail {

// CallState::phase of calls that are guarded: whoever comes second, start() or the completion, goes
// on with the caller.
namespace {
constexpr std::uint8_t kStarting = 0;
constexpr std::uint8_t kStarted = 1;
constexpr std::uint8_t kEnded = 2;

// Where it is counted: the call has ended, sent or not.
void count_end(const CallState& call) noexcept {
    RpcCounters::Side& calls = call.counters->calls;
    if (!ok(call.status)) {
        calls.fail();
    } else if (!call.rpc->one_way) {
        calls.received(call.reply().size());
    }
    calls.end(call.begun);
}

void disarm(CallState& call) noexcept {
    (void)call.peer->engine().timers().remove(call.expiry);
    call.on_stop.reset();
    if (call.counters != nullptr) [[unlikely]] {
        count_end(call);
    }
}

void end(CallState& call) noexcept {
    EngineCore& engine = call.peer->engine();
    engine.leave(engine.calls);
}

Status why_canceled(CallState::Cause cause) noexcept {
    return cause == CallState::Cause::deadline ? Status::timeout : Status::canceled;
}

// In trigger.
void run_call(Handle&, Status status, Callback::Opaque, void* arg) {
    auto& call = *static_cast<CallState*>(arg);
    call.status = status;
    if (call.guarded) [[unlikely]] {
        if (status == Status::canceled) {
            call.status = why_canceled(call.cause.load(std::memory_order_acquire));
        }
        if (call.phase.exchange(kEnded, std::memory_order_acq_rel) == kStarting) {
            return;
        }
        disarm(call);
    }
    end(call);
    call.next->run(*call.next).resume();
}

}  // namespace

bool wakes_only(const Callback& callback) noexcept {
    return callback.run == &run_call && static_cast<CallState*>(callback.arg)->next->wakes_only;
}

// --- messages
// --------------------------------------------------------------------------------------------------------

void Message::give_back() noexcept {
    if (beyond != nullptr) {
        handle->context().overflow().give(std::exchange(beyond, nullptr));
    }
}

bool Message::grow(Writer& w, std::size_t more) {
    auto& m = *static_cast<Message*>(w.owner());
    const std::size_t written = w.written();
    if (!m.handle->info().cls->options().overflow) {
        w.fail(Status::overflow, "a message beyond the eager size, and no_overflow is set");
        return false;
    }
    OverflowPool& pool = m.handle->context().overflow();
    Block* block = more > SIZE_MAX / 2 - written
                       ? nullptr
                       : pool.take(std::max(2 * written, written + more), Block::Use::send);
    if (block == nullptr) {
        w.fail(Status::nomem, "out of memory for a large message");
        return false;
    }
    std::memcpy(block->data, w.begin(), written);
    pool.give(std::exchange(m.beyond, block));
    w.move_to(block->data, block->data + block->size);
    return true;
}

// --- calls
// -----------------------------------------------------------------------------------------------------------

CallState::CallState(CallState&& other) noexcept
    : peer(std::exchange(other.peer, nullptr)),
      handle(std::exchange(other.handle, nullptr)),
      rpc(other.rpc),
      message(std::exchange(other.message, {})),
      shown(std::move(other.shown)),
      status(other.status),
      guarded(other.guarded),
      cause(other.cause.load(std::memory_order_relaxed)),
      what(other.what),
      counters(other.counters),
      options(std::move(other.options)) {}

EngineCore* CallState::engine() const noexcept {
    return peer == nullptr ? nullptr : &peer->engine();
}

Message* CallState::begin() noexcept {
    EngineCore& engine = peer->engine();
    if (engine.closing()) [[unlikely]] {
        status = Status::canceled;
        cause = Cause::closing;
        return nullptr;
    }
    try {
        if (RpcTable* table = engine.counters(); table != nullptr) [[unlikely]] {
            counters = &table->of(*rpc);
            guarded = true;  // the careful way
        }
        auto taken = peer->take(*rpc);
        if (!taken) [[unlikely]] {
            status = taken.status();
            if (engine.closing()) {
                cause = Cause::closing;
            } else {
                what = "no handle for the call";
            }
            return nullptr;
        }
        handle = *taken;
    } catch (const std::bad_alloc&) {
        status = Status::nomem;
        what = "out of memory";
        return nullptr;
    }
    if (status = handle->claim(); !ok(status)) [[unlikely]] {
        what = "its handle cannot be used";
        return nullptr;
    }
    const std::span<std::byte> room = handle->input_space();
    message = {.handle = handle, .begin = room.data(), .end = room.data() + room.size()};
    return &message;
}

void write_request_header(Writer& w, const CallState& call) {
    if (call.options.deadline == Clock::time_point::max()) [[likely]] {
        w.scalar(std::uint8_t{0});
        return;
    }
    const auto now = Clock::now();
    const std::int64_t left =
        call.options.deadline <= now
            ? 0
            : std::chrono::duration_cast<std::chrono::microseconds>(call.options.deadline - now)
                  .count();
    if (left > UINT32_MAX) {  // which the header has no room for: the caller alone knows
        w.scalar(std::uint8_t{0});
        return;
    }
    w.scalar(kWithDeadline);
    w.scalar(static_cast<std::uint32_t>(left));
}

bool CallState::start(Continuation& continuation) noexcept {
    if (!ok(status)) [[unlikely]] {
        return false;
    }
    EngineCore& engine = peer->engine();
    // Only now is there something that a shutdown has to wait for.
    if (!engine.enter(engine.calls)) [[unlikely]] {
        status = Status::canceled;
        cause = Cause::closing;
        return false;
    }
    next = &continuation;
    const Callback callback{.run = &run_call, .arg = this};
    const std::size_t payload = message.beyond == nullptr ? message.size : 0;
    const std::size_t beyond_size = message.beyond == nullptr ? 0 : message.size;
    if (!guarded) [[likely]] {
        // The class of an engine has no bytes of the user's in front.
        Status s = message.beyond == nullptr
                       ? handle->forward_small(payload, payload, callback)
                       : handle->forward(payload, callback, message.beyond, beyond_size);
        if (ok(s)) [[likely]] {
            return true;  // this may be gone
        }
        message.give_back();
        status = s;
        end(*this);
        return false;
    }
    if (counters != nullptr) {
        begun = Clock::now();
        counters->calls.sent(message.size);
    }
    if (options.deadline <= Clock::now()) {
        status = Status::timeout;
        cause = Cause::deadline;
    } else if (options.deadline != Clock::time_point::max()) {
        expiry.call = this;
        expiry.when = options.deadline;
        expiry.fire = [](Timer& timer, bool passed) noexcept {
            CallState& call = *static_cast<Expiry&>(timer).call;
            Cause none = Cause::none;
            call.cause.compare_exchange_strong(none, passed ? Cause::deadline : Cause::closing);
            call.handle->cancel();
        };
        try {
            if (!engine.start_timer(expiry)) {
                status = Status::canceled;
                cause = Cause::closing;
            }
        } catch (const std::bad_alloc&) {
            status = Status::nomem;
            what = "out of memory";
        }
    }
    if (ok(status) && options.stop.stop_possible()) {
        on_stop.emplace(options.stop, Cancel{this});
        if (options.stop.stop_requested()) {
            status = Status::canceled;
        }
    }
    if (ok(status)) {
        const Status s = handle->forward(payload, callback, message.beyond, beyond_size, false,
                                         options.deadline != Clock::time_point::max());
        if (!ok(s)) {
            message.give_back();
            status = s;  // otherwise it is the completion's, which may have been here
        } else {
            // It has left without the looks of those who came before.
            if (cause.load(std::memory_order_seq_cst) != Cause::none) {
                handle->cancel();
            }
            if (phase.exchange(kStarted, std::memory_order_acq_rel) == kStarting) {
                return true;  // this may be gone
            }
        }
    }
    disarm(*this);
    end(*this);
    return false;
}

void CallState::Cancel::operator()() const noexcept {
    Cause none = Cause::none;
    call->cause.compare_exchange_strong(none, Cause::stop);
    call->handle->cancel();
}

std::span<const std::byte> CallState::reply() const noexcept {
    const Handle::Payload* const output = handle->output();
    if (output == nullptr) {
        return {};
    }
    return output->beyond.empty() ? output->message : output->beyond;
}

void CallState::release() noexcept {
    shown.clear();
    if (peer == nullptr) {
        return;
    }
    if (handle != nullptr) {
        if (handle->stage() == Handle::Stage::claimed) {
            message.give_back();
            handle->unclaim();
        }
        peer->give(*std::exchange(handle, nullptr));
    }
    unref(std::exchange(peer, nullptr));
}

MessageRef::~MessageRef() {
    if (peer_ != nullptr) {
        peer_->give(*handle_);
        unref(peer_);
    }
}

// --- errors
// ----------------------------------------------------------------------------------------------------------

namespace {

std::string subject(const CallState& call) {
    return fmt::format("call of \"{}\" at {}", call.rpc->name,
                       call.peer == nullptr ? "nobody" : call.peer->address().uri());
}

const char* cause_of(const CallState& call) noexcept {
    switch (call.cause.load(std::memory_order_acquire)) {
        case CallState::Cause::deadline:
            return "its deadline has passed";
        case CallState::Cause::stop:
            return "a stop was requested";
        case CallState::Cause::closing:
            return "the engine is shut down";
        case CallState::Cause::none:
            break;
    }
    switch (call.status) {
        case Status::noentry:
            return "the target does not serve it: not registered there, or with other types";
        case Status::opnotsupported:
            return "the target does not listen: only servers are called";
        case Status::invalid_arg:
            return "the target knows it, but has no handler for it";
        case Status::hostunreach:
            return "nobody is there (any more)";
        case Status::busy:
            return "the target is alive, and has no descriptor left for another peer";
        case Status::addrnotavail:
            return "there is no way to the target from here";
        case Status::again:
            return "the target has as many requests as it takes";
        case Status::canceled:
            return call.peer != nullptr && call.peer->engine().closing()
                       ? "the engine is shut down"
                       : "the target is shut down";
        default:
            return to_string(call.status);
    }
}

}  // namespace

Error CallState::error() const {
    return {status, fmt::format("{}: {}", subject(*this), *what != 0 ? what : cause_of(*this))};
}

Error CallState::remote_error(Reader& r, Status code) const {
    if (static_cast<unsigned>(code) > static_cast<unsigned>(Status::other_error)) {
        code = Status::other_error;
    }
    std::string text;
    r(text);
    if (!r.finish()) {
        return malformed(r);
    }
    if (counters != nullptr) {
        counters->calls.fail();
    }
    if (text.empty()) {
        text = fmt::format("{}: {}", subject(*this), to_string(code));
    }
    return {code, std::move(text)};
}

Error CallState::malformed(const Reader& r) const {
    if (counters != nullptr) {
        counters->calls.fail();
    }
    const bool large = r.status() == Status::msgsize;
    return {r.status(),
            fmt::format("{}: {}: {}", subject(*this),
                        large ? "its answer is too large" : "a malformed answer", r.what())};
}

Error current_error() noexcept {
    try {
        try {
            throw;
        } catch (const Exception& e) {
            const bool success = ok(e.status());
            return {success ? Status::other_error : e.status(), e.what()};
        } catch (const std::bad_alloc&) {
            return {Status::nomem, "out of memory"};
        } catch (const std::exception& e) {
            return {Status::other_error, e.what()};
        } catch (...) {
            return {Status::other_error, "an exception that is no std::exception"};
        }
    } catch (...) {
        return {Status::nomem, {}};
    }
}

}  // namespace hg::detail
