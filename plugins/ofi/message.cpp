// SPDX-License-Identifier: BSD-3-Clause
// Messages: injected, or copied into a buffer of ours.
#include <cerrno>
#include <cstring>

#include "na/util/log.hpp"
#include "na/util/tcp.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {

using plugin::Posted;

// What did not go, and why.
Posted Context::refused(const Link& link, ssize_t rc) const noexcept {
    if (rc == -FI_EAGAIN) {
        return Posted::again();
    }
    if (rc == -EMFILE || rc == -ENFILE) {
        NA_LOG_INFO(msg,
                    "cannot connect to {}: no descriptor is left; raise the limit on open files "
                    "(ulimit -n)",
                    link.address);
    } else {
        NA_LOG_INFO(msg, "cannot send to {}: {}", link.address, fi_strerror(static_cast<int>(-rc)));
    }
    Status status = status_with_peer(rc);
    if (status != Status::nomem && domain_.provider().probe == Probe::tcp &&
        util::no_way(domain_.bind_address(), link.place()) != 0) {
        status = Status::addrnotavail;
    }
    return Posted::failed(status);
}

Posted Context::transmit(session::Link& to, std::span<const std::byte> bytes, Op* op) noexcept {
    Link& link = of(to);
    if (!may_connect(link)) [[unlikely]] {
        blocked(link);
        return Posted::again();
    }
    if (pauses(link)) [[unlikely]] {
        return Posted::again();
    }
    if (link.addr == FI_ADDR_NOTAVAIL) [[unlikely]] {
        if (const ssize_t rc = reach(link); rc != 0) {
            if (rc == -FI_EAGAIN) {
                retry_soon();
            }
            return refused(link, rc);
        }
        link.narrow = domain_.provider().peeks;
    }
    const HoldOpen hold(link.neighbour.get());
    if (hold.closed()) [[unlikely]] {
        return refused(link, -FI_EHOSTUNREACH);
    }
    Posted posted = Posted::done();
    ssize_t rc = 0;
    if (bytes.size() <= inject_ && (op == nullptr || link.trusted())) [[likely]] {
        rc = fi_inject(endpoint_->ep(), bytes.data(), bytes.size(), link.addr);
        stats_.injected += rc == 0 ? 1 : 0;
    } else {
        Request* r = take_request(link);
        if (r == nullptr) {
            if (op != nullptr && pool_.barren()) {
                return refused(link, -FI_ENOMEM);
            }
            retry_soon();
            return Posted::again();
        }
        std::memcpy(r->bounce, bytes.data(), bytes.size());
        r->op = op;  // before fi_send(): from there on a completion may name this request
        rc = fi_send(endpoint_->ep(), r->bounce, bytes.size(), r->descriptor, link.addr,
                     &r->provider);
        if (rc == 0) {
            posted = Posted::pending();
            begin(*r, link);
            ++stats_.copied;
        } else {
            r->op = nullptr;
            pool_.put_back(*r);
        }
    }
    if (rc == -FI_EAGAIN) [[unlikely]] {
        not_now(link);
        return Posted::again();
    }
    if (rc != 0) [[unlikely]] {
        unblocked(link);
        return refused(link, rc);
    }
    carried(link);
    return posted;
}

bool Context::transmit_at_once(session::Link& to, std::span<const std::byte> bytes) noexcept {
    Link& link = of(to);
    if (bytes.size() > inject_ || link.addr == FI_ADDR_NOTAVAIL || !may_connect(link) ||
        pauses(link)) [[unlikely]] {
        return false;
    }
    const HoldOpen hold(link.neighbour.get());
    if (hold.closed() || fi_inject(endpoint_->ep(), bytes.data(), bytes.size(), link.addr) != 0)
        [[unlikely]] {
        return false;
    }
    ++stats_.injected;
    carried(link);
    return true;
}

// A message.
void Context::carried(Link& link) noexcept {
    unblocked(link);
    link.carried = true;
    if (link.narrow) [[unlikely]] {
        link.narrow = false;
        util::make_room(link.place());
    }
}

}  // namespace na::ofi
