// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/hold_budget.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace na::inline impl {
namespace {

constexpr std::size_t kFirstBuckets = 64;
constexpr std::uint64_t kKept = 4;    // one part in so many is kept for peers that hold little
constexpr std::uint64_t kPeers = 8;   // as many of them find room there in any case
constexpr std::uint64_t kLittle = 8;  // messages at most

}  // namespace

HoldBudget::HoldBudget(std::uint64_t messages, std::uint64_t bytes)
    : limit_{messages, bytes},
      common_{messages - messages / kKept, bytes - bytes / kKept},
      little_{std::clamp<std::uint64_t>(messages / kKept / kPeers, 1, kLittle),
              bytes / kKept / kPeers},
      buckets_(new HoldShare*[kFirstBuckets]()),
      bucket_count_(kFirstBuckets) {}

HoldShare*& HoldBudget::bucket(const Address* peer) const noexcept {
    const auto p = reinterpret_cast<std::uintptr_t>(peer) >> 4;
    return buckets_[(p * 0x9e3779b97f4a7c15ULL >> 32) & (bucket_count_ - 1)];
}

HoldShare* HoldBudget::find(const Address& peer) const noexcept {
    HoldShare* share = bucket(&peer);
    while (share != nullptr && share->peer_ != &peer) {
        share = share->next_;
    }
    return share;
}

HoldBudget::Amount HoldBudget::of_both(const HoldShare& share) noexcept {
    return {share.lanes_[0].messages + share.lanes_[1].messages,
            share.lanes_[0].bytes + share.lanes_[1].bytes};
}

bool HoldBudget::little(const HoldShare* share, Lane lane, std::size_t size) const noexcept {
    if (share == nullptr) {
        return true;
    }
    // The first one has any size: a limit by bytes shall not keep large messages of a peer out for
    // ever.
    const Amount& here = share->lanes_[static_cast<std::size_t>(lane)];
    return here.messages == 0 ||
           (here.messages < little_.messages && here.bytes + size <= little_.bytes);
}

bool HoldBudget::admits(const Address& peer, Lane lane, std::size_t size) const noexcept {
    if (all_.messages >= limit_.messages || all_.bytes + size > limit_.bytes) {
        return false;
    }
    const HoldShare* share = find(peer);
    if (little(share, lane, size)) {
        return true;
    }
    const Amount own = of_both(*share);
    const bool alone = own.messages == all_.messages;
    const Amount taken = alone ? Amount{} : all_;
    return own.messages + 1 + taken.messages <= common_.messages &&
           own.bytes + size + taken.bytes <= common_.bytes;
}

bool HoldBudget::admits_muted(const Address& peer, std::size_t size) const noexcept {
    const HoldShare* share = find(peer);
    const Amount own = share == nullptr ? Amount{} : of_both(*share);
    return own.messages < limit_.messages / kKept && own.bytes + size <= limit_.bytes / kKept &&
           admits(peer, Lane::unexpected, size);
}

bool HoldBudget::take(Held& held) noexcept {
    HoldShare* share = find(*held.source);
    if (share == nullptr && (share = make(held.source)) == nullptr) {
        return false;
    }
    if (!held.spare) {
        Amount& lane = share->lanes_[static_cast<std::size_t>(held.on)];
        ++lane.messages;
        lane.bytes += held.size;
        ++all_.messages;
        all_.bytes += held.size;
    }
    if (held.on == Lane::expected) {
        share->expected_.push_back(held);
    }
    held.share = share;
    return true;
}

void HoldBudget::give(Held& held) noexcept {
    HoldShare& share = *std::exchange(held.share, nullptr);
    if (!held.spare) {
        Amount& lane = share.lanes_[static_cast<std::size_t>(held.on)];
        --lane.messages;
        lane.bytes -= held.size;
        --all_.messages;
        all_.bytes -= held.size;
    }
    if (held.on == Lane::expected) {
        util::IntrusiveList<Held, &Held::own>::remove(held);
    }
    if (of_both(share).messages != 0 || !share.unexpected_.empty()) {
        return;
    }
    HoldShare** at = &bucket(share.peer_);
    while (*at != &share) {
        at = &(*at)->next_;
    }
    *at = share.next_;
    share.peer_ = nullptr;
    share.next_ = std::exchange(free_, &share);
}

HoldShare* HoldBudget::make(const Address* peer) noexcept {
    if (free_ == nullptr) {
        try {
            shares_.push_back(std::make_unique<HoldShare>());
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
        free_ = shares_.back().get();
        if (shares_.size() > 2 * bucket_count_) {
            grow();
        }
    }
    HoldShare* share = std::exchange(free_, free_->next_);
    share->peer_ = peer;
    HoldShare*& head = bucket(peer);
    share->next_ = std::exchange(head, share);
    return share;
}

void HoldBudget::grow() noexcept {
    const std::size_t old_count = bucket_count_;
    std::unique_ptr<HoldShare*[]> bigger(new (std::nothrow) HoldShare*[old_count * 4]());
    if (bigger == nullptr) {
        return;  // longer chains are still correct
    }
    const std::unique_ptr<HoldShare*[]> old = std::exchange(buckets_, std::move(bigger));
    bucket_count_ = old_count * 4;
    for (std::size_t i = 0; i < old_count; ++i) {
        while (HoldShare* share = old[i]) {
            old[i] = share->next_;
            HoldShare*& head = bucket(share->peer_);
            share->next_ = std::exchange(head, share);
        }
    }
}

}  // namespace na::inline impl
