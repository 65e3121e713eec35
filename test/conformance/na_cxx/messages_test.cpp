// SPDX-License-Identifier: BSD-3-Clause
// Messages of the C++ API: both lanes, multi-receive, refusals.
#include <algorithm>

#include "side.hpp"

using namespace cxx_test;
using na::Status;

TEST_CASE("a question and its answer", "[cxx][messages]") {
    Pair p;
    const na::Buffer question = p.a.domain.make_buffer().value();
    const na::Buffer asked = p.b.domain.make_buffer().value();
    const na::Buffer reply = p.b.domain.make_buffer().value();
    const na::Buffer answer = p.a.domain.make_buffer().value();
    na::Operation ask(p.a.context), wait(p.a.context), listen(p.b.context), respond(p.b.context);
    const std::size_t most = std::min(p.a.domain.max_unexpected(), p.a.domain.max_expected());
    CHECK(question.size() >= most);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{60}, most}) {
        INFO(size << " bytes");
        const auto text = support::payload(size, size + 1);
        Outcome heard, told, asking, responding;
        REQUIRE(p.b.context.recv_unexpected(listen, asked, heard.on_message()));
        CHECK(listen.in_use());
        REQUIRE(p.a.context.recv_expected(wait, p.to_b, 7, answer, told.on_data()));
        REQUIRE(p.a.context.send_unexpected(ask, p.to_b, 5, question.holding(text),
                                            asking.on_status()));
        REQUIRE(p.until([&] { return heard.done() && asking.done(); }));
        CHECK(asking.succeeded());
        REQUIRE(heard.succeeded());
        CHECK_FALSE(listen.in_use());
        CHECK(heard.tag == 5);
        CHECK(heard.data == text);
        CHECK(heard.last);
        CHECK(heard.source == p.to_a);
        REQUIRE(p.b.context.send_expected(respond, heard.source, 7, reply.holding(heard.data),
                                          responding.on_status()));
        REQUIRE(p.until([&] { return told.done() && responding.done(); }));
        CHECK(responding.succeeded());
        REQUIRE(told.succeeded());
        CHECK(told.data == text);
    }
}

TEST_CASE("a callback posts its operation again", "[cxx][messages]") {
    Pair p;
    constexpr int kRounds = 50;
    const na::Buffer out = p.a.domain.make_buffer(64).value();
    const na::Buffer in = p.b.domain.make_buffer(64).value();
    na::Operation send(p.a.context), recv(p.b.context);
    struct {
        int sent = 0;
        int received = 0;
    } count;
    struct Sender {
        Pair& p;
        na::Operation& op;
        const na::Buffer& buffer;
        int& sent;
        void post() {
            p.a.context.send_unexpected(op, p.to_b, 1, buffer.holding(std::to_string(sent)), *this)
                .value();
        }
        void operator()(Status s) {
            CHECK(ok(s));
            if (++sent < kRounds) {
                post();
            }
        }
    };
    struct Receiver {
        Pair& p;
        na::Operation& op;
        const na::Buffer& buffer;
        int& received;
        void post() { p.b.context.recv_unexpected(op, buffer, *this).value(); }
        void operator()(Status s, const na::Message& m) {
            CHECK(ok(s));
            CHECK(text_of(m.data) == std::to_string(received));
            if (++received < kRounds) {
                post();
            }
        }
    };
    Receiver{p, recv, in, count.received}.post();
    Sender{p, send, out, count.sent}.post();
    REQUIRE(p.until([&] { return count.sent == kRounds && count.received == kRounds; }));
}

TEST_CASE("many messages into one buffer", "[cxx][messages]") {
    Pair p;
    if (!p.b.domain.has_multi_receive()) {
        support::skip("no multi-receive");
        return;
    }
    constexpr int kMessages = 64;
    std::vector<std::string> got;
    int lasts = 0;
    na::MultiOperation multi(p.b.context, [&](Status s, const na::Message& m) {
        CHECK(ok(s));
        CHECK(m.source == p.to_a);
        CHECK(m.tag == 9);
        got.push_back(text_of(m.data));
        lasts += m.last ? 1 : 0;
    });
    const na::Buffer in = p.b.domain.make_buffer(p.b.domain.max_unexpected() + 600).value();
    const na::Buffer out = p.a.domain.make_buffer(100).value();
    na::Operation send(p.a.context);
    REQUIRE(p.b.context.recv_multi(multi, in));
    CHECK(p.b.context.recv_multi(multi, in).status() == Status::busy);
    std::vector<std::string> sent;
    for (int i = 0; i < kMessages; ++i) {
        sent.push_back("message " + std::to_string(i) + std::string(50, '.'));
        Outcome sending;
        REQUIRE(p.a.context.send_unexpected(send, p.to_b, 9, out.holding(sent.back()),
                                            sending.on_status()));
        REQUIRE(p.until([&] {
            if (!multi.in_use()) {
                REQUIRE(p.b.context.recv_multi(multi, in));
            }
            return sending.done();
        }));
        CHECK(sending.succeeded());
    }
    REQUIRE(p.until([&] {
        if (!multi.in_use()) {
            REQUIRE(p.b.context.recv_multi(multi, in));
        }
        return got.size() == kMessages;
    }));
    CHECK(got == sent);
    CHECK(lasts > 0);
}

