// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets, in tiers by size: injected; through a buffer of ours, which frees the operation
// from the provider (it can be canceled, and segments are gathered); directly from and to the
// user's memory, in pieces that the provider takes, with one completion. A put completes when the
// data is visible at the target, where the provider can tell.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <rdma/fi_rma.h>

#include "na/session/clock.hpp"
#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {
namespace {

using plugin::Posted;

// Larger ones are not copied, whatever messages may have.
constexpr std::size_t kBounced = 8192;

// What a peer answered before it died is there after this time.
constexpr std::int64_t kLastWords = 100'000'000;  // ns
constexpr std::uint8_t kAnswers = 3;              // to checks, while a transfer made no step

bool has_pieces(Link& link) noexcept {
    for (auto* r = link.requests.front(); r != nullptr; r = link.requests.next(*r)) {
        if (static_cast<Request*>(r)->transfer != nullptr) {
            return true;
        }
    }
    return false;
}

// Between a buffer and a range of local memory, over the borders of its parts.
void copy_range(const Region& region, std::uint64_t offset, std::byte* buffer, std::size_t size,
                bool out) {
    while (size != 0) {
        const Region::Part& part = region.at(offset);
        const std::uint64_t inside = offset - part.start;
        const std::size_t n =
            static_cast<std::size_t>(std::min<std::uint64_t>(size, part.length - inside));
        auto* memory = reinterpret_cast<std::byte*>(part.address + inside);
        std::memcpy(out ? buffer : memory, out ? memory : buffer, n);
        buffer += n;
        offset += n;
        size -= n;
    }
}

}  // namespace

Posted Context::transfer(Op& op) {
    Posted instead = Posted::again();
    session::Link* up = session(op, instead);
    if (up == nullptr) [[unlikely]] {
        return instead;
    }
    Link* link = &of(*up);
    if (debts_ != 0) [[unlikely]] {
        if (const auto p = blocked_by_debts(*link)) {
            return *p;
        }
    }
    auto& t = *static_cast<Transfer*>(op.scratch);
    t = {.op = &op,
         .link = link,
         .posted = 0,
         .pieces = 0,
         .status = Status::success,
         .stopped = false,
         .direct = false,
         .hook = {}};
    const ssize_t rc = post_pieces(t);
    if (t.posted == 0) {
        if (rc == -FI_EAGAIN) {
            return again(*link);
        }
        return Posted::failed(t.status);
    }
    if (rc == -FI_EAGAIN) {
        transfers_.push_back(t);
    }
    link->wants = false;
    watch(*link);
    return Posted::pending();
}

// Answers come in the order of what was asked, of all peers together, and one that is dead owes
// some: none of those behind will come.
std::optional<Posted> Context::blocked_by_debts(Link& link) noexcept {
    if (domain_.provider().forgets_peers) {
        return std::nullopt;
    }
    if (!in_debt_.lasts(session::now_ns(), kLastWords)) {
        return again(link);
    }
    if (!std::exchange(said_blocked_, true)) {
        NA_LOG_ERROR(rma,
                     "{} transfers were under way with a peer that died: libfabric's {} ends no "
                     "other one of this context any more; make a new class",
                     debts_, domain_.provider().fabric);
    }
    return Posted::failed(Status::io_error);
}

// What could not be posted at once.
std::size_t Context::go_on() {
    std::size_t events = 0;
    for (Transfer* t = transfers_.front(); t != nullptr;) {
        Transfer* next = transfers_.next(*t);
        if (t->link->state == Link::State::up) {
            const ssize_t rc = post_pieces(*t);
            if (rc != -FI_EAGAIN) {
                util::IntrusiveList<Transfer, &Transfer::hook>::remove(*t);
                end_if_done(*t);
                ++events;
            }
        }
        t = next;
    }
    return events;
}

// 0: all of it is with the provider, or no more shall be; -FI_EAGAIN: not yet.
ssize_t Context::post_pieces(Transfer& t) noexcept {
    while (!t.stopped && t.posted < t.op->length) {
        const ssize_t rc = post_piece(t);
        if (rc == -FI_EAGAIN) {
            return rc;
        }
        if (rc != 0) {
            NA_LOG_INFO(rma, "cannot post a transfer with {}: {}", t.link->address,
                        fi_strerror(static_cast<int>(-rc)));
            t.status = status_with_peer(rc);
            t.stopped = true;
        }
    }
    return 0;
}

