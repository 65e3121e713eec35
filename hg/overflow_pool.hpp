// SPDX-License-Identifier: BSD-3-Clause
// Buffers for payloads beyond the eager size: registered, in the memory that the transport moves
// fastest, kept for the next payload. Any thread; never under an NA context's lock.
//
// A block is either for sending (peers may read it) or for landing (nobody but this process is told
// of it), never both. Those for sending are used again for other peers: a peer that keeps a
// descriptor can read later payloads, as it can read whatever the memory of the origin holds once
// it was given a descriptor of it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "bulk/bulk.hpp"
#include "hg/proc/proc.hpp"
#include "na/util/lock.hpp"

namespace hg {

class Class;

struct Block {
    enum class Use : std::uint8_t { send, land };

    bulk::BulkRef bulk;
    std::byte* data = nullptr;
    std::size_t size = 0;  // a power of two
    Use use = Use::send;
    Block* next = nullptr;  // in the free list of its size

    // Of its descriptor, for sending: writes it to `out`, and remembers it, as it is the same each
    // time. Answers how many bytes; errors are those of bulk::encode().
    na::Result<std::size_t> describe(bool sm, std::span<std::byte> out);

 private:
    std::array<std::byte, 192> described_;
    std::uint8_t described_size_ = 0;  // 0: not known
    bool described_sm_ = false;
};

class OverflowPool {
 public:
    OverflowPool(Class& cls, bool threaded);
    ~OverflowPool();  // all blocks are back
    OverflowPool(const OverflowPool&) = delete;
    OverflowPool& operator=(const OverflowPool&) = delete;

    // A block of at least `size` bytes. Null: out of memory, logged, or, for landing, more than
    // HG_OVERFLOW_TOTAL would be in use (`why`: again).
    Block* take(std::size_t size, Block::Use use, na::Status* why = nullptr) noexcept;
    // Null: nothing. Unless it may be used again its memory goes: peers that still know it fail to
    // read it, instead of reading something else.
    void give(Block* block, bool again = true) noexcept;
    // Bytes of blocks for landing that may be in use at a time.
    std::uint64_t landing_limit() const noexcept { return landing_limit_; }
    // A payload is refused by the caller, for the total.
    void note_refused() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
    // Payloads that were refused for the total.
    std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

    // For procs: blocks for sending, known by their address.
    proc::Allocator allocator() noexcept;
    Block* find(const void* data) noexcept;

 private:
    static constexpr unsigned kSmallest = 13;  // 8 KiB
    static constexpr unsigned kSizes = 64 - kSmallest;
    static constexpr std::size_t kKeep = std::size_t{64}
                                         << 20;  // bytes of free blocks that are kept

    Block* find_or_make(unsigned exponent, Block::Use use) noexcept;
    Block* make(unsigned exponent, Block::Use use) noexcept;

    Class& cls_;
    const std::uint64_t landing_limit_;
    std::atomic<std::uint64_t> refused_{0};
    na::util::OptionalLock lock_;
    // Guarded by lock_.
    std::array<Block*, kSizes> free_[2] = {};
    std::size_t free_bytes_ = 0;
    std::uint64_t landing_bytes_ = 0;  // of blocks in use
    std::unordered_map<const void*, std::unique_ptr<Block>> all_;
};

}  // namespace hg
