// SPDX-License-Identifier: BSD-3-Clause
// RPCs to oneself, without the transport: the arguments are copied (payloads beyond the eager size
// handed over) to a target handle of the same context, and the results back. Codes, callbacks and
// references are those of any RPC.
//
// The C interface shows both ends as one handle, as Mercury has it: programs compare handles, and
// find the data that they have set. That is the origin's, with the references of both; what the
// handler does with it is done with the target's.
#pragma once

#include <cstddef>

#include "hg/handle.hpp"

namespace hg {

class Loopback {
 public:
    // The handle's next RPC is one of these.
    static bool wanted(const Handle& origin) noexcept;
    // For Handle::forward(), send_response() and cancel(), which have prepared the handle.
    static na::Status forward(Handle& origin, std::size_t payload, Block* beyond,
                              std::size_t beyond_size, std::uint8_t flags) noexcept;
    static na::Status respond(Handle& target, na::Status code, std::size_t payload, Block* beyond,
                              std::size_t beyond_size) noexcept;
    static void cancel(Handle& origin) noexcept;

    // What the handler of a target's handle is to get: the origin's, with one reference more; the
    // target's itself where nobody waits for an answer (any more).
    static Handle& expose(Handle& target) noexcept;
    static Handle& to_show(Handle& target) noexcept {
        return target.looped_.load(std::memory_order_relaxed) ? expose(target) : target;
    }
    // The one that its handler has got.
    static Handle& shown(Handle& target) noexcept {
        Handle* const origin = twin(target);
        return origin == nullptr ? target : *origin;
    }
    // The target's behind the one that is shown; any other is answered as it is.
    static Handle& behind(Handle& shown) noexcept {
        Handle* const target = shown.target_ ? nullptr : twin(shown);
        return target == nullptr ? shown : *target;
    }
    // Of an origin's: what its handler does before it has responded is meant for the target's.
    static Handle* unanswered(const Handle& origin) noexcept {
        return (origin.refs_.load(std::memory_order_relaxed) & Handle::kAnswerRef) == 0
                   ? nullptr
                   : twin(origin);
    }
    // The same, or its call has not come back yet.
    static Handle* at_work(const Handle& origin) noexcept {
        return origin.stage() == Handle::Stage::in_flight ? twin(origin) : unanswered(origin);
    }
    // The callback of a target's response has run.
    static void told(Handle& target) noexcept;
    // The origin's is used for something else, or by nobody any more. busy: not yet, its handler
    // has not responded.
    static na::Status detach(Handle& origin) noexcept;
    // For Handle::unref_owed(), of an origin's that is shown.
    static bool unref(Handle& origin, std::uint64_t n) noexcept;

 private:
    static Handle* twin(const Handle& h) noexcept {
        return h.twin_.load(std::memory_order_relaxed);
    }
    static void twin(Handle& h, Handle* other) noexcept {
        h.twin_.store(other, std::memory_order_relaxed);
    }
    static Handle* take_twin(Handle& h) noexcept {
        return h.twin_.exchange(nullptr, std::memory_order_relaxed);
    }
    static void let_go(Handle& origin) noexcept;
    static void end(Handle& origin, na::Status status) noexcept;
};

}  // namespace hg
