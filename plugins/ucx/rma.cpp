// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets: in pieces, each a message to the target and its answer, a window of them at a
// time. A put ends when all its bytes are in the target's memory. UCX works on copies only: an
// operation can be canceled at any time, and nothing touches the user's memory afterwards.
#include <algorithm>
#include <new>
#include <utility>

#include "na/util/log.hpp"
#include "plugins/ucx/context.hpp"

namespace na::ucx {

using plugin::Posted;

namespace {

constexpr unsigned kIndexBits = 16;

// What a target may say of a transfer.
Status checked(std::uint8_t code) noexcept {
    const auto status = static_cast<Status>(code);
    return ok(status) || status == Status::fault || status == Status::permission
               ? status
               : Status::protocol_error;
}

}  // namespace

Posted Context::transfer(Op& op) {
    Posted instead = Posted::again();
    auto* link = static_cast<Link*>(session(op, instead));
    if (link == nullptr) [[unlikely]] {
        return instead;
    }
    if (op.length == 0) {
        return Posted::done();
    }
    if (link->way == nullptr || !link->way->ready) [[unlikely]] {
        if (const Posted p = reach(*link); p.what != Posted::What::done) {
            return p.what == Posted::What::again ? again(*link) : p;
        }
    }
    auto& t = *static_cast<Transfer*>(op.scratch);
    const auto begin = [&] {
        t = {.op = &op,
             .link = link,
             .posted = 0,
             .pieces = 0,
             .status = Status::success,
             .stopped = false,
             .native = false,
             .flushed = false,
             .flush = nullptr,
             .hook = {},
             .own = {}};
    };
    begin();
    if (const Posted p = choose(t); p.what != Posted::What::done) {
        return p.what == Posted::What::again ? again(*link) : p;
    }
    bool all = t.native ? post_native(t) : post_pieces(t);
    if (t.posted == 0 && all && t.native && link->way->plain) {
        // UCX finds out with the first one that it has no way to that memory.
        begin();
        if (const Posted p = choose(t); p.what != Posted::What::done) {
            return p;
        }
        all = post_pieces(t);
    }
    if (t.posted == 0) {
        return all ? Posted::failed(t.status) : again(*link);
    }
    link->wants = false;
    if (t.native) {
        if (all && t.pieces == 0) {
            return ok(t.status) ? Posted::done() : Posted::failed(t.status);
        }
        link->natives.push_back(t);
    }
    if (!all) {
        transfers_.push_back(t);
    }
    return Posted::pending();
}

// done: t.native says how.
Posted Context::choose(Transfer& t) noexcept {
    const auto& local = static_cast<const Region&>(*t.op->local);
    const auto& remote = static_cast<const Region&>(*t.op->remote);
    Status status = Status::opnotsupported;
    // As UCX would do it otherwise, the target's processor copies what its device has.
    const bool able = unpack_room_ != nullptr && (remote.host() || devices_);
    if (able && !remote.native().empty() && !t.link->way->plain) {
        const Posted p = begin_native(t);
        t.native = p.what == Posted::What::done;
        if (p.what != Posted::What::failed || p.status == Status::hostunreach) {
            return p;
        }
        status = p.status;
    }
    return local.host() && remote.host() ? Posted::done() : Posted::failed(status);
}

// False: not all of it yet.
bool Context::post_pieces(Transfer& t) noexcept {
    while (!t.stopped && t.posted < t.op->length) {
        const Posted p = post_piece(t);
        if (p.what == Posted::What::again) {
            return false;
        }
        if (p.what == Posted::What::failed) {
            t.status = p.status;
            t.stopped = true;
        }
    }
    return true;
}

bool Context::make_room(Link& link) noexcept {
    link.room.reset(new (std::nothrow) Piece[kPieceWindow]);
    for (std::size_t i = 0; link.room != nullptr && i < kPieceWindow; ++i) {
        link.free_pieces.push_back(link.room[i]);
    }
    return link.room != nullptr;
}

Posted Context::post_piece(Transfer& t) noexcept {
    Link& link = *t.link;
    const Op& op = *t.op;
    if (link.room == nullptr && !make_room(link)) {
        retry_soon();
        return Posted::again();
    }
    Piece* p = link.free_pieces.front();
    if (p == nullptr) {
        return Posted::again();  // an answer wakes us
    }
    const bool put = op.kind == OpKind::put;
    p->length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(op.length - t.posted, kPieceBytes));
    p->offset = op.local_offset + t.posted;
    // The number is the place, and how often that was used.
    p->sequence += std::uint64_t{1} << kIndexBits;
    p->sequence =
        (p->sequence >> kIndexBits << kIndexBits) | static_cast<std::uint64_t>(p - link.room.get());
    const RmaHeader header{.cookie = link.out_cookie,
                           .sequence = p->sequence,
                           .key = static_cast<const Region&>(*op.remote).key(),
                           .offset = op.remote_offset + t.posted,
                           .length = p->length,
                           .kind = put ? RmaHeader::Kind::put : RmaHeader::Kind::get,
                           .target = link.target};
    Posted posted = Posted::again();
    if (put) {
        Request* r = link.way->failed ? nullptr : take(carriers_, link.way->carried);
        if (r == nullptr) {
            return link.way->failed ? Posted::failed(Status::hostunreach) : Posted::again();
        }
        header.write(r->bounce);
        static_cast<const Region&>(*op.local).read(p->offset,
                                                   {r->bounce + RmaHeader::kSize, p->length});
        posted = hand_over(link, kRmaId, *r, RmaHeader::kSize + p->length, nullptr);
    } else {
        std::byte bytes[RmaHeader::kSize];
        header.write(bytes);
        posted = post(link, kRmaId, bytes, nullptr);
    }
    if (posted.what != Posted::What::done) {
        return posted;
    }
    util::IntrusiveList<Piece, &Piece::own>::remove(*p);
    link.pieces.push_back(*p);
    p->transfer = &t;
    start(*p, link);
    t.posted += p->length;
    ++t.pieces;
    ++stats_.pieces;
    return Posted::done();
}

