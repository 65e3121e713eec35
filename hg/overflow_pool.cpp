// SPDX-License-Identifier: BSD-3-Clause
#include "hg/overflow_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include "bulk/wire.hpp"
#include "hg/class.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 47;

}  // namespace

na::Result<std::size_t> Block::describe(bool sm, std::span<std::byte> out) {
    if (described_size_ != 0 && described_sm_ == sm && described_size_ <= out.size()) [[likely]] {
        std::memcpy(out.data(), described_.data(), described_size_);
        return std::size_t{described_size_};
    }
    auto written = bulk::encode(*bulk, {.eager = false, .sm = sm}, out);
    if (written && *written <= described_.size()) {
        std::memcpy(described_.data(), out.data(), *written);
        described_size_ = static_cast<std::uint8_t>(*written);
        described_sm_ = sm;
    }
    return written;
}

// One payload of the largest size has room in any case.
OverflowPool::OverflowPool(Class& cls, bool threaded)
    : cls_(cls),
      landing_limit_(std::max(cls.options().overflow_total,
                              std::bit_ceil(std::min(cls.options().overflow_limit, kLargest)))),
      lock_(threaded) {}

OverflowPool::~OverflowPool() = default;

Block* OverflowPool::make(unsigned exponent, Block::Use use) noexcept {
    const std::uint64_t size = std::uint64_t{1} << exponent;
    try {
        auto bulk =
            bulk::Bulk::allocate(cls_.space(), {&size, 1},
                                 use == Block::Use::send ? na::Access::read : na::Access::write);
        if (!bulk) {
            NA_LOG_ERROR(rpc, "no buffer of {} bytes for a payload beyond the eager size: {}", size,
                         bulk.error().message);
            return nullptr;
        }
        auto block = std::make_unique<Block>();
        block->bulk = std::move(*bulk);
        block->data = static_cast<std::byte*>(block->bulk->segments()[0].base);
        block->size = static_cast<std::size_t>(size);
        block->use = use;
        Block* made = block.get();
        const std::lock_guard guard(lock_);
        all_.emplace(made->data, std::move(block));
        return made;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(rpc, "out of memory for a payload of up to {} bytes", size);
        return nullptr;
    }
}

Block* OverflowPool::take(std::size_t size, Block::Use use, Status* why) noexcept {
    const unsigned exponent =
        std::max(kSmallest, static_cast<unsigned>(std::bit_width(size == 0 ? 0 : size - 1)));
    const std::uint64_t bytes = std::uint64_t{1} << std::min(exponent, 63U);
    if (bytes > kLargest) {
        NA_LOG_ERROR(rpc, "a payload of {} bytes is beyond all memory", size);
        return nullptr;
    }
    if (use == Block::Use::land) {
        const std::lock_guard guard(lock_);
        if (bytes > landing_limit_ - landing_bytes_) {
            refused_.fetch_add(1, std::memory_order_relaxed);
            if (why != nullptr) {
                *why = Status::again;
            }
            return nullptr;
        }
        landing_bytes_ += bytes;
    }
    Block* block = find_or_make(exponent, use);
    if (block == nullptr && use == Block::Use::land) {
        const std::lock_guard guard(lock_);
        landing_bytes_ -= bytes;
    }
    return block;
}

Block* OverflowPool::find_or_make(unsigned exponent, Block::Use use) noexcept {
    {
        const std::lock_guard guard(lock_);
        Block*& head = free_[static_cast<std::size_t>(use)][exponent - kSmallest];
        if (head != nullptr) {
            Block* block = std::exchange(head, head->next);
            free_bytes_ -= block->size;
            return block;
        }
    }
    return make(exponent, use);
}

void OverflowPool::give(Block* block, bool again) noexcept {
    if (block == nullptr) {
        return;
    }
    std::unique_ptr<Block> surplus;  // its memory goes outside the lock
    const std::lock_guard guard(lock_);
    if (block->use == Block::Use::land) {
        landing_bytes_ -= block->size;
    }
    if (!again || free_bytes_ + block->size > kKeep) {
        const auto it = all_.find(block->data);
        surplus = std::move(it->second);
        all_.erase(it);
        if (!again) {
            surplus->bulk->retire();
        }
        return;
    }
    free_bytes_ += block->size;
    Block*& head = free_[static_cast<std::size_t>(block->use)]
                        [static_cast<unsigned>(std::bit_width(block->size)) - 1 - kSmallest];
    block->next = std::exchange(head, block);
}

Block* OverflowPool::find(const void* data) noexcept {
    const std::lock_guard guard(lock_);
    const auto it = all_.find(data);
    return it == all_.end() ? nullptr : it->second.get();
}

proc::Allocator OverflowPool::allocator() noexcept {
    return {.allocate = [](void* arg, std::size_t& size) noexcept -> void* {
                Block* block = static_cast<OverflowPool*>(arg)->take(size, Block::Use::send);
                if (block == nullptr) {
                    return nullptr;
                }
                size = block->size;
                return block->data;
            },
            .release =
                [](void* arg, void* data, std::size_t) noexcept {
                    auto* pool = static_cast<OverflowPool*>(arg);
                    pool->give(pool->find(data));
                },
            .arg = this};
}

}  // namespace hg
