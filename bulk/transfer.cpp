// SPDX-License-Identifier: BSD-3-Clause
// The life of one transfer: checks, choice of the protocol, posting piece by piece, the end.
#include "bulk/transfer.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>

#include "bulk/pieces.hpp"
#include "bulk/segments.hpp"
#include "bulk/wire.hpp"
#include "na/util/log.hpp"

namespace bulk {
namespace {

// A drive stops after so much, so that transfers which complete inside the post share the thread
// with everything else.
constexpr std::uint32_t kPostsPerDrive = 64;
// The same for one round of progress, over all transfers.
constexpr std::uint64_t kBytesPerProgress = 16 << 20;

// The memory of an origin that is this process.
struct Own {
    std::span<const Segment> segments;
    BulkRef held;          // keeps it registered
    bool unsure = false;   // its owner may have freed it
    bool missing = false;  // it is not registered (any more)
};

// Empty: the origin is a peer, or the transfer needs no copy from its memory.
Own own_memory(const Request& r) noexcept {
    Own own;
    if (r.origin->is_local()) {
        own.segments = r.origin->segments();
    } else if (!r.peer.is_self() || r.size == 0 ||
               (r.direction == Direction::pull && r.origin->has_contents())) {
        return own;
    } else if (!r.origin->own_segments().empty()) {
        own.segments = r.origin->own_segments();
        own.unsure = true;
    } else {
        // Its bytes may be anybody's: what is registered here counts.
        try {
            own.held = find_local(*r.origin);
        } catch (const std::bad_alloc&) {
            // As if it were not there.
        }
        const Access want = r.direction == Direction::pull ? Access::read : Access::write;
        own.missing = !own.held || !allows(own.held->access(), want);
        if (!own.missing && own.held->host_memory()) {
            own.segments = own.held->segments();
        }
    }
    return own;
}

// One code on every transport for memory that its owner has not registered, or not any more.
Status of_memory(Status s) noexcept {
    return s == Status::noentry ? Status::fault : s;
}

bool stopping(bool cancel_asked, Status status) noexcept {
    return cancel_asked || !na::ok(status);
}

}  // namespace

Status Engine::check(const Request& r) const noexcept {
    if (r.origin == nullptr || r.local == nullptr || r.done == nullptr ||
        (r.peer.net == nullptr && r.peer.sm == nullptr)) {
        NA_LOG_ERROR(bulk, "a bulk transfer needs two descriptors and the origin's address");
        return Status::invalid_arg;
    }
    if (&r.origin->space() != &space_ || &r.local->space() != &space_) {
        NA_LOG_ERROR(bulk, "the descriptors must be of the context's class");
        return Status::invalid_arg;
    }
    if (!r.local->is_local()) {
        NA_LOG_ERROR(
            bulk, "the local descriptor came from a peer: create one over memory of this process");
        return Status::invalid_arg;
    }
    if (r.origin->is_local() && !r.peer.is_self()) {
        NA_LOG_ERROR(
            bulk, "the origin's descriptor is memory of this process, but the address is a peer's");
        return Status::invalid_arg;
    }
    if (!r.origin->covers(r.origin_offset, r.size) || !r.local->covers(r.local_offset, r.size)) {
        NA_LOG_ERROR(bulk,
                     "{} bytes at offsets {} (origin, of {} bytes) and {} (local, of {} bytes): "
                     "past the end",
                     r.size, r.origin_offset, r.origin->size(), r.local_offset, r.local->size());
        return Status::invalid_arg;
    }
    const bool pull = r.direction == Direction::pull;
    if (!allows(r.origin->access(), pull ? Access::read : Access::write) ||
        !allows(r.local->access(), pull ? Access::write : Access::read)) {
        NA_LOG_ERROR(bulk, "{} needs an origin that allows {} and local memory that allows {}",
                     pull ? "pull" : "push", pull ? "reading" : "writing",
                     pull ? "writing" : "reading");
        return Status::permission;
    }
    return Status::success;
}

Choice Engine::decide(const Request& r, bool here) const noexcept {
    Facts facts{.direction = r.direction,
                .size = r.size,
                .copyable = r.origin->host_memory() && r.local->host_memory(),
                .origin_is_local = here,
                .origin_has_contents = r.origin->has_contents()};
    for (const Rail rail : {Rail::net, Rail::sm}) {
        facts.reachable[index(rail)] = rails_.of(rail) != nullptr && r.peer.of(rail) != nullptr &&
                                       !r.origin->is_local() && r.origin->reachable(rail) &&
                                       r.local->reachable(rail);
    }
    return choose(facts);
}

Status Engine::start(const Request& request, TransferId* id) noexcept {
    if (const Status s = check(request); !na::ok(s)) {
        return s;
    }
    const Own own = own_memory(request);
    const Choice choice = decide(request, !own.segments.empty() || own.missing);
    if (choice.protocol == Protocol::unreachable) {
        NA_LOG_ERROR(bulk,
                     "no transport reaches the origin's memory: the descriptor has none that its "
                     "address has too");
        return Status::opnotsupported;
    }
    Transfer* t = take();
    if (t == nullptr) {
        return Status::nomem;
    }
    t->request_ = request;
    t->choice_ = choice;
    t->origin_ = BulkRef::share(request.origin);
    t->local_ = BulkRef::share(request.local);
    if (id != nullptr) {
        *id = id_of(*t);
    }
    if (request.direction == Direction::push) {
        request.origin->mark_stale();
    }
    if (choice.protocol == Protocol::rma) {
        t->peer_ = na::AddressRef::share(request.peer.of(choice.rail));
        {
            const std::lock_guard guard(lock_);
            counters_.transfers.add();
            counters_.bytes.add(request.size);
            t->active_ = true;
            t->driving_ = true;
        }
        std::uint64_t bytes = 0;
        const Status s = drive(*t, true, bytes);
        if (!na::ok(s)) {
            put_back(*t);
        }
        return s;
    }
    Status status = Status::success;
    if (choice.protocol == Protocol::local_copy && own.missing) {
        NA_LOG_ERROR(bulk, "the origin's memory, of this process, is not registered (any more)");
        status = Status::fault;
    } else if (choice.protocol != Protocol::nothing) {
        const bool pull = request.direction == Direction::pull;
        const bool eager = choice.protocol == Protocol::eager_copy;
        const auto origin = eager ? request.origin->segments() : own.segments;
        const auto local = request.local->segments();
        const auto to = pull ? local : origin;
        const auto from = pull ? origin : local;
        const std::uint64_t to_offset = pull ? request.local_offset : request.origin_offset;
        const std::uint64_t from_offset = pull ? request.origin_offset : request.local_offset;
        if (own.unsure) {
            status = copy_own(to, to_offset, from, from_offset, request.size,
                              pull ? Gone::from : Gone::to);
        } else {
            copy(to, to_offset, from, from_offset, request.size);
        }
    }
    {
        const std::lock_guard guard(lock_);
        counters_.transfers.add();
        counters_.bytes.add(request.size);
        counters_.copies.add(choice.protocol == Protocol::nothing ? 0 : 1);
        ++t->generation_;
    }
    request.done(*t, status);
    return Status::success;
}

// Posts what the window has room for; `bytes` (0 before) tells how much. The caller has set
// driving_, so that it is alone with moved_. `first`: inside start(); answers an error if nothing
// was posted at all, and done() is not called then.
Status Engine::drive(Transfer& t, bool first, std::uint64_t& bytes) noexcept {
    std::uint32_t posts = 0;
    std::unique_lock guard(lock_);
    while (!stopping(t.cancel_asked_, t.status_) && !t.posted_all_ && posts < kPostsPerDrive &&
           bytes < t.choice_.piece * t.choice_.window) {
        Transfer::Piece* piece = nullptr;
        if (t.idle_ != 0) {
            piece = t.window_[static_cast<std::size_t>(std::countr_zero(t.idle_))];
        } else if (t.attached_ < t.choice_.window) {
            piece = pieces_[index(t.choice_.rail)]->take(guard);
            if (piece != nullptr) {
                piece->transfer = &t;
                piece->bit = 1U << t.attached_;
                t.idle_ |= piece->bit;
                t.window_[t.attached_++] = piece;
            } else if (t.in_flight_ == 0) {
                t.status_ = Status::nomem;
            }
        }
        if (piece == nullptr) {
            break;
        }
        t.idle_ &= ~piece->bit;
        ++t.in_flight_;
        counters_.pieces.add();
        guard.unlock();
        std::uint64_t moved = 0;
        const Status s = post(t, *piece, moved);
        guard.lock();
        if (!na::ok(s)) {
            --t.in_flight_;
            t.idle_ |= piece->bit;
            // No resources now (NA_NO_RETRY): pieces that end free some.
            if ((s != Status::again || t.in_flight_ == 0) && na::ok(t.status_)) {
                t.status_ = of_memory(s);
            }
            break;
        }
        ++posts;
        bytes += moved;
        t.moved_ += moved;
        t.posted_all_ = t.moved_ == t.request_.size;
    }
    if (stopping(t.cancel_asked_, t.status_) && t.in_flight_ != 0 && !t.cancel_sent_) {
        t.cancel_sent_ = true;
        const std::uint32_t attached = t.attached_;
        guard.unlock();
        cancel_pieces(t, attached);
        guard.lock();
    }
    t.driving_ = false;
    const Next next = settle(t);
    if (first && next == Next::finished && t.moved_ == 0) {
        return t.status_;
    }
    guard.unlock();
    act(t, next);
    return Status::success;
}

// The next piece: as long as both registrations last.
Status Engine::post(Transfer& t, Transfer::Piece& piece, std::uint64_t& moved) noexcept {
    const Request& r = t.request_;
    const Rail rail = t.choice_.rail;
    const std::uint64_t at_origin = r.origin_offset + t.moved_;
    const std::uint64_t at_local = r.local_offset + t.moved_;
    const Bulk::Group& origin = t.origin_->group_at(rail, at_origin);
    const Bulk::Group& local = t.local_->group_at(rail, at_local);
    moved = std::min(
        {t.choice_.piece, r.size - t.moved_, origin.end() - at_origin, local.end() - at_local});
    na::Context& context = *rails_.of(rail);
    return (context.*(r.direction == Direction::pull ? &na::Context::get : &na::Context::put))(
        *piece.op, *local.memory, at_local - local.begin, *origin.memory, at_origin - origin.begin,
        moved, *t.peer_, r.origin_context);
}

// Handler of a piece: under the NA context's lock.
void Engine::ended(na::Operation& op, const na::Outcome& outcome) noexcept {
    auto& piece = *static_cast<Transfer::Piece*>(op.owner);
    Transfer& t = *piece.transfer;
    Engine& engine = t.engine_;
    std::unique_lock guard(engine.lock_);
    --t.in_flight_;
    t.idle_ |= piece.bit;
    if (!na::ok(outcome.status) && na::ok(t.status_)) {
        t.status_ = of_memory(outcome.status);
    }
    const Next next = engine.settle(t);
    guard.unlock();
    engine.act(t, next);
}

// Under the lock, after anything has changed: finished when nothing of it is at work any more,
// enqueued when there is something to post or to cancel. Whoever is at work (driving, pinned, in
// the list) settles it afterwards.
Engine::Next Engine::settle(Transfer& t) noexcept {
    if (!t.active_ || t.driving_ || t.queued_ || t.pins_ != 0) {
        return Next::wait;
    }
    const bool stop = stopping(t.cancel_asked_, t.status_);
    if (t.in_flight_ == 0 && (t.posted_all_ || stop)) {
        // A cancel that came too late to stop a single byte is none.
        if (na::ok(t.status_) && !t.posted_all_) {
            t.status_ = Status::canceled;
        }
        t.active_ = false;
        ++t.generation_;
        return Next::finished;
    }
    const bool room = t.idle_ != 0 || t.attached_ < t.choice_.window;
    if (stop ? !t.cancel_sent_ : (!t.posted_all_ && room)) {
        t.queued_ = true;
        runnable_.push_back(t);
        runnable_count_.fetch_add(1, std::memory_order_release);
        return Next::enqueued;
    }
    return Next::wait;
}

// What settle() decided, after the lock was released.
void Engine::act(Transfer& t, Next next) noexcept {
    switch (next) {
        case Next::wait:
            return;
        case Next::enqueued:
            wake_(wake_arg_);
            return;
        case Next::finished:
            t.request_.done(t, t.status_);
            return;
    }
}

std::size_t Engine::progress() noexcept {
    std::size_t served = 0;
    std::uint64_t total = 0;
    for (std::uint32_t left = runnable_count_.load(std::memory_order_relaxed);
         left != 0 && total < kBytesPerProgress; --left) {
        std::unique_lock guard(lock_);
        Transfer* t = runnable_.pop_front();
        if (t == nullptr) {
            break;
        }
        runnable_count_.fetch_sub(1, std::memory_order_relaxed);
        t->queued_ = false;
        t->driving_ = true;
        guard.unlock();
        std::uint64_t bytes = 0;
        (void)drive(*t, false, bytes);
        total += bytes;
        ++served;
    }
    return served;
}

// --- cancel
// ----------------------------------------------------------------------------------------------------------

void Engine::cancel_pieces(Transfer& t, std::uint32_t attached) noexcept {
    na::Context& context = *rails_.of(t.choice_.rail);
    for (std::uint32_t i = 0; i < attached; ++i) {
        context.cancel(*t.window_[i]->op);  // does nothing to those that have ended
    }
}

void Engine::cancel(TransferId id) noexcept {
    std::unique_lock guard(lock_);
    if (Transfer* t = find(id); t != nullptr) {
        cancel(*t, guard);
    }
}

// The lock is held, and released on return.
void Engine::cancel(Transfer& t, std::unique_lock<na::util::OptionalLock>& guard) noexcept {
    t.cancel_asked_ = true;
    if (!t.driving_ && t.in_flight_ != 0 &&
        !t.cancel_sent_) {  // otherwise the one who drives does it
        t.cancel_sent_ = true;
        const std::uint32_t attached = t.attached_;
        ++t.pins_;
        guard.unlock();
        cancel_pieces(t, attached);
        guard.lock();
        --t.pins_;
    }
    const Next next = settle(t);
    guard.unlock();
    act(t, next);
}

void Engine::cancel_all() noexcept {
    for (std::size_t i = 0;; ++i) {
        std::unique_lock guard(lock_);
        if (i >= slots_.size()) {
            return;
        }
        if (slots_[i]->active_) {
            cancel(*slots_[i], guard);
        }
    }
}

}  // namespace bulk
