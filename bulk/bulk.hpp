// SPDX-License-Identifier: BSD-3-Clause
// Bulk descriptors: memory of this process, or of a peer, as one linear range of bytes over its
// segments.
//
// Made by create() and allocate() over local memory (the origin of a transfer sends those, the
// target pulls into or pushes from them), and by decode() of bulk/wire.hpp from what a peer sent.
// Reference counted; immutable but for bind() and the staleness of eager contents; any thread. A
// remote descriptor holds registrations and lengths, and no pointer that came over the wire, but
// for those that this process wrote itself (own_segments()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "na/core/class.hpp"
#include "na/core/memory.hpp"
#include "na/result.hpp"
#include "na/util/lock.hpp"
#include "na/util/random.hpp"

namespace bulk {

class Bulk;

using na::Access;
using na::Result;
using na::Segment;
using na::Status;

// The ways to reach a peer: the network, and the shared memory of this host where the RPC class has
// it (auto_sm). Over na+sm itself, sm is the `net` rail and there is no other.
enum class Rail : std::uint8_t { net, sm };
inline constexpr std::size_t kRails = 2;
constexpr std::size_t index(Rail r) noexcept {
    return static_cast<std::size_t>(r);
}

struct Rails {
    na::Class* net = nullptr;
    na::Class* sm = nullptr;  // may be null

    na::Class* of(Rail r) const noexcept { return r == Rail::net ? net : sm; }
};

// Where and how the bulk descriptors of one RPC class live. Owned by that class, outlives its
// descriptors. Any thread.
class Space {
 public:
    // `owner` is for the RPC layer, which gets from a descriptor to its class with it.
    Space(Rails rails, void* owner) noexcept
        : rails_(rails),
          owner_(owner),
          secret_(na::util::random_number()),
          lock_(rails.net->threaded()) {}
    Space(const Space&) = delete;
    Space& operator=(const Space&) = delete;

    const Rails& rails() const noexcept { return rails_; }
    bool threaded() const noexcept { return rails_.net->threaded(); }
    void* owner() const noexcept { return owner_; }
    // Shows that addresses in a descriptor are this process's own. Leaves the process in RPCs to
    // itself only.
    std::uint64_t secret() const noexcept { return secret_; }
    // Descriptors that exist: the class cannot be closed before this is 0.
    std::uint32_t live() const noexcept { return live_.load(std::memory_order_acquire); }

 private:
    friend class Bulk;
    friend class Encoder;
    const Rails rails_;
    void* const owner_;
    const std::uint64_t secret_;
    std::atomic<std::uint32_t> live_{0};
    na::util::OptionalLock lock_;
    Bulk* locals_ = nullptr;  // guarded by lock_: all descriptors of local memory
};

// Where the memory is (struct hg_bulk_attr).
struct Attributes {
    na::MemoryKind kind = na::MemoryKind::host;
    std::uint64_t device = 0;
};

// The process and context whose memory a bound descriptor describes.
struct Owner {
    // Encoded by the RPC layer, opaque here; one of them travels: the second to peers of this host,
    // if it is not empty.
    std::vector<std::byte> address;
    std::vector<std::byte> address_with_sm;
    std::uint8_t context_id = 0;  // travels
    // The RPC layer's address object, and what gives it back. Null until that layer has decoded
    // `address`.
    void* resolved = nullptr;
    void (*release)(void* resolved) noexcept = nullptr;

    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
        if (resolved != nullptr && release != nullptr) {
            release(resolved);
        }
    }
};

class BulkRef;

class Bulk {
 public:
    // Describes local memory, which must stay valid until the descriptor is gone, and registers it
    // on every rail. Empty segments (any base) are kept in the list. Errors: invalid_arg (no
    // segment, null with a length, lengths that overflow), nomem, and what the transport answers;
    // the message says which.
    static Result<BulkRef> create(Space& space, std::span<const Segment> segments, Access access,
                                  const Attributes& attributes = {});
    // The same over zeroed memory of its own, from the fastest allocator there is.
    static Result<BulkRef> allocate(Space& space, std::span<const std::uint64_t> sizes,
                                    Access access);

    // Memory of its own: peers may still want to read it when the last reference goes, and shall
    // not find something else there then.
    void retire() noexcept { retired_ = true; }

    // What the memory belongs to: goes after the registrations, on the thread that has the last
    // reference. Before anybody else sees the descriptor.
    void keep(std::shared_ptr<void> owner) noexcept { kept_ = std::move(owner); }

    std::uint64_t size() const noexcept { return size_; }  // bytes
    std::span<const Segment> segments() const noexcept { return segments_; }
    Access access() const noexcept { return access_; }
    Space& space() const noexcept { return space_; }
    // Memory of this process, registered by it.
    bool is_local() const noexcept { return local_; }
    bool host_memory() const noexcept { return host_; }
    // offset + size is inside, whatever the values.
    bool covers(std::uint64_t offset, std::uint64_t size) const noexcept {
        return offset <= size_ && size <= size_ - offset;
    }

