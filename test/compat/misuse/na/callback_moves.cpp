// SPDX-License-Identifier: BSD-3-Clause
// wants: na: moving the callback may throw: capture by reference what has such a move
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    struct Copied {
        Copied() = default;
        Copied(const Copied&) {}
    };
    return context.send_unexpected(op, peer, 1, buffer.first(5),
                                   [c = Copied()](na::Status) { (void)c; });
}

}  // namespace
