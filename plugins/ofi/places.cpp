// SPDX-License-Identifier: BSD-3-Clause
// Places of peers in the provider's address vector: taken when something is to be sent, left with
// the session.
//
// Most are given up when they are left. Provider::forgets_peers says where that is not safe: shm of
// libfabric 1.17
//   - crashes on what it finds of a peer that has no place: answers to transfers, large messages.
//     So the place is kept until the peer can send no more, and all that it sent is read;
//   - counts what a peer still owes for the next one in its place, and does not introduce us to
//     that one if the former never answered. So such a place is kept as long as the context lives,
//     or until the answer has come.
// That of 2.x writes into the segment whose place is given up, and so crashes where that belongs to
// an endpoint of this process which has closed (Provider::forgets_closed_neighbours): then the
// place is kept as long, too.
// A peer that still has the same segment gets its place again.
#include <algorithm>
#include <utility>

#include "na/util/log.hpp"
#include "plugins/ofi/context.hpp"
#include "plugins/ofi/parked.hpp"
#include "plugins/ofi/segments.hpp"
#include "plugins/ofi/spots.hpp"

namespace na::ofi {
namespace {

constexpr std::size_t kFilesOfPlace = 4;  // descriptors that a connection takes, for a while
constexpr unsigned kLooks = 2;            // at a peer that is gone, with the queue read in between

}  // namespace

// -FI_EAGAIN: not yet.
ssize_t Context::reach(Link& link) noexcept {
    // shm of libfabric 1.17 crashes where it cannot open a peer's segment.
    if (const Files files = files_for(link, kFilesOfPlace); files != Files::enough) [[unlikely]] {
        return files == Files::wait ? -FI_EAGAIN : -FI_EMFILE;
    }
    try {
        const std::string bytes = link.address.raw(link.target);
        if (link.address.naming() == session::Naming::text) {
            link.neighbour = find_neighbour(bytes);
        }
        if (domain_.provider().probe == Probe::process) {
            return reach_segment(link, bytes);
        }
        if (!domain_.provider().tells_no_way &&
            !util::may_send(domain_.bind_address(), link.place())) {
            NA_LOG_INFO(addr, "{} cannot be reached from {}", link.address,
                        domain_.bind_address().text());
            return -FI_EHOSTUNREACH;
        }
        if (fi_av_insert(endpoint_->av(), bytes.data(), 1, &link.addr, 0, nullptr) == 1) {
            return 0;
        }
        link.addr = FI_ADDR_NOTAVAIL;
        NA_LOG_WARNING(addr, "the provider refuses the address {}", link.address);
    } catch (const std::bad_alloc&) {
    }
    return -FI_EHOSTUNREACH;
}

// Whether this endpoint and that of the link, of one process, find each other: either looks for the
// other.
ssize_t Context::meet(Link& link, const HoldOpen& hold) const noexcept {
    if (hold.is(Neighbour::State::opening)) {
        return -FI_EAGAIN;
    }
    if (hold.closed()) {
        return -FI_EHOSTUNREACH;
    }
    if (link.neighbour != nullptr && (endpoint_->hidden() || hold.is(Neighbour::State::hidden))) {
        NA_LOG_ERROR(addr,
                     "cannot reach {} of this process: it, or this endpoint, has the name of one "
                     "that closed here, whose spot in memory is taken, and libfabric's {} would "
                     "look for it there; choose names that are new, or none",
                     link.address, domain_.provider().fabric);
        return -FI_EHOSTUNREACH;
    }
    return 0;
}

// shm of libfabric 1.17 takes any name, and crashes at the first post if it found no segment.
ssize_t Context::reach_segment(Link& link, const std::string& bytes) {
    const std::string name = bytes.substr(0, bytes.find('\0'));
    const HoldOpen hold(link.neighbour.get());
    if (const ssize_t rc = meet(link, hold); rc != 0) {
        return rc;
    }
    const SegmentOwner owner = segment_owner(name);
    if (owner.state != SegmentOwner::State::alive) {
        return -FI_EHOSTUNREACH;
    }
    const auto it = std::find_if(retired_.begin(), retired_.end(),
                                 [&](const Retired& r) { return r.bytes == bytes; });
    if (it != retired_.end()) {
        if (it->segment == owner.file && it->neighbour == link.neighbour) {
            link.addr = it->addr;
            link.segment = it->segment;
            link.owed = it->owed;
            link.met = link.met || it->met;
            retired_.erase(it);
            return 0;
        }
        if (it->clean()) {
            return -FI_EAGAIN;  // its successor has the same name: not before the old one went
        }
        NA_LOG_INFO(addr,
                    "{} was lost, and its place cannot be given up: {} of libfabric reaches nobody "
                    "of that name from this context any more",
                    link.address, domain_.provider().fabric);
        return -FI_EHOSTUNREACH;
    }
    retired_.reserve(links().size() + retired_.size());  // leave() must not fail
    follow_spots();
    const int n = fi_av_insert(endpoint_->av(), bytes.data(), 1, &link.addr, 0, nullptr);
    if (n == 1 && segment_owner(name).file == owner.file) {
        link.segment = owner.file;
        return 0;
    }
    if (n == 1) {  // it went away meanwhile
        fi_av_remove(endpoint_->av(), &link.addr, 1, 0);
    }
    link.addr = FI_ADDR_NOTAVAIL;
    return -FI_EHOSTUNREACH;
}

// The provider shall not keep a connection of the past. What it works on for the link is owed from
// now on: it goes on with that, and nobody here waits for it any more.
void Context::leave(session::Link& left) noexcept {
    Link& link = of(left);
    unwatch_process(link);
    const bool met = std::exchange(link.met, false);
    link.carried = false;
    if (link.addr == FI_ADDR_NOTAVAIL) {
        return;
    }
    for (auto* r = link.requests.front(); r != nullptr; r = link.requests.next(*r)) {
        auto& owes = static_cast<Request&>(*r);
        if (owes.debtor == FI_ADDR_NOTAVAIL) {
            owes.debtor = link.addr;
            ++link.owed;
            ++debts_;
            in_debt_.end();
        }
    }
    const std::size_t owed = std::exchange(link.owed, 0);
    const auto neighbour = std::exchange(link.neighbour, nullptr);
    fi_addr_t addr = std::exchange(link.addr, FI_ADDR_NOTAVAIL);
    // (A neighbour's is a plain pointer, of no use once that has closed.)
    const HoldOpen hold(neighbour.get());
    const bool stays = hold.closed() && !domain_.provider().forgets_closed_neighbours;
    const bool clean = owed == 0 && met && !stays;
    if (!domain_.provider().forgets_peers && (neighbour == nullptr || !clean)) {
        try {
            retired_.push_back({.addr = addr,
                                .segment = link.segment,
                                .neighbour = neighbour,
                                .bytes = link.address.raw(link.target),
                                .owed = owed,
                                .met = met && !stays,
                                .looks = 0});
            return;
        } catch (const std::bad_alloc&) {
            if (!clean) {
                return;  // it stays
            }
        }
    }
    fi_av_remove(endpoint_->av(), &addr, 1, 0);
}

// What was owed has come.
void Context::pay(Request& r) noexcept {
    const fi_addr_t debtor = std::exchange(r.debtor, FI_ADDR_NOTAVAIL);
    --debts_;
    for (Retired& place : retired_) {
        if (place.addr == debtor) {
            --place.owed;
            return;
        }
    }
    for (const auto& [key, link] : links()) {
        Link& l = of(*link);
        if (l.addr == debtor && l.owed != 0) {  // it has its place again
            --l.owed;
            return;
        }
    }
}

void Context::look_at_retired() noexcept {
    for (std::size_t i = 0; i < retired_.size();) {
        Retired& r = retired_[i];
        if (r.looks < kLooks) {
            bool gone = false;
            if (r.neighbour != nullptr) {
                gone = HoldOpen(r.neighbour.get()).closed();
                if (gone && !domain_.provider().forgets_closed_neighbours) {
                    r.met = false;  // too late to give its place up
                }
            } else {
                const SegmentOwner owner = segment_owner(std::string_view(r.bytes.c_str()));
                gone = owner.state != SegmentOwner::State::unknown &&
                       (owner.state != SegmentOwner::State::alive || owner.file != r.segment);
            }
            r.looks += gone ? 1 : 0;
        }
        if (r.looks < kLooks || !r.clean()) {
            ++i;
            continue;
        }
        fi_av_remove(endpoint_->av(), &r.addr, 1, 0);
        retired_.erase(retired_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

// At the end: who has got a greeting from us, and may not have looked at it yet, will look for the
// endpoint that it names. What is owed comes into our segment, which other processes keep mapped.
void Context::leave_for_others() noexcept {
    std::vector<std::shared_ptr<Neighbour>> near;
    bool owed = false;
    const auto may_come = [&](const std::shared_ptr<Neighbour>& neighbour, bool met, bool owes) {
        if (met && !(owes && under_way_ != 0)) {
            return;
        }
        if (neighbour == nullptr) {
            if (!met) {
                endpoint_->leave_name();
            }
        } else if (!HoldOpen(neighbour.get()).closed()) {
            near.push_back(neighbour);
            owed = owed || owes;
        }
    };
    try {
        for (const auto& [key, link] : links()) {
            if (const Link& l = of(*link); l.addr != FI_ADDR_NOTAVAIL && !l.self) {
                may_come(l.neighbour, l.met, l.owed != 0 || !l.requests.empty());
            }
        }
        for (const Retired& r : retired_) {
            may_come(r.neighbour, r.met || r.looks != 0, r.owed != 0);
        }
    } catch (const std::bad_alloc&) {
    }
    if (!near.empty()) {
        park(std::move(endpoint_), domain_.base(), std::move(near), owed);
    }
}

// Whether look_at_retired() has something to do soon.
bool Context::retiring() const noexcept {
    return std::any_of(retired_.begin(), retired_.end(), [](const Retired& r) {
        return r.looks != 0 && (r.looks < kLooks || r.clean());
    });
}

}  // namespace na::ofi
