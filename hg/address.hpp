// SPDX-License-Identifier: BSD-3-Clause
// A peer as RPC sees it: its address on the network transport, on shared memory, or on both
// (auto_sm).
//
// Reference counted. Those that a Class hands out live on their own and count against HG_Finalize;
// without references they are kept for the next use, as long as the class, so that a pointer to one
// stays readable and a double free is noticed. The source of a request is embedded in its handle,
// borrowed by the user, and share() makes an address of its own from it. Immutable; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "na/core/address.hpp"
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

    // The embedded form, of a handle of `context`: empty until set().
    Address(Class& cls, std::uint8_t context) noexcept
        : cls_(&cls), embedded_(true), held_in_(context) {}
    Address(const Address&) = delete;
    Address& operator=(const Address&) = delete;
    ~Address() { clear(); }
    void set(na::AddressRef net, na::AddressRef sm) noexcept {
        net_ = std::move(net);
        sm_ = std::move(sm);
        context_ = 0;
    }
    // The same for an empty one, with a reference of its context (na::Address::ref_in()), for who
    // has its lock.
    void set_in(na::Address& part, bool sm) noexcept {
        part.ref_in(held_in_);
        (sm ? sm_ : net_).fill(&part);
        is_held_in_ = true;
    }
    // Empty again; that reference is the caller's, who gives it back with the lock.
    void leave_in() noexcept {
        (void)net_.release();
        (void)sm_.release();
        is_held_in_ = false;
    }
    bool is_held_in() const noexcept { return is_held_in_; }
    // Which context of the peer it stands for, where nobody says: that a request came from.
    std::uint8_t context() const noexcept { return context_; }
    void set_context(std::uint8_t id) noexcept { context_ = id; }
    // The same, what another one of its context has.
    void take_over(Address& other) noexcept {
        net_ = std::move(other.net_);
        sm_ = std::move(other.sm_);
        context_ = other.context_;
        is_held_in_ = std::exchange(other.is_held_in_, false);
    }
    // Where it has a reference of its context: for who has its lock, or is alone with it.
    void clear() noexcept {
        if (is_held_in_) {
            na::Address& part = net_ ? *net_ : *sm_;
            leave_in();
            part.unref_in(held_in_);
        }
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
    // Somebody holds it. A free address has no parts and must not be used.
    bool live() const noexcept {
        return refs_.load(std::memory_order_acquire) > 0 && (net_ || sm_);
    }
    // The address may be another one's afterwards. False: it had no reference left to give (a
    // double free), nothing happened.
    bool unref() noexcept;

 private:
    friend class AddressRef;
    // A free one, of the class's own.
    struct Pooled {};
    Address(Class& cls, Pooled) noexcept : cls_(&cls), refs_(0), embedded_(false) {}

    Class* const cls_;
    na::AddressRef net_;
    na::AddressRef sm_;
    std::atomic<std::int32_t> refs_{1};
    const bool embedded_;
    const std::uint8_t held_in_ = 0;  // of which context its one part may be a reference,
    bool is_held_in_ = false;         // and is
    std::uint8_t context_ = 0;
    Address* next_ = nullptr;  // in the class's free list
};

inline void AddressRef::reset() noexcept {
    if (address_ != nullptr) {
        (void)std::exchange(address_, nullptr)->unref();
    }
}

}  // namespace hg
