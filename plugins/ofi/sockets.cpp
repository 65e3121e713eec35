// SPDX-License-Identifier: BSD-3-Clause
// Sockets that libfabric opens without close-on-exec. A helper program that inherits one keeps a
// connection open after this process has died, so that peers do not hear of the death.
//
// Which sockets are the provider's is known exactly: those at the port where it listens, and those
// that are connected to the place of a peer. Descriptors of the program are never touched. Others
// of the provider (epoll, eventfd) hold neither a port nor a connection, and are left.
//
// A connection is there some time after the greeting that makes it: the sockets are looked at while
// a peer is greeted, and once after that.
#include <algorithm>
#include <new>
#include <vector>

#include "na/util/tcp.hpp"
#include "plugins/ofi/context.hpp"

namespace na::ofi {
namespace {

// A look costs by the number of descriptors: no more than a twentieth of the time is spent so.
constexpr std::int64_t kLeastInterval = 10 * session::kMs;
constexpr std::int64_t kShare = 20;

}  // namespace

void Context::mark_sockets() noexcept {
    const std::int64_t start = session::now_ns();
    if (start < next_mark_) {
        return;
    }
    try {
        bool greets = false;
        std::vector<util::IpEndpoint> places;
        for (const auto& [key, link] : links()) {
            greets = greets || link->state == Link::State::greeting;
            if (!link->self) {
                places.push_back(of(*link).place());
            }
        }
        const auto name = endpoint_->name();
        const util::IpEndpoint here = name ? name->ip() : util::IpEndpoint{};
        util::close_on_exec([&](const util::IpEndpoint& own, const util::IpEndpoint& peer) {
            return (own.port == here.port &&
                    (own.address == here.address || here.address.is_any())) ||
                   (peer.port != 0 &&
                    std::find(places.begin(), places.end(), peer) != places.end());
        });
        unmarked_ = greets;
    } catch (const std::bad_alloc&) {
        // the next time
    }
    const std::int64_t end = session::now_ns();
    next_mark_ = end + std::max(kLeastInterval, (end - start) * kShare);
}

}  // namespace na::ofi
