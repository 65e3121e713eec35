// SPDX-License-Identifier: BSD-3-Clause
// Memory of a peer's allocator, mapped here. The first put or get that names an allocation asks its
// owner for the descriptor, over the socket; until it is here transfers go another way, or wait.
// Mappings are kept per connection, the least used one giving way.
#include <algorithm>
#include <cerrno>
#include <new>

#include "na/util/log.hpp"
#include "plugins/sm/context.hpp"
#include "plugins/sm/region.hpp"

namespace na::sm {
namespace {

constexpr std::size_t kMaxMappings = 256;

// A range of the peer's addresses as an offset into the allocation; false if it leaves it.
bool inside(const Region& remote, const Segment& s, std::size_t bytes) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(s.base);
    const std::uint64_t offset = address - remote.allocation_base;
    return address >= remote.allocation_base && offset <= bytes && s.length <= bytes - offset;
}

}  // namespace

// The allocation of the peer, if it is mapped here.
const Mapping* Context::mapping_of(Connection& c, std::uint64_t allocation,
                                   bool write) const noexcept {
    // What is mapped for writing can be read as well.
    for (const bool writable : {true, false}) {
        if (write && !writable) {
            continue;
        }
        const auto it = c.mapped[writable].find(allocation);
        if (it != c.mapped[writable].end() &&
            it->second.state == Connection::Mapped::State::mapped) {
            it->second.used = polls();
            return &it->second.memory;
        }
    }
    return nullptr;
}

bool Context::copy_now(plugin::Peer& to, std::uint8_t target, std::span<const std::byte> region,
                       std::uint64_t length, std::uint64_t offset,
                       std::span<std::byte> into) noexcept {
    auto& peer = static_cast<Peer&>(to);
    Piece piece;
    if (peer.is_self() || !decode_piece(region, length, piece)) {
        return false;
    }
    Connection* c = peer.link(id_).to(target);
    if (c == nullptr || c->state != Connection::State::open) {
        return false;
    }
    const Mapping* memory = mapping_of(*c, piece.allocation, false);
    if (memory == nullptr || piece.offset > memory->bytes() ||
        length > memory->bytes() - piece.offset) {
        return false;
    }
    PermitUse use = c->use_permit();
    if (!ok(use.begin(piece.permit, seal_of(piece.key), Access::read, {&piece.segment, 1},
                      piece.allocation, piece.allocation_base, offset, into.size()))) {
        return false;
    }
    ++stats_.rma_shared;
    std::memcpy(into.data(), memory->base() + piece.offset + offset, into.size());
    return use.stands();
}

