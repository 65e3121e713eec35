// SPDX-License-Identifier: BSD-3-Clause
// Walking over lists of segments as if they were one range of bytes. Bases are valid in this
// process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "na/plugin.hpp"

namespace bulk {

// A position in a list of segments. The list outlives it; nothing is checked: the caller has
// compared with the total length.
class SegmentCursor {
 public:
    SegmentCursor(std::span<const na::Segment> segments, std::uint64_t offset) noexcept
        : rest_(segments) {
        while (!rest_.empty() && offset >= rest_.front().length) {
            offset -= rest_.front().length;
            rest_ = rest_.subspan(1);
        }
        at_ = static_cast<std::size_t>(offset);
    }

    // The bytes from here to the end of the segment, at most `limit` (not 0); never empty before
    // the end of the list.
    na::Segment peek(std::uint64_t limit) const noexcept {
        if (rest_.empty()) {
            return {};
        }
        const na::Segment& s = rest_.front();
        return {static_cast<std::byte*>(s.base) + at_,
                static_cast<std::size_t>(std::min<std::uint64_t>(s.length - at_, limit))};
    }
    // At most what peek() answered.
    void advance(std::size_t bytes) noexcept {
        at_ += bytes;
        while (!rest_.empty() && at_ == rest_.front().length) {
            rest_ = rest_.subspan(1);
            at_ = 0;
        }
    }

 private:
    std::span<const na::Segment> rest_;
    std::size_t at_ = 0;  // in rest_.front()
};

// Copies `size` bytes between two lists; the memory may overlap piece by piece.
void copy(std::span<const na::Segment> to, std::uint64_t to_offset,
          std::span<const na::Segment> from, std::uint64_t from_offset,
          std::uint64_t size) noexcept;

// Copies as copy() does, where the memory of one list may have been freed since. The kernel
// copies: fault where it finds no memory, or none of that access. Where a sandbox refuses
// process_vm_readv(2) the processor copies, and memory that is not there ends the process.
enum class Gone : std::uint8_t { to, from };  // which list may be gone
na::Status copy_own(std::span<const na::Segment> to, std::uint64_t to_offset,
                    std::span<const na::Segment> from, std::uint64_t from_offset,
                    std::uint64_t size, Gone gone) noexcept;

}  // namespace bulk
