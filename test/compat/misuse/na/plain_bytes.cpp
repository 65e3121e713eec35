// SPDX-License-Identifier: BSD-3-Clause
// wants: na: messages are sent from a Buffer
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    return context.send_expected(op, peer, 1, std::string("hello"), [](na::Status) {});
}

}  // namespace
