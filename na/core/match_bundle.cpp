// SPDX-License-Identifier: BSD-3-Clause
// Matching of bundles: each part is matched as the message that it stands for, at the place of the
// bundle among the others of its lane.
//
// A bundle is written into memory of the queue's own first. Where a receive waits for it, that is
// the spare, which costs no allocation, and which the budget of held messages does not ask about:
// what the receives at hand do not take is then alone in the queue, so that there is no more than
// one such rest at a time. Where none waits it is held as any message, within limits and shares.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "na/core/bundle.hpp"
#include "na/core/match_queue.hpp"
#include "na/util/log.hpp"

namespace na::inline impl {

Landing* MatchQueue::arrive_bundle(Lane lane, Address& source, std::size_t size,
                                   bool whole) noexcept {
    const auto tag = static_cast<std::uint32_t>(bundle_tag_);
    if (size > (lane == Lane::unexpected ? limits_.max_unexpected : limits_.max_expected)) {
        return drop();
    }
    if (lane == Lane::unexpected && !(whole && held_unexpected_.empty() && taker() != nullptr))
        [[unlikely]] {
        if (!make_room_for_unexpected(source, size)) {
            return refuse(whole ? kWhole : kParts);
        }
        return hold(lane, source, tag, size, Landing::Kind::held);
    }
    if (!whole) [[unlikely]] {
        make_room_for_expected(source, size);
        return hold(lane, source, tag, size, Landing::Kind::held);
    }
    Held* held = std::exchange(spare_, nullptr);
    if (held != nullptr) [[likely]] {
        *held = Held{};
    } else {
        const std::size_t room = std::max(limits_.max_unexpected, limits_.max_expected);
        void* memory = ::operator new(sizeof(Held) + room, std::nothrow);
        if (memory == nullptr) {
            return refuse(kStarved);
        }
        held = new (memory) Held;
    }
    held->spare = true;
    held->into = Landing::Kind::bundle;
    held->on = lane;
    held->got_tag = tag;
    held->size = size;
    held->source = &source;
    held->data = held + 1;
    source.ref();
    if (lane == Lane::unexpected) {
        // What comes before it is finished shall not take the receives that its parts will need.
        if (!budget_.take(*held)) {
            discard(held);
            return refuse(kStarved);
        }
        enter_unexpected(*held);
    }
    return held;
}

std::span<const std::byte> MatchQueue::content(const Held& bundle) const noexcept {
    const std::size_t headroom = headroom_[static_cast<std::size_t>(bundle.on)];
    const auto* bytes = reinterpret_cast<const std::byte*>(&bundle + 1);
    return bundle.size < headroom ? std::span<const std::byte>{}
                                  : std::span(bytes + headroom, bundle.size - headroom);
}

// The bytes are there. False: it is none.
bool MatchQueue::open_bundle(Held& bundle) noexcept {
    const std::size_t parts =
        bundle::parts(content(bundle), static_cast<std::uint32_t>(bundle_tag_));
    if (parts == 0) [[unlikely]] {
        counters_.dropped.add();
        NA_LOG_WARNING(msg, "dropped a malformed bundle of messages");
        return false;
    }
    counters_.bundles_received.add();
    counters_.bundled_received.add(parts);
    bundle.next_part = bundle::kHeader;
    return true;
}

void MatchQueue::finish_bundle(Held& bundle, Status status) noexcept {
    if (status != Status::success || !open_bundle(bundle)) [[unlikely]] {
        if (bundle.on == Lane::unexpected) {
            unlink(bundle);
        }
        discard(&bundle);
        return;
    }
    if (bundle.on == Lane::expected) {
        deliver_expected_parts(bundle);
        discard(&bundle);
        return;
    }
    bundle.into = Landing::Kind::held;
    bundle.complete = true;
    note_turn(*bundle.share);
    deliver_held();
}

void MatchQueue::deliver_expected_parts(const Held& bundle) noexcept {
    Address& source = *bundle.source;
    const std::span<const std::byte> bytes = content(bundle);
    for (std::size_t at = bundle.next_part; at != bytes.size();) {
        const bundle::Part part = bundle::next(bytes, at);
        Bucket& b = list(&source, part.tag);
        Operation* op = taker(b, &source, part.tag);
        if (op == nullptr || writing(b, &source, part.tag)) [[unlikely]] {
            counters_.dropped.add();
            continue;
        }
        count_listed(*op, -1);
        const std::size_t headroom = headroom_[1];
        Landing* landing = land(*op, source, part.tag, headroom + part.bytes.size());
        if (landing->data != nullptr) [[likely]] {
            std::memcpy(static_cast<std::byte*>(landing->data) + headroom, part.bytes.data(),
                        part.bytes.size());
        }
        finish(*landing, Status::success);
    }
}

// The next one of a bundle that is held. False: the receive cannot take it now. The bundle is gone
// after its last.
bool MatchQueue::deliver_part(Held& bundle, Operation& op) noexcept {
    const std::span<const std::byte> bytes = content(bundle);
    std::size_t at = bundle.next_part;
    const bundle::Part part = bundle::next(bytes, at);
    const std::size_t headroom = headroom_[0];
    const std::size_t size = headroom + part.bytes.size();
    Landing* landing = op.kind == OpKind::multi_recv_unexpected
                           ? land_multi(op, *bundle.source, part.tag, size)
                           : land(op, *bundle.source, part.tag, size);
    if (landing == nullptr) [[unlikely]] {
        return false;
    }
    if (landing->data != nullptr) [[likely]] {
        std::memcpy(static_cast<std::byte*>(landing->data) + headroom, part.bytes.data(),
                    part.bytes.size());
    }
    bundle.next_part = at;
    if (at == bytes.size()) {
        unlink(bundle);
        discard(&bundle);
    }
    finish(*landing, Status::success);
    return true;
}

}  // namespace na::inline impl
