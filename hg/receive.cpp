// SPDX-License-Identifier: BSD-3-Clause
// Target: from a message to a request that can be dispatched, or to the answer that it cannot.
#include <algorithm>
#include <new>
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

namespace {

// A peer that sends garbage and does not read the answers occupies no more handles than this. (Who
// sends requests is held back by the limit of requests, whether they are served or refused.)
constexpr std::uint32_t kMaxMalformed = 64;

}  // namespace

// The header was right, and says this; the payload is not shorter than the user's bytes.
[[gnu::always_inline]] inline void Handle::take_request(std::span<std::byte> message,
                                                        const wire::Request& request) noexcept {
    note_header(request);
    one_way_ = (request.flags & wire::kOneWay) != 0;
    port_->counters.requests_received.add();
    if (port_->overloaded() && !port_->makes_room()) [[unlikely]] {
        refuse_overload();
        return;
    }
    registration_ = last_ =
        info_.cls->registry().acquire_in(request.id, info_.context->id(), *port_, last_);
    if (registration_ == nullptr || registration_->functions().invoke == nullptr) [[unlikely]] {
        reject_later(registration_ == nullptr ? Status::noentry : Status::invalid_arg);
        return;
    }
    take_payload(input_, call_.input, message.data() + wire::kRequestSize,
                 message.size() - wire::kRequestSize);
    const bool rest = (request.flags & (wire::kOverflow | wire::kMoreData)) != 0;
    if (rest && !may_take_rest()) [[unlikely]] {
        return;
    }
    if (one_way_ && !registration_->one_way()) [[unlikely]] {
        defer(&Handle::hand_to_mute);
        return;
    }
    if (rest) [[unlikely]] {
        take_rest();
        return;
    }
    arrived_whole();
}

// What belongs to the request and is not in its message. False: it is refused.
bool Handle::may_take_rest() noexcept {
    if ((call_.flags & wire::kOverflow) != 0) {
        port_->counters.requests_overflow.add();
        return true;
    }
    return may_take_more();
}

void Handle::take_rest() noexcept {
    if ((call_.flags & wire::kOverflow) != 0) {
        defer(&Handle::pull_input);
    } else {
        more_arrived();
    }
}

// Outside of handlers.
void Handle::hand_to_mute(Completion& c) {
    Handle& h = of(c);
    Context& context = *h.info_.context;
    Handle* mute = nullptr;
    try {
        mute = context.handles_->take_mute(*h.port_);
    } catch (const std::bad_alloc&) {
        // As if the program refused it.
    }
    if (mute == nullptr) {
        h.note(Status::nomem);
        reject(h);
        return;
    }
    mute->take_over(h);
    if ((mute->call_.flags & (wire::kOverflow | wire::kMoreData)) != 0) {
        mute->take_rest();
    } else {
        mute->arrived();
    }
    context.settle();
    (void)h.post_request();
}

// The request of another handle of the same port, which is free for the next one then. Counted as
// one that has given its receive back early.
void Handle::take_over(Handle& other) noexcept {
    clear_call();
    const std::span<std::byte> message = other.input_.message;
    const std::span<std::byte> own(kit_->input + (message.data() - other.kit_->input),
                                   message.size());
    std::copy(message.begin(), message.end(), own.begin());
    take_payload(input_, call_.input, own.data(), own.size());
    info_.id = std::exchange(other.info_.id, 0);
    info_.context_id = std::exchange(other.info_.context_id, std::uint8_t{0});
    info_.addr = &source_;
    other.info_.addr = nullptr;
    source_.take_over(other.source_);
    peer_ = other.peer_;
    registration_ = last_ = std::exchange(other.registration_, nullptr);
    tag_ = other.tag_;
    cookie_ = other.cookie_;
    came_ = other.came_;
    call_.flags = other.call_.flags;
    other.one_way_ = false;
    other.clear_call();
    port_->request_moved();
    // Until it is complete, as the other was.
    stage_.store(Stage::posted, std::memory_order_release);
}

// What makes it possible to answer.
inline void Handle::note_header(const wire::Request& request) noexcept {
    info_.id = request.id;
    info_.context_id = request.origin_context;
    info_.addr = &source_;
    source_.set_context(request.origin_context);
    cookie_ = request.cookie;
    call_.flags = request.flags;
}

