// SPDX-License-Identifier: BSD-3-Clause
// Matching of messages and receives for lanes on which the transport does not match.
//
// Unexpected: receives in the order they were posted, any source. Messages of one source are handed
// out in the order they came, those of several sources by turns. Expected: by (source, tag). A
// message that comes before its receive is held in memory of the core, within limits and shares
// (na/core/hold_budget.hpp): beyond them unexpected messages stay with the plugin, and of expected
// ones the sender's oldest is dropped (Mercury drops them all: the receive is to be posted first).
// Guarded by the context's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "na/core/address.hpp"
#include "na/core/counters.hpp"
#include "na/core/hold_budget.hpp"
#include "na/core/op.hpp"
#include "na/core/turns.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::inline impl {

class MatchQueue {
 public:
    // Ends an operation: the context's.
    using End = void (*)(void* context, Operation& op, const Outcome& outcome) noexcept;

    struct Limits {
        std::size_t max_unexpected;  // bytes of a message
        std::size_t max_expected;
        std::uint64_t held_messages;
        std::uint64_t held_bytes;
    };

    MatchQueue(const Limits& limits, Counters& counters, End end, void* context);
    ~MatchQueue();
    MatchQueue(const MatchQueue&) = delete;
    MatchQueue& operator=(const MatchQueue&) = delete;

    void post_unexpected(Operation& op) noexcept {  // single or multi
        ++posted_count_;
        op.used_ = 0;
        op.exhausted_ = false;
        op.set_state(Operation::State::matching);
        if (latest_first_) {
            unexpected_.push_front(op);
        } else {
            unexpected_.push_back(op);
        }
        made_room();
        // By turns only a poll hands out: a layer above that works off all that it has been given
        // would not poll otherwise before nothing is held any more.
        if (!held_unexpected_.empty() && !turns_.enabled()) [[unlikely]] {
            deliver_held();
        }
    }
    void post_expected(Operation& op) noexcept {
        if (expected_count_ > bucket_count_ * 2) [[unlikely]] {
            grow();
        }
        Bucket& b = bucket(op.address_, op.tag);
        ++posted_count_;
        count_listed(op, 1);
        op.set_state(Operation::State::matching);
        b.receives.push_back(op);
        if (!b.messages.empty()) [[unlikely]] {
            deliver_held(b, op);
        }
    }
    // For single receives whose buffer takes any message, that hold no reference and that nobody
    // else has to hear of: into a place of their own, which a message finds at once. False: it is
    // taken, or others wait before which none may come; see post_unexpected() and post_expected().
    bool post_latest(Operation& op) noexcept {
        if (latest_ != nullptr || !latest_first_ || refused_ != 0 || !held_unexpected_.empty())
            [[unlikely]] {
            return false;
        }
        op.set_state(Operation::State::matching);
        latest_ = &op;
        return true;
    }
    bool post_direct(Operation& op) noexcept {
        Place& at = place(op.address_, op.tag);
        if (at.op != nullptr || at.listed != 0 || !held_expected_.empty()) [[unlikely]] {
            return false;
        }
        op.set_state(Operation::State::matching);
        at.op = &op;
        ++direct_count_;
        return true;
    }
    void cancel(Operation& op) noexcept;  // state matching
    // Of unexpected receives, each as good as the other to their owner, the latest first: it is in
    // the caches.
    void latest_first(bool latest) noexcept { latest_first_ = latest; }

    bool is_bundle(std::uint32_t tag) const noexcept { return tag == bundle_tag_; }

    // For a whole message of `size` bytes that is there, which is no bundle: the receive that takes
    // it, out of the queue, for the caller to fill and to end. Null: not as simple as that, see
    // arrive().
    Operation* take_unexpected(std::size_t size) noexcept {
        Operation* op = latest_;
        if (op != nullptr && size <= limits_.max_unexpected && held_unexpected_.empty())
            [[likely]] {
            latest_ = nullptr;
            return op;
        }
        op = unexpected_.front();
        if (op == nullptr || op->kind != OpKind::recv_unexpected || size > op->length ||
            size > limits_.max_unexpected || !in_order() || (refused_ & kMuted) != 0) [[unlikely]] {
            return nullptr;
        }
        Receives::remove(*op);
        --posted_count_;
        return op;
    }
    // Of those that post_direct() has posted.
    Operation* take_direct(const Address& source, std::uint32_t tag, std::size_t size) noexcept {
        Place& at = place(&source, tag);
        Operation* op = at.op;
        if (op == nullptr || op->tag != tag || op->address_ != &source ||
            size > limits_.max_expected || !held_expected_.empty()) [[unlikely]] {
            return nullptr;
        }
        at.op = nullptr;
        --direct_count_;
        return op;
    }
    Operation* take_expected(const Address& source, std::uint32_t tag, std::size_t size) noexcept {
        Bucket& b = bucket(&source, tag);
        Operation* op = b.receives.front();
        if (op == nullptr || op->tag != tag || op->address_ != &source || size > op->length ||
            size > limits_.max_expected || !b.messages.empty()) [[unlikely]] {
            return nullptr;
        }
        Receives::remove(*op);
        --posted_count_;
        count_listed(*op, -1);
        return op;
    }

