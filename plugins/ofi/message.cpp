// SPDX-License-Identifier: BSD-3-Clause
// Messages: injected, or copied into a buffer of ours; matched by the core when they arrive.
#include <cstring>

#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {

using plugin::Posted;

Posted Context::again(Link& link) noexcept {
    link.wants = true;
    watch(link);
    return Posted::again();
}

// The session is not there yet: begin it, or give the provider the chance to go on with it.
Posted Context::not_up(Link& link) noexcept {
    if (link.state == Link::State::idle) {
        if (!link.peer->has_context(link.target) ||
            (link.absent_until != 0 && now_ns() < link.absent_until)) {
            return Posted::failed(Status::hostunreach);
        }
        greet(link);
        if (link.state == Link::State::up) {  // oneself
            return Posted::done();
        }
    }
    return again(link);
}

// The link to the operation's target, with a session: it tells whether somebody is there. Null: not
// now; then `instead` is the answer to the post.
Link* Context::session(Op& op, Posted& instead) noexcept {
    auto& peer = static_cast<Peer&>(*op.peer);
    Link* link = peer.links(id_).to(op.target_id);
    if (link == nullptr) [[unlikely]] {
        try {
            link = &link_to(peer, op.target_id);
        } catch (const std::bad_alloc&) {
            instead = Posted::failed(Status::nomem);
            return nullptr;
        }
    }
    if (link->state != Link::State::up) [[unlikely]] {
        instead = not_up(*link);
        return instead.what == Posted::What::done ? link : nullptr;
    }
    return link;
}

Posted Context::send(Op& op) {
    Posted instead = Posted::again();
    Link* link = session(op, instead);
    if (link == nullptr) [[unlikely]] {
        return instead;
    }
    if ((link->due & Link::kConfirm) != 0 && !flush(*link)) [[unlikely]] {
        return again(*link);
    }
    const auto lane = static_cast<std::size_t>(op.lane());
    if (op.length > link->max_message[lane]) [[unlikely]] {
        NA_LOG_WARNING(msg, "message of {} bytes: {} takes at most {}", op.length,
                       link->address.text(), link->max_message[lane]);
        return Posted::failed(Status::msgsize);
    }
    if (link->starved(lane)) {
        ++stats_.no_credit;
        return again(*link);
    }
    auto* bytes = static_cast<std::byte*>(op.buffer);
    Header{.cookie = link->out_cookie,
           .tag = op.tag,
           .kind = static_cast<Kind>(lane),
           .target = link->target,
           .taken = {link->taken[0], link->taken[1]}}
        .write(bytes);
    bool pending = false;
    const ssize_t rc = transmit(*link, bytes, op.length, &op, pending);
    if (rc != 0) [[unlikely]] {
        if (rc == -FI_EAGAIN) {
            return again(*link);
        }
        NA_LOG_INFO(msg, "cannot send to {}: {}", link->address.text(),
                    fi_strerror(static_cast<int>(-rc)));
        return Posted::failed(status_of(rc));
    }
    ++link->sent[lane];
    link->told[0] = link->taken[0];
    link->told[1] = link->taken[1];
    link->wants = false;
    return pending ? Posted::pending() : Posted::done();
}

// Answers what libfabric answers. Not pending: the bytes are with the provider, no completion will
// come for `op`.
ssize_t Context::transmit(Link& link, const std::byte* bytes, std::size_t size, Op* op,
                          bool& pending) noexcept {
    if (!may_connect(link)) [[unlikely]] {
        blocked(link);
        return -FI_EAGAIN;
    }
    if (link.addr == FI_ADDR_NOTAVAIL) [[unlikely]] {
        if (const ssize_t rc = reach(link); rc != 0) {
            full_ = full_ || rc == -FI_EAGAIN;
            return rc;
        }
    }
    const HoldOpen hold(link.neighbour.get());
    if (hold.closed()) [[unlikely]] {
        return -FI_EHOSTUNREACH;
    }
    ssize_t rc = 0;
    if (size <= inject_) {
        rc = fi_inject(endpoint_->ep(), bytes, size, link.addr);
        stats_.injected += rc == 0 ? 1 : 0;
    } else {
        Request* r = take_request();
        if (r == nullptr) {
            full_ = true;
            return -FI_EAGAIN;
        }
        std::memcpy(r->bounce, bytes, size);
        rc = fi_send(endpoint_->ep(), r->bounce, size, r->descriptor, link.addr, &r->provider);
        if (rc == 0) {
            r->op = op;
            pending = op != nullptr;
            start(*r, link);
            watch(link);
            ++stats_.copied;
        } else {
            free_.push_front(*r);
        }
    }
    if (rc == -FI_EAGAIN) {
        blocked(link);
    } else {
        link.blocked_since = 0;
    }
    return rc;
}

