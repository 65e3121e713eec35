// SPDX-License-Identifier: BSD-3-Clause
// wants: na: const elements can only be read
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    const std::vector<int> constants(3);
    (void)domain.register_memory(constants, na::Access::write);
    return na::Status::success;
}

}  // namespace