std::size_t Context::post_waiting() {
    std::size_t events = 0;
    for (Transfer* t = transfers_.front(); t != nullptr;) {
        Transfer* next = transfers_.next(*t);
        const std::uint64_t before = t->posted;
        if (t->link->way != nullptr && t->link->way->ready &&
            (t->native ? post_native(*t) : post_pieces(*t))) {
            util::IntrusiveList<Transfer, &Transfer::hook>::remove(*t);
            end_if_done(*t);
            ++events;
        } else if (t->posted != before) {
            ++events;
        }
        t = next;
    }
    return events;
}

// An answer that nobody waits for any more belongs to a session of the past, or is invented.
void Context::rma_answered(Link& link, const RmaHeader& h, std::span<const std::byte> data) {
    const std::uint64_t index = h.sequence & ((std::uint64_t{1} << kIndexBits) - 1);
    Piece* p = link.room != nullptr && index < kPieceWindow ? &link.room[index] : nullptr;
    if (p == nullptr || p->link != &link || p->sequence != h.sequence) {
        ++stats_.late;
        return;
    }
    Transfer* t = p->transfer;
    const std::uint64_t offset = p->offset;
    const std::uint32_t length = p->length;
    free_piece(*p);
    if (t == nullptr) {
        return;
    }
    --t->pieces;
    Status status = checked(h.status);
    if (t->op->kind == OpKind::get && ok(status)) {
        if (data.size() != length) {
            malformed("a get's answer of another size");
            status = Status::protocol_error;
        } else if (ok(t->status)) {
            static_cast<const Region&>(*t->op->local).write(offset, data);
        }
    }
    if (!ok(status) && ok(t->status)) {
        NA_LOG_INFO(rma, "{} refuses a transfer: {}", link.address, to_string(status));
        t->status = status;
        t->stopped = true;
    }
    end_if_done(*t);
}

void Context::free_piece(Piece& p) noexcept {
    auto& link = static_cast<Link&>(*p.link);
    util::IntrusiveList<Piece, &Piece::own>::remove(p);
    ended(p);
    p.transfer = nullptr;
    link.free_pieces.push_back(p);
}

// The end of the operation, when nothing of it is under way and nothing will be.
void Context::end_if_done(Transfer& t) {
    if (t.pieces != 0 || (!t.stopped && (t.posted < t.op->length ||
                                         (t.native && t.op->kind == OpKind::put && !t.flushed)))) {
        return;
    }
    if (t.hook.linked()) {
        util::IntrusiveList<Transfer, &Transfer::hook>::remove(t);
    }
    if (t.own.linked()) {
        util::IntrusiveList<Transfer, &Transfer::own>::remove(t);
    }
    complete(*t.op, t.status);
}

void Context::cancel(Op& op) {
    if (op.kind == OpKind::put || op.kind == OpKind::get) {
        cancel_transfer(*static_cast<Transfer*>(op.scratch));
    } else {
        Engine::cancel(op);
    }
}

// The answers come nevertheless: until then the pieces count.
void Context::cancel_transfer(Transfer& t) {
    if (t.native) {
        cancel_native(t);
        return;
    }
    for (Piece* p = t.link->pieces.front(); p != nullptr; p = t.link->pieces.next(*p)) {
        if (p->transfer == &t) {
            p->transfer = nullptr;
        }
    }
    t.pieces = 0;
    t.stopped = true;
    if (ok(t.status)) {
        t.status = Status::canceled;
    }
    end_if_done(t);
}

void Context::end_transfers(session::Link& base, Status why) {
    auto& link = static_cast<Link&>(base);
    end_natives(link, why);
    while (Piece* p = link.pieces.front()) {
        Transfer* t = p->transfer;
        free_piece(*p);
        if (t != nullptr) {
            --t->pieces;
            t->status = why;
            t->stopped = true;
            end_if_done(*t);
        }
    }
    for (Transfer* t = transfers_.front(); t != nullptr;) {
        Transfer* next = transfers_.next(*t);
        if (t->link == &link) {
            t->status = why;
            t->stopped = true;
            end_if_done(*t);
        }
        t = next;
    }
}

}  // namespace na::ucx
