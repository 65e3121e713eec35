// SPDX-License-Identifier: BSD-3-Clause
// Messages: sent with credit; counted, and matched by the core, when they arrive.
#include <cstring>
#include <new>

#include "na/session/engine.hpp"
#include "na/util/log.hpp"

namespace na::session {

using plugin::Posted;

Posted Engine::again(Link& link) noexcept {
    link.wants = true;
    watch(link);
    return Posted::again();
}

// The session is not there yet: begin it, or give the transport the chance to go on with it.
Posted Engine::not_up(Link& link, const Op& op) noexcept {
    link.inquires = false;
    if (link.state == Link::State::idle) {
        if (const Posted answer = find_out(link, op); answer.what != Posted::What::done) {
            return answer;
        }
        greet(link);
        if (link.state == Link::State::up) {  // oneself
            return Posted::done();
        }
    }
    return again(link);
}

// A session tells whether somebody is there.
Link* Engine::session(Op& op, Posted& instead) noexcept {
    auto& peer = static_cast<Peer&>(*op.peer);
    Link* link = peer.links(id_).to(op.target_id);
    if (link == nullptr) [[unlikely]] {
        try {
            if (!peer.address().has_place_for(op.target_id)) {
                NA_LOG_WARNING(addr,
                               "{} has no context {}: it would listen behind port 65535, the last "
                               "one; name one that the peer has, or open the peer at a lower port",
                               peer.address(), op.target_id);
                instead = Posted::failed(Status::hostunreach);
                return nullptr;
            }
            link = &link_to(peer, op.target_id);
        } catch (const std::bad_alloc&) {
            instead = Posted::failed(Status::nomem);
            return nullptr;
        }
    }
    if (link->state != Link::State::up) [[unlikely]] {
        instead = not_up(*link, op);
        return instead.what == Posted::What::done ? link : nullptr;
    }
    return link;
}

Posted Engine::send(Op& op) {
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
        NA_LOG_WARNING(msg, "message of {} bytes: {} takes at most {}", op.length, link->address,
                       link->max_message[lane]);
        return Posted::failed(Status::msgsize);
    }
    if (link->starved(lane)) {
        ++stats_.no_credit;
        return full(*link);
    }
    auto* bytes = static_cast<std::byte*>(op.buffer);
    write_header(*link, lane, op.tag, bytes);
    const Posted posted = transmit(*link, {bytes, op.length}, &op);
    if (posted.what == Posted::What::again) [[unlikely]] {
        return full(*link);
    }
    if (posted.what != Posted::What::failed) [[likely]] {
        count_sent(*link, lane);
    }
    return posted;
}

// Where nothing is in the way. (Whatever is, send() sees, and does something about it.)
bool Engine::inject(plugin::Peer& to, plugin::Destination where, std::uint32_t tag,
                    std::span<std::byte> bytes) {
    Link* link = static_cast<Peer&>(to).links(id_).to(where.context);
    const auto lane = static_cast<std::size_t>(where.lane);
    if (link == nullptr || link->state != Link::State::up || (link->due & Link::kConfirm) != 0 ||
        bytes.size() > link->max_message[lane] || link->starved(lane) || !link->trusted())
        [[unlikely]] {
        return false;
    }
    write_header(*link, lane, tag, bytes.data());
    if (!transmit_at_once(*link, bytes)) [[unlikely]] {
        return false;
    }
    count_sent(*link, lane);
    return true;
}

void Engine::write_header(const Link& link, std::size_t lane, std::uint32_t tag,
                          std::byte* out) noexcept {
    Header{.cookie = link.out_cookie,
           .tag = tag,
           .kind = static_cast<Kind>(lane),
           .target = link.target,
           .taken = {link.taken[0], link.taken[1]},
           .sent = {link.sent[0], link.sent[1]}}
        .write(out);
}

void Engine::count_sent(Link& link, std::size_t lane) noexcept {
    ++link.sent[lane];
    link.told[0] = link.taken[0];
    link.told[1] = link.taken[1];
    link.wants = false;
}

// What a request holds is a copy, which will be delivered: the operation ends now, and truthfully.
// Who is told "canceled" relies on it that the message does not arrive.
void Engine::cancel(Op& op) {
    Link* link = static_cast<Peer*>(op.peer)->links(id_).to(op.target_id);
    if (link == nullptr) {
        return;
    }
    for (Request* r = link->requests.front(); r != nullptr; r = link->requests.next(*r)) {
        if (r->op == &op) {
            r->op = nullptr;
            complete(op, Status::success);
            return;
        }
    }
}

// --- arrival
// ---------------------------------------------------------------------------------------------------------

void Engine::arrived(std::span<const std::byte> bytes) noexcept {
    try {
        sort(bytes);
    } catch (const std::bad_alloc&) {
        NA_LOG_WARNING(poll, "out of memory: a greeting is lost");  // it will be repeated
    }
}

void Engine::sort(std::span<const std::byte> bytes) {
    Header h;
    if (!h.read(bytes) || h.target != id_) [[unlikely]] {
        malformed(h.version != kWireVersion ? "a message of another protocol or version"
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
            malformed("a message of an ended or unknown session");
            note_unknown(h);
            return;
        }
        link = last_ = it->second;
    }
    const auto lane = static_cast<std::size_t>(h.kind);
    if (h.sent[lane] != link->arrived[lane] || link->misses()) [[unlikely]] {
        note_missing(*link, lane, h.sent[lane]);
    }
    ++link->arrived[lane];
    if (bytes.size() > local_.caps.max_message[lane] ||
        link->held[lane].size() - link->left_over[lane] >= local_.window) [[unlikely]] {
        malformed("a message larger than allowed, or without credit");
        return;
    }
    ++stats_.received;
    link->heard = 0;
    acknowledged(*link, h);
    take(*link, static_cast<Lane>(lane), h.tag, bytes);
}

