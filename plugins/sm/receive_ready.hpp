// SPDX-License-Identifier: BSD-3-Clause
// Taking messages from a ring that has one. In a header of its own to become part of the poll that
// found it.
#pragma once

#include "plugins/sm/context.hpp"

namespace na::sm {

[[gnu::always_inline]] inline std::size_t Connection::receive_ready(unsigned budget,
                                                                    Watch& watch) noexcept {
    if (state == State::closed) [[unlikely]] {
        return 0;
    }
    stalled_ = false;
    half_ = 0;
    constexpr std::uint64_t kMost = head_word(Kind::inline_message, 0, 0, 0);
    plugin::Sink& sink = context.sink();
    std::size_t taken = 0;
    std::uint32_t at = rx_.tail();
    const Line* line = &rx_.line_at(at);
    std::uint32_t expected = 0;
    do {
        // Most are messages of one line, for which nothing is in the way. The head is loaded once
        // and checked whole: kind, lane, size.
        std::uint64_t head;
        std::memcpy(&head, line->payload, sizeof head);
        asm volatile("" ::: "memory");
        const std::size_t lane = head >> 8 & 1;
        const std::size_t size = head >> 16 & 0xffff;
        if ((head & 0xfeff) != kMost || size > line_max_[lane] || peer == nullptr) [[unlikely]] {
            if (!take_other()) {
                break;
            }
            at = rx_.tail();
        } else if (sink.deliver(static_cast<Lane>(lane), *peer,
                                static_cast<std::uint32_t>(head >> 32),
                                {line->payload + sizeof(Head), size})) [[likely]] {
            give_back(1);  // the core has copied it
            ++at;
        } else {
            stalled_ = true;
            finish_receiving(Step::later, false);
            break;
        }
        ++taken;
        line = &rx_.line_at(at);
        expected = lap(at);
        if (taken == budget) [[unlikely]] {
            finish_receiving(Step::taken, true);
            break;
        }
    } while (line->sequence.load(std::memory_order_acquire) == expected);
    context.counters().received += taken;
    watch = {&line->sequence, expected};
    return taken;
}

}  // namespace na::sm
