// SPDX-License-Identifier: BSD-3-Clause
// Target: requests beyond the limit of those at a time (HG_REQUEST_LIMIT).
//
// The limit is for what the program has still to do. How many handles are out is known at any time
// (Port). Which of them are answered, and merely kept, for good perhaps, is looked at where the
// limit is met, and no more often than once for so many answers: a program that forgets no handle
// never pays for it, and one that does pays for a few handles with each answer. (One-way requests
// are kept as long as their handle: nobody else knows when they are done.)
#include <algorithm>
#include <bit>

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/util/log.hpp"

namespace hg {

using na::Status;

namespace {

constexpr std::int32_t kLooks = 16;  // in the time of as many answers as the limit is

}  // namespace

// Inside handlers of this transport.
bool Port::makes_room() noexcept {
    if (limit_ < 0) {
        return false;
    }
    const std::uint64_t answers = counters.responses_sent.get();
    if (answers < next_look_) {
        return false;
    }
    next_look_ = answers + static_cast<std::uint64_t>(std::max(limit_ / kLooks, 1));
    add(kept_, context_.note_kept(*this));
    return requests() - kept_.load(std::memory_order_relaxed) <= limit_;
}

// Answers how many there are that were not noted before.
std::int32_t HandlePool::note_kept(const Port& port) noexcept {
    const std::lock_guard guard(lock_);
    std::int32_t noted = 0;
    for (Handle& h : handles_) {
        if (h.stage() == Handle::Stage::answered && h.port_ == &port &&
            (h.refs_.load(std::memory_order_relaxed) & Handle::kUserRefs) != 0 &&
            !h.looped_.load(std::memory_order_relaxed) &&
            !h.kept_.load(std::memory_order_relaxed)) {
            // One that is given back just now is noted for its next request instead, until that
            // one's end.
            h.kept_.store(true, std::memory_order_relaxed);
            ++noted;
        }
    }
    return noted;
}

void Handle::wait_for_peer(std::uint64_t landing) noexcept {
    call_.waits = port_->shares.begin(peer(), landing);
}

void Handle::peer_waited_for(std::uint64_t landing) noexcept {
    if (call_.waits) [[unlikely]] {
        call_.waits = false;
        port_->shares.end(peer(), landing);
    }
}

void Handle::refuse_overload() noexcept {
    na::Counter& refused = port_->counters.requests_refused;
    refused.add();
    if (!info_.cls->listening()) {
        if (worth_a_line(refused.get())) {
            NA_LOG_WARNING(rpc,
                           "RPC {}: a request from {}, which is refused: this class does not "
                           "listen; {} requests refused so far",
                           name(), peer_->uri(), refused.get());
        }
        reject_later(Status::opnotsupported);
        return;
    }
    port_->shares.exhausted();
    if (std::has_single_bit(refused.get())) {
        NA_LOG_WARNING(rpc,
                       "{} requests refused so far: this context has as many as HG_REQUEST_LIMIT "
                       "allows. {} are answered, and their peers have yet to take the response; "
                       "the program has not answered the others",
                       refused.get(), port_->shares.waiting());
    }
    reject_later(Status::again);
}

}  // namespace hg
