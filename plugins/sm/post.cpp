// SPDX-License-Identifier: BSD-3-Clause
// The way of a small or medium message out: into the ring, or into a buffer of the pool that a line
// of the ring names.
#include <cstring>

#include "plugins/sm/context.hpp"

namespace na::sm {

using plugin::Posted;

namespace {

struct InjectMessage {
    Head head;
    Inject inject;
};
static_assert(sizeof(InjectMessage) == 16);

}  // namespace

[[gnu::always_inline]] inline bool Connection::inject(Lane to, std::uint32_t tag,
                                                      std::span<const std::byte> bytes) noexcept {
    const auto lane = static_cast<std::size_t>(to);
    const std::size_t size = bytes.size();
    if (size >= inject_below_[lane] || !tx_.room_seen()) [[unlikely]] {
        return false;
    }
    const std::uint64_t head = head_word(Kind::inline_message, static_cast<std::uint8_t>(to),
                                         static_cast<std::uint16_t>(size), tag);
    if (size > kLineBytes) [[unlikely]] {
        return inject_lines(to, head, bytes);
    }
    tx_.write_line(head, bytes.data(), size);
    ++context.counters().inline_messages;
    if (to == Lane::unexpected) {
        sent_unexpected = true;
    }
    notify();
    return true;
}

// Of several lines. Apart, so that those of one need no more than they do.
bool Connection::inject_lines(Lane to, std::uint64_t head,
                              std::span<const std::byte> bytes) noexcept {
    if (!tx_.room(lines_for(sizeof head + bytes.size()))) {
        return false;
    }
    tx_.write(head, bytes.data(), bytes.size());
    ++context.counters().inline_messages;
    sent_unexpected |= to == Lane::unexpected;
    notify();
    return true;
}

bool Context::inject(plugin::Peer& to, plugin::Destination where, std::uint32_t tag,
                     std::span<std::byte> bytes) {
    Connection* c = static_cast<Peer&>(to).link(id_).to(where.context);
    return c != nullptr && c->inject(where.lane, tag, bytes);
}

Posted Context::send(Op& op) {
    Connection* c = static_cast<Peer*>(op.peer)->link(id_).to(op.target_id);
    if (c == nullptr ||
        !c->inject(op.lane(), op.tag, {static_cast<const std::byte*>(op.buffer), op.length}))
        [[unlikely]] {
        return send_other(op);
    }
    return Posted::done();
}

Posted Context::send_other(Op& op) noexcept {
    Posted answer = Posted::again();
    Connection* c = reach(static_cast<Peer&>(*op.peer), op.target_id, answer);
    return c == nullptr ? answer : c->send(op);
}

Posted Connection::send(Op& op) noexcept {
    const auto lane = static_cast<std::size_t>(op.lane());
    if (state != State::open) [[unlikely]] {
        return Posted::failed(why);
    }
    if (lane_busy_[lane] != 0) [[unlikely]] {
        // A large message is still on its way; small ones would overtake it.
        if (op.length > geometry_.buffer_bytes) {
            return send_large(op);
        }
        return starve();
    }
    if (op.length > peer_max_[lane]) [[unlikely]] {
        return Posted::failed(Status::msgsize);
    }
    if (op.length <= kInlineBytes) {
        const std::uint32_t lines =
            op.length <= kLineBytes ? 1 : lines_for(sizeof(Head) + op.length);
        if (!tx_.room(lines)) [[unlikely]] {
            return starve();
        }
        tx_.write(Head{Kind::inline_message, static_cast<std::uint8_t>(lane),
                       static_cast<std::uint16_t>(op.length), op.tag},
                  op.buffer, op.length);
        ++context.counters().inline_messages;
    } else if (op.length <= geometry_.buffer_bytes) {
        if (!tx_.room(1) || !pool_.available(tx_)) [[unlikely]] {
            return starve();
        }
        const std::uint32_t buffer = pool_.take();
        std::memcpy(pool_.at(buffer), op.buffer, op.length);
        tx_.write(InjectMessage{{Kind::inject, static_cast<std::uint8_t>(lane), 0, op.tag},
                                {buffer, static_cast<std::uint32_t>(op.length)}});
        pool_.sent(buffer, tx_.position());
        ++context.counters().injected;
    } else {
        return send_large(op);
    }
    sent_unexpected |= lane == 0;
    notify();
    return Posted::done();
}

// No room: the core posts again, after a progress() that the peer's credits will bring about.
Posted Connection::starve() noexcept {
    if (tx_.broken()) {
        context.fail(*this, "a peer that claims to have read what was not written");
        return Posted::failed(why);
    }
    context.add_starved(*this);
    return Posted::again();
}

}  // namespace na::sm
