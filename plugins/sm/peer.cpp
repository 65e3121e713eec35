// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/sm/peer.hpp"

#include <cstring>

#include "plugins/sm/address.hpp"

namespace na::sm {

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
