// SPDX-License-Identifier: BSD-3-Clause
// The way of a small call out, where the message has room for all of it and nothing is special:
// part of the function that the user calls where the transport wants nothing else (Port::plain()),
// and a function of its own where it may (Port::injects()). Whatever is special takes the general
// way (forward.cpp, respond.cpp), from the start.
#pragma once

#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "na/core/posting.hpp"

namespace hg {

// Plain: what the port is.
template <bool kPlain>
[[gnu::always_inline]] inline na::Status Handle::forward_now(std::size_t payload,
                                                             std::size_t structure,
                                                             const Callback& callback) noexcept {
    using na::Lane;
    // Locals: the compiler cannot know that what is written meanwhile is none of these.
    Port& port = *port_;
    const Kit& kit = *kit_;
    callback_ = callback;
    one_way_ = false;
    sent_ = structure;
    ref();
    const std::size_t size = port.input_at() + payload;
    {
        // The receive of the answer and the request under one lock, as in post_forward(). Where the
        // core alone handles receives, the receive is posted second: under this lock no answer is
        // read, and a request that does not go has no receive to take back.
        na::Posting posting(port.na());
        const Port::Ticket ticket = port.next_ticket();
        tag_ = ticket.tag;
        cookie_ = ticket.cookie;
        wire::encode(kit.input + port.headroom(Lane::unexpected),
                     wire::Request{.flags = 0,
                                   .origin_context = info_.context->id(),
                                   .cookie = ticket.cookie,
                                   .id = info_.id},
                     payload);
        stage_.store(Stage::in_flight, std::memory_order_release);
        const bool wanted = !cancel_asked_.load(std::memory_order_relaxed);
        if constexpr (!kPlain) {
            if (wanted) [[likely]] {
                if (filled_ != Filled::response) [[unlikely]] {
                    fill_response(posting);
                }
                posting.recv_expected_next(*kit.recv, ticket.tag);
            }
        }
        if (wanted && posting.inject(Lane::unexpected, *peer_, info_.context_id, ticket.tag,
                                     kit.input, size)) [[likely]] {
            call_.request_sent = true;
            port.counters.requests_sent.add();
            if constexpr (kPlain) {
                if (filled_ != Filled::response) [[unlikely]] {
                    fill_response(posting);
                }
                posting.recv_expected_again(*kit.recv, ticket.tag);
            }
            start_parts(1);
            return na::Status::success;
        }
        if constexpr (!kPlain) {
            if (wanted) {
                (void)posting.withdraw(*kit.recv);  // the core matches wherever ports inject
                filled_ = Filled::nothing;          // the handler of the receive is gone
            }
        }
    }
    return post_claimed(size);
}

[[gnu::always_inline]] inline na::Status Handle::forward_small(std::size_t payload,
                                                               std::size_t structure,
                                                               const Callback& callback) noexcept {
    if (to_self_ || registration_->one_way() || !port_->plain()) [[unlikely]] {
        return forward_beside(payload, structure, callback);
    }
    return forward_now<true>(payload, structure, callback);
}

[[gnu::always_inline]] inline na::Status Handle::respond_now(std::size_t payload,
                                                             std::size_t structure,
                                                             const Callback& callback) noexcept {
    using na::Lane;
    Port& port = *port_;
    const Kit& kit = *kit_;
    wire::encode(kit.output + port.headroom(Lane::expected),
                 wire::Response{.flags = 0, .code = na::Status::success, .cookie = cookie_},
                 payload);
    bool gone = false;
    {
        na::Posting posting(port.na());
        gone = posting.inject(Lane::expected, *peer_, info_.context_id, tag_, kit.output,
                              port.output_at() + payload);
        if (gone) [[likely]] {
            port.counters.responses_sent.add();
        }
    }
    if (!gone) [[unlikely]] {
        return respond(payload, callback);
    }
    sent_ = structure;
    status_.store(na::Status::success, std::memory_order_relaxed);
    stage_.store(Stage::answered, std::memory_order_release);
    if (callback.run != nullptr || dispatch_due_) [[unlikely]] {
        callback_ = callback;
        answered_at_once();
    }
    unref_answer();
    return na::Status::success;
}

[[gnu::always_inline]] inline na::Status Handle::respond_small(std::size_t payload,
                                                               std::size_t structure,
                                                               const Callback& callback) noexcept {
    if (looped_.load(std::memory_order_relaxed) || !port_->plain()) [[unlikely]] {
        return respond_beside(payload, structure, callback);
    }
    return respond_now(payload, structure, callback);
}

}  // namespace hg
