// SPDX-License-Identifier: BSD-3-Clause
// Messages that are held back for receives to come, and how many of them one peer may have.
//
// The limits are the context's. A quarter of them is kept for peers that hold little on a lane: one
// that sends a few messages neither waits for nor loses anything to another that sends many. The
// rest is for whoever needs it: a peer that is the only one may take it all; otherwise nobody takes
// more than is left then, so that several that send as much as they can end up with equal parts.
// Constant time; allocates when more peers than ever before hold something at a time, and nothing
// else. Guarded by the context's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "na/core/address.hpp"
#include "na/core/op.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::inline impl {

class HoldShare;

// A message without a receive, or part of a multi-receive; the payload of a held one follows the
// object.
struct Held : Landing {
    util::ListHook hook;  // expected: in a bucket; unexpected: oldest first, of the same source
    util::ListHook age;   // oldest first, of the lane; unexpected: in any order
    util::ListHook own;   // expected: oldest first, of the same source
    HoldShare* share = nullptr;  // counted there
    Operation* op = nullptr;
    bool complete = false;
    bool spare = false;         // the match queue's own, for the next bundle: not counted
    std::size_t next_part = 0;  // of a bundle that is complete: where in it; else 0
};

// What one peer holds; exists while that is anything.
class HoldShare {
 public:
    // The oldest expected message of the peer; null: none.
    Held* oldest_expected() noexcept { return expected_.front(); }

 private:
    friend class HoldBudget;
    friend class MatchQueue;
    struct Amount {
        std::uint64_t messages = 0;
        std::uint64_t bytes = 0;
    };
    const Address* peer_ = nullptr;
    HoldShare* next_ = nullptr;  // in its bucket, in the free list
    Amount lanes_[kLanes];
    util::IntrusiveList<Held, &Held::own> expected_;
    util::IntrusiveList<Held, &Held::hook> unexpected_;
    util::ListHook turn_;  // linked: the oldest of unexpected_ may be handed out
    bool muted_ = false;   // means nothing while unexpected_ is empty
};

class HoldBudget {
 public:
    HoldBudget(std::uint64_t messages, std::uint64_t bytes);

    // Whether the peer may hold one more message of `size` bytes on the lane.
    bool admits(const Address& peer, Lane lane, std::size_t size) const noexcept;
    // Whether the peer would hold little with it: then it is refused only where all room is taken.
    bool little(const Address& peer, Lane lane, std::size_t size) const noexcept {
        return little(find(peer), lane, size);
    }
    // Whether there is room for an unexpected message of a muted peer, which is held whatever
    // receives there are. Such a peer gets a quarter of all room at most.
    bool admits_muted(const Address& peer, std::size_t size) const noexcept;
    // Enters a message, admitted or not, of held.source on held.on into the share of its peer, and
    // counts it, but for the spare. False: out of memory.
    bool take(Held& held) noexcept;
    // Takes a message out of the share of its peer, and no longer counts it. Requires: the message
    // is out of the list of the share.
    void give(Held& held) noexcept;

    // What the peer holds; null: nothing.
    HoldShare* find(const Address& peer) const noexcept;
    std::uint64_t messages() const noexcept { return all_.messages; }

 private:
    using Amount = HoldShare::Amount;
    bool little(const HoldShare* share, Lane lane, std::size_t size) const noexcept;
    static Amount of_both(const HoldShare& share) noexcept;
    HoldShare*& bucket(const Address* peer) const noexcept;
    HoldShare* make(const Address* peer) noexcept;
    void grow() noexcept;

    const Amount limit_;
    const Amount common_;  // of the limit, what is not kept for those that hold little
    const Amount little_;
    Amount all_;
    std::unique_ptr<HoldShare*[]> buckets_;
    std::size_t bucket_count_;
    HoldShare* free_ = nullptr;
    std::vector<std::unique_ptr<HoldShare>> shares_;
};

}  // namespace na::inline impl
