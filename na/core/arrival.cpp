// SPDX-License-Identifier: BSD-3-Clause
// What the plugin tells a context: messages that arrive, operations that end, peers that are lost.
#include <mutex>

#include "na/core/context.hpp"
#include "na/util/copy.hpp"
#include "na/util/log.hpp"

namespace na::inline impl {

using State = Operation::State;

// --- arrival
// ---------------------------------------------------------------------------------------------------------

// Into a receive that is there, whose bytes copy() writes. False: not as simple as that.
template <typename Copy>
[[gnu::always_inline]] inline bool Context::deliver_now(Lane lane, plugin::Peer& peer,
                                                        std::uint32_t tag, std::size_t size,
                                                        Copy&& copy) noexcept {
    Address& source = *Address::of(peer);
    Operation* op = nullptr;
    Address* sender = nullptr;
    if (lane == Lane::unexpected) {
        op = match_.take_unexpected(size);
        if (op == nullptr) [[unlikely]] {
            return false;
        }
        sender = &source;
    } else if (op = match_.take_direct(source, tag, size); op == nullptr) {
        op = match_.take_expected(source, tag, size);
        if (op == nullptr) [[unlikely]] {
            return false;
        }
        if (!matched_here_ || op->referenced_) [[unlikely]] {
            unawait(*op);
        }
    }
    copy(op->buffer);
    counters_.receives.add();
    op->set_state(State::idle);
    op->received(*op, size, sender, tag);
    return true;
}

void Operation::tell_handler(Operation& op, std::size_t size, Address* source,
                             std::uint32_t tag) noexcept {
    op.handler(op, Outcome{.status = Status::success,
                           .size = size,
                           .source = AddressRef::share(source).release(),
                           .tag = tag,
                           .data = op.buffer});
}

// --- Sink
// ------------------------------------------------------------------------------------------------------------

void Context::complete(Op& posted, const plugin::Completion& how) {
    auto& op = static_cast<Operation&>(posted);
    Outcome outcome{
        .status = how.status, .size = how.size, .tag = how.tag, .data = how.data, .last = how.last};
    if (how.last) {
        --posted_;
    }
    if (how.source != nullptr && ok(how.status)) {
        outcome.source = Address::of(*how.source);
        outcome.source->ref();
    }
    if (how.status == Status::canceled) {
        counters_.canceled.add();
    }
    end(op, outcome);
}

plugin::Arrival* Context::arrive(Lane lane, plugin::Peer& source, std::uint32_t tag,
                                 std::size_t size) {
    attend();
    return match_.arrive(lane, *Address::of(source), tag, size);
}

plugin::Arrival* Context::arrive_in_parts(Lane lane, plugin::Peer& source, std::uint32_t tag,
                                          std::size_t size) {
    attend();
    return match_.arrive(lane, *Address::of(source), tag, size, false);
}

void Context::finish(plugin::Arrival* arrival, Status status) {
    match_.finish(*static_cast<Landing*>(arrival), status);
}

// As arrive() and finish(), for a receive that is there and has room: it need not be noted what is
// being written where, and only a request's source has to be held for longer than this. Twice, so
// that the short ones need no more than they do.
bool Context::deliver(Lane lane, plugin::Peer& peer, std::uint32_t tag,
                      std::span<const std::byte> bytes) {
    if (bytes.size() <= kShort) [[likely]] {
        return (!match_.is_bundle(tag) &&
                deliver_now(
                    lane, peer, tag, bytes.size(),
                    [bytes](void* to) { util::copy_line(to, bytes.data(), bytes.size()); })) ||
               plugin::Sink::deliver(lane, peer, tag, bytes);
    }
    return deliver_long(lane, peer, tag, bytes);
}

bool Context::deliver_long(Lane lane, plugin::Peer& peer, std::uint32_t tag,
                           std::span<const std::byte> bytes) noexcept {
    return (!match_.is_bundle(tag) &&
            deliver_now(lane, peer, tag, bytes.size(),
                        [bytes](void* to) { util::copy_small(to, bytes.data(), bytes.size()); })) ||
           plugin::Sink::deliver(lane, peer, tag, bytes);
}

bool Context::deliver_two(Lane lane, plugin::Peer& peer, std::uint32_t tag,
                          std::span<const std::byte> first, std::span<const std::byte> rest) {
    return (!match_.is_bundle(tag) &&
            deliver_now(lane, peer, tag, first.size() + rest.size(),
                        [first, rest](void* to) {
                            util::copy_words(to, first.data(), first.size());
                            util::copy_words(static_cast<std::byte*>(to) + first.size(),
                                             rest.data(), rest.size(), first.size());
                            asm volatile("" ::: "memory");  // nothing is read again
                        })) ||
           plugin::Sink::deliver_two(lane, peer, tag, first, rest);
}

// An expected receive has got its message.
void Context::unawait(Operation& op) noexcept {
    if (cls_.caps().watches_receives && plugin_ != nullptr) {
        plugin_->awaits(op, false);
    }
    if (op.referenced_) {
        op.referenced_ = false;
        op.address_->unref();
    }
}

plugin::Peer* Context::source(std::span<const std::byte> identity) try {
    AddressRef address =
        cls_.addresses().find({reinterpret_cast<const char*>(identity.data()), identity.size()});
    if (!address) {
        auto peer = cls_.domain().decode_peer(identity);
        if (!peer) {
            dropped("a peer with a malformed address");
            return nullptr;
        }
        auto interned = cls_.addresses().intern(std::move(*peer));
        if (!interned) {
            NA_LOG_WARNING(addr, "peer refused: {}", interned.error().message);
            return nullptr;
        }
        address = std::move(*interned);
    }
    address->ref_in(id_);
    return &address->peer();
} catch (const std::bad_alloc&) {
    dropped("a peer that there is no memory to know");
    return nullptr;
}

void Context::release(plugin::Peer& peer) {
    Address::of(peer)->unref_in(id_);
}

void Context::peer_lost(plugin::Peer& peer, Status why) {
    counters_.peers_lost.add();
    Address& address = *Address::of(peer);
    NA_LOG_INFO(addr, "lost {}: {}", address.uri(), to_string(why));
    const AddressRef keep = AddressRef::share(&address);
    while (Operation* op = retry_.pop(&address)) {
        plugin_->withdrawn(*op);
        end(*op, Outcome{.status = why});
    }
    outbox_.fail(address, why);
    match_.fail_peer(address, why);
}

void Context::context_lost(plugin::Peer& peer, std::uint8_t context, Status why) {
    Address& address = *Address::of(peer);
    NA_LOG_INFO(addr, "lost context {} of {}: {}", context, address.uri(), to_string(why));
    const AddressRef keep = AddressRef::share(&address);
    while (Operation* op = retry_.pop(&address, context)) {
        end(*op, Outcome{.status = why});
    }
    outbox_.fail(address, why, context);
    match_.fail_peer(address, why, context);
}

bool Context::awaited(plugin::Peer& peer) {
    const Address& address = *Address::of(peer);
    return retry_.holds(address) || outbox_.holds(address) || match_.awaits(address);
}

void Context::dropped(const char* what) {
    counters_.dropped.add();
    NA_LOG_WARNING(msg, "dropped {}", what);
}

void Context::drop(plugin::Peer& peer) noexcept {
    if (plugin_ != nullptr) {
        plugin_->drop(peer);
    }
}

}  // namespace na::inline impl
