// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/segments.hpp"

#include <cerrno>
#include <cstring>

#include <sys/uio.h>
#include <unistd.h>

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

namespace {

// Segments per system call. Both lists are on the stack, which has 16 KiB in user-level threads.
constexpr std::size_t kBatch = 64;

// The next segments of a list, at most `limit` bytes; moves the cursor behind them.
std::size_t fill(SegmentCursor& cursor, iovec (&out)[kBatch], std::uint64_t limit,
                 std::uint64_t& bytes) noexcept {
    std::size_t n = 0;
    bytes = 0;
    while (n != kBatch && bytes != limit) {
        const na::Segment s = cursor.peek(limit - bytes);
        cursor.advance(s.length);
        out[n++] = {s.base, s.length};
        bytes += s.length;
    }
    return n;
}

}  // namespace

na::Status copy_own(std::span<const na::Segment> to, std::uint64_t to_offset,
                    std::span<const na::Segment> from, std::uint64_t from_offset,
                    std::uint64_t size, Gone gone) noexcept {
    const pid_t self = getpid();
    while (size != 0) {
        SegmentCursor target(to, to_offset);
        SegmentCursor source(from, from_offset);
        iovec targets[kBatch];
        iovec sources[kBatch];
        std::uint64_t room = 0;
        std::uint64_t there = 0;
        const std::size_t into = fill(target, targets, size, room);
        const std::size_t out_of = fill(source, sources, room, there);
        const ssize_t n = gone == Gone::from
                              ? process_vm_readv(self, targets, into, sources, out_of, 0)
                              : process_vm_writev(self, sources, out_of, targets, into, 0);
        if (n < 0 && (errno == EPERM || errno == ENOSYS)) {
            copy(to, to_offset, from, from_offset, size);
            return na::Status::success;
        }
        if (n <= 0) {
            return n < 0 && errno == ENOMEM ? na::Status::nomem : na::Status::fault;
        }
        // The kernel stops at the first page that is not there.
        to_offset += static_cast<std::uint64_t>(n);
        from_offset += static_cast<std::uint64_t>(n);
        size -= static_cast<std::uint64_t>(n);
    }
    return na::Status::success;
}

}  // namespace bulk
