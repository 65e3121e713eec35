// SPDX-License-Identifier: BSD-3-Clause
// wants: na: say how much of the buffer is the message: buffer.first(bytes)
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    return context.send_unexpected(op, peer, 1, buffer, [](na::Status) {});
}

}  // namespace