void Handle::on_request(na::Operation& op, const na::Outcome& o) noexcept {
    if (!ok(o.status) || o.source == nullptr) [[unlikely]] {
        of(op).no_request(o.status);
        return;
    }
    const na::AddressRef source = na::AddressRef::adopt(o.source);
    take_message(op, o.size, o.source, o.tag);
}

void Handle::take_message(na::Operation& op, std::size_t size, na::Address* source,
                          std::uint32_t tag) noexcept {
    Handle& h = of(op);
    Port& port = *h.port_;
    h.info_.context->request_taken(port);
    h.source_.set_in(*source, port.rail() == bulk::Rail::sm);
    h.peer_ = source;
    h.tag_ = tag;
    const std::size_t headroom = port.headroom(Lane::unexpected);
    const std::span<std::byte> message = size < headroom
                                             ? std::span<std::byte>{}
                                             : std::span(h.kit_->input + headroom, size - headroom);
    wire::Request request;
    if (wire::glance(message, request) &&
        message.size() - wire::kRequestSize >= h.info_.cls->offset(Lane::unexpected)) [[likely]] {
        h.take_request(message, request);
    } else {
        h.take_unusual_request(message);
    }
}

void Handle::take_unusual_request(std::span<std::byte> message) noexcept {
    wire::Request request;
    wire::Received received = wire::decode(message, request);
    if (ok(received.status)) {
        one_way_ = (request.flags & wire::kOneWay) != 0;
        if ((request.flags & wire::kTimed) != 0) {
            came_ = std::chrono::steady_clock::now();
        }
        if (received.payload.size() >= info_.cls->offset(Lane::unexpected)) {
            take_request(message, request);
            return;
        }
        received = {
            Status::protocol_error, "a request shorter than the input offset of this class", {}};
    } else {
        one_way_ = false;
    }
    note_header(request);
    port_->counters.malformed.add();
    NA_LOG_WARNING(rpc, "a peer sent {} bytes: {}", message.size(), received.what);
    odd_.malformed = true;
    reject_later(received.status);
}

// The receive has ended without one.
void Handle::no_request(Status status) noexcept {
    if (status == Status::canceled) {
        port_->request_taken();
        defer(&Handle::retire);
        return;
    }
    info_.context->request_taken(*port_);
    // Too long for its receive, or lost on the way: nobody to answer.
    port_->counters.malformed.add();
    defer(&Handle::repost);
}

void Handle::reject_later(Status code) noexcept {
    note(code);
    defer(&Handle::reject);
}

// The other refusals have been counted, and logged, where they were decided.
[[gnu::cold, gnu::noinline]] void Handle::say_rejected(Status code) noexcept {
    const bool unknown = code == Status::noentry;
    if (odd_.malformed || (!unknown && code != Status::invalid_arg)) {
        return;
    }
    const std::uint64_t n = info_.context->unserved_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (worth_a_line(n)) {
        NA_LOG_WARNING(
            rpc, "RPC {}: a request from {}, and {}; {} requests of this kind were refused so far",
            name(), peer_->uri(),
            unknown ? "no RPC is registered here under this id"
                    : "it is registered here without a callback",
            n);
    }
}

// Answers a request that is not dispatched. Outside of handlers.
void Handle::reject(Completion& c) {
    Handle& h = of(c);
    Context& context = *h.info_.context;
    const Status code = h.status_.load(std::memory_order_relaxed);
    h.refs_.store(kLibraryRef, std::memory_order_relaxed);
    h.stage_.store(Stage::answering, std::memory_order_release);
    // A one-way request has nobody who waits, unless its origin waits for the acknowledgement of
    // its payload.
    const bool wanted = !h.one_way_ || (h.call_.flags & (wire::kOverflow | wire::kMoreData)) != 0;
    h.say_rejected(code);
    const bool room = !h.odd_.malformed ||
                      context.malformed_.fetch_add(1, std::memory_order_relaxed) < kMaxMalformed;
    if (!wanted || !room ||
        !ok(h.send_response(code, 0, {}, nullptr, 0))) {  // the peer may be gone
        context.unanswered_.fetch_add(1, std::memory_order_relaxed);
    }
    h.stage_.store(Stage::answered, std::memory_order_release);
    h.unref();
}

}  // namespace hg