    // The bases of segments() are valid here: local memory, or contents that came with the
    // descriptor.
    bool has_pointers() const noexcept { return local_ || eager_ != nullptr; }
    // A remote descriptor whose contents came with it and are still what its owner has, as far as
    // this process knows.
    bool has_contents() const noexcept {
        return eager_ != nullptr && !stale_.load(std::memory_order_relaxed);
    }
    // Where the memory of a remote descriptor is that this process sent to itself in an RPC, one
    // entry per segment. Empty for every other descriptor. The owner may have freed its descriptor,
    // and the memory, since; copy_own() of bulk/segments.hpp notices memory that is gone.
    std::span<const Segment> own_segments() const noexcept { return own_; }
    // Something was pushed to the origin: what came eagerly is no longer its contents.
    void mark_stale() noexcept {
        if (eager_ != nullptr) {
            stale_.store(true, std::memory_order_relaxed);
        }
    }

    // RMA over this rail is possible.
    bool reachable(Rail rail) const noexcept { return !groups_[index(rail)].empty(); }

    // A run of segments under one registration.
    struct Group {
        std::uint64_t begin = 0;  // offset of its first byte in the descriptor
        std::unique_ptr<na::Memory> memory;
        std::uint64_t end() const noexcept { return begin + memory->length(); }
    };
    // In order and without gaps; empty where reachable() is false.
    std::span<const Group> groups(Rail rail) const noexcept { return groups_[index(rail)]; }
    // The group that has the byte at `offset`, which is below size().
    const Group& group_at(Rail rail, std::uint64_t offset) const noexcept;

    // The local pieces that make up [offset, offset + size), empty ones left out; writes at most
    // out.size() of them and answers how many it wrote. Needs has_pointers() and covers().
    std::size_t pieces(std::uint64_t offset, std::uint64_t size,
                       std::span<Segment> out) const noexcept;

    // Null: not bound.
    const Owner* owner() const noexcept { return owner_.load(std::memory_order_acquire); }
    // The owner that came with a descriptor, for the RPC layer to resolve before anybody else sees
    // the descriptor. Null: none.
    Owner* unresolved_owner() noexcept {
        Owner* owner = owner_.load(std::memory_order_relaxed);
        return owner != nullptr && owner->resolved == nullptr ? owner : nullptr;
    }
    // Once: false if it is bound already (`owner` is dropped then).
    bool bind(std::unique_ptr<Owner> owner) noexcept;

    void ref() noexcept;
    void unref() noexcept;  // the last one deregisters; never under a context's lock

 private:
    friend class BulkRef;
    friend class Decoder;
    friend class Encoder;
    explicit Bulk(Space& space) noexcept;
    ~Bulk();
    Bulk(const Bulk&) = delete;
    Bulk& operator=(const Bulk&) = delete;

    Result<bool> register_on(Rail rail, const Attributes& attributes);
    void link() noexcept;
    void unlink() noexcept;
    bool ref_if_alive() noexcept;

    Space& space_;
    Bulk* next_ = nullptr;  // in Space::locals_, guarded by its lock
    Bulk** link_ = nullptr;
    std::atomic<std::uint32_t> refs_{1};
    Access access_ = Access::none;
    bool local_ = false;
    bool host_ = true;
    std::atomic<bool> stale_{false};
    std::uint64_t size_ = 0;
    std::vector<Segment> segments_;
    std::vector<Segment> own_;
    std::vector<Group> groups_[kRails];
    // Remote: the registrations as they came, so that the descriptor can be passed on.
    std::vector<std::byte> encoded_[kRails];
    std::unique_ptr<std::byte[]> eager_;
    std::atomic<Owner*> owner_{nullptr};
    void* allocated_ = nullptr;  // of class allocator_, allocated_size_ bytes
    std::size_t allocated_size_ = 0;
    na::Class* allocator_ = nullptr;
    bool retired_ = false;
    std::shared_ptr<void> kept_;
};

// One reference to a descriptor.
class BulkRef {
 public:
    BulkRef() = default;
    static BulkRef adopt(Bulk* b) noexcept {
        BulkRef r;
        r.bulk_ = b;
        return r;
    }
    static BulkRef share(Bulk* b) noexcept {
        if (b != nullptr) {
            b->ref();
        }
        return adopt(b);
    }
    BulkRef(BulkRef&& other) noexcept : bulk_(other.release()) {}
    BulkRef& operator=(BulkRef&& other) noexcept {
        if (this != &other) {
            reset();
            bulk_ = other.release();
        }
        return *this;
    }
    ~BulkRef() { reset(); }

    void reset() noexcept {
        if (bulk_ != nullptr) {
            std::exchange(bulk_, nullptr)->unref();
        }
    }
    Bulk* release() noexcept { return std::exchange(bulk_, nullptr); }
    Bulk* get() const noexcept { return bulk_; }
    Bulk& operator*() const noexcept { return *bulk_; }
    Bulk* operator->() const noexcept { return bulk_; }
    explicit operator bool() const noexcept { return bulk_ != nullptr; }

 private:
    Bulk* bulk_ = nullptr;
};

}  // namespace bulk
