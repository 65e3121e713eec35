// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/segments.hpp"

#include <cstring>

namespace bulk {

void copy(std::span<const na::Segment> to, std::uint64_t to_offset,
          std::span<const na::Segment> from, std::uint64_t from_offset,
          std::uint64_t size) noexcept {
    SegmentCursor target(to, to_offset);
    SegmentCursor source(from, from_offset);
    while (size != 0) {
        const na::Segment t = target.peek(size);
        const na::Segment s = source.peek(t.length);
        std::memmove(t.base, s.base, s.length);
        target.advance(s.length);
        source.advance(s.length);
        size -= s.length;
    }
}

}  // namespace bulk
