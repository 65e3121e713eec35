// SPDX-License-Identifier: BSD-3-Clause
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
    std::vector<int> numbers(3);
    const std::vector<int> constants(3);
    int array[3] = {};
    (void)domain.register_memory(numbers, na::Access::read_write).value();
    (void)domain.register_memory(constants).value();
    (void)domain.register_memory(array, na::Access::write).value();
    (void)domain.register_memory(std::span(numbers), na::Access::write).value();
    context.put(op, {peer, 2}, memory.all(), remote.at(0), [](auto...) {}).value();
    context.recv_expected(op, peer, 1, buffer, [&](na::Status, std::span<std::byte>) {}).value();
    context.recv_unexpected(op, buffer, [&](na::Status, const na::Message&) {}).value();
    na::MultiOperation multi(context, [&](na::Status, na::Message) {});
    context.recv_multi(multi, buffer).value();
    return context.send_unexpected(op, peer, 1, buffer.first(5), [](na::Status) {});
}

}  // namespace
