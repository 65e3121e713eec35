// SPDX-License-Identifier: BSD-3-Clause
#include "hg/proc/proc.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace hg::proc {
namespace {

constexpr std::size_t kPage = 4096;
// More than that is not given for bytes that were not received.
constexpr std::size_t kMaxZeros = std::size_t{16} << 20;

void* heap_allocate(void*, std::size_t& size) noexcept {
    if (size > PTRDIFF_MAX - kPage) {
        return nullptr;
    }
    size = (size + kPage - 1) & ~(kPage - 1);
    return std::aligned_alloc(kPage, size);
}

void heap_release(void*, void* block, std::size_t) noexcept {
    std::free(block);
}

std::byte* bytes(void* at) noexcept {
    return static_cast<std::byte*>(at);
}

}  // namespace

const Allocator kHeap = {heap_allocate, heap_release, nullptr};

struct Proc::Retired {
    Retired* next;
    void* block;
    std::size_t size;  // of the block
    std::size_t used;
    bool mine;
};

struct alignas(std::max_align_t) Proc::Zeros {
    Zeros* next;
    std::size_t size;  // of the bytes behind it
};

Proc::Proc(hg_class_t* cls, ChecksumKind checksum, const Allocator& allocator) noexcept
    : hg_proc{},
      allocator_(allocator),
      limit_(kNoLimit),
      beyond_limit_(na::Status::nomem),
      checksum_(checksum) {
    hg_class = cls;
    start(nullptr, 0, HG_ENCODE);
}

Proc::~Proc() {
    release_blocks();
}

na::Status Proc::reserve(std::uint64_t more) noexcept {
    if (op == HG_FREE || more <= current_buf->size_left) {
        return na::Status::success;
    }
    if (op != HG_ENCODE) {
        return na::Status::overflow;
    }
    const std::size_t have = used();
    if (more > limit_ || have > limit_ - more) {
        return beyond_limit_;
    }
    return grow(have + static_cast<std::size_t>(more));
}

na::Status Proc::set_size(std::uint64_t size) noexcept {
    if (op == HG_FREE || size == current_buf->size) {
        return na::Status::success;
    }
    if (size < current_buf->size) {
        return na::Status::invalid_arg;
    }
    if (op != HG_ENCODE) {
        return na::Status::overflow;
    }
    return size > limit_ ? beyond_limit_ : grow(static_cast<std::size_t>(size));
}

// `needed` bytes are within the limit and more than the buffer has.
na::Status Proc::grow(std::size_t needed) noexcept {
    const std::size_t old_size = static_cast<std::size_t>(current_buf->size);
    const std::size_t twice = old_size <= limit_ / 2 ? 2 * old_size : limit_;
    std::size_t block_size = std::min(std::max({needed, twice, kPage}), limit_);
    void* block = allocator_.allocate(allocator_.arg, block_size);
    if (block == nullptr && needed < block_size) {
        block_size = needed;
        block = allocator_.allocate(allocator_.arg, block_size);
    }
    if (block == nullptr) {
        return na::Status::nomem;
    }
    used_more_ = true;
    const std::size_t done = used();
    if (done > 0) {
        std::memcpy(block, current_buf->buf, done);
    }
    if (extra_buf.buf != nullptr) {
        if (has_saved_) {
            auto* retired = new (std::nothrow)
                Retired{retired_, extra_buf.buf, extra_block_, done, extra_buf.is_mine};
            if (retired == nullptr) {
                allocator_.release(allocator_.arg, block, block_size);
                return na::Status::nomem;
            }
            retired_ = retired;
        } else if (extra_buf.is_mine) {
            allocator_.release(allocator_.arg, extra_buf.buf, extra_block_);
        }
    }
    const std::size_t room = std::min(block_size, limit_);
    extra_block_ = block_size;
    extra_buf = {block, bytes(block) + done, room, room - done, true};
    current_buf = &extra_buf;
    return na::Status::success;
}

