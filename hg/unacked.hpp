// SPDX-License-Identifier: BSD-3-Clause
// Responses beyond the eager size that wait for the origin to say that it has them. One that never
// does keeps a handle and a buffer; so there is a limit for all of a context together, beyond which
// the oldest are given up: an origin that means well answers soon, and is not the oldest. Of the
// few oldest, the one whose peer keeps most handles busy. Any thread; never under an NA context's
// lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hg/handle.hpp"
#include "na/util/lock.hpp"

namespace hg {

class Unacked {
 public:
    Unacked(std::uint64_t bytes, std::uint64_t responses, bool threaded) noexcept
        : max_bytes_(bytes), max_responses_(responses), lock_(threaded) {}

    // The handle's operations are posted, and it cannot end before this has returned.
    void add(Handle& handle, std::size_t bytes) noexcept;
    // Its wait is over. Nothing where it was taken out already.
    void remove(Handle& handle) noexcept;
    // Over the limit: the oldest, no longer in the list, with a reference for the caller. The
    // newest is never too much. Null: there is room.
    Handle* excess() noexcept;

 private:
    using List = na::util::IntrusiveList<Handle, &Handle::unacked_hook_>;
    void take_out(Handle& handle) noexcept;

    const std::uint64_t max_bytes_;
    const std::uint64_t max_responses_;
    na::util::OptionalLock lock_;  // guards what follows, and the handles' members for it
    List oldest_first_;
    std::uint64_t bytes_ = 0;
    std::uint64_t responses_ = 0;
};

}  // namespace hg
