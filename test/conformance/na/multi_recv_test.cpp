// SPDX-License-Identifier: BSD-3-Clause
// Many unexpected messages into one buffer.
#include "common.hpp"

using namespace na_test;

namespace {

bool supported(Endpoint& e) {
    if (!NA_Has_opt_feature(e.cls(), NA_OPT_MULTI_RECV)) {
        support::skip("no multi-receive");
        return false;
    }
    return true;
}

}  // namespace

TEST_CASE("messages of a multi-receive lie in the buffer, in order", "[multi_recv]") {
    Pair p;
    if (!supported(p.b)) {
        return;
    }
    const std::size_t slots = GENERATE(1, 2, 16);
    const unsigned count = 200;
    Buffer in(p.b, slots * p.b.max_message(), NA_MULTI_RECV);
    Op recv(p.b, NA_OP_MULTI);
    Buffer out(p.a);
    Op send(p.a);
    support::Random random(options().seed);
    unsigned received = 0;
    std::byte* previous_end = in.data();
    recv.on_result = [&](Op& op, const Result& r) {
        REQUIRE(r.ret == NA_SUCCESS);
        CHECK(r.type == NA_CB_MULTI_RECV_UNEXPECTED);
        CHECK(r.tag == received);
        auto* data = static_cast<std::byte*>(r.data);
        CHECK(data >= previous_end);
        CHECK(data + r.size <= in.data() + in.size());
        CHECK(holds(p.b, data, r.size, received));
        CHECK(NA_Addr_cmp(p.b.cls(), r.source, p.to_a));
        previous_end = data + r.size;
        ++received;
        if (r.last) {
            previous_end = in.data();
            REQUIRE(op.multi_recv(in, in.size()) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.multi_recv(in, in.size()) == NA_SUCCESS);
    const Quiet quiet;
    CHECK(recv.multi_recv(in, in.size()) == NA_BUSY);
    for (unsigned i = 0; i < count; ++i) {
        const std::size_t total =
            fill_message(p.a, out, random.below(p.a.max_message() - p.a.header() + 1), i);
        send.reset();
        REQUIRE(send.send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && received == i + 1; }, [&] { p.pump(); }));
    }
    CHECK(received == count);
}

TEST_CASE("a multi-receive whose callbacks wait loses nothing", "[multi_recv]") {
    Pair p;
    if (!supported(p.b)) {
        return;
    }
    // More messages than records: the rest has to wait for callbacks, and then come without another
    // message.
    const unsigned count = 1000;
    Buffer in(p.b, 64 * p.b.max_message(), NA_MULTI_RECV);
    Op recv(p.b, NA_OP_MULTI);
    std::vector<na_tag_t> tags;
    bool intact = true;
    recv.on_result = [&](Op& op, const Result& r) {
        REQUIRE(r.ret == NA_SUCCESS);
        tags.push_back(r.tag);
        intact = intact && holds(p.b, r.data, r.size, r.tag);
        if (r.last) {
            REQUIRE(op.multi_recv(in, in.size()) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.multi_recv(in, in.size()) == NA_SUCCESS);
    std::vector<std::unique_ptr<Op>> ops;
    std::vector<std::unique_ptr<Buffer>> out;
    for (unsigned i = 0; i < count; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        out.push_back(std::make_unique<Buffer>(p.a, p.a.header() + 8));
        REQUIRE(ops.back()->send_unexpected(*out.back(), fill_message(p.a, *out.back(), 8, i),
                                            p.to_b, i) == NA_SUCCESS);
    }
    // No trigger at the receiver meanwhile.
    settle(
        [&] {
            p.a.pump();
            NA_Poll(p.b.cls(), p.b.context(), nullptr);
        },
        500);
    CHECK(tags.empty());
    REQUIRE(until([&] { return tags.size() == count; }, [&] { p.pump(); }));
    for (unsigned i = 0; i < count; ++i) {
        CHECK(tags[i] == i);
    }
    CHECK(intact);
    REQUIRE(until([&] { return ops.back()->done(); }, [&] { p.pump(); }));
}

TEST_CASE("a multi-receive can be canceled", "[multi_recv][cancel]") {
    Pair p;
    if (!supported(p.b)) {
        return;
    }
    Buffer in(p.b, 8 * p.b.max_message(), NA_MULTI_RECV);
    Op recv(p.b, NA_OP_MULTI);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(recv.multi_recv(in, in.size()) == NA_SUCCESS);
        REQUIRE(recv.cancel() == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { p.pump(); }));
        CHECK(recv.ret() == NA_CANCELED);
        CHECK(recv.result().last);
        recv.reset();
    }
    // After some messages: the last callback says so.
    Buffer out(p.a);
    Op send(p.a);
    REQUIRE(recv.multi_recv(in, in.size()) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, 1), p.to_b, 1) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK_FALSE(recv.results().back().last);
    REQUIRE(recv.cancel() == NA_SUCCESS);
    REQUIRE(until([&] { return recv.results().back().last; }, [&] { p.pump(); }));
    CHECK(recv.count() == 2);
    CHECK(recv.results().back().ret == NA_CANCELED);
}

TEST_CASE("multi-receives that cannot be are refused", "[multi_recv]") {
    Endpoint e;
    if (!supported(e)) {
        return;
    }
    const Quiet quiet;
    Buffer in(e, e.max_message(), NA_MULTI_RECV);
    Op single(e);
    Op multi(e, NA_OP_MULTI);
    CHECK(single.multi_recv(in, in.size()) == NA_INVALID_ARG);
    CHECK(multi.multi_recv(in, in.size() - 1) == NA_INVALID_ARG);
    CHECK(multi.multi_recv(in, 0) == NA_INVALID_ARG);
    REQUIRE(multi.multi_recv(in, in.size()) == NA_SUCCESS);
}

TEST_CASE("single and multi receives take turns", "[multi_recv]") {
    Pair p;
    if (!supported(p.b)) {
        return;
    }
    Buffer many(p.b, 2 * p.b.max_message(), NA_MULTI_RECV);
    Buffer one(p.b);
    Op multi(p.b, NA_OP_MULTI);
    Op single(p.b);
    REQUIRE(single.recv_unexpected(one) == NA_SUCCESS);
    REQUIRE(multi.multi_recv(many, many.size()) == NA_SUCCESS);
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 10, 1);
    for (unsigned i = 0; i < 3; ++i) {
        Op send(p.a);
        REQUIRE(send.send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && single.count() + multi.count() == i + 1; },
                      [&] { p.pump(); }));
    }
    CHECK(single.result().tag == 0);
    CHECK(multi.count() == 2);
}
