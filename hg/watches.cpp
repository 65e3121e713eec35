// SPDX-License-Identifier: BSD-3-Clause
#include "hg/watches.hpp"

#include <mutex>
#include <new>
#include <utility>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "hg/loopback.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Lane;
using na::Status;

// References: the handle's, that of its receive, and that of a callback which is due. Whoever gives
// the last one back is outside of handlers, where a kit may be given back.
class Watches::Watch {
 public:
    Watch(Watches& watches, Handle& handle, Kit* kit) noexcept
        : watches_(watches),
          kit_(kit),
          handle_(&handle),
          peer_(handle.peer_),
          tag_(handle.tag_),
          cookie_(handle.cookie_) {
        due_.watch = tidy_.watch = this;
        due_.run = &Watch::run_told;
        tidy_.run = [](Completion& c) {
            Watch& w = *static_cast<Node&>(c).watch;
            w.watches_.under_way(-1);
            w.unref();
        };
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    void ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
    void unref() noexcept {
        if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

 private:
    friend class Watches;
    struct Node : Completion {
        Watch* watch = nullptr;
    };

    ~Watch() {
        if (kit_ != nullptr) {
            kit_->port->give_kit(kit_);
        }
        drop(told_);
    }
    static void drop(const Told& told) noexcept {
        if (told.drop != nullptr) {
            told.drop(told.arg);
        }
    }
    static void run_told(Completion& c);
    static void on_over(na::Operation& op, const na::Outcome& outcome) noexcept;

    Watches& watches_;
    std::atomic<unsigned> refs_{1};
    Kit* const kit_;  // null: an RPC to oneself, whose caller cannot die
    // Guarded by the lock of Watches.
    Handle* handle_;  // null: the request is over
    const na::Address* const peer_;
    const std::uint32_t tag_;
    const std::uint32_t cookie_;
    Status status_ = Status::success;
    Told told_;
    bool queued_ = false;    // due_
    Watch* next_ = nullptr;  // in its bucket
    Node due_;
    Node tidy_;
};

// References: that of its operation, and that of give_up() at work.
class Watches::Notice : public Completion {
 public:
    Notice(Watches& watches, Kit& kit, na::AddressRef peer) noexcept
        : watches_(watches), kit_(kit), peer_(std::move(peer)) {
        run = [](Completion& c) { static_cast<Notice&>(c).unref(); };
        kit_.send->owner = this;
        kit_.send->when_over([](na::Operation& op, const na::Outcome&) noexcept {
            auto& notice = *static_cast<Notice*>(op.owner);
            notice.watches_.context_.defer(notice);
        });
        watches_.under_way(1);
        const std::lock_guard guard(watches_.lock_);
        next_ = std::exchange(watches_.sent_, this);
    }
    Notice(const Notice&) = delete;
    Notice& operator=(const Notice&) = delete;

    na::Address& peer() const noexcept { return *peer_; }
    void unref() noexcept {
        if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

 private:
    friend class Watches;
    ~Notice() {
        {
            const std::lock_guard guard(watches_.lock_);
            for (Notice** at = &watches_.sent_; *at != nullptr; at = &(*at)->next_) {
                if (*at == this) {
                    *at = next_;
                    break;
                }
            }
        }
        kit_.port->give_kit(&kit_);
        watches_.notices_.fetch_sub(1, std::memory_order_relaxed);
        watches_.under_way(-1);
    }

    Watches& watches_;
    Kit& kit_;
    const na::AddressRef peer_;
    std::atomic<unsigned> refs_{1};
    // Guarded by the lock of Watches.
    bool given_up_ = false;
    Notice* next_ = nullptr;
};

// --- target
// --------------------------------------------------------------------------------------------------------

Watches::Watch* Watches::make(Handle& handle) noexcept try {
    Port& port = *handle.port_;
    Kit* kit = handle.looped_.load(std::memory_order_relaxed) ? nullptr : port.take_kit();
    auto* watch = new (std::nothrow) Watch(*this, handle, kit);
    if (watch == nullptr) {
        port.give_kit(kit);
    }
    return watch;
} catch (const std::bad_alloc&) {
    return nullptr;
}

Watches::Watch* Watches::of(Handle& handle) noexcept {
    {
        const std::lock_guard guard(lock_);
        if (handle.watch_ != nullptr) {
            return handle.watch_;
        }
    }
    Watch* const made = make(handle);
    if (made == nullptr) {
        return nullptr;
    }
    Watch* other = nullptr;
    {
        const std::lock_guard guard(lock_);
        other = handle.watch_;
        if (other == nullptr) {
            handle.watch_ = made;
            handle.note_extra(Handle::kWatched);
            made->next_ = std::exchange(bucket(made->cookie_), made);
            if (made->kit_ != nullptr && take_early(*made->peer_, made->tag_, made->cookie_)) {
                made->status_ = Status::canceled;
            }
        }
    }
    if (other != nullptr) {
        made->unref();
        return other;
    }
    listen(handle, *made);
    return made;
}

// Of a new watch.
void Watches::listen(Handle& handle, Watch& watch) noexcept {
    if (watch.kit_ == nullptr) {
        const std::lock_guard guard(context_.loop_lock_);
        if (handle.partner_ == nullptr && handle.stage() == Handle::Stage::received) {
            canceled_here(handle);
        }
        return;
    }
    Port& port = *watch.kit_->port;
    watch.ref();
    under_way(1);
    watch.kit_->recv->owner = &watch;
    watch.kit_->recv->when_over(&Watch::on_over);
    const Status s = port.na().recv_expected(
        *watch.kit_->recv, *handle.peer_, handle.info_.context_id, port.watch_tag(),
        watch.kit_->output, port.size(Lane::expected), watch.kit_->region);
    if (!ok(s)) {
        under_way(-1);
        {
            const std::lock_guard guard(lock_);
            tell(watch, s);
        }
        watch.unref();
    }
    context_.settle();
}

// The receive is over. (What has come there is no message of ours: it is the peer that asks for
// its own request to be given up.)
void Watches::Watch::on_over(na::Operation& op, const na::Outcome& outcome) noexcept {
    Watch& w = *static_cast<Watch*>(op.owner);
    if (outcome.status != Status::canceled) {
        const std::lock_guard guard(w.watches_.lock_);
        w.watches_.tell(w, ok(outcome.status) ? Status::canceled : outcome.status);
    }
    w.watches_.context_.defer(w.tidy_);
}

// With the lock.
void Watches::tell(Watch& watch, Status status) noexcept {
    if (ok(watch.status_)) {
        watch.status_ = status;
    }
    if (watch.handle_ != nullptr && watch.told_.run != nullptr && !watch.queued_) {
        watch.queued_ = true;
        watch.ref();
        context_.complete(watch.due_);
    }
}

void Watches::Watch::run_told(Completion& c) {
    struct Run {  // the program may throw
        Watch& watch;
        Handle* handle = nullptr;
        ~Run() {
            if (handle != nullptr) {
                handle->unref();
            }
            watch.unref();
        }
    } now{*static_cast<Node&>(c).watch};
    Watch& w = now.watch;
    Told told{};
    {
        const std::lock_guard guard(w.watches_.lock_);
        w.queued_ = false;
        // Whoever ends the request takes the handle away before it is another one's.
        if (w.handle_ != nullptr && w.told_.run != nullptr && w.handle_->ref_if_held()) {
            now.handle = w.handle_;
            told = w.told_;
            w.told_.run = nullptr;
        }
    }
    if (now.handle != nullptr && now.handle->stage() == Handle::Stage::received) {
        told.run(*now.handle, w.status_, told.user, told.arg);
    }
}

Status Watches::begin(Handle& handle, const Told& told) noexcept {
    Watch* const watch = of(handle);
    if (watch == nullptr) {
        return Status::nomem;
    }
    Told before;
    {
        const std::lock_guard guard(lock_);
        before = std::exchange(watch->told_, told);
        if (!ok(watch->status_)) {
            tell(*watch, watch->status_);
        }
    }
    Watch::drop(before);
    return Status::success;
}

Status Watches::state(Handle& handle, Status& status) noexcept {
    Watch* const watch = of(handle);
    if (watch == nullptr) {
        return Status::nomem;
    }
    const std::lock_guard guard(lock_);
    status = watch->status_;
    return Status::success;
}

void Watches::end(Handle& handle) noexcept {
    Watch* watch = nullptr;
    {
        const std::lock_guard guard(lock_);
        watch = std::exchange(handle.watch_, nullptr);
        if (watch == nullptr) {
            return;
        }
        watch->handle_ = nullptr;
        for (Watch** at = &bucket(watch->cookie_); *at != nullptr; at = &(*at)->next_) {
            if (*at == watch) {
                *at = watch->next_;
                break;
            }
        }
    }
    if (watch->kit_ != nullptr) {
        watch->kit_->port->na().cancel(*watch->kit_->recv);
        context_.settle();
    }
    watch->unref();
}

void Watches::canceled(const na::Address& peer, std::uint32_t tag, std::uint32_t cookie) noexcept {
    const std::lock_guard guard(lock_);
    for (Watch* w = bucket(cookie); w != nullptr; w = w->next_) {
        if (w->peer_ == &peer && w->tag_ == tag && w->cookie_ == cookie && w->kit_ != nullptr) {
            tell(*w, Status::canceled);
            return;
        }
    }
    const std::size_t row = row_of(peer);
    early_[row][next_[row]++ % kPerRow] = {.peer = &peer, .tag = tag, .cookie = cookie};
}

void Watches::canceled_here(Handle& handle) noexcept {
    const std::lock_guard guard(lock_);
    if (handle.watch_ != nullptr) {
        tell(*handle.watch_, Status::canceled);
    }
}

std::size_t Watches::row_of(const na::Address& peer) noexcept {
    return (reinterpret_cast<std::uintptr_t>(&peer) / alignof(na::Address)) * 0x9e3779b97f4a7c15U >>
           60U;
}

bool Watches::take_early(const na::Address& peer, std::uint32_t tag,
                         std::uint32_t cookie) noexcept {
    for (Early& e : early_[row_of(peer)]) {
        if (e.peer == &peer && e.tag == tag && e.cookie == cookie) {
            e = {};
            return true;
        }
    }
    return false;
}

// --- origin
// --------------------------------------------------------------------------------------------------------

void Watches::send(Request request) noexcept {
    if (notices_.fetch_add(1, std::memory_order_relaxed) >= kMostNotices) {
        notices_.fetch_sub(1, std::memory_order_relaxed);
        return;
    }
    Port& port = request.port;
    Kit* kit = nullptr;
    try {
        kit = port.take_kit();
    } catch (const std::bad_alloc&) {
        // It is not told.
    }
    auto* notice =
        kit == nullptr ? nullptr : new (std::nothrow) Notice(*this, *kit, std::move(request.peer));
    if (notice == nullptr) {
        port.give_kit(kit);
        notices_.fetch_sub(1, std::memory_order_relaxed);
        return;
    }
    const std::size_t headroom = port.headroom(Lane::unexpected);
    wire::encode(
        kit->input + headroom,
        wire::Request{
            .flags = static_cast<std::uint8_t>(
                wire::kCancel | (context_.cls().checksum_flags() != 0 ? wire::kHeaderChecksum : 0)),
            .origin_context = context_.id(),
            .cookie = request.cookie,
            .id = request.id},
        0);
    if (!ok(port.na().send(*kit->send, Lane::unexpected, notice->peer(), request.context_id,
                           request.tag, kit->input, headroom + wire::kRequestSize, kit->region))) {
        notice->unref();
    }
    context_.settle();
}

void Watches::give_up() noexcept {
    for (;;) {
        Notice* notice = nullptr;
        {
            const std::lock_guard guard(lock_);
            for (notice = sent_; notice != nullptr && notice->given_up_;) {
                notice = notice->next_;
            }
            if (notice == nullptr) {
                return;
            }
            notice->given_up_ = true;
            unsigned refs = notice->refs_.load(std::memory_order_relaxed);
            while (refs != 0 && !notice->refs_.compare_exchange_weak(refs, refs + 1)) {
            }
            if (refs == 0) {
                continue;  // its last reference is gone: it is on its way out of the list
            }
        }
        notice->kit_.port->na().cancel(*notice->kit_.send);
        notice->unref();
    }
}

}  // namespace hg
