// SPDX-License-Identifier: BSD-3-Clause
// Addresses: one object per peer identity, reference counted, found by identity bytes.
//
// The last reference does not destroy the Peer on the spot: it may be dropped on any thread, inside
// progress, while other contexts poll the peer's connections. The address waits in its table until
// Class::reap() has told each context.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "na/plugin.hpp"
#include "na/util/unshared.hpp"

namespace na::inline impl {

class AddressTable;
class Class;

class Address {
 public:
    Class& cls() const noexcept { return *cls_; }
    plugin::Peer& peer() const noexcept { return *peer_; }
    bool is_self() const noexcept { return self_; }

    // "<class>+<protocol>://<address>"
    std::string uri() const;
    // Self-delimiting bytes for Class::decode_address.
    std::size_t encoded_size() const noexcept;
    Status encode(std::span<std::byte> out) const;  // overflow where it does not fit

    void ref() noexcept {
        if (threaded_) {
            refs_.fetch_add(1, std::memory_order_relaxed);
        } else {
            util::add_unshared(refs_, 1);
        }
    }
    // The address may be gone afterwards. False: it had no reference left to give (a double free),
    // nothing happened; that can be told until it is reaped.
    bool unref() noexcept { return threaded_ ? unref_shared() : unref_unshared(); }

    // The same for what is taken and given back with each message, in a place of the context's own
    // (`context`: its id), without an atomic operation: for who has that context's lock, or is
    // alone with it. Threads that serve a peer on several contexts would wait for one another's
    // cache line otherwise. Whoever takes one knows that the address lives. A context that has a
    // connection to the peer holds one as long (Context::source()).
    void ref_in(std::uint8_t context) noexcept {
        if (!threaded_) {
            util::add_unshared(refs_, 1);
            return;
        }
        if (context < tallies_.size()) {
            std::uint32_t& n = tallies_[context].refs;
            if (n++ != 0) [[likely]] {
                return;
            }
        }
        refs_.fetch_add(1, std::memory_order_relaxed);
    }
    bool unref_in(std::uint8_t context) noexcept {
        if (!threaded_) {
            return unref_unshared();
        }
        if (context < tallies_.size()) {
            std::uint32_t& n = tallies_[context].refs;
            if (n == 0) [[unlikely]] {  // once too often
                return false;
            }
            if (--n != 0) [[likely]] {
                return true;
            }
        }
        return unref_shared();
    }

    // Bytes of bundles that it takes, headroom not counted, as far as it has turned out.
    std::size_t most_bundled() const noexcept {
        return most_bundled_.load(std::memory_order_relaxed);
    }
    void set_most_bundled(std::size_t bytes) noexcept {
        most_bundled_.store(bytes, std::memory_order_relaxed);
    }

    static Address* of(plugin::Peer& peer) noexcept { return static_cast<Address*>(peer.core); }

 private:
    friend class AddressTable;
    friend class Class;
    // References of one context, all of which together are one of refs_.
    struct alignas(64) Tally {
        std::uint32_t refs = 0;
    };

    bool unref_shared() noexcept {
        // The last reference may be dropped only under the table's mutex, so that a lookup finds
        // the address either with references or buried, never in between.
        std::int32_t n = refs_.load(std::memory_order_relaxed);
        while (n > 1) {
            if (refs_.compare_exchange_weak(n, n - 1, std::memory_order_release,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
        return bury();
    }
    bool unref_unshared() noexcept {
        const std::int32_t n = refs_.load(std::memory_order_relaxed);
        if (n > 1) [[likely]] {
            refs_.store(n - 1, std::memory_order_relaxed);
            return true;
        }
        return bury();
    }
    bool bury() noexcept;
    Address(Class& cls, std::unique_ptr<plugin::Peer> peer, std::string identity, bool threaded);

    Class* const cls_;
    std::unique_ptr<plugin::Peer> peer_;
    const std::string identity_;
    std::atomic<std::int32_t> refs_{1};
    const bool threaded_;
    std::vector<Tally> tallies_;  // of the first contexts; none without threads
    std::atomic<std::size_t> most_bundled_{SIZE_MAX};
    bool self_ = false;
    bool dead_ = false;  // in the table's dead list; guarded by the table's mutex
};

// Reference to an address, released on destruction.
class AddressRef {
 public:
    AddressRef() = default;
    // Takes over a reference that the caller has.
    static AddressRef adopt(Address* a) noexcept {
        AddressRef r;
        r.address_ = a;
        return r;
    }
    static AddressRef share(Address* a) noexcept {
        if (a != nullptr) {
            a->ref();
        }
        return adopt(a);
    }
    AddressRef(AddressRef&& other) noexcept : address_(other.release()) {}
    AddressRef& operator=(AddressRef&& other) noexcept {
        if (this != &other) {
            reset();
            address_ = other.release();
        }
        return *this;
    }
    ~AddressRef() { reset(); }

    void reset() noexcept {
        if (address_ != nullptr) {
            std::exchange(address_, nullptr)->unref();
        }
    }
    // Of an empty one: takes over a reference that the caller has.
    void fill(Address* a) noexcept { address_ = a; }
    Address* release() noexcept { return std::exchange(address_, nullptr); }
    Address* get() const noexcept { return address_; }
    Address& operator*() const noexcept { return *address_; }
    Address* operator->() const noexcept { return address_; }
    explicit operator bool() const noexcept { return address_ != nullptr; }

 private:
    Address* address_ = nullptr;
};

class AddressTable {
 public:
    AddressTable(Class& cls, bool threaded, std::size_t limit)
        : cls_(cls), threaded_(threaded), limit_(limit) {}
    ~AddressTable();

    // The address with this peer's identity, with one more reference; `peer` is dropped if one
    // exists already.
    Result<AddressRef> intern(std::unique_ptr<plugin::Peer> peer);
    // Null where there is none.
    AddressRef find(std::string_view identity);

    // At the limit. A hint.
    bool full() const;
    // True: reap() has work.
    bool has_dead() const noexcept { return dead_count_.load(std::memory_order_relaxed) != 0; }
    // Takes an address without references out of the table for destruction; null: none left.
    std::unique_ptr<Address> take_dead();

    std::size_t referenced() const;  // addresses that somebody still holds

 private:
    friend class Address;
    bool bury(Address& address) noexcept;

    Class& cls_;
    const bool threaded_;
    const std::size_t limit_;
    mutable std::mutex mutex_;
    std::unordered_map<std::string_view, Address*> by_identity_;
    std::vector<Address*> dead_;
    std::atomic<std::size_t> dead_count_{0};
};

}  // namespace na::inline impl
