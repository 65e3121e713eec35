// SPDX-License-Identifier: BSD-3-Clause
// Cancel in every state of an operation: exactly one callback, and the operation serves again.
#include "common.hpp"

using namespace na_test;

TEST_CASE("a posted receive can be canceled", "[cancel]") {
    const bool expected = GENERATE(false, true);
    Pair p;
    Buffer in(p.b);
    Op recv(p.b);
    for (int i = 0; i < 10; ++i) {
        REQUIRE((expected ? recv.recv_expected(in, p.to_a, 1) : recv.recv_unexpected(in)) ==
                NA_SUCCESS);
        REQUIRE(recv.cancel() == NA_SUCCESS);
        REQUIRE(recv.cancel() == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { p.pump(); }));
        settle([&] { p.pump(); }, 5);
        CHECK(recv.ret() == NA_CANCELED);
        CHECK(recv.result().source.get() == nullptr);
        CHECK(recv.result().type == (expected ? NA_CB_RECV_EXPECTED : NA_CB_RECV_UNEXPECTED));
        recv.reset();
    }
    // Messages go to whoever is posted afterwards.
    Buffer out(p.a);
    Op send(p.a);
    REQUIRE((expected ? recv.recv_expected(in, p.to_a, 1) : recv.recv_unexpected(in)) ==
            NA_SUCCESS);
    const std::size_t total = fill_message(p.a, out, 33, 3, expected);
    REQUIRE((expected ? send.send_expected(out, total, p.to_b, 1)
                      : send.send_unexpected(out, total, p.to_b, 1)) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
}

TEST_CASE("one of several receives can be canceled", "[cancel]") {
    Pair p;
    Buffer out(p.a);
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recv;
    for (int i = 0; i < 5; ++i) {
        in.push_back(std::make_unique<Buffer>(p.b));
        recv.push_back(std::make_unique<Op>(p.b));
        REQUIRE(recv.back()->recv_unexpected(*in.back()) == NA_SUCCESS);
    }
    REQUIRE(recv[2]->cancel() == NA_SUCCESS);
    REQUIRE(recv[0]->cancel() == NA_SUCCESS);
    std::vector<std::unique_ptr<Op>> send;
    const std::size_t total = fill_message(p.a, out, 10, 1);
    for (unsigned i = 0; i < 3; ++i) {
        send.push_back(std::make_unique<Op>(p.a));
        REQUIRE(send.back()->send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
    }
    REQUIRE(until([&] { return recv[4]->done() && recv[0]->done() && recv[2]->done(); },
                  [&] { p.pump(); }));
    CHECK(recv[0]->ret() == NA_CANCELED);
    CHECK(recv[2]->ret() == NA_CANCELED);
    CHECK(recv[1]->result().tag == 0);
    CHECK(recv[3]->result().tag == 1);
    CHECK(recv[4]->result().tag == 2);
    REQUIRE(until([&] { return send[0]->done() && send[1]->done() && send[2]->done(); },
                  [&] { p.pump(); }));
}

TEST_CASE("what has completed is left alone", "[cancel]") {
    Pair p;
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    CHECK(send.cancel() == NA_SUCCESS);  // never posted
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, 1), p.to_b, 2) == NA_SUCCESS);
    // Completed, not triggered.
    REQUIRE(until([&] { return NA_Context_get_completion_count(p.b.context()) == 1; },
                  [&] {
                      p.a.pump();
                      NA_Poll(p.b.cls(), p.b.context(), nullptr);
                  }));
    CHECK(recv.cancel() == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
    // Triggered.
    CHECK(recv.cancel() == NA_SUCCESS);
    CHECK(send.cancel() == NA_SUCCESS);
    settle([&] { p.pump(); });
    CHECK(recv.count() == 1);
    CHECK(send.count() == 1);
}

TEST_CASE("sends that wait for room can be canceled, and then do not arrive",
          "[cancel][backpressure]") {
    Pair p;
    const std::size_t payload = GENERATE(64, 3000);
    const unsigned count = 1200;
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, payload, 1);
    std::vector<std::unique_ptr<Op>> ops;
    for (unsigned i = 0; i < count; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
    }
    settle([&] { p.a.pump(); }, 20);
    for (unsigned i = 0; i < count; i += 3) {
        REQUIRE(ops[i]->cancel() == NA_SUCCESS);
    }
    std::vector<na_tag_t> arrived;
    Buffer in(p.b);
    Op recv(p.b);
    recv.on_result = [&](Op& op, const Result& r) {
        if (r.ret == NA_SUCCESS) {
            arrived.push_back(r.tag);
            REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    std::vector<na_tag_t> sent;
    unsigned canceled = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (ops[i]->ret() == NA_SUCCESS) {
            sent.push_back(i);
        } else {
            CHECK(ops[i]->ret() == NA_CANCELED);
            CHECK(i % 3 == 0);
            ++canceled;
        }
    }
    CHECK(canceled > 0);
    REQUIRE(until([&] { return arrived.size() >= sent.size(); }, [&] { p.pump(); }));
    settle([&] { p.pump(); });
    CHECK(arrived == sent);
}

