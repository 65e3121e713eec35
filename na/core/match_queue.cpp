// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/match_queue.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace na::inline impl {
namespace {

constexpr std::size_t kFirstBuckets = 256;
// Parts of a multi-receive buffer start at such offsets, so that users may cast what they get.
constexpr std::size_t kPartAlignment = 16;

bool takes(const Operation& op, const Address* source, std::uint32_t tag) noexcept {
    return op.tag == tag && op.peer == &source->peer();
}

}  // namespace

MatchQueue::MatchQueue(const Limits& limits, Counters& counters, End end, void* context)
    : limits_(limits),
      counters_(counters),
      end_(end),
      context_(context),
      buckets_(new Bucket[kFirstBuckets]),
      bucket_count_(kFirstBuckets),
      budget_(limits.held_messages, limits.held_bytes) {
    dropped_.into = Landing::Kind::discard;
}

MatchQueue::~MatchQueue() {
    while (Held* held = held_unexpected_.front()) {
        unlink(*held);
        discard(held);
    }
    while (Held* held = held_muted_.front()) {
        unlink(*held);
        discard(held);
    }
    while (Held* held = held_expected_.front()) {
        unlink(*held);
        discard(held);
    }
    ::operator delete(spare_);
}

void MatchQueue::grow() noexcept {
    const std::size_t old_count = bucket_count_;
    std::unique_ptr<Bucket[]> bigger(new (std::nothrow) Bucket[old_count * 4]);
    if (bigger == nullptr) {
        return;  // longer chains are still correct
    }
    const std::unique_ptr<Bucket[]> old = std::exchange(buckets_, std::move(bigger));
    bucket_count_ = old_count * 4;
    for (std::size_t i = 0; i < old_count; ++i) {
        while (Operation* op = old[i].receives.pop_front()) {
            bucket(op->address_, op->tag).receives.push_back(*op);
        }
        while (Held* held = old[i].messages.pop_front()) {
            bucket(held->source, held->got_tag).messages.push_back(*held);
        }
    }
}

// --- posting
// ---------------------------------------------------------------------------------------------------------

// To where it would be, had it been posted as any other.
void MatchQueue::enlist(Place& at) noexcept {
    if (Operation* op = std::exchange(at.op, nullptr); op != nullptr) {
        --direct_count_;
        ++posted_count_;
        count_listed(*op, 1);
        bucket(op->address_, op->tag).receives.push_front(*op);
    }
}

void MatchQueue::enlist_all() noexcept {
    for (std::size_t i = 0; direct_count_ != 0 && i < kPlaces; ++i) {
        enlist(places_[i]);
    }
}

void MatchQueue::enlist_latest() noexcept {
    if (Operation* op = std::exchange(latest_, nullptr); op != nullptr) {
        ++posted_count_;
        unexpected_.push_front(*op);
    }
}

// True: it had a place of its own.
bool MatchQueue::leave_place(Operation& op) noexcept {
    if (op.hook_.linked()) {
        return false;
    }
    if (op.kind == OpKind::recv_expected) {
        place(op.address_, op.tag).op = nullptr;
        --direct_count_;
    } else {
        latest_ = nullptr;
    }
    return true;
}

// The first receive that can take a message.
Operation* MatchQueue::taker() noexcept {
    enlist_latest();
    Operation* op = unexpected_.front();
    while (op != nullptr && op->kind == OpKind::multi_recv_unexpected && op->credits() == 0) {
        op = unexpected_.next(*op);
    }
    return op;
}

// What is still being written cannot be taken yet, it is offered again when it is finished.
// Messages of one peer are finished in order, so that none of them is passed over here.
void MatchQueue::deliver_held() noexcept {
    for (Held* held = held_unexpected_.front(); held != nullptr;) {
        Held* next = held_unexpected_.next(*held);
        if (held->complete) {
            for (bool over = false; !over;) {
                Operation* op = taker();
                if (op == nullptr) {
                    return;
                }
                if (held->next_part != 0) [[unlikely]] {
                    if (!deliver_part(*held, *op, over)) {
                        return;
                    }
                } else if (deliver(*held, *op)) {
                    over = true;
                } else {
                    return;
                }
            }
        }
        held = next;
    }
}

bool MatchQueue::deliverable() noexcept {
    if (!backlog() || taker() == nullptr) {
        return false;
    }
    for (Held* held = held_unexpected_.front(); held != nullptr;
         held = held_unexpected_.next(*held)) {
        if (held->complete) {
            return true;
        }
    }
    return false;
}

// A message for a receive that has just been posted.
void MatchQueue::deliver_held(Bucket& b, Operation& op) noexcept {
    for (Held* held = b.messages.front(); held != nullptr; held = b.messages.next(*held)) {
        if (held->complete && takes(op, held->source, held->got_tag)) {
            deliver(*held, op);
            return;
        }
    }
}

