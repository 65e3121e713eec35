// SPDX-License-Identifier: BSD-3-Clause
// Transfers that the target refuses, where the provider there answers by closing the connection
// (Provider::closes_on_refusal): the memory was deregistered, or the descriptor is wrong.
//
// Transfers leave by an endpoint of their own, so that messages have another connection. Of the
// pieces that were under way when the connection broke one is to blame, and nobody says which. Each
// is posted again by itself, over a new connection, oldest first. A piece whose own connection
// breaks as well, twice, is refused if the peer then answers a check: its transfer ends with
// `fault`. A peer that is gone does not answer, and the end of the session ends the pieces.
//
// To post a piece twice is harmless: a put writes the same bytes, and no operation has ended.
#include <algorithm>
#include <new>
#include <utility>

#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {
namespace {

// A piece that is posted before the provider knows of the end of the former connection ends with
// that, which says nothing. A new connection takes pieces only after it has answered "try again". A
// provider that did not answer so would be told by many breaks.
constexpr std::uint8_t kOfNew = 16;
constexpr std::uint8_t kOfFormer = 1;
constexpr std::uint8_t kEnough = 2 * kOfNew;
constexpr std::int64_t kAfterBreak = 2 * session::kMs;
constexpr std::size_t kFilesOfEndpoint = 12;  // descriptors that a further endpoint takes
constexpr std::size_t kFilesOfWay = 4;        // that a connection takes, for a while
constexpr std::int64_t kLongestPause = 50 * session::kMs;

}  // namespace

// 0: a new piece may be posted. -FI_EAGAIN: not now.
ssize_t Context::ready_aside(Link& link) noexcept {
    if (link.carriage != Carriage::steady) [[unlikely]] {
        return -FI_EAGAIN;
    }
    if (link.aside_retry_at != 0 && session::now_ns() < link.aside_retry_at) [[unlikely]] {
        return -FI_EAGAIN;
    }
    return link.rma_addr == FI_ADDR_NOTAVAIL ? reach_aside(link) : 0;
}

ssize_t Context::reach_aside(Link& link) noexcept {
    if (const Files files = files_for(link, aside_ ? kFilesOfWay : kFilesOfEndpoint);
        files != Files::enough) [[unlikely]] {
        return files == Files::wait ? -FI_EAGAIN : -FI_EMFILE;
    }
    try {
        if (!aside_) {
            auto opened = domain_.open_transfers(*endpoint_->cq());
            if (!opened) {
                NA_LOG_WARNING(rma,
                               "{}: transfers share the connections of messages, which end with a "
                               "transfer that is refused",
                               opened.error().message);
                parts_transfers_ = false;
                return -FI_EAGAIN;
            }
            aside_ = std::move(*opened);
        }
        const std::string bytes = link.address.raw(link.target);
        if (fi_av_insert(aside_->av(), bytes.data(), 1, &link.rma_addr, 0, nullptr) == 1) {
            return 0;
        }
        NA_LOG_WARNING(addr, "the provider refuses the address {}", link.address);
    } catch (const std::bad_alloc&) {
    }
    link.rma_addr = FI_ADDR_NOTAVAIL;
    return -FI_ENOMEM;
}

// The provider connects, or has no room. Messages to the peer do not wait for that.
void Context::not_now_aside(Link& link) noexcept {
    const std::int64_t now = session::now_ns();
    if (link.aside_since == 0) {
        link.aside_since = now;
    }
    const std::int64_t pause = (now - link.aside_since) / 4;
    link.aside_retry_at = pause < session::kMs ? 0 : now + std::min(pause, kLongestPause);
    link.aside_anew = true;
    link.wants = true;
    watch(link);
}

void Context::went_aside(Link& link) noexcept {
    ++link.aside;
    link.aside_since = link.aside_retry_at = 0;
    if (!link.aside_marked) [[unlikely]] {
        link.aside_marked = true;
        unmarked_ = true;
    }
}

void Context::leave_aside(Link& link) noexcept {
    if (link.broken.linked()) {
        util::IntrusiveList<Link, &Link::broken>::remove(link);
    }
    link.carriage = Carriage::steady;
    link.suspect = nullptr;
    link.aside = 0;
    link.aside_since = link.aside_retry_at = 0;
    link.aside_marked = false;
    link.aside_anew = false;
    if (link.rma_addr != FI_ADDR_NOTAVAIL) {
        fi_av_remove(aside_->av(), &link.rma_addr, 1, 0);
        link.rma_addr = FI_ADDR_NOTAVAIL;
    }
}

