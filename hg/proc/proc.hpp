// SPDX-License-Identifier: BSD-3-Clause
// The object behind hg_proc_t: encodes into, and decodes from, one contiguous buffer.
//
// Called by the RPC layer, which embeds one in each handle, so that an RPC allocates nothing as
// long as its structures fit their messages; by proc callbacks through the C functions of
// mercury_proc.h. One thread at a time. Every hg_proc_t is a Proc.
//
// A pass: reset(); run() the callback; after encoding, encoded() is what to send, and extra() says
// whether that is in the extra buffer (move it out with take_extra()). A failed decoding leaves
// nothing allocated: there is nothing to undo. Payload checksums are better taken over encoded()
// and verified before decoding, with crc32c() of checksum.hpp, than by the proc: then nothing that
// was damaged is ever parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hg/proc/checksum.hpp"
#include "hg/proc/notes.hpp"
#include "mercury_proc.h"
#include "na/status.hpp"

namespace hg::proc {

// Where extra buffers come from; the RPC layer gives one with registered memory. Both functions are
// called on the thread that encodes; neither throws.
struct Allocator {
    // A block of `size` bytes or more, its real size in `size`; null if there is none.
    void* (*allocate)(void* arg, std::size_t& size) noexcept;
    // `size` is what allocate() gave.
    void (*release)(void* arg, void* block, std::size_t size) noexcept;
    void* arg;
};

// Page-aligned blocks that free() ends.
extern const Allocator kHeap;

class Proc final : public ::hg_proc {
 public:
    // `allocator` is copied; its arg must outlive the proc.
    explicit Proc(hg_class_t* cls = nullptr, ChecksumKind checksum = ChecksumKind::none,
                  const Allocator& allocator = kHeap) noexcept;
    ~Proc();
    Proc(const Proc&) = delete;
    Proc& operator=(const Proc&) = delete;

    static Proc& of(hg_proc_t proc) noexcept { return *static_cast<Proc*>(proc); }

    // Starts a pass; see hg_proc_reset. Limit, allocator, flags and handle stay.
    void reset(void* buffer, std::size_t size, hg_proc_op_t what) noexcept {
        if (used_more_) [[unlikely]] {
            clean();
        }
        start(buffer, size, what);
    }

    // How far the buffer may grow, in bytes of one structure, and the code for more than that:
    // {0, overflow} where it may not grow at all. Default: as far as there is memory.
    void set_limit(std::size_t limit, na::Status beyond) noexcept {
        limit_ = limit < kNoLimit ? limit : kNoLimit;
        beyond_limit_ = beyond;
    }

    // Bytes of the message up to which contents go with bulk descriptors. Default: as many as fit.
    void set_contents_within(std::size_t bytes) noexcept { contents_within_ = bytes; }
    std::size_t contents_within() const noexcept { return contents_within_; }

    // Runs a callback (null: no structure). Codes that it made up become other_error.
    // What a callback of a C++ program throws passes through: C++ frameworks rely on it.
    na::Status run(hg_proc_cb_t callback, void* structure) {
        if (callback == nullptr) {
            return na::Status::success;
        }
        const hg_return_t ret = callback(this, structure);
        return ret >= HG_SUCCESS && ret < HG_RETURN_MAX ? static_cast<na::Status>(ret)
                                                        : na::Status::other_error;
    }

    // All bytes encoded (decoded) so far.
    std::span<std::byte> encoded() const noexcept {
        return {static_cast<std::byte*>(current_buf->buf), used()};
    }

    // The given buffer did not suffice: what was encoded is in the extra one.
    bool grew() const noexcept { return current_buf != &proc_buf; }
    // The block of the extra buffer; empty if the given one sufficed.
    std::span<std::byte> extra() const noexcept {
        return {static_cast<std::byte*>(extra_buf.buf), extra_block_};
    }
    // The same, and it becomes the caller's, to be released with the proc's allocator and the size
    // of the span. encoded() stays valid as long as the block.
    std::span<std::byte> take_extra() noexcept {
        extra_buf.is_mine = false;
        return extra();
    }

    // save_ptr() has given zeros in place of bytes that were not received: whatever the callback
    // says, what it has made of them is no structure.
    bool overran() const noexcept { return zeros_ != nullptr; }

    // As the C functions of the same names.
    na::Status reserve(std::uint64_t more) noexcept;
    na::Status set_size(std::uint64_t size) noexcept;
    void* save_ptr(std::uint64_t size) noexcept;
    na::Status restore_ptr(void* data, std::uint64_t size) noexcept;
    na::Status set_extra_is_callers(bool callers) noexcept;

    // Brings the checksum up to all bytes passed.
    Checksum& checksum() noexcept;

    Notes& notes() noexcept { return notes_; }

 private:
    struct Retired;
    struct Zeros;
    static constexpr std::size_t kNoLimit = PTRDIFF_MAX;

    std::size_t used() const noexcept {
        return static_cast<std::size_t>(current_buf->size - current_buf->size_left);
    }
    na::Status grow(std::size_t needed) noexcept;
    void* zeros(std::uint64_t size) noexcept;
    // The part of [data, data + size) in what was passed of a buffer, as its offset; false if it
    // isn't.
    bool locate(const void* buffer, std::size_t passed, const void* data, std::size_t size,
                std::size_t& offset) const noexcept;
    void release_blocks() noexcept;
    void clean() noexcept;
    void start(void* buffer, std::size_t size, hg_proc_op_t what) noexcept {
        proc_buf = {buffer, buffer, size, size, false};
        current_buf = &proc_buf;
        op = what;
        object_size = 0;
    }

    Allocator allocator_;
    std::size_t limit_;
    na::Status beyond_limit_;
    std::size_t contents_within_ = SIZE_MAX;
    bool used_more_ = false;  // since reset(): a larger buffer, saved pointers, or the checksum
    bool has_saved_ = false;  // a pointer into a buffer is out since reset()
    std::size_t extra_block_ = 0;  // bytes that the allocator gave for the extra buffer
    Retired* retired_ = nullptr;   // outgrown blocks that may hold saved pointers
    Zeros* zeros_ = nullptr;       // what was given in place of bytes that are not there
    std::size_t summed_ = 0;       // the checksum has, or leaves out, bytes before this offset
    Checksum checksum_;
    Notes notes_;
};

}  // namespace hg::proc