// Its sender is told, with the reset that he gets when he asks: what did not come here came nowhere
// else if it was sent after something that did.
void Engine::note_unknown(const Header& h) noexcept {
    if (h.kind != Kind::unexpected || h.cookie == 0) {
        return;
    }
    const std::uint16_t number = h.sent[static_cast<std::size_t>(Kind::unexpected)];
    for (Unknown& u : unknown_) {
        if (u.cookie == h.cookie) {
            const bool next = number == static_cast<std::uint16_t>(u.first + u.count);
            u.count = next && u.count != 0 && u.count != UINT16_MAX
                          ? static_cast<std::uint16_t>(u.count + 1)
                          : std::uint16_t{0};  // not in a row: nothing can be said
            return;
        }
    }
    unknown_[next_unknown_++ % unknown_.size()] = {h.cookie, number, 1};
}

// Asked while a session ends by a reset. Numbers come again: whoever asks knows
// that it is not so old. What left in a bundle has no header of its own: what stands in its buffer
// is an older message's, with another tag.
bool Engine::undelivered(const void* message, std::uint32_t tag) const noexcept {
    if (message == nullptr) {
        return undelivered_.cookie != 0;
    }
    Header h;
    if (undelivered_.cookie == 0 ||
        !h.read({static_cast<const std::byte*>(message), Header::kSize}) ||
        h.cookie != undelivered_.cookie || h.kind != Kind::unexpected || h.tag != tag) {
        return false;
    }
    const auto since = [&](std::uint16_t n) {
        return static_cast<std::uint16_t>(n - undelivered_.first);
    };
    return since(h.sent[static_cast<std::size_t>(Kind::unexpected)]) < since(undelivered_.end);
}

// What has overtaken another message makes that one missing for a while, and when it comes it says
// so itself: it knows of fewer than are here. What is lost stays missing, whatever comes.
void Engine::note_missing(Link& link, std::size_t lane, std::uint16_t sent) noexcept {
    if (traits_.overtaking == 0) {
        return;
    }
    const auto missing =
        static_cast<std::int16_t>(static_cast<std::uint16_t>(sent - link.arrived[lane]));
    if (missing <= 0) {
        link.missing[lane] = 0;
    } else if (link.missing[lane] == 0 || missing < link.missing[lane]) {
        link.missing[lane] = missing;
        link.missed[lane].begin(now_ns());
        watch(link);
    }
}

bool Engine::lost_something(Link& link, std::int64_t now) noexcept {
    bool lost = false;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lost |= link.missing[lane] != 0 && link.missed[lane].lasts(now, traits_.overtaking);
    }
    return lost;
}

void Engine::take(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes) {
    auto& held = link.held[static_cast<std::size_t>(lane)];
    if (held.empty() && deliver(link, lane, tag, bytes)) [[likely]] {
        took(link, static_cast<std::size_t>(lane));
        return;
    }
    try {
        Link::Held copy{tag, bytes.size(),
                        std::make_unique_for_overwrite<std::byte[]>(bytes.size())};
        std::memcpy(copy.bytes.get(), bytes.data(), bytes.size());
        held.push_back(std::move(copy));
    } catch (const std::bad_alloc&) {
        took(link, static_cast<std::size_t>(lane));  // its credit is the sender's again
        sink_.dropped("a message that there is no memory to keep");
        return;
    }
    ++stats_.held;
    work(link);
}

// False: the core has no room now.
bool Engine::deliver(Link& link, Lane lane, std::uint32_t tag, std::span<const std::byte> bytes) {
    if (link.peer == nullptr && !attach(link)) [[unlikely]] {
        sink_.dropped("a message of a peer that there is no room to know");
        return true;
    }
    return sink_.deliver(lane, *link.peer, tag, bytes);
}

void Engine::deliver_held(Link& link) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        auto& held = link.held[lane];
        while (!held.empty() && deliver(link, static_cast<Lane>(lane), held.front().tag,
                                        {held.front().bytes.get(), held.front().size})) {
            held.pop_front();
            if (link.left_over[lane] != 0) {
                --link.left_over[lane];
            } else {
                took(link, lane);
            }
        }
    }
}

// The session ends. What it has brought is delivered all the same, before what the next one brings
// and without its credit; of a peer that begins anew again and again no more than a window is kept.
void Engine::leave_over(Link& link, std::size_t lane) noexcept {
    auto& held = link.held[lane];
    if (held.size() > local_.window) {
        sink_.dropped("messages of an ended session that there was no room for");
        while (held.size() > local_.window) {
            held.pop_front();
        }
    }
    link.left_over[lane] = held.size();
}

// Told with the next message; by a message of its own before the peer has to stop.
void Engine::took(Link& link, std::size_t lane) noexcept {
    ++link.taken[lane];
    if (static_cast<std::uint16_t>(link.taken[lane] - link.told[lane]) >= local_.window / 2 &&
        link.state == Link::State::up) {
        link.due |= Link::kCredit;
        work(link);
    }
}

}  // namespace na::session
