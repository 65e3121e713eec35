// SPDX-License-Identifier: BSD-3-Clause
// Places where somebody else is: another program, or a peer with whom the provider makes no
// connection (another protocol, other settings).
//
// The provider tells nothing of connections that come to nothing; each post is answered "try
// again", and makes the next. A probe says that somebody is there. So, where posts have been
// answered like that for a while, the connections themselves are looked at: one that stands, or is
// under way, is a peer that does not read, or does not run. Others, time and again, are nobody's.
#include <new>

#include "na/util/log.hpp"
#include "na/util/tcp.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {
namespace {

constexpr std::int64_t kPatience = 300 * session::kMs;     // of "try again", before the first look
constexpr std::int64_t kBetweenLooks = 25 * session::kMs;  // whoever they are about
// What speaks for it, and how much together is enough: eight other connections in two seconds, or
// none at all for ten, where nothing ever went.
constexpr unsigned kAnother = 5;
constexpr unsigned kNone = 1;
constexpr unsigned kEnough = 40;

}  // namespace

// The provider has no room for it, or no connection yet.
void Context::not_now(Link& link) noexcept {
    put_off(link);
    if (link.retry_at == 0 || domain_.provider().probe != Probe::tcp ||
        !domain_.provider().connects_aside) {
        return;
    }
    const std::int64_t now = session::now_ns();
    if (now - link.blocked_since < kPatience || now < next_look_at_ways_) {
        return;
    }
    next_look_at_ways_ = now + kBetweenLooks;
    // A session that stands outlives a disturbance of the network.
    if (link.state == Link::State::greeting && unreached(link) == Status::addrnotavail) {
        NA_LOG_INFO(addr, "this host has no way to {}", link.address);
        doom(link, Status::addrnotavail);
        return;
    }
    if (leads_nowhere(link, now)) {
        doom(link);
    }
}

bool Context::leads_nowhere(Link& link, std::int64_t now) noexcept {
    util::Ways ways;
    try {
        const auto here = endpoint_->name();
        ways =
            util::ways_to(link.place(), here ? here->ip() : util::IpEndpoint{}, link.probe.get());
    } catch (const std::bad_alloc&) {
        return false;
    }
    if (link.in_vain_since != link.blocked_since) {
        link.in_vain_since = link.blocked_since;
        link.in_vain = 0;
    } else if (ways.to != 0 && ways.to != link.ways) {
        link.in_vain += kAnother;
    } else if (ways.to != 0) {
        link.in_vain -= link.in_vain != 0 ? 1 : 0;
    } else if (!link.carried || !ways.from) {
        link.in_vain += kNone;
    }
    link.ways = ways.to;
    if (link.in_vain < kEnough) {
        return false;
    }
    link.in_vain = 0;
    NA_LOG_WARNING(
        addr,
        "no connection to {} lasts: in {} ms whoever is there took some and ended them. Is "
        "it another program, or one with another provider or other settings of it (such "
        "as FI_OFI_RXM_BUFFER_SIZE)?",
        link.address, (now - link.blocked_since) / session::kMs);
    return true;
}

}  // namespace na::ofi