TEST_CASE("a canceled send does not arrive, one that arrives was not canceled", "[cancel]") {
    Pair p;
    const std::size_t payload = GENERATE(64, 3000);
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    const std::size_t total = fill_message(p.a, out, payload, 1);
    unsigned arrived = 0;
    unsigned sent = 0;
    recv.on_result = [&](Op& op, const Result& r) {
        if (r.ret == NA_SUCCESS) {
            ++arrived;
            REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    for (unsigned i = 0; i < 100; ++i) {
        REQUIRE(send.send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
        if (i != 0) {  // the first one waits for the connection
            REQUIRE(send.cancel() == NA_SUCCESS);
        }
        REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
        sent += send.ret() == NA_SUCCESS ? 1 : 0;
        send.reset();
    }
    REQUIRE(until([&] { return arrived >= sent; }, [&] { p.pump(); }));
    settle([&] { p.pump(); });
    CHECK(arrived == sent);
}

TEST_CASE("transfers end once when canceled", "[cancel]") {
    Pair p;
    std::vector<std::byte> here(1 << 20);
    std::vector<std::byte> there(1 << 20);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    for (int i = 0; i < 10; ++i) {
        Op op(p.a);
        const na_return_t posted = i % 2 == 0 ? op.put(local, 0, remote, 0, here.size(), p.to_b)
                                              : op.get(local, 0, remote, 0, here.size(), p.to_b);
        REQUIRE(posted == NA_SUCCESS);
        REQUIRE(op.cancel() == NA_SUCCESS);
        REQUIRE(until([&] { return op.done(); }, [&] { p.pump(); }));
        settle([&] { p.pump(); }, 5);
        CHECK((op.ret() == NA_CANCELED || op.ret() == NA_SUCCESS));
    }
}

TEST_CASE("an operation is canceled on the context that it was posted on", "[cancel]") {
    Endpoint::Settings two;
    two.contexts = 2;
    Endpoint e(two);
    Buffer in(e);
    Op recv(e);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    const Quiet quiet;
    CHECK(NA_Cancel(e.cls(), e.context(1), recv.id()) == NA_INVALID_ARG);
    e.pump();
    CHECK_FALSE(recv.done());
    CHECK(recv.cancel() == NA_SUCCESS);
    REQUIRE(until([&] { return recv.done(); }, [&] { e.pump(); }));
    CHECK(recv.ret() == NA_CANCELED);
}

TEST_CASE("cancels race with arrivals and lose or win, never both", "[cancel]") {
    Pair p;
    support::Random random(options().seed);
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    unsigned sent = 0;
    unsigned received = 0;
    std::vector<na_tag_t> tags;
    for (int i = 0; i < 400; ++i) {
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        if (random.below(2) == 0) {
            send.reset();
            const std::size_t total = fill_message(p.a, out, random.below(2000), sent);
            REQUIRE(send.send_unexpected(out, total, p.to_b, sent) == NA_SUCCESS);
            ++sent;
        }
        for (std::uint64_t n = random.below(4); n != 0; --n) {
            p.pump();
        }
        REQUIRE(recv.cancel() == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { p.pump(); }));
        if (recv.ret() == NA_SUCCESS) {
            tags.push_back(recv.result().tag);
            ++received;
        } else {
            CHECK(recv.ret() == NA_CANCELED);
        }
        recv.reset();
        // The send's buffer is one for all.
        REQUIRE(until([&] { return sent == 0 || send.done(); }, [&] { p.pump(); }));
    }
    while (received < sent) {
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(until([&] { return recv.done(); }, [&] { p.pump(); }));
        REQUIRE(recv.ret() == NA_SUCCESS);
        tags.push_back(recv.result().tag);
        ++received;
        recv.reset();
    }
    for (unsigned i = 0; i < tags.size(); ++i) {
        CHECK(tags[i] == i);
    }
}
