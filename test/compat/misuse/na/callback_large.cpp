// SPDX-License-Identifier: BSD-3-Clause
// wants: na: the callback captures more than 64 bytes: capture a pointer or a reference instead
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    const std::string a, b, c;
    return context.send_unexpected(op, peer, 1, buffer.first(5), [a, b, c](na::Status) {});
}

}  // namespace
