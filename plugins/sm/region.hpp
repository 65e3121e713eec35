// SPDX-License-Identifier: BSD-3-Clause
// Registered memory, local and remote, and the memory of the plugin's own allocator.
//
// A region is known to peers by a key that cannot be guessed. Where this process executes a peer's
// put or get itself, the key, the bounds and the access are checked here. A peer that reaches the
// memory directly checks the region's permit (permits.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/sm/shared_memory.hpp"

struct iovec;

namespace na::sm {

inline constexpr std::size_t kMaxSegments = 1024;

// Numbers that other processes cannot guess. Any thread.
class Random {
 public:
    std::uint64_t next();

 private:
    std::mutex mutex_;
    std::uint64_t pool_[64] = {};
    std::size_t left_ = 0;
};

// A list of segments with random access by offset. Immutable. Of a remote region, the addresses are
// the peer's.
class SegmentList {
 public:
    explicit SegmentList(std::vector<Segment> segments);

    std::span<const Segment> segments() const noexcept { return segments_; }
    std::uint64_t length() const noexcept { return length_; }

    // A position in the list that moves forward.
    class Cursor {
     public:
        Cursor(const SegmentList& list, std::uint64_t offset) noexcept;
        // The contiguous piece at the position, at most `limit` bytes; the list does not end here.
        Segment piece(std::size_t limit) const noexcept;
        void advance(std::size_t bytes) noexcept;  // at most the piece
        void skip(std::size_t bytes) noexcept;     // over any number of pieces
        // Fills up to `count` iovecs with up to `limit` bytes; returns how many, and the bytes in
        // `bytes`.
        std::size_t fill(iovec* out, std::size_t count, std::size_t limit,
                         std::size_t& bytes) const noexcept;

     private:
        const Segment* at_;
        const Segment* end_;
        std::size_t within_ = 0;
    };

 private:
    friend class Cursor;
    std::vector<Segment> segments_;
    std::vector<std::uint64_t>
        starts_;  // offset of each segment; empty where there is one segment only
    std::uint64_t length_ = 0;
};

// Copies between the local list at `offset` and flat memory.
void copy_out(const SegmentList& from, std::uint64_t offset, void* to, std::size_t bytes) noexcept;
void copy_in(const SegmentList& to, std::uint64_t offset, const void* from,
             std::size_t bytes) noexcept;
// Copies between two lists of this process; ranges may overlap if they are contiguous.
void copy_lists(const SegmentList& from, std::uint64_t from_offset, const SegmentList& to,
                std::uint64_t to_offset, std::uint64_t bytes) noexcept;

class Region : public plugin::Region {
 public:
    Region(std::vector<Segment> segments, std::uint64_t key_)
        : list(std::move(segments)), key(key_) {}
    std::size_t encode(std::span<std::byte> out) const final;

    // The region's permit; 0: none, each access is executed by the owner.
    virtual std::uint32_t permit() const noexcept = 0;
    // What the owner's table shows of the key. Requires: a permit.
    virtual std::uint64_t seal() const noexcept = 0;

    const SegmentList list;
    const std::uint64_t key;
    // Where all of it lies in one allocation: its id, and the address at which the owner sees the
    // start of it.
    std::uint64_t allocation = 0;
    std::uint64_t allocation_base = 0;
};

class RegionTable;
class PermitTable;

class LocalRegion final : public Region {
 public:
    // `permits` null: peers have no way to reach the memory directly.
    LocalRegion(RegionTable& table, PermitTable* permits, std::vector<Segment> segments,
                std::uint64_t key, Access access);
    // Waits for peers that are at work on the memory: PermitTable::withdraw().
    ~LocalRegion() override;

    // Takes a permit at the first call. Memory whose descriptor is never encoded needs none, and
    // its deregistration waits for nobody.
    std::uint32_t permit() const noexcept override;
    std::uint64_t seal() const noexcept override;

    const Access access;

