// SPDX-License-Identifier: BSD-3-Clause
// Requests whose handles the program has given back, and that it has not responded to: it may do so
// later, or it never will, which nobody can tell. Each keeps a handle; so there is a limit for all
// of a context together, beyond which the origins of the oldest get an error. An RPC that was
// responded to so late once has no such limit: its requests count as all that a program keeps does,
// and those beyond are refused when they come.
// Any thread; never under an NA context's lock.
#pragma once

#include <algorithm>
#include <cstddef>

#include "hg/handle.hpp"
#include "na/util/lock.hpp"

namespace hg {

class Owed {
 public:
    // `limit`: of requests at a time.
    Owed(std::size_t limit, bool threaded) noexcept
        : most_(std::clamp<std::size_t>(limit / 4, 1, kMost)), lock_(threaded) {}

    // The caller has a reference, and is the only one but for that of the answer. Answers what the
    // handle needs no more, for the caller to give back; null: nothing.
    [[nodiscard]] Block* add(Handle& handle) noexcept;
    // It has been responded to.
    void answered(Handle& handle) noexcept;
    // Its last reference is gone.
    void remove(Handle& handle) noexcept;
    // Over the limit: the oldest that nobody is just now responding to, no longer in here, with a
    // reference for the caller. Null: there is room, or they are all being responded to.
    Handle* excess(const Handle& newest) noexcept { return pop(most_, &newest); }
    // One that nobody is known to respond to, likewise. Null: there is none.
    Handle* forgotten() noexcept { return pop(0, nullptr); }

 private:
    static constexpr std::size_t kMost = 1024;
    using List = na::util::IntrusiveList<Handle, &Handle::owed_hook_>;
    void take_out(Handle& handle) noexcept;
    Handle* pop(std::size_t most, const Handle* newest) noexcept;

    const std::size_t most_;
    na::util::OptionalLock lock_;  // guards what follows, and the handles' members for it
    List oldest_first_;
    std::size_t count_ = 0;
};

}  // namespace hg
