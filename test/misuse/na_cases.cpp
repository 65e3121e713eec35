// SPDX-License-Identifier: BSD-3-Clause
// Mistakes with na/*.hpp that must not compile, one at a time, as in hg_cases.cpp.
#include <span>
#include <string>
#include <vector>

#include "na/domain.hpp"

namespace {

[[maybe_unused]] na::PostResult use(na::Domain& domain, na::Context& context, na::Operation& op,
                                    na::Address& peer, na::Buffer& buffer, na::Memory& memory,
                                    na::RemoteMemory& remote) {
    (void)domain, (void)context, (void)op, (void)peer, (void)buffer, (void)memory, (void)remote;
#if MISUSE == 0
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
#elif MISUSE == 1   // na: the callback of a send, put or get is called as callback(na::Status)
    return context.put(op, peer, memory.all(), remote.at(0), [](int, int) {});
#elif MISUSE == 2   // the callback of recv_expected is called as callback(na::Status, std::span
    return context.recv_expected(op, peer, 1, buffer, [](na::Status) {});
#elif MISUSE == 3   // na: the callback of recv_unexpected and of a MultiOperation is called as
    return context.recv_unexpected(op, buffer, [](na::Status) {});
#elif MISUSE == 4   // na: the callback of recv_unexpected and of a MultiOperation is called as
    na::MultiOperation multi(context, [](na::Status) {});
    return context.recv_multi(multi, buffer);
#elif MISUSE == 5   // the callback captures more than 64 bytes: capture a pointer or a reference
    const std::string a, b, c;
    return context.send_unexpected(op, peer, 1, buffer.first(5), [a, b, c](na::Status) {});
#elif MISUSE == 6   // na: moving the callback may throw: capture by reference what has such a move
    struct Copied {
        Copied() = default;
        Copied(const Copied&) {}
    };
    return context.send_unexpected(op, peer, 1, buffer.first(5),
                                   [c = Copied()](na::Status) { (void)c; });
#elif MISUSE == 7   // na: messages are sent from a Buffer
    return context.send_expected(op, peer, 1, std::string("hello"), [](na::Status) {});
#elif MISUSE == 8   // na: say how much of the buffer is the message: buffer.first(bytes)
    return context.send_unexpected(op, peer, 1, buffer, [](na::Status) {});
#elif MISUSE == 9   // nodiscard
    context.send_unexpected(op, peer, 1, buffer.first(5), [](na::Status) {});
    return na::Status::success;
#elif MISUSE == 10  // na: peers can only be given memory of trivially copyable elements
    std::vector<std::string> texts(3);
    (void)domain.register_memory(texts, na::Access::read);
    return na::Status::success;
#elif MISUSE == 11  // na: const elements can only be read
    const std::vector<int> constants(3);
    (void)domain.register_memory(constants, na::Access::write);
    return na::Status::success;
#elif MISUSE == 12  // na: the memory of a temporary would be gone at once
    (void)domain.register_memory(std::vector<int>(10));
    return na::Status::success;
#endif
}

}  // namespace
