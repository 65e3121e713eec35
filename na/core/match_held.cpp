// SPDX-License-Identifier: BSD-3-Clause
// Messages that came before their receive: held within the budget, handed out to the receives that
// come, peer by peer; and peers whose messages are only held.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "na/core/match_queue.hpp"

namespace na::inline impl {

// --- holding
// ---------------------------------------------------------------------------------------------------------

Held* MatchQueue::hold(Lane lane, Address& source, std::uint32_t tag, std::size_t size,
                       Landing::Kind kind) noexcept {
    void* memory = ::operator new(sizeof(Held) + size, std::nothrow);
    if (memory == nullptr) {
        refuse(kStarved);
        return nullptr;
    }
    Held* held = new (memory) Held;
    held->into = kind;
    held->on = lane;
    held->got_tag = tag;
    held->size = size;
    held->source = &source;
    source.ref();
    if (kind == Landing::Kind::held) {
        if (!budget_.take(*held)) {
            discard(held);
            refuse(kStarved);
            return nullptr;
        }
        held->data = held + 1;
        counters_.held.add();
        if (lane == Lane::unexpected) {
            enter_unexpected(*held);
        } else {
            bucket(&source, tag).messages.push_back(*held);
            held_expected_.push_back(*held);
        }
    }
    return held;
}

// Behind what is held of the same peer.
void MatchQueue::enter_unexpected(Held& held) noexcept {
    HoldShare& share = *held.share;
    if (share.unexpected_.empty()) {
        share.muted_ = (refused_ & kMuted) != 0 && is_muted(*held.source);
    }
    share.unexpected_.push_back(held);
    (share.muted_ ? held_muted_ : held_unexpected_).push_back(held);
}

// Out of the lists of held messages, and of the count.
void MatchQueue::unlink(Held& held) noexcept {
    Messages::remove(held);
    Aged::remove(held);
    if (held.on == Lane::unexpected) {
        note_turn(*held.share);
    }
    budget_.give(held);
    made_room();
}

// Frees a record that is in no list.
void MatchQueue::discard(Held* held) noexcept {
    if (held->source != nullptr) {
        std::exchange(held->source, nullptr)->unref();
    }
    if (held->spare && spare_ == nullptr) {
        spare_ = held;
        return;
    }
    held->~Held();
    ::operator delete(held);
}

// Where peers that hold little have filled everything, expected messages that nobody receives make
// way. False: refused.
bool MatchQueue::make_room_for_unexpected(const Address& source, std::size_t size) noexcept {
    while (!budget_.admits(source, Lane::unexpected, size)) {
        Held* oldest =
            budget_.little(source, Lane::unexpected, size) ? held_expected_.front() : nullptr;
        if (oldest == nullptr) {
            return false;
        }
        drop_held(*oldest);
    }
    return true;
}

// Drops the oldest of the same source; that of another one only where many peers that hold little
// have filled everything.
void MatchQueue::make_room_for_expected(const Address& source, std::size_t size) noexcept {
    while (!budget_.admits(source, Lane::expected, size)) {
        HoldShare* share = budget_.find(source);
        Held* oldest = share == nullptr ? nullptr : share->oldest_expected();
        if (oldest == nullptr && (oldest = held_expected_.front()) == nullptr) {
            return;
        }
        drop_held(*oldest);
    }
}

void MatchQueue::drop_held(Held& oldest) noexcept {
    unlink(oldest);
    counters_.dropped.add();
    if (oldest.complete) {
        discard(&oldest);
    } else {
        oldest.into =
            Landing::Kind::discard;  // the plugin is still writing into it: it goes when that ends
    }
}

// --- handing out
// ---------------------------------------------------------------------------------------------------------

// The peer has its turn while its oldest message can be handed out.
void MatchQueue::note_turn(HoldShare& share) noexcept {
    const Held* oldest = share.unexpected_.front();
    const bool due = oldest != nullptr && oldest->complete && !share.muted_;
    if (due && !share.turn_.linked()) {
        ready_.push_back(share);
    } else if (!due && share.turn_.linked()) {
        Ready::remove(share);
    }
}

// One message of each peer after the other. A message that is still being written is offered when
// it is finished: messages of one peer are finished in order.
void MatchQueue::deliver_held() noexcept {
    while (HoldShare* share = ready_.front()) {
        Operation* op = turns_.open() ? taker() : nullptr;
        if (op == nullptr) {
            return;
        }
        Ready::remove(*share);
        ready_.push_back(*share);
        Held& oldest = *share->unexpected_.front();
        if (oldest.next_part != 0 ? !deliver_part(oldest, *op) : !deliver(oldest, *op)) {
            return;
        }
    }
    if (held_unexpected_.empty()) {
        turns_.forget();
    }
}

bool MatchQueue::deliverable() noexcept {
    return !ready_.empty() && taker() != nullptr;
}

void MatchQueue::finish_held(Held& held, Status status) noexcept {
    if (status != Status::success || (held.got_tag == bundle_tag_ && !open_bundle(held))) {
        unlink(held);
        discard(&held);
        return;
    }
    held.complete = true;
    if (held.on == Lane::unexpected) {
        note_turn(*held.share);
        deliver_held();
        return;
    }
    if (held.next_part != 0) {
        unlink(held);
        deliver_expected_parts(held);
        discard(&held);
        return;
    }
    if (Operation* op = taker(list(held.source, held.got_tag), held.source, held.got_tag);
        op != nullptr) {
        deliver(held, *op);
    } else if (!hold_expected_) {  // its receive has been canceled meanwhile
        unlink(held);
        counters_.dropped.add();
        discard(&held);
    }
}

// Moves a complete held message into a posted receive. False: the receive cannot take it now.
bool MatchQueue::deliver(Held& held, Operation& op) noexcept {
    Landing* landing = nullptr;
    if (op.kind == OpKind::multi_recv_unexpected) {
        landing = land_multi(op, *held.source, held.got_tag, held.size);
        if (landing == nullptr) {
            return false;
        }
    } else {
        if (op.kind == OpKind::recv_expected) {
            count_listed(op, -1);
        }
        landing = land(op, *held.source, held.got_tag, held.size);
    }
    if (landing->data != nullptr && held.size != 0) {
        std::memcpy(landing->data, held.data, held.size);
    }
    unlink(held);
    discard(&held);
    finish(*landing, Status::success);
    return true;
}

// --- muted peers
// ---------------------------------------------------------------------------------------------------

bool MatchQueue::is_muted(const Address& peer) const noexcept {
    return std::find(muted_.begin(), muted_.end(), &peer) != muted_.end();
}

// Moves the messages that are held of the peer between the muted ones and the others.
void MatchQueue::move_held(const Address& peer, bool muted) noexcept {
    HoldShare* share = budget_.find(peer);
    if (share == nullptr) {
        return;
    }
    share->muted_ = muted;
    note_turn(*share);
    Aged& to = muted ? held_muted_ : held_unexpected_;
    for (Held* held = share->unexpected_.front(); held != nullptr;
         held = share->unexpected_.next(*held)) {
        Aged::remove(*held);
        to.push_back(*held);
    }
}

bool MatchQueue::mute(const Address& peer) noexcept {
    const auto at = std::find(muted_.begin(), muted_.end(), nullptr);
    if (at == muted_.end()) {
        return false;
    }
    *at = &peer;
    refused_ |= kMuted;
    move_held(peer, true);
    enlist_latest();  // which take_unexpected() would take without a look at this
    return true;
}

void MatchQueue::drop_muted(const Address& peer) noexcept {
    HoldShare* share = is_muted(peer) ? budget_.find(peer) : nullptr;
    // The last one takes the share with it where the peer holds nothing else.
    for (Held* held = share == nullptr ? nullptr : share->unexpected_.front(); held != nullptr;) {
        Held* next = share->unexpected_.next(*held);
        drop_held(*held);
        held = next;
    }
}

void MatchQueue::unmute(const Address& peer) noexcept {
    const auto at = std::find(muted_.begin(), muted_.end(), &peer);
    if (at == muted_.end()) {
        return;
    }
    *at = nullptr;
    move_held(peer, false);
    refused_ |= kRoom;  // the plugin announces what was refused once more
    if (std::all_of(muted_.begin(), muted_.end(), [](const Address* a) { return a == nullptr; })) {
        refused_ &= ~kMuted;
    }
}

// A muted peer's messages are held, in a quarter of the room: where the transport keeps one order
// for both lanes, acknowledgements come behind them. What is beyond that stays with the plugin. No
// room will come of this poll, and unmute() says when there is some: nothing to remember.
Landing* MatchQueue::arrive_muted(Address& source, std::uint32_t tag, std::size_t size) noexcept {
    if (size > limits_.max_unexpected) {
        return drop();
    }
    if (!budget_.admits_muted(source, size)) {
        counters_.refused.add();
        return nullptr;
    }
    return hold(Lane::unexpected, source, tag, size, Landing::Kind::held);
}

}  // namespace na::inline impl
