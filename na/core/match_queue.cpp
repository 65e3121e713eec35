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
    for (Aged* list : {&held_unexpected_, &held_muted_, &held_expected_}) {
        while (Held* held = list->front()) {
            unlink(*held);
            discard(held);
        }
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
        return arrive_muted(source, tag, size);
    }
    if (tag == bundle_tag_) {
        return arrive_bundle(lane, source, size, whole);
    }
    if (lane == Lane::unexpected) {
        if (size > limits_.max_unexpected) {
            return drop();
        }
        // Not before others that wait for a receive, or that are still being written.
        if (Operation* op = whole && in_order() ? taker() : nullptr; op != nullptr) {
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

}  // namespace na::inline impl
