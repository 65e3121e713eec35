// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <na/domain.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {                   // server: hello    client: hello ADDRESS
    auto domain = na::Domain::listen("na+sm").value();  // or "ofi+tcp", "ucx+tcp"
    auto context = domain.open_context().value();
    na::Operation send(context), receive(context);
    const auto out = domain.make_buffer().value();
    const auto in = domain.make_buffer().value();
    bool done = false;
    if (argc == 2) {
        const na::Address server = domain.lookup(argv[1]).value();
        const auto answer = [&](na::Status status, std::span<std::byte> text) {
            na::check(status, "the answer");
            std::printf("%.*s\n", static_cast<int>(text.size()),
                        reinterpret_cast<char*>(text.data()));
            done = true;
        };
        context.recv_expected(receive, server, 1, in, answer).value();
        context.send_unexpected(send, server, 1, out.holding("hello"), [](na::Status) {}).value();
    } else {
        std::puts(domain.uri().c_str());
        const auto question = [&](na::Status status, const na::Message& message) {
            na::check(status, "a question");
            const auto sent = [&](na::Status) { done = true; };
            context
                .send_expected(send, message.source, message.tag, out.holding(message.data), sent)
                .value();
        };
        context.recv_unexpected(receive, in, question).value();
    }
    context.run_until([&] { return done; }, 60s);
} catch (const na::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
