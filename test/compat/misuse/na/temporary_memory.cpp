// SPDX-License-Identifier: BSD-3-Clause
// wants: na: the memory of a temporary would be gone at once
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    (void)domain.register_memory(std::vector<int>(10));
    return na::Status::success;
}

}  // namespace