    // `whole`: the bytes follow at once. Otherwise the message is held until it is finished, and no
    // receive is taken.
    Landing* arrive(Lane lane, Address& source, std::uint32_t tag, std::size_t size,
                    bool whole = true) noexcept;
    void finish(Landing& landing, Status status) noexcept;

    // Whether there are expected receives from this peer.
    bool awaits(const Address& peer) noexcept;
    // Ends the expected receives from this peer, or from one of its contexts.
    void fail_peer(Address& peer, Status why, std::optional<std::uint8_t> context = {}) noexcept;

    // Unexpected messages of a muted peer are held, whatever receives there are, or refused to the
    // plugin. Those that are held already are held on.
    // False: as many as can be are muted already.
    bool mute(const Address& peer) noexcept;
    void unmute(const Address& peer) noexcept;
    // Drops what is held of a muted peer.
    void drop_muted(const Address& peer) noexcept;

    // False: expected messages without a receive are dropped at once.
    void hold_expected(bool hold) noexcept { hold_expected_ = hold; }

    // Held unexpected messages that wait for room in a multi-receive: deliver_held() when there may
    // be some.
    bool backlog() noexcept {
        return !held_unexpected_.empty() && (latest_ != nullptr || !unexpected_.empty());
    }
    bool deliverable() noexcept;
    void deliver_held() noexcept;

    // For a layer above that says when it begins with a message (na/core/turns.hpp).
    Turns& turns() noexcept { return turns_; }

    // begin_poll() or deliver_held() may have something to do.
    bool needs_poll() const noexcept { return refused_ != 0 || !held_unexpected_.empty(); }
    // A message was refused for want of room, and there is some now: the plugin shall announce it
    // again.
    bool room() noexcept { return refused_ != 0 && has_room(); }
    // A message was refused for want of memory, in this poll.
    bool starved() const noexcept { return (refused_ & kStarved) != 0; }
    // After an unexpected receive was posted: a poll would find something to do.
    bool wants_poll() noexcept { return !held_unexpected_.empty() || room(); }
    // Before each poll of the plugin.
    void begin_poll() noexcept {
        if (refused_ != 0) [[unlikely]] {
            refused_ = has_room() ? refused_ & kMuted : refused_ & ~kStarved;
        }
    }

    // From now on messages with the tag of bundles are taken apart (na/core/bundle.hpp). For users
    // to whom what is in `headroom` does not matter: that of parts is not written. Expected parts
    // without a receive are dropped.
    void split(std::uint32_t bundle_tag, std::size_t unexpected_headroom,
               std::size_t expected_headroom) noexcept {
        bundle_tag_ = bundle_tag;
        headroom_[0] = unexpected_headroom;
        headroom_[1] = expected_headroom;
    }

    bool empty() const noexcept {
        return posted_count_ == 0 && direct_count_ == 0 && latest_ == nullptr &&
               landing_count_ == 0;
    }  // no receive is posted or written
    std::uint64_t held() const noexcept { return budget_.messages(); }

 private:
    using Receives = util::IntrusiveList<Operation, &Operation::hook_>;
    using Messages = util::IntrusiveList<Held, &Held::hook>;
    using Aged = util::IntrusiveList<Held, &Held::age>;
    using Ready = util::IntrusiveList<HoldShare, &HoldShare::turn_>;
    struct Bucket {
        Receives receives;
        Messages messages;
    };

