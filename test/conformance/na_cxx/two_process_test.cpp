// SPDX-License-Identifier: BSD-3-Clause
// The C++ API between two processes: messages, remote memory, a peer that is killed.
#include <csignal>

#include "side.hpp"
#include "support/two_process.hpp"

using namespace cxx_test;
using namespace std::chrono_literals;
using na::Status;
using support::Link;
using support::Party;

namespace {

bool in_one_process() {
    return options().protocol.find("loop") != std::string::npos;
}

}  // namespace

TEST_CASE("two processes exchange messages and memory", "[cxx][processes]") {
    if (in_one_process()) {
        support::skip("this transport stays inside one process");
        return;
    }
    Party party(Party::As::process, [](Link& link) {
        Side side;
        std::vector<std::byte> memory(200'000);
        na::Memory exposed = side.domain.register_memory(memory, na::Access::read_write).value();
        link.put(side.uri);
        link.put(exposed.encode());
        const na::Buffer in = side.domain.make_buffer().value();
        const na::Buffer out = side.domain.make_buffer().value();
        na::Operation recv(side.context), send(side.context);
        Outcome asked, answered;
        side.context.recv_unexpected(recv, in, asked.on_message()).value();
        PARTY_REQUIRE(side.context.run_until([&] { return asked.done(); }, 60s));
        PARTY_REQUIRE(asked.succeeded());
        // What was put before the message is here.
        PARTY_REQUIRE(support::mismatch(std::span(memory).first(150'000), 21) == -1);
        support::fill(std::span(memory).subspan(150'000), 22);
        side.context
            .send_expected(send, asked.source, asked.tag, out.holding(asked.data),
                           answered.on_status())
            .value();
        PARTY_REQUIRE(side.context.run_until([&] { return answered.done(); }, 60s));
        PARTY_REQUIRE(answered.succeeded());
        link.barrier([&] { side.pump(); });
    });
    Side side;
    const std::string uri = party.link().take_text();
    const auto key = party.link().take();
    const na::Address peer = side.domain.lookup(uri).value();
    const na::RemoteMemory remote = side.domain.decode_memory(key).value();
    auto data = support::payload(150'000, 21);
    const na::Memory local = side.domain.register_memory(data, na::Access::read_write).value();
    const na::Buffer out = side.domain.make_buffer().value();
    const na::Buffer in = side.domain.make_buffer().value();
    na::Operation op(side.context), wait(side.context);
    Outcome put, sent, answer, got;
    REQUIRE(side.context.put(op, peer, local.all(), remote.at(0), put.on_status()));
    REQUIRE(side.context.run_until([&] { return put.done(); }, 60s));
    REQUIRE(put.succeeded());
    REQUIRE(side.context.recv_expected(wait, peer, 99, in, answer.on_data()));
    REQUIRE(side.context.send_unexpected(op, peer, 99, out.holding("done"), sent.on_status()));
    REQUIRE(side.context.run_until([&] { return answer.done() && sent.done(); }, 60s));
    REQUIRE(answer.succeeded());
    CHECK(text_of(answer.data) == "done");
    REQUIRE(
        side.context.get(op, peer, local.range(0, 50'000), remote.at(150'000), got.on_status()));
    REQUIRE(side.context.run_until([&] { return got.done(); }, 60s));
    REQUIRE(got.succeeded());
    CHECK(support::mismatch(std::span(data).first(50'000), 22) == -1);
    party.link().barrier([&] { side.pump(); });
    CHECK(party.join().empty());
}

TEST_CASE("who waits for a process that is killed is told", "[cxx][processes]") {
    if (in_one_process()) {
        support::skip("this transport stays inside one process");
        return;
    }
    if (const char* why = support::lacks(support::Promise::deaths_at_work)) {
        support::skip(why);
        return;
    }
    Party party(Party::As::process, [](Link& link) {
        Side side;
        link.put(side.uri);
        const na::Buffer in = side.domain.make_buffer().value();
        na::Operation recv(side.context);
        Outcome asked;
        side.context.recv_unexpected(recv, in, asked.on_message()).value();
        PARTY_REQUIRE(side.context.run_until([&] { return asked.done(); }, 60s));
        link.put("asked");
        side.context.run_until([] { return false; }, 60s);
    });
    const std::string uri = party.link().take_text();
    Side side;
    const na::Address peer = side.domain.lookup(uri).value();
    const na::Buffer out = side.domain.make_buffer().value();
    const na::Buffer in = side.domain.make_buffer().value();
    na::Operation op(side.context), wait(side.context);
    Outcome sent, answer;
    REQUIRE(side.context.recv_expected(wait, peer, 1, in, answer.on_data()));
    REQUIRE(side.context.send_unexpected(op, peer, 1, out.holding("?"), sent.on_status()));
    REQUIRE(until([&] { return party.link().readable(); }, [&] { side.pump(); }));
    CHECK(party.link().take_text() == "asked");
    party.kill(SIGKILL);
    REQUIRE(side.context.run_until([&] { return answer.done(); }, 60s));
    CHECK(answer.status == Status::hostunreach);
}
