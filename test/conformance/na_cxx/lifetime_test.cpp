// SPDX-License-Identifier: BSD-3-Clause
// Who may go when: operations that are posted, buffers and memory in flight, contexts, domains; and
// callbacks that throw.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include "side.hpp"

using namespace cxx_test;
using namespace std::chrono_literals;
using na::Status;

TEST_CASE("destroying a posted operation", "[cxx][lifetime]") {
    Pair p;
    const auto token = std::make_shared<int>(0);
    int calls = 0;
    {
        const na::Buffer buffer = p.a.domain.make_buffer(64).value();
        na::Operation op(p.a.context);
        REQUIRE(p.a.context.recv_unexpected(
            op, buffer, [&calls, token](Status, const na::Message&) { ++calls; }));
        CHECK(token.use_count() == 2);
    }
    CHECK(token.use_count() == 1);  // what it captured went with it
    // It takes no message any more.
    const na::Buffer in = p.a.domain.make_buffer(64).value();
    const na::Buffer out = p.b.domain.make_buffer(64).value();
    na::Operation recv(p.a.context), send(p.b.context);
    Outcome receiving, sending;
    REQUIRE(p.a.context.recv_unexpected(recv, in, receiving.on_message()));
    REQUIRE(p.b.context.send_unexpected(send, p.to_a, 3, out.holding("late"), sending.on_status()));
    REQUIRE(p.until([&] { return receiving.done() && sending.done(); }));
    CHECK(text_of(receiving.data) == "late");
    CHECK(calls == 0);
    CHECK(p.a.context.close(10s));
}

TEST_CASE("an operation ends in its callback", "[cxx][lifetime]") {
    Pair p;
    const na::Buffer in = p.a.domain.make_buffer(64).value();
    const na::Buffer out = p.b.domain.make_buffer(64).value();
    auto recv = std::make_unique<na::Operation>(p.a.context);
    na::Operation send(p.b.context);
    bool gone = false;
    REQUIRE(p.a.context.recv_unexpected(*recv, in, [&](Status, const na::Message& m) {
        recv.reset();
        gone = text_of(m.data) == "go";
    }));
    REQUIRE(p.b.context.send_unexpected(send, p.to_a, 3, out.holding("go"), [](Status) {}));
    REQUIRE(p.until([&] { return gone; }));

    if (p.a.domain.has_multi_receive()) {
        gone = false;
        const na::Buffer room = p.a.domain.make_buffer(2 * p.a.domain.max_unexpected()).value();
        std::unique_ptr<na::MultiOperation> multi;
        multi =
            std::make_unique<na::MultiOperation>(p.a.context, [&](Status s, const na::Message& m) {
                gone = ok(s) && text_of(m.data) == "go";
                multi.reset();
            });
        REQUIRE(p.a.context.recv_multi(*multi, room));
        REQUIRE(p.until([&] { return !send.in_use(); }));
        REQUIRE(p.b.context.send_unexpected(send, p.to_a, 3, out.holding("go"), [](Status) {}));
        REQUIRE(p.until([&] { return gone; }));
        CHECK(multi == nullptr);
    }
}

TEST_CASE("a callback that throws", "[cxx][lifetime]") {
    Pair p;
    const na::Buffer in = p.a.domain.make_buffer(64).value();
    const na::Buffer out = p.b.domain.make_buffer(64).value();
    na::Operation recv(p.a.context), other(p.a.context), send(p.b.context), again(p.b.context);
    const na::Buffer in2 = p.a.domain.make_buffer(64).value();
    Outcome second;
    REQUIRE(p.a.context.recv_unexpected(recv, in, [](Status, const na::Message&) {
        throw std::runtime_error("from the callback");
    }));
    REQUIRE(p.a.context.recv_unexpected(other, in2, second.on_message()));
    REQUIRE(p.b.context.send_unexpected(send, p.to_a, 1, out.holding("one"), [](Status) {}));
    REQUIRE(p.b.context.send_unexpected(again, p.to_a, 1, out.holding("one"), [](Status) {}));
    bool thrown = false;
    REQUIRE(support::until(
        [&] {
            try {
                p.a.pump();
            } catch (const std::runtime_error& e) {
                thrown = std::string(e.what()) == "from the callback";
            }
            return thrown;
        },
        [&] { p.b.pump(); }));
    CHECK_FALSE(recv.in_use());
    REQUIRE(p.until([&] { return second.done(); }));
    CHECK(second.succeeded());
    // And it is used again.
    Outcome third;
    REQUIRE(p.a.context.recv_unexpected(recv, in, third.on_message()));
    REQUIRE(p.until([&] { return !send.in_use(); }));
    REQUIRE(p.b.context.send_unexpected(send, p.to_a, 1, out.holding("three"), [](Status) {}));
    REQUIRE(p.until([&] { return third.done(); }));
    CHECK(text_of(third.data) == "three");
}

