// SPDX-License-Identifier: BSD-3-Clause
// A peer as RPC sees it: its address on the network transport, on shared memory, or on both
// (auto_sm).
//
// Reference counted. Those that a Class hands out live on their own and count against HG_Finalize;
// the source of a request is embedded in its handle, borrowed by the user, and share() makes an
// address of its own from it. Immutable; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "na/address.hpp"
#include "na/result.hpp"

namespace hg {

class Address;
class Class;

// Reference to an address, released on destruction.
class AddressRef {
 public:
    AddressRef() = default;
    static AddressRef adopt(Address* a) noexcept {
        AddressRef r;
        r.address_ = a;
        return r;
    }
    // One more reference to the same peer; for an embedded address that is a new object (throws
    // std::bad_alloc).
    static AddressRef share(Address* a);
    AddressRef(AddressRef&& other) noexcept : address_(other.release()) {}
    AddressRef& operator=(AddressRef&& other) noexcept {
        if (this != &other) {
            reset();
            address_ = other.release();
        }
        return *this;
    }
    ~AddressRef() { reset(); }

    inline void reset() noexcept;
    Address* release() noexcept { return std::exchange(address_, nullptr); }
    Address* get() const noexcept { return address_; }
    Address& operator*() const noexcept { return *address_; }
    Address* operator->() const noexcept { return address_; }
    explicit operator bool() const noexcept { return address_ != nullptr; }

 private:
    Address* address_ = nullptr;
};

class Address {
 public:
    // Takes over the references. At least one is set. Throws std::bad_alloc.
    static AddressRef make(Class& cls, na::AddressRef net, na::AddressRef sm);

    // The embedded form: empty until set().
    explicit Address(Class& cls) noexcept : cls_(&cls), embedded_(true) {}
    Address(const Address&) = delete;
    Address& operator=(const Address&) = delete;
    void set(na::AddressRef net, na::AddressRef sm) noexcept {
        net_ = std::move(net);
        sm_ = std::move(sm);
    }
    void clear() noexcept {
        net_.reset();
        sm_.reset();
    }

    Class& cls() const noexcept { return *cls_; }
    na::Address* net() const noexcept { return net_.get(); }  // null: known over shared memory only
    na::Address* sm() const noexcept { return sm_.get(); }    // null: no auto_sm, or another host
    bool is_self() const noexcept { return (net_ && net_->is_self()) || (sm_ && sm_->is_self()); }
    bool same_peer(const Address& other) const noexcept;

    // What Class::lookup of another process understands: the transport's own URI, or, where both
    // parts are there, "uid://<host>#<sm URI>#<network URI>".
    std::string uri() const;

    // Self-delimiting bytes for Class::decode_address; with_sm: the shared-memory part too, where
    // there is one. Without a network part the shared-memory part travels in any case.
    std::size_t encoded_size(bool with_sm) const noexcept;
    na::Status encode(std::span<std::byte> out,
                      bool with_sm) const;  // overflow where it does not fit

    void ref() noexcept;
    // The address may be gone afterwards. False: it had no reference left to give (a double free).
    bool unref() noexcept;

 private:
    friend class AddressRef;
    Address(Class& cls, na::AddressRef net, na::AddressRef sm) noexcept
        : cls_(&cls), net_(std::move(net)), sm_(std::move(sm)), embedded_(false) {}

    Class* const cls_;
    na::AddressRef net_;
    na::AddressRef sm_;
    std::atomic<std::int32_t> refs_{1};
    const bool embedded_;
};

inline void AddressRef::reset() noexcept {
    if (address_ != nullptr) {
        (void)std::exchange(address_, nullptr)->unref();
    }
}

}  // namespace hg
