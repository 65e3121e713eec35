// SPDX-License-Identifier: BSD-3-Clause
#include "hg/shares.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>

#include "hg/context.hpp"
#include "hg/port.hpp"
#include "na/util/log.hpp"

namespace hg {
namespace {

std::int64_t now_ns() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

Shares::Shares(Port& port, const Limits& limits, bool threaded)
    : port_(port),
      limits_(limits),
      common_(std::max<std::uint64_t>(limits.handles / 2, 1)),
      little_(std::max<std::uint64_t>(limits.handles / 64, 1)),
      lock_(threaded) {
    run = [](Completion& c) {
        auto& self = static_cast<Shares&>(c);
        self.queued_.store(false, std::memory_order_release);
        self.next_look_.store(0, std::memory_order_relaxed);  // somebody is over its share just now
        self.look();
    };
}

// The lock is held.
std::uint64_t Shares::allowed(const Share& share) const noexcept {
    if (share.handles == handles_) {
        return common_;
    }
    return std::max(little_, common_ - std::min(common_, handles_));
}

bool Shares::begin(const na::Address& peer, std::uint64_t landing) noexcept {
    bool watched = false;
    {
        const std::lock_guard guard(lock_);
        Share* share = nullptr;
        try {
            share = &shares_[&peer];
        } catch (const std::bad_alloc&) {
            return false;
        }
        ++share->handles;
        ++handles_;
        share->bytes += landing;
        bytes_ += landing;
        if (!share->stalled.on()) {
            share->stalled.begin(now_ns());
        }
        watched = over(*share) && !share->muted;
    }
    if (watched) [[unlikely]] {
        watch();
    }
    return true;
}

void Shares::end(const na::Address& peer, std::uint64_t landing) noexcept {
    const std::lock_guard guard(lock_);
    const auto at = shares_.find(&peer);
    if (at == shares_.end()) {
        return;
    }
    Share& share = at->second;
    --share.handles;
    --handles_;
    share.bytes -= landing;
    bytes_ -= landing;
    share.stalled.end();  // it takes something
    if (share.handles != 0) {
        share.stalled.begin(now_ns());
    } else {
        share.ousted = false;
        forget_idle(at);
    }
}

// A muted share is kept until it is not: the peer is to be served again. The lock is held.
void Shares::forget_idle(Map::iterator at) noexcept {
    if (at->second.handles == 0 && !at->second.muted && shares_.size() > kIdleShares) {
        shares_.erase(at);
    }
}

bool Shares::admits(const na::Address& peer, std::uint64_t bytes, std::uint64_t limit) noexcept {
    const std::lock_guard guard(lock_);
    const auto at = shares_.find(&peer);
    if (at == shares_.end() || at->second.bytes == bytes_) {
        return true;  // the only one, or one of which nothing is pulled
    }
    const std::uint64_t common = limit - limit / 4;
    const std::uint64_t allowed = std::max(limit / 64, common - std::min(common, bytes_));
    return at->second.bytes == 0 || at->second.bytes + bytes <= allowed;
}

std::uint64_t Shares::waiting(const na::Address& peer) noexcept {
    const std::lock_guard guard(lock_);
    const auto at = shares_.find(&peer);
    return at == shares_.end() ? 0 : at->second.handles;
}

std::uint64_t Shares::waiting() noexcept {
    const std::lock_guard guard(lock_);
    return handles_;
}

void Shares::exhausted() noexcept {
    {
        const std::lock_guard guard(lock_);
        if (exhausted_ || handles_ == 0) {
            return;
        }
        exhausted_ = true;
    }
    watch();
}

// The next round of progress looks, and all those after it.
void Shares::watch() noexcept {
    watching_.store(true, std::memory_order_relaxed);
    if (!queued_.exchange(true, std::memory_order_acq_rel)) {
        port_.context().defer(*this);
    }
}

// The lock is held.
Shares::Verdict Shares::judge(Share& share, std::int64_t now) noexcept {
    if (share.ousted) {
        return Verdict::none;
    }
    const bool too_much = over(share);
    if (limits_.stall != 0 && share.handles != 0 && (share.muted || too_much || exhausted_) &&
        share.stalled.lasts(now, limits_.stall)) {
        share.ousted = true;
        return Verdict::oust;
    }
    if (too_much && !share.muted) {
        return Verdict::mute;
    }
    if (share.muted && share.handles <= std::max(allowed(share) / 2, little_)) {
        return Verdict::unmute;
    }
    return Verdict::none;
}

// Verdicts are carried out without the lock: the NA context's comes before it.
void Shares::look() noexcept {
    const std::int64_t now = now_ns();
    if (now < next_look_.load(std::memory_order_relaxed) ||
        looking_.exchange(true, std::memory_order_acquire)) {
        late_.store(true, std::memory_order_release);
        return;
    }
    late_.store(false, std::memory_order_release);
    next_look_.store(now + std::chrono::nanoseconds(kBetweenLooks).count(),
                     std::memory_order_relaxed);
    look_at_all(now);
    looking_.store(false, std::memory_order_release);
}

void Shares::look_at_all(std::int64_t now) noexcept {
    bool full = false;  // as many peers are muted as can be: other verdicts go on
    for (;;) {
        na::AddressRef peer;
        std::uint64_t handles = 0;
        Verdict verdict = Verdict::none;
        {
            const std::lock_guard guard(lock_);
            bool watching = false;
            exhausted_ = exhausted_ && handles_ != 0 && port_.overloaded();
            for (auto& [address, share] : shares_) {
                verdict = judge(share, now);
                if (verdict == Verdict::mute && full) {
                    verdict = Verdict::none;
                }
                watching = watching || share.muted || share.ousted || over(share);
                if (verdict == Verdict::none) {
                    continue;
                }
                handles = share.handles;
                if (verdict == Verdict::unmute) {
                    peer = std::move(share.muted);
                    forget_idle(shares_.find(address));
                    break;  // `share` may be gone
                }
                // A handle that waits for the peer holds it.
                peer = na::AddressRef::share(const_cast<na::Address*>(address));
                if (verdict == Verdict::mute) {
                    share.muted = na::AddressRef::share(peer.get());
                }
                break;
            }
            if (verdict == Verdict::none) {
                watching_.store(watching || exhausted_, std::memory_order_relaxed);
                return;
            }
        }
        if (!carry_out(*peer, verdict, handles)) {
            na::AddressRef unmuted;
            const std::lock_guard guard(lock_);
            const auto at = shares_.find(peer.get());
            unmuted = std::move(at->second.muted);
            forget_idle(at);
            full = true;
        }
    }
}

// False: the peer could not be muted.
bool Shares::carry_out(na::Address& peer, Verdict verdict, std::uint64_t handles) noexcept {
    na::Context& na = port_.na();
    switch (verdict) {
        case Verdict::mute:
            NA_LOG_INFO(rpc, "{} has {} responses to take: its further requests wait", peer.uri(),
                        handles);
            return na.mute(peer);
        case Verdict::unmute:
            na.unmute(peer);
            break;
        case Verdict::oust:
            dropped_.fetch_add(1, std::memory_order_relaxed);
            NA_LOG_WARNING(rpc,
                           "{} takes nothing: {} handles wait for it, and none was done within {} "
                           "ms. Its connections end (see HG_STALL_TIMEOUT)",
                           peer.uri(), handles, limits_.stall / 1'000'000);
            na.disconnect(peer);
            break;
        case Verdict::none:
            break;
    }
    return true;
}

}  // namespace hg
