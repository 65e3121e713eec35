// SPDX-License-Identifier: BSD-3-Clause
// Unexpected and expected messages, to others and to oneself: contents, sizes, tags, sources, what
// does not fit.
#include "common.hpp"

using namespace na_test;

namespace {

// Payload sizes around whatever a transport may treat apart.
std::vector<std::size_t> sizes(std::size_t most) {
    std::vector<std::size_t> all = {0,   1,   7,    8,    40,   60,   61,   120, 121,
                                    255, 256, 1000, 1023, 1024, 1025, 2048, 4000};
    std::erase_if(all, [&](std::size_t s) { return s > most; });
    all.push_back(most - 1);
    all.push_back(most);
    return all;
}

struct Lanes {
    bool expected;
    na_return_t send(Op& op, const Buffer& b, std::size_t size, na_addr_t* to, na_tag_t tag) const {
        return expected ? op.send_expected(b, size, to, tag) : op.send_unexpected(b, size, to, tag);
    }
    na_return_t recv(Op& op, const Buffer& b, std::size_t size, na_addr_t* from,
                     na_tag_t tag) const {
        return expected ? op.recv_expected(b, size, from, tag) : op.recv_unexpected(b, size);
    }
};

}  // namespace

TEST_CASE("messages arrive whole, with tag and source", "[unexpected][expected]") {
    const Lanes lane{GENERATE(false, true)};
    const bool receive_first = GENERATE(true, false);
    Pair p;
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    na_tag_t tag = 0;
    for (const std::size_t size :
         sizes(p.a.max_message(lane.expected) - p.a.header(lane.expected))) {
        INFO("payload " << size);
        tag = tag * 5 + 3;
        const std::size_t total = fill_message(p.a, out, size, tag, lane.expected);
        if (receive_first) {
            REQUIRE(lane.recv(recv, in, in.size(), p.to_a, tag) == NA_SUCCESS);
        }
        REQUIRE(lane.send(send, out, total, p.to_b, tag) == NA_SUCCESS);
        if (!receive_first) {
            settle([&] { p.pump(); }, 10);
            REQUIRE(lane.recv(recv, in, in.size(), p.to_a, tag) == NA_SUCCESS);
        }
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
        CHECK(send.ret() == NA_SUCCESS);
        CHECK(send.result().type == (lane.expected ? NA_CB_SEND_EXPECTED : NA_CB_SEND_UNEXPECTED));
        const Result& r = recv.result();
        CHECK(r.ret == NA_SUCCESS);
        CHECK(r.type == (lane.expected ? NA_CB_RECV_EXPECTED : NA_CB_RECV_UNEXPECTED));
        CHECK(r.size == total);
        CHECK(holds(p.b, in.data(), r.size, tag, lane.expected));
        if (!lane.expected) {
            CHECK(r.tag == tag);
            CHECK(NA_Addr_cmp(p.b.cls(), r.source, p.to_a));
            CHECK(support::to_string(p.b, r.source) == p.a.uri());
        }
        send.reset();
        recv.reset();
    }
}

TEST_CASE("the buffer may be reused when the send has completed", "[unexpected]") {
    Pair p;
    const std::size_t size = p.a.max_message();
    Buffer out(p.a);
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recv;
    Op send(p.a);
    for (unsigned i = 0; i < 20; ++i) {
        fill_message(p.a, out, size - p.a.header(), i);
        REQUIRE(send.send_unexpected(out, size, p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
        send.reset();
        std::memset(out.data() + p.a.header(), 0xee, size - p.a.header());
    }
    for (unsigned i = 0; i < 20; ++i) {
        in.push_back(std::make_unique<Buffer>(p.b));
        recv.push_back(std::make_unique<Op>(p.b));
        REQUIRE(recv.back()->recv_unexpected(*in.back()) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.back()->done(); }, [&] { p.pump(); }));
        CHECK(recv.back()->result().tag == i);
        CHECK(holds(p.b, in.back()->data(), size, i));
    }
}

