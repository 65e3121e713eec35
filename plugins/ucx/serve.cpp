// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of peers: checked at the gate (memory.hpp), done, and answered. What a peer makes
// us keep is bounded by the window that it was told of by this code's being the same there.
#include <cstring>
#include <new>

#include "plugins/ucx/context.hpp"

namespace na::ucx {

using plugin::Posted;

void Context::arrived_rma(std::span<const std::byte> bytes) {
    RmaHeader h;
    if (!h.read(bytes) || h.target != id()) [[unlikely]] {
        malformed("a malformed transfer");
        return;
    }
    auto* link = static_cast<Link*>(with_cookie(h.cookie));
    if (link == nullptr) [[unlikely]] {
        malformed("a transfer of an ended or unknown session");
        return;
    }
    link->heard = 0;
    const auto data = bytes.subspan(RmaHeader::kSize);
    if (h.kind == RmaHeader::Kind::answer) {
        try {
            rma_answered(*link, h, data);
        } catch (const std::bad_alloc&) {
        }
        return;
    }
    const bool put = h.kind == RmaHeader::Kind::put;
    if (h.length == 0 || h.length > kPieceBytes || data.size() != (put ? h.length : 0) ||
        link->owed_count == kPieceWindow) [[unlikely]] {
        malformed("a transfer larger than allowed, or too many at a time");
        return;
    }
    Owed owed{.sequence = h.sequence,
              .key = h.key,
              .offset = h.offset,
              .length = put ? 0 : h.length,
              .status = Status::success};
    if (put) {
        owed.status = domain_.gate().write(h.key, h.offset, data);
    }
    owe(*link, owed);
}

void Context::owe(Link& link, const Owed& owed) noexcept {
    link.owed[(link.first_owed + link.owed_count) % kPieceWindow] = owed;
    ++link.owed_count;
    if (!link.serving.linked()) {
        serving_.push_back(link);
    }
}

std::size_t Context::serve() noexcept {
    std::size_t events = 0;
    for (Link* link = serving_.front(); link != nullptr;) {
        Link* next = serving_.next(*link);
        while (link->owed_count != 0 && serve_one(*link, link->owed[link->first_owed])) {
            link->first_owed = (link->first_owed + 1) % kPieceWindow;
            --link->owed_count;
            ++events;
        }
        if (link->owed_count == 0) {
            util::IntrusiveList<Link, &Link::serving>::remove(*link);
        }
        link = next;
    }
    return events;
}

// False: not now.
bool Context::serve_one(Link& link, const Owed& owed) noexcept {
    if (link.way == nullptr || !link.way->ready) {
        const Posted there = reach(link);
        if (there.what != Posted::What::done) {
            return there.what == Posted::What::failed;
        }
    }
    RmaHeader header{.cookie = link.out_cookie,
                     .sequence = owed.sequence,
                     .length = owed.length,
                     .kind = RmaHeader::Kind::answer,
                     .target = link.target,
                     .status = static_cast<std::uint8_t>(owed.status)};
    std::byte bytes[RmaHeader::kSize];
    Posted posted = Posted::again();
    if (owed.length != 0) {
        Request* r = take(carriers_, link.way->carried);
        if (r == nullptr) {
            return false;
        }
        const Status status =
            domain_.gate().read(owed.key, owed.offset, {r->bounce + RmaHeader::kSize, owed.length});
        header.status = static_cast<std::uint8_t>(status);
        header.write(bytes);
        std::memcpy(r->bounce, bytes, sizeof bytes);
        stats_.refused += ok(status) ? 0 : 1;
        posted =
            hand_over(link, kRmaId, *r, RmaHeader::kSize + (ok(status) ? owed.length : 0), nullptr);
    } else {
        header.write(bytes);
        stats_.refused += ok(owed.status) ? 0 : 1;
        posted = post(link, kRmaId, bytes, nullptr);
    }
    if (posted.what == Posted::What::again) {
        return false;
    }
    ++stats_.served;
    return true;  // where it failed, the session is about to end
}

void Context::forget_owed(Link& link) noexcept {
    link.owed_count = 0;
    if (link.serving.linked()) {
        util::IntrusiveList<Link, &Link::serving>::remove(link);
    }
}

}  // namespace na::ucx