// Where the allocation of op.remote is mapped here; null: it is not. `pending`: it may be soon.
std::byte* Context::find_mapping(Connection& c, Op& op, bool& pending) noexcept {
    using State = Connection::Mapped::State;
    const auto& remote = *static_cast<const Region*>(op.remote);
    const bool write = op.kind == OpKind::put;
    if (const Mapping* memory = mapping_of(c, remote.allocation, write); memory != nullptr) {
        // Bounds of the descriptor against the memory that there really is; what does not fit goes
        // another way.
        for (const Segment& s : remote.list.segments()) {
            if (!inside(remote, s, memory->bytes())) {
                return nullptr;
            }
        }
        return memory->base();
    }
    auto& table = c.mapped[write];
    if (const auto it = table.find(remote.allocation); it != table.end()) {
        pending = it->second.state == State::requested;
        return nullptr;
    }
    if (c.asked >= kMapRequests) {
        return nullptr;
    }
    try {
        if (table.size() >= kMaxMappings) {
            const auto oldest = std::min_element(
                table.begin(), table.end(),
                [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
            if (oldest->second.state == State::requested) {
                return nullptr;  // all of them are on their way
            }
            table.erase(oldest);
        }
        MapMessage ask{};
        ask.control = Control::map;
        ask.writable = write ? 1 : 0;
        ask.allocation = remote.allocation;
        ask.key = remote.key;
        table[remote.allocation].used = polls();
        if (send_message(c.socket.get(), &ask, sizeof ask) != 0) {
            table.erase(remote.allocation);
            return nullptr;
        }
        ++c.asked;
        pending = true;
    } catch (const std::bad_alloc&) {
    }
    return nullptr;
}

void Context::copy_shared(Op& op, std::byte* base, std::size_t limit) noexcept {
    OpState& s = state_of(op);
    const auto& region = *static_cast<const Region*>(op.remote);
    SegmentList::Cursor local(static_cast<const Region*>(op.local)->list, op.local_offset + s.done);
    SegmentList::Cursor remote(region.list, op.remote_offset + s.done);
    std::size_t left = std::min<std::uint64_t>(limit, op.length - s.done);
    s.done += left;
    while (left != 0) {
        const Segment here = local.piece(left);
        const Segment there = remote.piece(here.length);
        std::byte* at =
            base + (reinterpret_cast<std::uintptr_t>(there.base) - region.allocation_base);
        if (op.kind == OpKind::put) {
            std::memcpy(at, here.base, there.length);
        } else {
            std::memcpy(here.base, at, there.length);
        }
        local.advance(there.length);
        remote.advance(there.length);
        left -= there.length;
    }
}

// A peer asks for the descriptor of an allocation. It has to name a region in it that allows what
// it wants.
void Context::on_map(Connection& c, const Received& message) noexcept {
    MapMessage ask{};
    if (!message.get(ask)) {
        fail(c, "a malformed request for memory");
        return;
    }
    // Behind those that wait.
    const int error = c.full ? EAGAIN : answer_map(c, ask);
    if (error == 0) {
        return;
    }
    if (!is_shortage(error)) {
        hang_up(c, Status::hostunreach);
        return;
    }
    if (c.unsent.size() >= kMapRequests) {
        fail(c, "more requests for memory than may be unanswered");
        return;
    }
    try {
        c.unsent.push_back(ask);
        ++stats_.replies_waiting;
        wait_for_room(c);
    } catch (const std::bad_alloc&) {
    }
    if (!c.full) {
        // The peer would wait for this one for ever.
        hang_up(c, Status::hostunreach);
    }
}

int Context::answer_map(Connection& c, const MapMessage& ask) noexcept {
    MapMessage reply = ask;
    reply.control = Control::mapping;
    reply.key = 0;
    reply.bytes = 0;
    reply.ok = 0;
    std::optional<Allocations::Export> found;
    try {
        bool allowed = false;
        const Status status = domain_.regions().use(
            ask.key, ask.writable != 0 ? Access::write : Access::read, 0, 0,
            [&](const LocalRegion& region) { allowed = region.allocation == ask.allocation; });
        if (ok(status) && allowed && ask.allocation != 0) {
            found = domain_.allocations().give(ask.allocation, ask.writable != 0);
            c.granted.reserve(c.granted.size() + 1);
        }
    } catch (const std::bad_alloc&) {
        found.reset();
    }
    if (found) {
        reply.ok = 1;
        reply.bytes = found->bytes;
        const int fd = found->fd.get();
        const int error = send_message(c.socket.get(), &reply, sizeof reply, {&fd, 1});
        if (error == 0 &&
            std::find(c.granted.begin(), c.granted.end(), ask.allocation) == c.granted.end()) {
            c.granted.push_back(ask.allocation);
        }
        if (error == 0 || error == EAGAIN) {
            return error;
        }
        // Too many descriptors are on their way: transfers go another way.
        reply.ok = 0;
        reply.bytes = 0;
    }
    return send_message(c.socket.get(), &reply, sizeof reply);
}

void Context::on_mapping(Connection& c, Received& message) noexcept {
    using State = Connection::Mapped::State;
    MapMessage reply{};
    if (!message.get(reply)) {
        fail(c, "a malformed answer about memory");
        return;
    }
    if (c.asked == 0) {
        fail(c, "an answer about memory that was not asked for");
        return;
    }
    --c.asked;
    auto& table = c.mapped[reply.writable != 0];
    const auto it = table.find(reply.allocation);
    if (it == table.end() || it->second.state != State::requested) {
        return;  // not asked for (any more)
    }
    it->second.state = State::refused;
    if (reply.ok == 0 || message.fd_count != 1 || reply.bytes == 0 ||
        reply.bytes % kPageBytes != 0 || reply.bytes > PTRDIFF_MAX) {
        return;
    }
    auto memory = map_peer_memory(message.fds[0].get(), reply.bytes, reply.writable != 0);
    if (!memory) {
        NA_LOG_WARNING(rma, "memory of a peer cannot be mapped, slower ways are used: {}",
                       memory.error().message);
        return;
    }
    it->second.memory = std::move(*memory);
    it->second.state = State::mapped;
}

void Context::on_unmap(Connection& c, const Received& message) noexcept {
    MapMessage gone{};
    if (!message.get(gone)) {
        fail(c, "a malformed notice about memory");
        return;
    }
    c.mapped[0].erase(gone.allocation);
    c.mapped[1].erase(gone.allocation);
}

// Allocations were freed here: peers need not keep them mapped. Who has no room for the news is
// told later.
void Context::tell_freed() noexcept {
    const std::uint64_t generation = domain_.allocations().generation();
    bool all = true;
    for (const auto& c : slots_) {
        if (c == nullptr || c->state != Connection::State::open) {
            continue;
        }
        if (c->full) {
            all = false;
            continue;
        }
        std::erase_if(c->granted, [&](std::uint64_t id) {
            if (domain_.allocations().exists(id)) {
                return false;
            }
            MapMessage gone{};
            gone.control = Control::unmap;
            gone.allocation = id;
            const int error = c->full ? EAGAIN : send_message(c->socket.get(), &gone, sizeof gone);
            if (is_shortage(error)) {
                wait_for_room(*c);
                all = false;
                return false;
            }
            return true;
        });
    }
    freed_ = all ? generation : generation - 1;
}

}  // namespace na::sm
