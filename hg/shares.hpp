// SPDX-License-Identifier: BSD-3-Clause
// What each peer keeps busy here by not taking what is meant for it. A handle counts for its peer
// while its response has not left, a large response is not acknowledged, or large arguments are
// being pulled. Requests that the program has yet to answer do not count: the peer cannot help it.
//
// Half of HG_REQUEST_LIMIT is kept for peers that keep little busy, and for what is on its way when
// a peer takes too much. A peer that is the only one may have the other half; otherwise no peer has
// more than is left of that. Beyond its share a peer is muted (na::Context::mute()): further
// requests of it are held back, so that it costs nobody else anything. A muted peer that takes
// something is served again: its acknowledgements pass, though requests are before them. One that
// takes nothing for HG_STALL_TIMEOUT is given up: its connections end. Where all handles are in
// use, that holds for every peer that keeps one busy for so long.
//
// A slow peer is therefore only slow: being dropped takes both too much, and no progress.
//
// Any thread, inside handlers too, but for look(), which is not called under an NA context's lock.
// Nothing here is on the path of a call whose response leaves at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "hg/completion.hpp"
#include "na/core/context.hpp"
#include "na/util/lock.hpp"
#include "na/util/spell.hpp"

namespace hg {

class Port;

class Shares : public Completion {
 public:
    struct Limits {
        std::uint64_t handles;  // of the context: HG_REQUEST_LIMIT
        std::int64_t stall;     // ns; 0: no peer is given up
    };
    Shares(Port& port, const Limits& limits, bool threaded);

    // A handle of the peer waits for it from now on. `landing`: bytes that are being pulled for it.
    // False: out of memory, it is not counted.
    [[nodiscard]] bool begin(const na::Address& peer, std::uint64_t landing = 0) noexcept;
    // It does no longer: of one that was counted.
    void end(const na::Address& peer, std::uint64_t landing = 0) noexcept;
    // Whether the peer may have `bytes` more pulled from it at a time, where the context takes
    // `limit` of all peers: all that is left where it is the only one, else a share.
    bool admits(const na::Address& peer, std::uint64_t bytes, std::uint64_t limit) noexcept;
    // Handles that wait for the peer. For who chooses a victim.
    std::uint64_t waiting(const na::Address& peer) noexcept;
    std::uint64_t waiting() noexcept;

    // All handles of the context are in use.
    void exhausted() noexcept;
    // look() has something to watch, at every poll.
    bool watching() const noexcept { return watching_.load(std::memory_order_relaxed); }
    // Mutes, serves again, gives up.
    void look() noexcept;

    // A look is due that came too early: the context must not sleep before it.
    bool late() const noexcept { return late_.load(std::memory_order_acquire); }

    // Peers that were given up.
    std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
    struct Share {
        std::uint64_t handles = 0;
        std::uint64_t bytes = 0;
        bool ousted = false;     // given up, and not over yet
        na::AddressRef muted{};  // the peer, as long as it is muted
        na::util::Spell stalled{kStep};
    };
    // Between two looks no more than this counts: this process may have been stopped.
    static constexpr std::chrono::milliseconds kStep{100};
    static constexpr std::chrono::milliseconds kBetweenLooks{2};
    // Shares of peers that keep nothing busy, which are kept for the next time.
    static constexpr std::size_t kIdleShares = 64;

    std::uint64_t allowed(const Share& share) const noexcept;
    bool over(const Share& share) const noexcept { return share.handles > allowed(share); }
    using Map = std::unordered_map<const na::Address*, Share>;
    void forget_idle(Map::iterator at) noexcept;
    void watch() noexcept;
    void look_at_all(std::int64_t now) noexcept;
    enum class Verdict : std::uint8_t { none, mute, unmute, oust };
    Verdict judge(Share& share, std::int64_t now) noexcept;
    bool carry_out(na::Address& peer, Verdict verdict, std::uint64_t handles) noexcept;

    Port& port_;
    const Limits limits_;
    const std::uint64_t common_;
    const std::uint64_t little_;
    std::atomic<bool> watching_{false};
    std::atomic<bool> queued_{false};
    std::atomic<bool> looking_{false};  // a thread is in look()
    std::atomic<bool> late_{false};     // a look was left out since the last one
    std::atomic<std::uint64_t> dropped_{0};
    std::atomic<std::int64_t> next_look_{0};
    na::util::OptionalLock lock_;  // guards what follows; taken last
    Map shares_;
    std::uint64_t handles_ = 0;
    std::uint64_t bytes_ = 0;
    bool exhausted_ = false;
};

}  // namespace hg