TEST_CASE("closing a context cancels what is posted", "[cxx][lifetime]") {
    Pair p;
    const na::Buffer buffer = p.a.domain.make_buffer(64).value();
    const na::Buffer answer = p.a.domain.make_buffer(64).value();
    na::Operation recv(p.a.context), wait(p.a.context);
    Outcome receiving, waiting;
    Status inside = Status::success;
    Status post = Status::success;
    REQUIRE(p.a.context.recv_unexpected(recv, buffer, [&](Status s, const na::Message&) {
        receiving.status = s;
        ++receiving.calls;
        inside = p.a.context.close(1s).status();
        post =
            p.a.context.recv_unexpected(recv, buffer, [](Status, const na::Message&) {}).status();
    }));
    REQUIRE(p.a.context.recv_expected(wait, p.to_b, 4, answer, waiting.on_data()));
    REQUIRE(p.a.context.close(10s));
    CHECK(receiving.calls == 1);
    CHECK(receiving.status == Status::canceled);
    CHECK(inside == Status::busy);
    CHECK(post == Status::canceled);
    CHECK(waiting.calls == 1);
    CHECK(waiting.status == Status::canceled);
    CHECK_FALSE(p.a.context);
    CHECK(p.a.context.close(1s));  // again: nothing to do
    CHECK(p.a.context.recv_unexpected(recv, buffer, receiving.on_message()).status() ==
          Status::invalid_arg);
    CHECK(p.a.context.progress() == Status::invalid_arg);
    CHECK(p.a.context.trigger() == 0);
    CHECK_THROWS_AS(na::Operation(p.a.context), na::Failure);
    // Its id is free again.
    p.a.context = p.a.domain.open_context().value();
    CHECK(p.a.domain.open_context().status() == Status::exist);
}

TEST_CASE("the order in which things go does not matter", "[cxx][lifetime]") {
    Pair p;
    auto data = support::payload(100'000, 3);
    std::vector<std::byte> target(data.size());
    auto exposed = p.b.domain.register_memory(target, na::Access::write).value();
    const auto key = exposed.encode();
    Outcome end;
    na::Operation op(p.a.context);
    {
        // Memory and addresses go while the put is under way.
        auto local = p.a.domain.register_memory(data).value();
        auto remote = p.a.domain.decode_memory(key).value();
        const na::Address peer = p.to_b;
        REQUIRE(p.a.context.put(op, peer, local.all(), remote.at(0), end.on_status()));
    }
    p.to_b = na::Address();
    REQUIRE(p.until([&] { return end.done(); }));
    CHECK(end.succeeded());
    const std::string uri = p.a.uri;
    na::Address self = p.a.domain.self();
    na::Buffer buffer = p.a.domain.make_buffer(10).value();
    const auto busy = p.a.domain.close();
    CHECK(busy.status() == Status::busy);
    CHECK_THAT(busy.error().message, Catch::Contains("context"));
    p.a.domain = na::Domain();  // what came from it goes on
    CHECK(self.uri() == uri);
    CHECK(self.is_self());
    CHECK(self.encode().size() > 0);
    Outcome receiving;
    REQUIRE(p.a.context.recv_unexpected(op, buffer, receiving.on_message()));
    buffer = na::Buffer();
    p.a.context = na::Context();
    CHECK(receiving.status == Status::canceled);
    op = na::Operation();
    self = na::Address();
}

TEST_CASE("a domain closes when nothing is left", "[cxx][lifetime]") {
    na::Domain domain = na::Domain::listen(options().protocol).value();
    {
        na::Context context = domain.open_context().value();
        CHECK(domain.close().status() == Status::busy);
        na::Operation op(context);
        CHECK(context.close(10s));
        CHECK(domain.close().status() == Status::busy);
    }
    {
        const na::Buffer buffer = domain.make_buffer(10).value();
        const auto closed = domain.close();
        CHECK(closed.status() == Status::busy);
        CHECK_THAT(closed.error().message, Catch::Contains("buffers"));
    }
    CHECK(domain.close());
    CHECK_FALSE(domain);
    CHECK(domain.open_context().status() == Status::invalid_arg);
    CHECK(domain.lookup("x").status() == Status::invalid_arg);
    CHECK(domain.make_buffer().status() == Status::invalid_arg);
    CHECK_FALSE(domain.self());
    CHECK(domain.uri().empty());
    CHECK(domain.max_expected() == 0);
}

TEST_CASE("operations come and go while another thread triggers", "[cxx][lifetime][threads]") {
    Pair p;
    const na::Buffer in = p.a.domain.make_buffer(64).value();
    const na::Buffer out = p.b.domain.make_buffer(64).value();
    std::atomic<bool> stop{false};
    std::atomic<unsigned> received{0};
    std::thread trigger([&] {
        while (!stop) {
            (void)p.a.context.progress(1ms);
            p.a.context.trigger();
        }
    });
    na::Operation send(p.b.context);
    support::Random random(options().seed);
    const unsigned rounds = 2000 / support::kSlow;
    for (unsigned i = 0; i < rounds; ++i) {
        na::Operation op(p.a.context);
        REQUIRE(p.a.context.recv_unexpected(
            op, in, [&](Status s, const na::Message&) { received += ok(s) ? 1 : 0; }));
        if (!send.in_use()) {
            REQUIRE(p.b.context.send_unexpected(send, p.to_a, 1, out.holding("x"), [](Status) {}));
        }
        p.b.pump();
        for (std::uint64_t n = random.below(100); n != 0; --n) {
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    }
    REQUIRE(support::until([&] { return !send.in_use(); }, [&] { p.b.pump(); }));
    stop = true;
    p.a.context.wake();
    trigger.join();
    CHECK(p.a.context.close(10s));
}