TEST_CASE("a message that does not fit its receive says so", "[unexpected][expected]") {
    const Lanes lane{GENERATE(false, true)};
    const bool receive_first = GENERATE(true, false);
    Pair p;
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    const std::size_t header = p.a.header(lane.expected);
    const std::size_t total = fill_message(p.a, out, 600, 9, lane.expected);
    std::memset(in.data(), 0x77, in.size());
    if (receive_first) {
        REQUIRE(lane.recv(recv, in, header + 599, p.to_a, 4) == NA_SUCCESS);
    }
    REQUIRE(lane.send(send, out, total, p.to_b, 4) == NA_SUCCESS);
    if (!receive_first) {
        settle([&] { p.pump(); }, 20);
        REQUIRE(lane.recv(recv, in, header + 599, p.to_a, 4) == NA_SUCCESS);
    }
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(send.ret() == NA_SUCCESS);
    CHECK(recv.ret() == NA_MSGSIZE);
    CHECK(recv.result().size == 0);
    CHECK(recv.result().source.get() == nullptr);
    CHECK(in.data()[header + 599] == std::byte{0x77});
    // The next one is not harmed.
    send.reset();
    recv.reset();
    REQUIRE(lane.recv(recv, in, in.size(), p.to_a, 4) == NA_SUCCESS);
    REQUIRE(lane.send(send, out, total, p.to_b, 4) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
    CHECK(holds(p.b, in.data(), recv.result().size, 9, lane.expected));
}

TEST_CASE("unexpected receives take messages in the order in which they were posted",
          "[unexpected]") {
    Pair p;
    constexpr unsigned kCount = 30;
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 50, 1);
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recv;
    std::vector<std::unique_ptr<Op>> send;
    for (unsigned i = 0; i < kCount; ++i) {
        in.push_back(std::make_unique<Buffer>(p.b));
        recv.push_back(std::make_unique<Op>(p.b));
        REQUIRE(recv.back()->recv_unexpected(*in.back()) == NA_SUCCESS);
    }
    for (unsigned i = 0; i < kCount; ++i) {
        send.push_back(std::make_unique<Op>(p.a));
        REQUIRE(send.back()->send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
    }
    REQUIRE(until([&] { return recv.back()->done(); }, [&] { p.pump(); }));
    for (unsigned i = 0; i < kCount; ++i) {
        CHECK(recv[i]->result().tag == i);
    }
    REQUIRE(until([&] { return send.back()->done(); }, [&] { p.pump(); }));
}

TEST_CASE("expected receives are matched by source and tag", "[expected]") {
    Pair p;
    Endpoint c;
    Addr c_to_b(c, p.b.uri());
    Addr b_to_c(p.b, c.uri());
    Buffer from_a(p.a);
    Buffer from_c(c);
    constexpr na_tag_t kTags[] = {7, 0, 0xffffffff, 8, 0x80000000};
    struct Case {
        bool by_c;
        na_tag_t tag;
        std::unique_ptr<Buffer> in;
        std::unique_ptr<Op> recv;
        std::unique_ptr<Op> send;
        std::unique_ptr<Buffer> out;
    };
    std::vector<Case> cases;
    for (const na_tag_t tag : kTags) {
        for (const bool by_c : {false, true}) {
            cases.push_back({by_c, tag, std::make_unique<Buffer>(p.b), std::make_unique<Op>(p.b),
                             std::make_unique<Op>(by_c ? c : p.a),
                             std::make_unique<Buffer>(by_c ? c : p.a)});
        }
    }
    for (Case& t : cases) {
        REQUIRE(t.recv->recv_expected(*t.in, t.by_c ? b_to_c : p.to_a, t.tag) == NA_SUCCESS);
    }
    for (auto t = cases.rbegin(); t != cases.rend(); ++t) {
        Endpoint& from = t->by_c ? c : p.a;
        const std::size_t total =
            fill_message(from, *t->out, 200, t->tag + (t->by_c ? 1000 : 0), true);
        REQUIRE(t->send->send_expected(*t->out, total, t->by_c ? c_to_b : p.to_b, t->tag) ==
                NA_SUCCESS);
    }
    for (Case& t : cases) {
        REQUIRE(until([&] { return t.recv->done() && t.send->done(); }, [&] { p.pump(); },
                      [&] { c.pump(); }));
        CHECK(t.recv->ret() == NA_SUCCESS);
        CHECK(holds(p.b, t.in->data(), t.recv->result().size, t.tag + (t.by_c ? 1000 : 0), true));
    }
}

TEST_CASE("expected and unexpected messages do not mix", "[expected][unexpected]") {
    Pair p;
    Buffer out(p.a);
    Buffer in_expected(p.b);
    Buffer in_unexpected(p.b);
    Op send_u(p.a);
    Op send_e(p.a);
    Op recv_u(p.b);
    Op recv_e(p.b);
    REQUIRE(recv_u.recv_unexpected(in_unexpected) == NA_SUCCESS);
    REQUIRE(recv_e.recv_expected(in_expected, p.to_a, 3) == NA_SUCCESS);
    const std::size_t total = fill_message(p.a, out, 64, 11, true);
    REQUIRE(send_e.send_expected(out, total, p.to_b, 3) == NA_SUCCESS);
    REQUIRE(until([&] { return recv_e.done() && send_e.done(); }, [&] { p.pump(); }));
    settle([&] { p.pump(); });
    CHECK_FALSE(recv_u.done());
    REQUIRE(send_u.send_unexpected(out, total, p.to_b, 3) == NA_SUCCESS);
    REQUIRE(until([&] { return recv_u.done() && send_u.done(); }, [&] { p.pump(); }));
    CHECK(recv_u.result().tag == 3);
}

TEST_CASE("expected messages are the user's from their first byte", "[expected]") {
    Endpoint::Settings settings;
    settings.init.max_expected_size = GENERATE(0, 1000);
    Endpoint a(settings), b(settings);
    Addr to_a(b, a.uri()), to_b(a, b.uri());
    CHECK(NA_Msg_get_expected_header_size(a.cls()) == 0);
    const std::size_t most = a.max_message(true);
    if (settings.init.max_expected_size != 0) {
        CHECK(most == settings.init.max_expected_size);
    }
    const auto pump = [&] {
        a.pump();
        b.pump();
    };
    // Out of the middle of a buffer, and into the middle of another.
    constexpr std::size_t kBefore = 8;
    Buffer out(a, most + 2 * kBefore), in(b, most + 2 * kBefore);
    Op send(a), recv(b);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, most}) {
        INFO("message of " << size);
        const std::vector<std::byte> data = support::payload(out.size(), size + 1);
        std::copy(data.begin(), data.end(), out.data());
        std::fill(in.data(), in.data() + in.size(), std::byte{0});
        send.reset();
        recv.reset();
        na_op_id_t* receive = NA_Op_create(b.cls(), NA_OP_SINGLE);
        struct Got {
            bool done = false;
            na_return_t ret = NA_RETURN_MAX;
            std::size_t size = 0;
        } got;
        REQUIRE(NA_Msg_recv_expected(
                    b.cls(), b.context(),
                    [](const na_cb_info* info) {
                        *static_cast<Got*>(info->arg) = {true, info->ret,
                                                         info->info.recv_expected.actual_buf_size};
                    },
                    &got, in.data() + kBefore, most, in.plugin_data(), to_a, 0, 3,
                    receive) == NA_SUCCESS);
        na_op_id_t* sending = NA_Op_create(a.cls(), NA_OP_SINGLE);
        bool sent = false;
        REQUIRE(NA_Msg_send_expected(
                    a.cls(), a.context(),
                    [](const na_cb_info* info) {
                        CHECK(info->ret == NA_SUCCESS);
                        *static_cast<bool*>(info->arg) = true;
                    },
                    &sent, out.data() + kBefore, size, out.plugin_data(), to_b, 0, 3,
                    sending) == NA_SUCCESS);
        REQUIRE(until([&] { return got.done && sent; }, pump));
        CHECK(got.ret == NA_SUCCESS);
        CHECK(got.size == size);
        CHECK(std::equal(data.begin(), data.end(), out.data()));  // not written to
        CHECK(std::equal(data.begin() + kBefore,
                         data.begin() + kBefore + static_cast<std::ptrdiff_t>(size),
                         in.data() + kBefore));
        CHECK(std::all_of(in.data(), in.data() + kBefore,
                          [](std::byte byte) { return byte == std::byte{0}; }));
        CHECK(std::all_of(in.data() + kBefore + size, in.data() + in.size(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
        NA_Op_destroy(a.cls(), sending);
        NA_Op_destroy(b.cls(), receive);
    }
    const Quiet quiet;
    CHECK(send.send_expected(out, most + 1, to_b, 3) == NA_OVERFLOW);
    {
        // What could not be posted is forgotten: the operation's next use is another.
        std::vector<std::byte> stale(64);
        Op op(b), other(a);
        na_op_id_t* id = op.id();
        const auto nothing = [](const na_cb_info*) {};
        CHECK(NA_Msg_recv_expected(b.cls(), b.context(), nothing, nullptr, stale.data(),
                                   stale.size(), nullptr, to_b, 0, 3, id) == NA_INVALID_ARG);
        REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        const std::size_t total = fill_message(a, out, 100, 5);
        REQUIRE(other.send_unexpected(out, total, to_b, 3) == NA_SUCCESS);
        REQUIRE(until([&] { return op.done() && other.done(); }, pump));
        CHECK(op.ret() == NA_SUCCESS);
        CHECK(holds(b, in.data(), op.result().size, 5));
        CHECK(std::all_of(stale.begin(), stale.end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
    }
    // What is shorter than the message is told so, as ever.
    Buffer little(b, 10);
    Op short_recv(b), long_send(a);
    REQUIRE(short_recv.recv_expected(little, 10, to_a, 4) == NA_SUCCESS);
    REQUIRE(long_send.send_expected(out, 50, to_b, 4) == NA_SUCCESS);
    REQUIRE(until([&] { return short_recv.done() && long_send.done(); }, pump));
    CHECK(short_recv.ret() == NA_MSGSIZE);
}

TEST_CASE("a peer can be answered by the address that its message brought", "[unexpected]") {
    Endpoint::Settings client_settings;
    client_settings.listen = false;
    Endpoint client(client_settings);
    Endpoint server;
    Addr to_server(client, server.uri());
    Buffer request(client);
    Buffer request_in(server);
    Buffer answer(server);
    Buffer answer_in(client);
    Op send(client);
    Op recv_answer(client);
    Op recv(server);
    Op send_answer(server);
    const auto pump = [&] {
        client.pump();
        server.pump();
    };
    for (na_tag_t tag = 0; tag < 20; ++tag) {
        REQUIRE(recv.recv_unexpected(request_in) == NA_SUCCESS);
        REQUIRE(recv_answer.recv_expected(answer_in, to_server, tag) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(request, fill_message(client, request, 30, tag), to_server,
                                     tag) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, pump));
        REQUIRE(recv.ret() == NA_SUCCESS);
        const std::size_t total = fill_message(server, answer, 30, tag + 100, true);
        REQUIRE(send_answer.send_expected(answer, total, recv.result().source, recv.result().tag) ==
                NA_SUCCESS);
        recv.reset();  // frees the source while the answer may be on its way
        REQUIRE(
            until([&] { return recv_answer.done() && send.done() && send_answer.done(); }, pump));
        CHECK(recv_answer.ret() == NA_SUCCESS);
        CHECK(holds(client, answer_in.data(), recv_answer.result().size, tag + 100, true));
        recv_answer.reset();
        send.reset();
        send_answer.reset();
    }
}

TEST_CASE("messages to oneself arrive", "[self]") {
    Endpoint e;
    Addr self(e, e.uri());
    Buffer out(e);
    Buffer in(e);
    Buffer in_expected(e);
    Op send(e);
    Op send_expected(e);
    Op recv(e);
    Op recv_expected(e);
    for (const std::size_t payload :
         sizes(std::min(e.max_message(false), e.max_message(true)) - e.header(false))) {
        INFO("payload " << payload);
        const std::size_t total = fill_message(e, out, payload, payload);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(recv_expected.recv_expected(in_expected, self, 6) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(out, total, self, 5) == NA_SUCCESS);
        REQUIRE(send_expected.send_expected(out, total, self, 6) == NA_SUCCESS);
        REQUIRE(until(
            [&] {
                return recv.done() && recv_expected.done() && send.done() && send_expected.done();
            },
            [&] { e.pump(); }));
        CHECK(recv.ret() == NA_SUCCESS);
        CHECK(recv.result().tag == 5);
        CHECK(NA_Addr_is_self(e.cls(), recv.result().source));
        CHECK(holds(e, in.data(), recv.result().size, payload));
        CHECK(recv_expected.result().size == total);
        recv.reset();
        recv_expected.reset();
        send.reset();
        send_expected.reset();
    }
}

TEST_CASE("transfers with oneself work", "[self]") {
    Endpoint e;
    Addr self(e, e.uri());
    std::vector<std::byte> here = support::payload(5000, 1);
    std::vector<std::byte> there(5000);
    Mem local(e, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(e, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(e, target.serialize());
    Op op(e);
    REQUIRE(op.put(local, 0, remote, 0, 5000, self) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { e.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
    CHECK(there == here);
    op.reset();
    support::fill(there, 2);
    REQUIRE(op.get(local, 10, remote, 20, 30, self) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { e.pump(); }));
    CHECK(std::memcmp(here.data() + 10, there.data() + 20, 30) == 0);
    // Its own handle, as nobody has to be told of it.
    op.reset();
    support::fill(here, 3);
    REQUIRE(op.put(local, 100, target, 200, 4800, self) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { e.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
    CHECK(std::memcmp(there.data() + 200, here.data() + 100, 4800) == 0);
    op.reset();
    support::fill(there, 4);
    REQUIRE(op.get(local, 1, target, 2, 4000, self) == NA_SUCCESS);
    REQUIRE(until([&] { return op.done(); }, [&] { e.pump(); }));
    CHECK(op.ret() == NA_SUCCESS);
    CHECK(std::memcmp(here.data() + 1, there.data() + 2, 4000) == 0);
}