void* Proc::save_ptr(std::uint64_t size) noexcept {
    if (op == HG_FREE) {
        return nullptr;
    }
    if (!na::ok(reserve(size))) [[unlikely]] {
        return op == HG_DECODE ? zeros(size) : nullptr;
    }
    void* at = current_buf->buf_ptr;
    if (size > 0) {
        used_more_ = true;
        (void)checksum();
        HG_PROC_UPDATE(this, size);
        summed_ = used();
        has_saved_ = true;
    }
    return at;
}

// For procs that read from what they get without a look at it, which they could do with Mercury: a
// message that is too short must not end the program.
void* Proc::zeros(std::uint64_t size) noexcept {
    if (size > kMaxZeros) {
        return nullptr;
    }
    if (zeros_ == nullptr || zeros_->size < size) {
        // Twice the last, so that however often a message makes a proc ask, all are bounded.
        const std::size_t room =
            std::max(static_cast<std::size_t>(size), zeros_ == nullptr ? kPage : 2 * zeros_->size);
        auto* more = static_cast<Zeros*>(std::calloc(1, sizeof(Zeros) + room));
        if (more == nullptr) {
            return nullptr;
        }
        used_more_ = true;
        *more = {zeros_, room};
        zeros_ = more;
    }
    HG_PROC_UPDATE(this, current_buf->size_left);  // nothing behind it can be decoded either
    return zeros_ + 1;
}

bool Proc::locate(const void* buffer, std::size_t passed, const void* data, std::size_t size,
                  std::size_t& offset) const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer);
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    if (buffer == nullptr || at < begin || at - begin > passed || size > passed - (at - begin)) {
        return false;
    }
    offset = at - begin;
    return true;
}

na::Status Proc::restore_ptr(void* data, std::uint64_t size64) noexcept {
    if (op == HG_FREE || size64 == 0 || overran()) {
        return na::Status::success;
    }
    const std::size_t passed = used();
    if (data == nullptr || size64 > passed) {
        return na::Status::invalid_arg;
    }
    const std::size_t size = static_cast<std::size_t>(size64);
    std::size_t offset = 0;
    bool found = locate(current_buf->buf, passed, data, size, offset);
    if (!found) {  // saved before the buffer grew
        found =
            locate(proc_buf.buf, std::min<std::size_t>(proc_buf.size, passed), data, size, offset);
        for (const Retired* r = retired_; r != nullptr && !found; r = r->next) {
            found = locate(r->block, r->used, data, size, offset);
        }
        if (!found) {
            return na::Status::invalid_arg;
        }
        std::memcpy(bytes(current_buf->buf) + offset, data, size);
    }
    checksum().update(data, size);
    return na::Status::success;
}

na::Status Proc::set_extra_is_callers(bool callers) noexcept {
    if (extra_buf.buf == nullptr) {
        return na::Status::invalid_arg;
    }
    if (allocator_.allocate != kHeap.allocate) {
        return na::Status::opnotsupported;
    }
    extra_buf.is_mine = !callers;
    return na::Status::success;
}

Checksum& Proc::checksum() noexcept {
    used_more_ = true;  // the caller may add to it
    const std::size_t passed = used();
    if (passed > summed_) {
        checksum_.update(bytes(current_buf->buf) + summed_, passed - summed_);
        summed_ = passed;
    }
    return checksum_;
}

void Proc::clean() noexcept {
    release_blocks();
    summed_ = 0;
    checksum_.reset();
    used_more_ = false;
}

void Proc::release_blocks() noexcept {
    if (extra_buf.is_mine) {
        allocator_.release(allocator_.arg, extra_buf.buf, extra_block_);
    }
    extra_buf = {};
    extra_block_ = 0;
    has_saved_ = false;
    while (zeros_ != nullptr) {
        std::free(std::exchange(zeros_, zeros_->next));
    }
    while (retired_ != nullptr) {
        Retired* next = retired_->next;
        if (retired_->mine) {
            allocator_.release(allocator_.arg, retired_->block, retired_->size);
        }
        delete retired_;
        retired_ = next;
    }
}

}  // namespace hg::proc
