// SPDX-License-Identifier: BSD-3-Clause
// Target: requests beyond the limit of those at a time (HG_REQUEST_LIMIT).
//
// The limit is for what the program has still to do. How many handles are out is known at any
// time (Port); which of them the program is done with and merely keeps, for good perhaps, is looked
// at where the limit is met only. That look takes as long as there are handles, so there is one for
// that many requests, about, whether they are admitted or refused then.
#include <algorithm>
#include <bit>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

namespace {

// What is answered is done. Of a one-way request that is known to the program alone: it may work on
// it long after its handler has returned, or have forgotten it. So there is a limit, but a higher
// one.
constexpr std::int32_t kOneWayKept = 15;  // times the limit
// How many requests are refused, for each so many handles, before there is another look.
constexpr std::int32_t kHandlesPerRefusal = 16;

}  // namespace

// Outside of handlers.
bool Port::admits(bool one_way) noexcept {
    const std::int32_t now = requests();
    const std::int32_t before = (one_way ? kept_ : kept_any_).load(std::memory_order_relaxed);
    if (now <= limit_ + before) {
        return true;
    }
    if (add(refusals_, -1) > 0) {
        return false;
    }
    const HandlePool::Kept kept = context_.kept();
    const std::int64_t one_way_kept =
        std::min<std::int64_t>(kept.one_way, std::int64_t{limit_} * kOneWayKept);
    const auto counted = static_cast<std::int32_t>(kept.answered + one_way_kept);
    kept_.store(counted, std::memory_order_relaxed);
    kept_any_.store(kept.answered + kept.one_way, std::memory_order_relaxed);
    const bool room = now <= limit_ + (one_way ? counted : kept.answered + kept.one_way);
    refusals_.store(room ? 0 : now / kHandlesPerRefusal, std::memory_order_relaxed);
    return room;
}

// Inside the handler of a request that makes too many.
void Handle::reconsider_later(std::span<std::byte> payload) noexcept {
    input_.message = payload;
    defer(&Handle::reconsider);
}

void Handle::reconsider(Completion& c) {
    Handle& h = of(c);
    if (h.port_->admits(h.one_way_)) {
        h.admit_late();
    } else {
        h.refuse_overload();
        reject(h);
    }
}

void Handle::refuse_overload() noexcept {
    na::Counter& refused = port_->counters.requests_refused;
    refused.add();
    if (std::has_single_bit(refused.get())) {
        NA_LOG_WARNING(rpc,
                       "{} requests refused so far: this context has as many as HG_REQUEST_LIMIT "
                       "allows, none of which the program has finished",
                       refused.get());
    }
    note(Status::again);
}

HandlePool::Kept HandlePool::kept() noexcept {
    const std::lock_guard guard(lock_);
    Kept kept;
    for (const Handle& h : handles_) {
        // Others are on their way, refusals too, and back soon.
        if ((h.refs_.load(std::memory_order_relaxed) & Handle::kUserRefs) == 0) {
            continue;
        }
        const Handle::Stage stage = h.stage();
        kept.answered += stage == Handle::Stage::answered ? 1 : 0;
        kept.one_way += stage == Handle::Stage::noted ? 1 : 0;
    }
    return kept;
}

}  // namespace hg
