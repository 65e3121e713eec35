// SPDX-License-Identifier: BSD-3-Clause
// How a peer learns that its ring has something: by looking (hot ring), by a bit in its ready map
// (cold ring), and by a knock on its socket if it sleeps.
//
// Nothing is lost, by two exchanges of the form "store mine, fence, load yours":
//  - producer: publish, fence, load `hot`;    consumer: store hot = 0, fence, look at the ring once
//  more;
//  - producer: publish, fence, load `sleep`;  consumer: store sleep = odd, fence, look at all
//  rings, then sleep.
// A peer that never sleeps (StatusPage::sleepless) is spared the producer's fence while its ring is
// hot: it looks once more at a ring that it cooled, a while later (Context::look_at_cooled).
// A knock is a message on the connection's own socket and not an eventfd that is shared by all
// peers: a peer that holds such a descriptor could empty it, and so take away the knocks of others,
// or make our write block.
#include <cerrno>

#include <sys/socket.h>

#include "plugins/sm/context.hpp"

namespace na::sm {

// The peer does not look at this ring by itself.
void Connection::mark_ready() noexcept {
    if (peer_ready_ == nullptr) {
        return;
    }
    const std::uint64_t bit = std::uint64_t{1} << (peer_bit_ % 64);
    const std::uint64_t word = std::uint64_t{1} << (peer_bit_ / 64);
    auto& leaf = peer_ready_->leaf[peer_bit_ / 64];
    auto& summary = peer_ready_->summary;
    // Both bits still set: the consumer has yet to take them, and looks at the ring after that.
    if ((leaf.load(std::memory_order_relaxed) & bit) == 0 ||
        (summary.load(std::memory_order_relaxed) & word) == 0) {
        leaf.fetch_or(bit, std::memory_order_seq_cst);
        summary.fetch_or(word, std::memory_order_seq_cst);
    }
}

void Connection::notify_sleeper() noexcept {
    full_fence();
    const std::uint32_t sleep = peer_sleep_->load(std::memory_order_relaxed);
    if ((sleep & 1) != 0) {
        knock(sleep);
    }
}

// Once per sleep is enough. Before the answer we see no pages of the peer: then each message
// knocks.
void Connection::knock(std::uint32_t sleep) noexcept {
    if (answered && sleep == rung_) {
        return;
    }
    rung_ = sleep;
    ++context.counters().knocks;
    const char byte = 0;
    // EAGAIN: the socket is full of knocks. Broken: the hang-up will be seen.
    if (::send(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
        context.events_soon();
    }
}

// A line that named a buffer: buffers may be scarcer than lines.
void Connection::give_back_buffer() noexcept {
    if (++buffers_taken_ * 4 >= geometry_.buffer_count) {
        rx_.consume(1);
        rx_.publish();
        gave_back();
    } else {
        give_back(1);
    }
}

void Connection::gave_back() noexcept {
    buffers_taken_ = 0;
    full_fence();
    if (rx_.producer_waits()) [[unlikely]] {
        notify_sleeper();
    }
}

}  // namespace na::sm
