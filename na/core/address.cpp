// SPDX-License-Identifier: BSD-3-Clause
#include "na/core/address.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "na/core/class.hpp"
#include "na/util/bytes.hpp"
#include "na/util/log.hpp"

namespace na::inline impl {
namespace {

constexpr std::uint8_t kMostTallies = 16;  // contexts beyond have none of their own

}  // namespace

Address::Address(Class& cls, std::unique_ptr<plugin::Peer> peer, std::string identity,
                 bool threaded)
    : cls_(&cls),
      peer_(std::move(peer)),
      identity_(std::move(identity)),
      threaded_(threaded),
      tallies_(threaded ? std::min(cls.info().max_contexts, kMostTallies) : 0U) {
    peer_->core = this;
}

std::string Address::uri() const {
    return fmt::format("{}+{}", cls_->class_name(), peer_->uri());
}

std::size_t Address::encoded_size() const noexcept {
    return sizeof(std::uint32_t) + identity_.size();
}

Status Address::encode(std::span<std::byte> out) const {
    util::ByteWriter w(out);
    w.integer(static_cast<std::uint32_t>(identity_.size()));
    w.bytes(identity_);
    return w.good() ? Status::success : Status::overflow;
}

bool Address::bury() noexcept {
    if (cls_->inherited()) [[unlikely]] {
        return true;  // (a thread of the parent's may have had the lock)
    }
    return cls_->addresses().bury(*this);
}

AddressTable::~AddressTable() {
    for (auto& [identity, address] : by_identity_) {
        delete address;
    }
}

Result<AddressRef> AddressTable::intern(std::unique_ptr<plugin::Peer> peer) {
    std::string identity(peer->encode({}), '\0');
    peer->encode(std::as_writable_bytes(std::span(identity)));
    AddressRef found = find(identity);
    if (found) {
        return found;
    }
    const std::lock_guard guard(mutex_);
    if (const auto it = by_identity_.find(identity); it != by_identity_.end()) {
        it->second->ref();
        return AddressRef::adopt(it->second);
    }
    if (by_identity_.size() >= limit_) {
        return Error{Status::nomem,
                     fmt::format("the class holds {} addresses, its limit: free some, or raise "
                                 "NA_MAX_ADDRESSES",
                                 limit_)};
    }
    std::unique_ptr<Address> address(
        new Address(cls_, std::move(peer), std::move(identity), threaded_));
    by_identity_.emplace(address->identity_, address.get());
    return AddressRef::adopt(address.release());
}

bool AddressTable::full() const {
    const std::lock_guard guard(mutex_);
    return by_identity_.size() >= limit_;
}

AddressRef AddressTable::find(std::string_view identity) {
    const std::lock_guard guard(mutex_);
    const auto it = by_identity_.find(identity);
    if (it == by_identity_.end()) {
        return {};
    }
    it->second->ref();  // one without references comes back to life: take_dead() looks again
    return AddressRef::adopt(it->second);
}

bool AddressTable::bury(Address& address) noexcept {
    const std::lock_guard guard(mutex_);
    // Without references none can be taken but under the mutex.
    if (address.refs_.load(std::memory_order_acquire) <= 0) {
        return false;
    }
    // Others may have taken references meanwhile; acquire pairs with their release.
    if (address.refs_.fetch_sub(1, std::memory_order_acq_rel) > 1 || address.dead_) {
        return true;
    }
    try {
        dead_.push_back(&address);
        address.dead_ = true;
        dead_count_.fetch_add(1, std::memory_order_relaxed);
        cls_.attend();
    } catch (const std::bad_alloc&) {
        // It stays in the table without references: a later lookup and release of it tries again.
    }
    return true;
}

std::unique_ptr<Address> AddressTable::take_dead() {
    const std::lock_guard guard(mutex_);
    while (!dead_.empty()) {
        Address* address = dead_.back();
        dead_.pop_back();
        address->dead_ = false;
        dead_count_.fetch_sub(1, std::memory_order_relaxed);
        if (address->refs_.load(std::memory_order_acquire) == 0) {
            by_identity_.erase(address->identity_);
            return std::unique_ptr<Address>(address);
        }
    }
    return nullptr;
}

std::size_t AddressTable::referenced() const {
    const std::lock_guard guard(mutex_);
    return static_cast<std::size_t>(std::count_if(
        by_identity_.begin(), by_identity_.end(),
        [](const auto& entry) { return entry.second->refs_.load(std::memory_order_relaxed) > 0; }));
}

}  // namespace na::inline impl