void MatchQueue::cancel(Operation& op) noexcept {
    if (!leave_place(op)) {
        Receives::remove(op);
        --posted_count_;
        if (op.kind == OpKind::recv_expected) {
            count_listed(op, -1);
        }
    }
    if (op.kind == OpKind::multi_recv_unexpected && op.landings_ != 0) {
        // Messages on their way into the buffer end it: the last one says so.
        op.exhausted_ = true;
        op.set_state(Operation::State::landing);
        return;
    }
    end_(context_, op, Outcome{.status = Status::canceled});
}

bool MatchQueue::awaits(const Address& peer) noexcept {
    enlist_all();
    for (std::size_t i = 0; expected_count_ != 0 && i < bucket_count_; ++i) {
        Receives& receives = buckets_[i].receives;
        for (Operation* op = receives.front(); op != nullptr; op = receives.next(*op)) {
            if (op->address_ == &peer) {
                return true;
            }
        }
    }
    return false;
}

void MatchQueue::fail_peer(Address& peer, Status why,
                           std::optional<std::uint8_t> context) noexcept {
    enlist_all();
    if (expected_count_ == 0) {
        return;
    }
    for (std::size_t i = 0; i < bucket_count_; ++i) {
        Receives& receives = buckets_[i].receives;
        for (Operation* op = receives.front(); op != nullptr;) {
            Operation* next = receives.next(*op);
            if (op->address_ == &peer && (!context || op->target_id == *context)) {
                Receives::remove(*op);
                --posted_count_;
                count_listed(*op, -1);
                end_(context_, *op, Outcome{.status = why});
            }
            op = next;
        }
    }
}

// --- arrival
// ---------------------------------------------------------------------------------------------------------

Landing* MatchQueue::arrive(Lane lane, Address& source, std::uint32_t tag, std::size_t size,
                            bool whole) noexcept {
    if ((refused_ & kMuted) != 0 && lane == Lane::unexpected && is_muted(source)) [[unlikely]] {
        return refuse_muted();
    }
    if (tag == bundle_tag_) {
        return arrive_bundle(lane, source, size, whole);
    }
    if (lane == Lane::unexpected) {
        if (size > limits_.max_unexpected) {
            return drop();
        }
        // Not before others that wait for a receive, or that are still being written.
        if (Operation* op = whole && held_unexpected_.empty() ? taker() : nullptr; op != nullptr) {
            return op->kind == OpKind::recv_unexpected ? land(*op, source, tag, size)
                                                       : land_multi(*op, source, tag, size);
        }
        if (!make_room_for_unexpected(source, size)) {
            return refuse(whole ? kWhole : kParts);
        }
        return hold(lane, source, tag, size, Landing::Kind::held);
    }
    if (size > limits_.max_expected) {
        return drop();
    }
    Bucket& b = list(&source, tag);
    Operation* op = taker(b, &source, tag);
    if (op == nullptr && !hold_expected_) {
        return drop();
    }
    if (op != nullptr && whole && !writing(b, &source, tag)) {
        count_listed(*op, -1);
        return land(*op, source, tag, size);
    }
    make_room_for_expected(source, size);
    return hold(lane, source, tag, size, Landing::Kind::held);
}

// --- muted peers
// ---------------------------------------------------------------------------------------------------

bool MatchQueue::is_muted(const Address& peer) const noexcept {
    return std::find(muted_.begin(), muted_.end(), &peer) != muted_.end();
}

// What is held of the peer, in order.
void MatchQueue::move_held(Messages& from, Messages& to, const Address& peer) noexcept {
    for (Held* held = from.front(); held != nullptr;) {
        Held* next = from.next(*held);
        if (held->source == &peer && held->into == Landing::Kind::held) {
            Messages::remove(*held);
            to.push_back(*held);
        }
        held = next;
    }
}

bool MatchQueue::mute(const Address& peer) noexcept {
    const auto at = std::find(muted_.begin(), muted_.end(), nullptr);
    if (at == muted_.end()) {
        return false;
    }
    *at = &peer;
    refused_ |= kMuted;
    move_held(held_unexpected_, held_muted_, peer);
    enlist_latest();  // which take_unexpected() would take without a look at this
    return true;
}

void MatchQueue::drop_muted(const Address& peer) noexcept {
    for (Held* held = held_muted_.front(); held != nullptr;) {
        Held* next = held_muted_.next(*held);
        if (held->source == &peer) {
            drop_held(*held);
        }
        held = next;
    }
}

void MatchQueue::unmute(const Address& peer) noexcept {
    const auto at = std::find(muted_.begin(), muted_.end(), &peer);
    if (at == muted_.end()) {
        return;
    }
    *at = nullptr;
    move_held(held_muted_, held_unexpected_, peer);
    refused_ |= kRoom;  // the plugin announces what was refused once more
    if (std::all_of(muted_.begin(), muted_.end(), [](const Address* a) { return a == nullptr; })) {
        refused_ &= ~kMuted;
    }
}

// No room will come of this poll, and unmute() says when there is some: nothing to remember.
Landing* MatchQueue::refuse_muted() noexcept {
    counters_.refused.add();
    return nullptr;
}

Landing* MatchQueue::drop() noexcept {
    counters_.dropped.add();
    return &dropped_;
}

Landing* MatchQueue::refuse(unsigned why) noexcept {
    counters_.refused.add();
    refused_ |= why;
    return nullptr;
}