// The provider is done with a piece, or with one that was canceled.
void Context::left_aside(Request& r) noexcept {
    r.aside = false;
    r.breaks = 0;
    if (r.link == nullptr) {
        return;  // the session has ended
    }
    Link& link = of(*r.link);
    link.aside -= link.aside != 0 ? 1 : 0;
    if (link.suspect == &r) {
        link.suspect = nullptr;
        link.carriage = Carriage::broken;
    }
}

// The connection of transfers broke while it had this piece.
void Context::interrupted(Request& r, Link& link) {
    const bool anew = std::exchange(link.aside_anew, false);
    link.aside_retry_at = session::now_ns() + kAfterBreak;
    if (r.transfer == nullptr) {
        finish(r);
    } else if (r.transfer->stopped) {
        piece_done(r, Status::hostunreach);  // the transfer has another code
    } else {
        r.aside = false;
        r.waits = true;
        --under_way_;
        ++link.waiting;
        link.aside -= link.aside != 0 ? 1 : 0;
        if (link.carriage == Carriage::steady) {
            link.carriage = Carriage::broken;
            broken_.push_back(link);
        } else if (link.suspect == &r) {
            r.breaks = static_cast<std::uint8_t>(r.breaks + (anew ? kOfNew : kOfFormer));
            if (r.breaks >= kEnough) {
                link.carriage = Carriage::doubted;
            } else {
                link.suspect = nullptr;
                link.carriage = Carriage::broken;
            }
        }
    }
    if (!link.self) {
        question(link);  // a death shows soon
    }
}

std::size_t Context::redo() {
    std::size_t events = 0;
    for (Link* link = broken_.front(); link != nullptr;) {
        Link* next = broken_.next(*link);
        events += redo(*link) ? 1 : 0;
        link = next;
    }
    return events;
}

bool Context::redo(Link& link) {
    if (link.carriage == Carriage::doubted && link.self) {
        refused_piece(link);
        return true;
    }
    if (link.carriage != Carriage::broken || link.aside != 0) {
        return false;  // the others' ends are to come
    }
    if (link.waiting == 0) {
        link.carriage = Carriage::steady;
        util::IntrusiveList<Link, &Link::broken>::remove(link);
        return true;
    }
    if (link.aside_retry_at != 0 && session::now_ns() < link.aside_retry_at) {
        return false;
    }
    auto* r = static_cast<Request*>(link.requests.front());
    while (!r->waits) {
        r = static_cast<Request*>(link.requests.next(*r));
    }
    const ssize_t rc = submit(*r, link);
    if (rc == -FI_EAGAIN) {
        return false;
    }
    if (rc != 0) {
        end_waiting(link, r->transfer, status_with_peer(rc));
        return true;
    }
    r->waits = false;
    --link.waiting;
    ++under_way_;
    link.suspect = r;
    link.carriage = Carriage::alone;
    return true;
}

// The peer lives, and closes each connection that carries this piece.
void Context::refused_piece(Link& link) {
    NA_LOG_WARNING(rma,
                   "{} refuses a transfer: its memory was deregistered, or the descriptor is wrong",
                   link.address);
    end_waiting(link, link.suspect->transfer, Status::fault);
}

// Pieces that wait to be posted again end; `of`: those of one transfer only.
void Context::end_waiting(Link& link, const Transfer* of, Status why) {
    for (auto* each = link.requests.front(); each != nullptr && link.waiting != 0;) {
        auto* next = link.requests.next(*each);
        auto& r = static_cast<Request&>(*each);
        if (r.waits && (of == nullptr || r.transfer == of)) {
            Transfer& t = *r.transfer;
            r.waits = false;
            r.bounced = false;
            r.transfer = nullptr;
            r.breaks = 0;
            --link.waiting;
            if (link.suspect == &r) {
                link.suspect = nullptr;
                link.carriage = Carriage::broken;
            }
            ended(r);
            pool_.put_back(r);
            t.status = ok(t.status) ? why : t.status;
            t.stopped = true;
            --t.pieces;
            end_if_done(t);
        }
        each = next;
    }
}

}  // namespace na::ofi