TEST_CASE("a canceled multi-receive ends with an empty message", "[cxx][messages]") {
    Pair p;
    if (!p.b.domain.has_multi_receive()) {
        support::skip("no multi-receive");
        return;
    }
    Outcome end;
    na::MultiOperation multi(p.b.context, end.on_message());
    const na::Buffer in = p.b.domain.make_buffer(p.b.domain.max_unexpected()).value();
    p.b.context.cancel(multi);  // not in use: nothing
    REQUIRE(p.b.context.recv_multi(multi, in));
    p.b.context.cancel(multi);
    REQUIRE(p.until([&] { return end.done(); }));
    CHECK(end.status == Status::canceled);
    CHECK(end.last);
    CHECK(end.data.empty());
    CHECK_FALSE(end.source);
    CHECK_FALSE(multi.in_use());
}

TEST_CASE("refused posts say why, and run no callback", "[cxx][messages]") {
    const Quiet quiet;
    Pair p;
    const na::Buffer buffer = p.a.domain.make_buffer(32).value();
    const na::Buffer theirs = p.b.domain.make_buffer(32).value();
    na::Operation op(p.a.context);
    Outcome never;
    const auto refused = [&](na::PostResult result, Status status, const std::string& words) {
        CHECK_FALSE(result);
        CHECK(result.status() == status);
        CHECK_THAT(result.error().message, Catch::Contains(words));
        try {
            result.value();
            FAIL("no exception");
        } catch (const na::Failure& e) {
            CHECK(e.status() == status);
            CHECK_THAT(std::string(e.what()), Catch::Contains(words));
        }
        CHECK_FALSE(op.in_use());
    };
    auto& context = p.a.context;
    const auto f = never.on_status();
    refused(context.send_unexpected(op, na::Address(), 1, buffer.first(1), f), Status::invalid_arg,
            "nobody");
    refused(context.send_unexpected(op, p.to_a, 1, buffer.first(1), f), Status::invalid_arg,
            "another Domain");
    refused(context.send_unexpected(op, p.to_b, 1, theirs.first(1), f), Status::invalid_arg,
            "another Domain");
    refused(context.send_unexpected(op, p.to_b, 1, buffer.first(33), f), Status::overflow, "33");
    refused(context.send_expected(op, p.to_b, 1, buffer.holding(std::string(99, 'x')), f),
            Status::overflow, "99");
    if (p.a.domain.max_tag() != UINT32_MAX) {
        refused(context.send_expected(op, p.to_b, UINT32_MAX, buffer.first(1), f),
                Status::invalid_arg, "tag");
    }
    const na::Buffer huge = p.a.domain.make_buffer(p.a.domain.max_unexpected() + 1).value();
    refused(context.send_unexpected(op, p.to_b, 1, huge.first(huge.size()), f), Status::overflow,
            std::to_string(huge.size()));
    na::Operation theirs_too(p.b.context);
    refused(context.send_unexpected(theirs_too, p.to_b, 1, buffer.first(1), f), Status::invalid_arg,
            "another Context");
    na::Operation moved = std::move(theirs_too);
    refused(context.send_unexpected(theirs_too, p.to_b, 1, buffer.first(1), f),  // NOLINT
            Status::invalid_arg, "moved");
    CHECK(never.calls == 0);

    Outcome receiving;
    REQUIRE(context.recv_unexpected(op, buffer, receiving.on_message()));
    CHECK(context.recv_unexpected(op, buffer, receiving.on_message()).status() == Status::busy);
    CHECK_THAT(context.recv_unexpected(op, buffer, receiving.on_message()).error().text(),
               Catch::Contains("busy"));
    context.cancel(op);
    REQUIRE(p.until([&] { return receiving.done(); }));
    CHECK(receiving.calls == 1);
    CHECK(receiving.status == Status::canceled);
}

TEST_CASE("a message longer than its receive", "[cxx][messages]") {
    Pair p;
    const na::Buffer out = p.a.domain.make_buffer(64).value();
    const na::Buffer in = p.b.domain.make_buffer(16).value();
    na::Operation send(p.a.context), recv(p.b.context);
    Outcome sending, receiving;
    REQUIRE(p.b.context.recv_unexpected(recv, in, receiving.on_message()));
    REQUIRE(p.a.context.send_unexpected(send, p.to_b, 1, out.first(64), sending.on_status()));
    REQUIRE(p.until([&] { return receiving.done(); }));
    CHECK(receiving.status == Status::msgsize);
    CHECK(receiving.data.empty());
    REQUIRE(p.until([&] { return sending.done(); }));
}