// Asked after a refusal. A receive that has got a credit since needs no room.
bool MatchQueue::has_room() noexcept {
    return (refused_ & kRoom) != 0 ||
           ((refused_ & kWhole) != 0 && held_unexpected_.empty() && taker() != nullptr);
}

// A message of that source and tag is still being written: the next one must not reach a receive
// before it.
bool MatchQueue::writing(Bucket& b, const Address* source, std::uint32_t tag) noexcept {
    for (Held* held = b.messages.front(); held != nullptr; held = b.messages.next(*held)) {
        if (held->source == source && held->got_tag == tag) {
            return true;
        }
    }
    return false;
}

Operation* MatchQueue::taker(Bucket& b, const Address* source, std::uint32_t tag) noexcept {
    for (Operation* op = b.receives.front(); op != nullptr; op = b.receives.next(*op)) {
        if (takes(*op, source, tag)) {
            return op;
        }
    }
    return nullptr;
}

Landing* MatchQueue::land(Operation& op, Address& source, std::uint32_t tag,
                          std::size_t size) noexcept {
    Receives::remove(op);
    --posted_count_;
    ++landing_count_;
    op.set_state(Operation::State::landing);
    Landing& landing = op;
    landing.into = Landing::Kind::operation;
    landing.on = op.Op::lane();
    landing.got_tag = tag;
    landing.size = size;
    landing.source = &source;
    landing.data = size <= op.length ? op.buffer : nullptr;
    source.ref();
    return &landing;
}

Landing* MatchQueue::land_multi(Operation& op, Address& source, std::uint32_t tag,
                                std::size_t size) noexcept {
    Held* part = hold(Lane::unexpected, source, tag, 0, Landing::Kind::multi);
    if (part == nullptr) {
        return nullptr;
    }
    part->op = &op;
    part->size = size;
    part->data = static_cast<std::byte*>(op.buffer) + op.used_;
    op.credits_.fetch_sub(1, std::memory_order_relaxed);
    op.used_ += (size + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    ++op.landings_;
    ++landing_count_;
    if (op.used_ > op.length || op.length - op.used_ < limits_.max_unexpected) {
        op.exhausted_ = true;
        op.set_state(Operation::State::landing);
        Receives::remove(op);
        --posted_count_;
    }
    return part;
}

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
            held_unexpected_.push_back(*held);
        } else {
            bucket(&source, tag).messages.push_back(*held);
            held_expected_.push_back(*held);
        }
    }
    return held;
}

// Out of the lists of held messages, and of the count.
void MatchQueue::unlink(Held& held) noexcept {
    Messages::remove(held);
    if (held.on == Lane::expected) {
        Aged::remove(held);
    }
    if (held.share != nullptr) [[likely]] {  // but for a bundle that came for a receive
        budget_.give(held);
    }
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

// --- the end of an arrival
// -------------------------------------------------------------------------------------------

void MatchQueue::finish(Landing& landing, Status status) noexcept {
    switch (landing.into) {
        case Landing::Kind::operation: {
            auto& op = static_cast<Operation&>(landing);
            --landing_count_;
            Address* source = landing.source;
            if (status == Status::success) {
                if (landing.data == nullptr && landing.size != 0) {
                    counters_.truncated.add();
                    status = Status::msgsize;
                } else {
                    counters_.receives.add();
                }
            }
            const bool give = op.kind == OpKind::recv_unexpected && status == Status::success;
            if (!give) {
                source->unref();
            }
            end_(context_, op,
                 Outcome{.status = status,
                         .size = status == Status::success ? landing.size : 0,
                         .source = give ? source : nullptr,
                         .tag = landing.got_tag,
                         .data = op.buffer});
            return;
        }
        case Landing::Kind::multi:
            end_multi(static_cast<Held&>(landing), status);
            return;
        case Landing::Kind::held:
            finish_held(static_cast<Held&>(landing), status);
            return;
        case Landing::Kind::bundle:
            finish_bundle(static_cast<Held&>(landing), status);
            return;
        case Landing::Kind::discard:
            if (&landing != &dropped_) {
                discard(&static_cast<Held&>(landing));
            }
            return;
    }
}

void MatchQueue::end_multi(Held& part, Status status) noexcept {
    Operation& op = *part.op;
    --op.landings_;
    --landing_count_;
    const bool last = op.exhausted_ && op.landings_ == 0;
    Outcome outcome{.status = status,
                    .size = part.size,
                    .source = nullptr,
                    .tag = part.got_tag,
                    .data = part.data,
                    .last = last};
    if (status == Status::success) {
        counters_.receives.add();
        outcome.source = std::exchange(part.source, nullptr);
    } else {
        outcome.size = 0;
    }
    discard(&part);
    end_(context_, op, outcome);
}

void MatchQueue::finish_held(Held& held, Status status) noexcept {
    if (status != Status::success || (held.got_tag == bundle_tag_ && !open_bundle(held))) {
        unlink(held);
        discard(&held);
        return;
    }
    held.complete = true;
    if (held.on == Lane::unexpected) {
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

}  // namespace na::inline impl