// --- arrival
// ---------------------------------------------------------------------------------------------------------

void Context::arrived(std::span<const std::byte> bytes) {
    Header h;
    if (!h.read(bytes) || h.target != id_) [[unlikely]] {
        ++stats_.bad_input;
        sink_.dropped(h.version != session::kWireVersion
                          ? "a message of another protocol or version"
                          : "a malformed message");
        return;
    }
    if (h.kind > Kind::expected) {
        arrived_control(h, bytes.subspan(Header::kSize));
        return;
    }
    Link* link = last_;
    if (link == nullptr || link->in_cookie != h.cookie) {
        const auto it = cookies_.find(h.cookie);
        if (it == cookies_.end() || it->second->state != Link::State::up) [[unlikely]] {
            ++stats_.bad_input;
            sink_.dropped("a message of an ended or unknown session");
            return;
        }
        link = last_ = it->second;
    }
    const auto lane = static_cast<std::size_t>(h.kind);
    if (bytes.size() > domain_.caps().max_message[lane] || link->held[lane].size() >= window_)
        [[unlikely]] {
        ++stats_.bad_input;
        sink_.dropped("a message larger than allowed, or without credit");
        return;
    }
    ++stats_.received;
    link->heard = 0;
    for (std::size_t l = 0; l < kLanes; ++l) {
        // Counts that cannot be are not taken.
        if (static_cast<std::uint16_t>(h.taken[l] - link->acked[l]) <=
            static_cast<std::uint16_t>(link->sent[l] - link->acked[l])) {
            link->acked[l] = h.taken[l];
        }
    }
    take(*link, static_cast<Lane>(lane), h.tag, bytes);
}

void Context::take(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes) {
    auto& held = link.held[static_cast<std::size_t>(lane)];
    if (held.empty() && deliver(link, lane, tag, bytes)) [[likely]] {
        return;
    }
    ++stats_.held;
    Link::Held copy{tag, bytes.size(), std::make_unique_for_overwrite<std::byte[]>(bytes.size())};
    std::memcpy(copy.bytes.get(), bytes.data(), bytes.size());
    held.push_back(std::move(copy));
    work(link);
}

// False: the core has no room now.
bool Context::deliver(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes) {
    if (link.peer == nullptr && !attach(link)) [[unlikely]] {
        took(link, static_cast<std::size_t>(lane));
        sink_.dropped("a message of a peer that there is no room to know");
        return true;
    }
    plugin::Arrival* arrival = sink_.arrive(lane, *link.peer, tag, bytes.size());
    if (arrival == nullptr) {
        return false;
    }
    if (arrival->data != nullptr) {
        std::memcpy(arrival->data, bytes.data(), bytes.size());
    }
    sink_.finish(arrival, Status::success);
    took(link, static_cast<std::size_t>(lane));
    return true;
}

void Context::deliver_held(Link& link) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        auto& held = link.held[lane];
        while (!held.empty() && deliver(link, static_cast<Lane>(lane), held.front().tag,
                                        {held.front().bytes.get(), held.front().size})) {
            held.pop_front();
        }
    }
}

// Told with the next message; by a message of its own before the peer has to stop.
void Context::took(Link& link, std::size_t lane) noexcept {
    ++link.taken[lane];
    if (static_cast<std::uint16_t>(link.taken[lane] - link.told[lane]) >= window_ / 2 &&
        link.state == Link::State::up) {
        link.due |= Link::kCredit;
        work(link);
    }
}

}  // namespace na::ofi