ssize_t Context::post_piece(Transfer& t) noexcept {
    Link& link = *t.link;
    if (!may_connect(link)) [[unlikely]] {
        blocked(link);
        return -FI_EAGAIN;
    }
    if (pauses(link)) [[unlikely]] {
        return -FI_EAGAIN;
    }
    if (link.addr == FI_ADDR_NOTAVAIL) [[unlikely]] {
        if (const ssize_t rc = reach(link); rc != 0) {
            return rc;
        }
    }
    const HoldOpen hold(link.neighbour.get());
    if (hold.closed()) [[unlikely]] {
        return -FI_EHOSTUNREACH;
    }
    Op& op = *t.op;
    const bool put = op.kind == OpKind::put;
    const auto& local = static_cast<const Region&>(*op.local);
    const Region::Part& there =
        static_cast<const Region&>(*op.remote).at(op.remote_offset + t.posted);
    const std::uint64_t there_inside = op.remote_offset + t.posted - there.start;
    std::uint64_t size = std::min(
        {op.length - t.posted, there.length - there_inside, std::uint64_t{largest_piece_}});
    Request* r = take_request(link);
    if (r == nullptr) {
        if (pool_.barren()) {
            return -FI_ENOMEM;
        }
        retry_soon();
        return -FI_EAGAIN;
    }
    r->bounced = size <= std::min(kBounced, pool_.bounce_bytes()) && local.host();
    r->offset = op.local_offset + t.posted;
    iovec vector{};
    void* descriptor = nullptr;
    if (r->bounced) {
        if (put) {
            copy_range(local, r->offset, r->bounce, static_cast<std::size_t>(size), true);
        }
        vector.iov_base = r->bounce;
        descriptor = r->descriptor;
    } else {
        const Region::Part& here = local.at(r->offset);
        const std::uint64_t inside = r->offset - here.start;
        size = std::min(size, here.length - inside);
        vector.iov_base = reinterpret_cast<void*>(here.address + inside);
        descriptor = here.descriptor;
    }
    r->length = vector.iov_len = static_cast<std::size_t>(size);
    // What peers are told, also where it is memory of our own.
    fi_rma_iov remote{there.told + there_inside, vector.iov_len, there.key};
    fi_msg_rma message{};
    message.msg_iov = &vector;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.addr = link.addr;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &r->provider;
    std::uint64_t flags = FI_COMPLETION;
    // Providers copy what they inject, which they cannot from a device.
    const bool inject = put && size <= inject_ && local.host();
    if (put) {
        flags |=
            (inject ? FI_INJECT : 0) | (domain_.delivery_complete() ? FI_DELIVERY_COMPLETE : 0);
    }
    r->transfer = &t;  // before the call: from there on a completion may name this request
    const ssize_t rc = put ? fi_writemsg(endpoint_->ep(), &message, flags)
                           : fi_readmsg(endpoint_->ep(), &message, flags);
    if (rc != 0) {
        r->transfer = nullptr;
        r->bounced = false;
        pool_.put_back(*r);
        if (rc == -FI_EAGAIN) {
            not_now(link);
        }
        return rc;
    }
    unblocked(link);
    link.rma_answers = 0;
    ++(inject ? stats_.rma_inject : r->bounced ? stats_.rma_bounce : stats_.rma_direct);
    t.direct = t.direct || !r->bounced;
    t.posted += size;
    ++t.pieces;
    begin(*r, link);
    return 0;
}

void Context::piece_done(Request& r, Status status) {
    Transfer& t = *r.transfer;
    if (t.link != nullptr) {  // null: the peer was lost, and the provider gave the memory back now
        t.link->rma_answers = 0;
    }
    if (ok(status) && r.bounced && t.op->kind == OpKind::get && ok(t.status)) {
        copy_range(static_cast<const Region&>(*t.op->local), r.offset, r.bounce, r.length, false);
    }
    if (!ok(status) && ok(t.status)) {
        t.status = status;
        t.stopped = true;
    }
    --t.pieces;
    finish(r);
    end_if_done(t);
}

