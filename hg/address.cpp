// SPDX-License-Identifier: BSD-3-Clause
#include "hg/address.hpp"

#include <mutex>

#include "hg/auto_sm.hpp"
#include "hg/class.hpp"
#include "na/util/bytes.hpp"

namespace hg {
namespace {

using na::Error;
using na::Result;
using na::Status;

// Encoded: one byte of these flags, then the parts that they name, each as na::Address::encode
// wrote it, behind its size.
constexpr std::uint8_t kHasNet = 1 << 0;
constexpr std::uint8_t kHasSm = 1 << 1;

std::size_t part_size(const na::Address* part) noexcept {
    return part == nullptr ? 0 : sizeof(std::uint32_t) + part->encoded_size();
}

Status encode_part(na::util::ByteWriter& w, const na::Address* part) {
    if (part == nullptr) {
        return Status::success;
    }
    const std::size_t size = part->encoded_size();
    w.integer(static_cast<std::uint32_t>(size));
    std::byte* at = w.space(size);
    return at == nullptr ? Status::overflow : part->encode({at, size});
}

}  // namespace

AddressRef AddressRef::share(Address* a) {
    if (a == nullptr) {
        return {};
    }
    if (a->embedded_) {
        AddressRef copy = Address::make(*a->cls_, na::AddressRef::share(a->net_.get()),
                                        na::AddressRef::share(a->sm_.get()));
        copy->set_context(a->context());
        return copy;
    }
    a->ref();
    return adopt(a);
}

AddressRef Address::make(Class& cls, na::AddressRef net, na::AddressRef sm) {
    Address* a = nullptr;
    {
        const std::lock_guard guard(cls.address_mutex_);
        if ((a = cls.free_addresses_) != nullptr) {
            cls.free_addresses_ = a->next_;
        } else {
            cls.all_addresses_.push_back(
                std::unique_ptr<Address>(new Address(cls, Address::Pooled{})));
            a = cls.all_addresses_.back().get();
        }
    }
    a->set(std::move(net), std::move(sm));
    cls.addresses_.fetch_add(1, std::memory_order_relaxed);
    a->refs_.store(1, std::memory_order_release);
    return AddressRef::adopt(a);
}

void Address::ref() noexcept {
    refs_.fetch_add(1, std::memory_order_relaxed);
}

bool Address::unref() noexcept {
    if (embedded_) {
        return false;
    }
    std::int32_t before = refs_.load(std::memory_order_relaxed);
    do {
        if (before <= 0) {
            return false;
        }
    } while (!refs_.compare_exchange_weak(before, before - 1, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    if (before == 1) {
        clear();
        Class& cls = *cls_;
        if (cls.inherited()) [[unlikely]] {
            return true;  // another thread may have had the lock when the parent forked
        }
        {
            const std::lock_guard guard(cls.address_mutex_);
            next_ = std::exchange(cls.free_addresses_, this);
        }
        cls.addresses_.fetch_sub(1, std::memory_order_release);
    }
    return true;
}

bool Address::same_peer(const Address& other) const noexcept {
    // Each transport keeps one object per identity.
    return (net_ && net_.get() == other.net_.get()) || (sm_ && sm_.get() == other.sm_.get());
}

std::string Address::uri() const {
    if (net_ && sm_) {
        return format_pair({.host = host_id(), .sm = sm_->uri(), .net = net_->uri()});
    }
    return net_ ? net_->uri() : sm_->uri();
}

std::size_t Address::encoded_size(bool with_sm) const noexcept {
    return 1 + part_size(net_.get()) + part_size(with_sm || !net_ ? sm_.get() : nullptr);
}

Status Address::encode(std::span<std::byte> out, bool with_sm) const {
    const na::Address* sm = with_sm || !net_ ? sm_.get() : nullptr;
    na::util::ByteWriter w(out);
    w.integer(static_cast<std::uint8_t>((net_ ? kHasNet : 0) | (sm != nullptr ? kHasSm : 0)));
    if (const Status s = encode_part(w, net_.get()); !ok(s)) {
        return s;
    }
    if (const Status s = encode_part(w, sm); !ok(s)) {
        return s;
    }
    return w.good() ? Status::success : Status::overflow;
}

Result<AddressRef> Class::decode_address(std::span<const std::byte> bytes) {
    na::util::ByteReader r(bytes);
    const auto flags = r.integer<std::uint8_t>();
    std::span<const std::byte> net;
    std::span<const std::byte> sm;
    if ((flags & kHasNet) != 0) {
        net = r.bytes(r.integer<std::uint32_t>());
    }
    if ((flags & kHasSm) != 0) {
        sm = r.bytes(r.integer<std::uint32_t>());
    }
    if (!r.good()) {
        return Error{Status::overflow, "an encoded address ends too early"};
    }
    if (flags == 0 || (flags & ~(kHasNet | kHasSm)) != 0) {
        return Error{Status::protocol_error, "malformed encoded address"};
    }
    na::AddressRef net_ref;
    na::AddressRef sm_ref;
    if (!net.empty()) {
        auto part = net_->decode_address(net);
        if (!part) {
            return std::move(part).error();
        }
        net_ref = std::move(*part);
    }
    if (!sm.empty() && sm_ != nullptr) {
        auto part = sm_->decode_address(sm);
        if (!part) {
            return std::move(part).error();
        }
        sm_ref = std::move(*part);
    }
    if (!net_ref && !sm_ref) {
        return Error{Status::protonosupport,
                     "an encoded shared-memory address, but this class has no auto_sm"};
    }
    return Address::make(*this, std::move(net_ref), std::move(sm_ref));
}

}  // namespace hg
