// SPDX-License-Identifier: BSD-3-Clause
#include "na/session/domain.hpp"

#include "na/util/guarded.hpp"

namespace na::session {

Result<std::unique_ptr<plugin::Peer>> Domain::connect(std::string_view uri) {
    return util::guarded<plugin::Peer>([&]() -> Result<std::unique_ptr<plugin::Peer>> {
        const std::string_view scheme = scheme_of(uri);
        return local_.connect(uri, scheme.empty() ? std::string() : foreign(scheme));
    });
}

Result<std::unique_ptr<plugin::Peer>> Domain::decode_peer(std::span<const std::byte> identity) {
    return util::guarded<plugin::Peer>([&] { return local_.decode_peer(identity); });
}

}  // namespace na::session