 private:
    RegionTable& table_;
    PermitTable* const permits_;
    mutable std::mutex mutex_;  // of taking a permit
    mutable std::atomic<std::uint32_t> permit_{0};
};

class RemoteRegion final : public Region {
 public:
    RemoteRegion(std::vector<Segment> segments, std::uint64_t key, std::uint32_t permit = 0);
    std::uint32_t permit() const noexcept override { return permit_; }
    std::uint64_t seal() const noexcept override { return seal_; }

 private:
    const std::uint32_t permit_;
    const std::uint64_t seal_;
};

// Of a descriptor: one piece of an allocation.
struct Piece {
    std::uint64_t allocation = 0;
    std::uint64_t offset = 0;  // into the allocation, whose size is not known yet
    std::uint64_t key = 0;
    std::uint32_t permit = 0;
    std::uint64_t allocation_base = 0;
    Segment segment;
};
// Untrusted bytes. False: it is of several segments, or of no allocation, or not right.
bool decode_piece(std::span<const std::byte> encoded, std::uint64_t length, Piece& piece) noexcept;

// The same.
Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                      std::uint64_t length);

// The regions of a domain by key. Any thread; a region is not deregistered while use() works with
// it.
class RegionTable {
 public:
    void enter(LocalRegion& region);
    void leave(LocalRegion& region) noexcept;

    // Calls use(region) if a peer may do that: noentry, permission, overflow otherwise.
    template <typename Use>
    Status use(std::uint64_t key, Access want, std::uint64_t offset, std::uint64_t length,
               Use&& use) {
        const std::shared_lock guard(mutex_);
        const auto it = regions_.find(key);
        if (it == regions_.end()) {
            return Status::noentry;
        }
        const LocalRegion& region = *it->second;
        if (!allows(region.access, want)) {
            return Status::permission;
        }
        if (offset > region.list.length() || length > region.list.length() - offset) {
            return Status::overflow;
        }
        use(region);
        return Status::success;
    }

 private:
    std::shared_mutex mutex_;
    std::unordered_map<std::uint64_t, LocalRegion*> regions_;
};

// Memory that peers can map. Any thread.
class Allocations {
 public:
    explicit Allocations(Random& random) : random_(random) {}

    void* allocate(std::size_t bytes);  // null: impossible
    // False: not of this allocator.
    bool deallocate(void* memory);
    // The same for memory that a peer may be about to read by its address (cross-memory attach):
    // nothing else comes to that address for long, so that it fails to. The memory itself goes; of
    // the addresses the oldest are given up beyond kMostRetired and kMostRetiredBytes.
    bool retire(void* memory) noexcept;

    struct Place {
        std::uint64_t id;
        std::uint64_t base;
    };
    // The allocation that [base, base + length) lies in.
    std::optional<Place> find(const void* base, std::size_t length) const;

    struct Export {
        UniqueFd fd;
        std::uint64_t bytes = 0;
    };
    // A descriptor of the allocation for a peer.
    std::optional<Export> give(std::uint64_t id, bool writable) const;
    bool exists(std::uint64_t id) const;
    // Changes with every deallocate().
    std::uint64_t generation() const noexcept {
        return generation_.load(std::memory_order_acquire);
    }

 private:
    struct Allocation {
        std::uint64_t id;
        SharedMemory memory;
    };
    using Node = std::map<std::uintptr_t, Allocation>::node_type;
    Node take_out(void* memory);

    static constexpr std::size_t kMostRetired = 4096;
    static constexpr std::size_t kMostRetiredBytes = std::size_t{1} << 40;
    Random& random_;
    mutable std::mutex mutex_;
    std::map<std::uintptr_t, Allocation> by_base_;
    std::deque<Mapping> retired_;  // oldest first; addresses without memory
    std::size_t retired_bytes_ = 0;
    std::unordered_map<std::uint64_t, std::uintptr_t> by_id_;
    std::atomic<std::uint64_t> generation_{0};
};

}  // namespace na::sm