// Providers that forget transfers which the target refuses: the peer has answered what was sent
// later, so the answer to these will not come.
void Context::answered(session::Link& by) {
    Link& link = of(by);
    if (domain_.provider().rma_errors || ++link.rma_answers < kAnswers) {
        return;
    }
    link.rma_answers = 0;
    if (has_pieces(link)) {
        NA_LOG_WARNING(rma, "transfers with {} were not answered: wrong key or range, most likely",
                       link.address);
        end_pieces(link, Status::fault);
    }
}

// Ends the operations of transfers with this peer. What the provider has of them is forgotten where
// it works on buffers of ours. Where it works on the user's memory it goes on: what a dead peer has
// sent may still be read out of its connection. Such an operation ends when the provider is done,
// which it is as soon as the connection has gone; unless it would never say so.
void Context::end_pieces(Link& link, Status why) {
    bool kept = false;
    for (auto* r = link.requests.front(); r != nullptr;) {
        auto* next = link.requests.next(*r);
        auto& piece = static_cast<Request&>(*r);
        if (Transfer* t = piece.transfer) {
            ended(piece);
            t->status = why;
            t->stopped = true;
            if (t->direct && domain_.provider().breaks) {
                kept = true;
                lent_ += std::exchange(t->link, nullptr) != nullptr ? 1 : 0;
            } else {
                piece.transfer = nullptr;
                --t->pieces;
                end_if_done(*t);
            }
        }
        r = next;
    }
    if (kept && domain_.provider().probe == Probe::tcp) {
        watch_silence(link);
    }
}

// A host that has vanished breaks no connection.
void Context::watch_silence(const Link& link) noexcept {
    try {
        silence_.add(link.place(), session::now_ns());
    } catch (const std::bad_alloc&) {
        NA_LOG_WARNING(rma, "out of memory: transfers with {} end when TCP gives up", link.address);
    }
}

// While the provider has memory of transfers with lost peers.
void Context::look_for_silence() noexcept {
    if (!silence_.due(session::now_ns())) {
        return;
    }
    try {
        if (const auto here = endpoint_->name()) {
            if (const std::size_t n = silence_.look(here->ip()); n != 0) {
                NA_LOG_INFO(rma, "{} connections with hosts that are silent were closed", n);
            }
        }
    } catch (const std::bad_alloc&) {
        // the next time
    }
}

// The provider has given back the memory of a transfer whose peer was lost.
void Context::given_back() noexcept {
    if (--lent_ != 0 || silence_.empty()) {
        return;
    }
    try {
        const auto here = endpoint_->name();
        silence_.clear(here ? here->ip() : util::IpEndpoint{});
    } catch (const std::bad_alloc&) {
        silence_.clear({});
    }
}

void Context::end_transfers(session::Link& with, Status why) {
    Link& link = of(with);
    if (gone(link)) {
        mourns(link);
    }
    leave(link);  // the pieces are owed from now on
    for (Transfer* t = transfers_.front(); t != nullptr;) {
        Transfer* next = transfers_.next(*t);
        if (t->link == &link) {
            util::IntrusiveList<Transfer, &Transfer::hook>::remove(*t);
            t->status = why;
            t->stopped = true;
            end_if_done(*t);
        }
        t = next;
    }
    end_pieces(link, why);
}

// The end of the operation, when nothing of it is with the provider and nothing will be.
void Context::end_if_done(Transfer& t) {
    if (t.pieces != 0 || (!t.stopped && t.posted < t.op->length)) {
        return;
    }
    if (t.hook.linked()) {
        util::IntrusiveList<Transfer, &Transfer::hook>::remove(t);
    }
    if (t.link == nullptr) [[unlikely]] {
        given_back();
    }
    Op& op = *t.op;
    complete(op, t.status);
}

// At once, if the provider works on buffers of ours only. Otherwise it ends when the provider has
// let go of the user's memory.
void Context::cancel_transfer(Transfer& t) {
    t.stopped = true;
    if (ok(t.status)) {
        t.status = Status::canceled;
    }
    if (!t.direct && t.link != nullptr) {
        for (auto* r = t.link->requests.front(); r != nullptr; r = t.link->requests.next(*r)) {
            auto& piece = static_cast<Request&>(*r);
            if (piece.transfer == &t) {
                piece.transfer = nullptr;
                --t.pieces;
            }
        }
    }
    end_if_done(t);
}

}  // namespace na::ofi
