// SPDX-License-Identifier: BSD-3-Clause
// Messages that are longer than what the library is handed at once (Local::part). They leave as
// several, one after another and nothing of a message in between. The first part is as small as can
// be, all others are full: its receiver copies all parts but the last, which it hands to the core
// where it lies.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "na/session/engine.hpp"

namespace na::session {

using plugin::Posted;

namespace {

// Of a message of `length` bytes, header included.
std::size_t first_part(std::size_t length, std::size_t part) noexcept {
    const std::size_t body = part - Header::kSize;
    return length - (length - part + body - 1) / body * body;
}

}  // namespace

// --- sending

// The bytes in front of `body` make room for the header meanwhile: the library has a copy when it
// returns.
Posted Engine::send_part(Link& link, std::uint32_t tag, std::span<std::byte> body, std::size_t rest,
                         Op* op) noexcept {
    std::byte* at = body.data() - Header::kSize;
    std::byte before[Header::kSize];
    std::memcpy(before, at, Header::kSize);
    Header{.cookie = link.out_cookie,
           .tag = tag,
           .kind = Kind::more,
           .target = link.target,
           .taken = {link.taken[0], link.taken[1]},
           .rest = static_cast<std::uint32_t>(rest)}
        .write(at);
    const Posted posted = transmit(link, {at, Header::kSize + body.size()}, op);
    std::memcpy(at, before, Header::kSize);
    if (posted.what != Posted::What::again) {
        ++stats_.parts;
    }
    return posted;
}

// As send(), which has looked whether the message may go.
Posted Engine::send_in_parts(Link& link, Op& op) noexcept {
    Outgoing& out = link.outgoing;
    if (out.op != nullptr) {  // its end is not told yet
        return Posted::again();
    }
    auto* bytes = static_cast<std::byte*>(op.buffer);
    std::size_t at = first_part(op.length, link.part);
    data_header(link, op, op.length - at).write(bytes);
    Posted posted = transmit(link, {bytes, at}, nullptr);
    if (posted.what == Posted::What::again || posted.what == Posted::What::failed) {
        return posted;
    }
    const std::size_t body = link.part - Header::kSize;
    for (; at < op.length; at += body) {
        const std::size_t rest = op.length - at - body;
        posted = send_part(link, op.tag, {bytes + at, body}, rest, rest == 0 ? &op : nullptr);
        if (posted.what == Posted::What::failed) {
            doom(link);  // what its receiver has will never be whole
            return posted;
        }
        if (posted.what == Posted::What::again) {
            return keep_rest(link, op, at);
        }
    }
    return posted;
}

// The beginning is gone, so that the rest has to go, too, whatever becomes of the operation.
Posted Engine::keep_rest(Link& link, Op& op, std::size_t at) noexcept {
    const std::size_t rest = op.length - at;
    Outgoing& out = link.outgoing;
    out.bytes.reset(new (std::nothrow) std::byte[Header::kSize + rest]);
    if (out.bytes == nullptr) {
        doom(link);
        return Posted::failed(Status::nomem);
    }
    std::memcpy(out.bytes.get() + Header::kSize, static_cast<std::byte*>(op.buffer) + at, rest);
    out.at = Header::kSize;
    out.size = Header::kSize + rest;
    out.tag = op.tag;
    out.op = &op;
    link.due |= Link::kRest;
    work(link);
    return Posted::pending();
}

// False: not all of it yet. In a post.
bool Engine::send_rest(Link& link) noexcept {
    Outgoing& out = link.outgoing;
    const std::size_t body = link.part - Header::kSize;
    for (; out.at < out.size; out.at += body) {
        const std::size_t rest = out.size - out.at - body;
        const Posted posted = send_part(link, out.tag, {out.bytes.get() + out.at, body}, rest,
                                        rest == 0 ? out.op : nullptr);
        if (posted.what == Posted::What::again) {
            work(link);
            return false;
        }
        if (posted.what == Posted::What::failed) {
            doom(link);
            return false;
        }
        if (posted.what == Posted::What::pending && rest == 0) {
            out.op = nullptr;  // its request ends it
        }
    }
    out.bytes.reset();
    link.due &= static_cast<std::uint8_t>(~Link::kRest);
    if (out.op != nullptr) {
        work(link);  // ends it
    }
    return true;
}

// In progress().
void Engine::end_outgoing(Link& link, Status status) {
    if (Op* op = std::exchange(link.outgoing.op, nullptr)) {
        complete(*op, status);
    }
}

// --- arrival

void Engine::begins(Link& link, Lane lane, const Header& h, std::span<const std::byte> bytes) {
    Incoming& in = link.incoming;
    in.bytes = std::move(spare_);
    if (in.bytes == nullptr) {
        in.bytes.reset(new (std::nothrow) std::byte[local_.largest]);
    }
    in.lane = lane;
    in.tag = h.tag;
    in.have = bytes.size();
    in.total = bytes.size() + h.rest;
    if (in.bytes != nullptr) {
        std::memcpy(in.bytes.get(), bytes.data(), bytes.size());
    }
}

void Engine::goes_on(Link& link, const Header& h, std::span<const std::byte> body) {
    Incoming& in = link.incoming;
    if (in.total == 0 || body.empty() || h.tag != in.tag ||
        in.have + body.size() + h.rest != in.total) {
        give_up(link);
        malformed("a part of a message that it does not belong to");
        return;
    }
    link.heard = 0;
    acknowledged(link, h);
    if (h.rest != 0) {
        if (in.bytes != nullptr) {
            std::memcpy(in.bytes.get() + in.have, body.data(), body.size());
        }
        in.have += body.size();
        return;
    }
    if (in.bytes == nullptr) {
        took(link, static_cast<std::size_t>(in.lane));  // its credit is the sender's again
        sink_.dropped("a message that there is no memory to keep");
    } else {
        take(link, in.lane, in.tag, {in.bytes.get(), in.have}, body);
    }
    give_up(link);
}

// What has come of a message is no longer kept.
void Engine::give_up(Link& link) noexcept {
    Incoming& in = link.incoming;
    in.total = in.have = 0;
    if (spare_ == nullptr) {
        spare_ = std::move(in.bytes);
    }
    in.bytes.reset();
}

}  // namespace na::session
