// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/peer.hpp"

#include <algorithm>
#include <cstring>

#include "plugins/sm/address.hpp"
#include "plugins/sm/connection.hpp"

namespace na::sm {

Connection* Link::open(std::optional<std::uint8_t> context) const noexcept {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Connection* c) {
        return c->state == Connection::State::open && (!context || c->remote_context == *context);
    });
    return found == all.end() ? nullptr : *found;
}

std::string Peer::uri() const {
    return std::string(kScheme) + name_;
}

std::size_t Peer::encode(std::span<std::byte> out) const {
    if (out.size() >= name_.size()) {
        std::memcpy(out.data(), name_.data(), name_.size());
    }
    return name_.size();
}

}  // namespace na::sm