    static std::size_t hash(const Address* source, std::uint32_t tag) noexcept {
        const auto p = reinterpret_cast<std::uintptr_t>(source) >> 4;
        return (p ^ tag) * 0x9e3779b97f4a7c15ULL >> 20;
    }
    Bucket& bucket(const Address* source, std::uint32_t tag) noexcept {
        return buckets_[hash(source, tag) & (bucket_count_ - 1)];
    }
    struct Place {
        Operation* op = nullptr;   // older than those of the same peer and tag in a bucket
        std::uint32_t listed = 0;  // receives in buckets whose place this would be
    };
    // Tags of one peer follow each other, by steps of the number of its contexts.
    Place& place(const Address* source, std::uint32_t tag) noexcept {
        const auto p = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(source) >> 6);
        return places_[(tag ^ tag >> 8 ^ p) % kPlaces];
    }
    void count_listed(const Operation& op, int by) noexcept {
        const auto n = static_cast<std::uint32_t>(by);
        expected_count_ += n;
        place(op.address_, op.tag).listed += n;
    }
    // What is not as simple as take_unexpected() and take_direct() looks at lists only.
    Bucket& list(const Address* source, std::uint32_t tag) noexcept {
        if (direct_count_ != 0) {
            enlist(place(source, tag));
        }
        return bucket(source, tag);
    }
    void enlist(Place& at) noexcept;
    void enlist_all() noexcept;
    void enlist_latest() noexcept;
    bool leave_place(Operation& op) noexcept;
    void grow() noexcept;
    void deliver_held(Bucket& b, Operation& op) noexcept;
    Held* hold(Lane lane, Address& source, std::uint32_t tag, std::size_t size,
               Landing::Kind kind) noexcept;
    void unlink(Held& held) noexcept;
    void discard(Held* held) noexcept;
    Landing* drop() noexcept;
    Landing* refuse(unsigned why) noexcept;
    bool has_room() noexcept;
    void made_room() noexcept {
        if (refused_ != 0) [[unlikely]] {
            refused_ |= kRoom;
        }
    }
    Landing* land(Operation& op, Address& source, std::uint32_t tag, std::size_t size) noexcept;
    Landing* land_multi(Operation& op, Address& source, std::uint32_t tag,
                        std::size_t size) noexcept;
    Operation* taker() noexcept;
    static Operation* taker(Bucket& b, const Address* source, std::uint32_t tag) noexcept;
    static bool writing(Bucket& b, const Address* source, std::uint32_t tag) noexcept;
    bool deliver(Held& held, Operation& op) noexcept;
    Landing* arrive_bundle(Lane lane, Address& source, std::size_t size, bool whole) noexcept;
    void finish_bundle(Held& bundle, Status status) noexcept;
    bool open_bundle(Held& bundle) noexcept;
    std::span<const std::byte> content(const Held& bundle) const noexcept;
    void deliver_expected_parts(const Held& bundle) noexcept;
    bool deliver_part(Held& bundle, Operation& op) noexcept;
    // A message that comes now may go into a receive at once.
    bool in_order() const noexcept { return held_unexpected_.empty() && turns_.open(); }
    void note_turn(HoldShare& share) noexcept;
    void enter_unexpected(Held& held) noexcept;
    void end_multi(Held& part, Status status) noexcept;
    void finish_held(Held& held, Status status) noexcept;
    bool make_room_for_unexpected(const Address& source, std::size_t size) noexcept;
    void make_room_for_expected(const Address& source, std::size_t size) noexcept;
    void drop_held(Held& oldest) noexcept;

    // Bits of refused_.
    static constexpr unsigned kWhole =
        1 << 0;  // a message that could have gone into a receive directly
    static constexpr unsigned kParts = 1 << 1;    // one that cannot
    static constexpr unsigned kStarved = 1 << 2;  // for want of memory
    static constexpr unsigned kRoom = 1 << 3;     // something has been given back since
    static constexpr unsigned kMuted = 1
                                       << 4;  // peers are muted: arrive() is asked for each message

    static constexpr std::size_t kPlaces = 256;
    static constexpr std::size_t kMostMuted = 16;
    bool is_muted(const Address& peer) const noexcept;
    Landing* arrive_muted(Address& source, std::uint32_t tag, std::size_t size) noexcept;
    void move_held(const Address& peer, bool muted) noexcept;

    const Limits limits_;
    Counters& counters_;
    const End end_;
    void* const context_;
    Operation* latest_ = nullptr;  // comes before those of unexpected_
    Receives unexpected_;
    // Each message is in the share of its peer, too; the order among peers means nothing here.
    Aged held_unexpected_;
    Aged held_muted_;  // unexpected, of muted peers
    Ready ready_;      // peers whose oldest unexpected message can be handed out
    Turns turns_;
    std::unique_ptr<Bucket[]> buckets_;
    std::size_t bucket_count_;
    Aged held_expected_;
    HoldBudget budget_;
    std::uint64_t bundle_tag_ = UINT64_MAX;  // that, no message has
    std::size_t headroom_[kLanes] = {0, 0};
    Held* spare_ = nullptr;  // with room for any message; null: not made yet, or in use
    Landing dropped_;  // takes the place of every message that is dropped before a byte of it was
                       // written
    unsigned refused_ = 0;
    std::array<const Address*, kMostMuted> muted_{};  // null: free
    std::uint64_t posted_count_ = 0;
    std::uint64_t landing_count_ = 0;   // messages being written into receives
    std::uint32_t expected_count_ = 0;  // in buckets
    std::uint32_t direct_count_ = 0;
    bool hold_expected_ = true;
    bool latest_first_ = false;
    Place places_[kPlaces];
};

}  // namespace na::inline impl
