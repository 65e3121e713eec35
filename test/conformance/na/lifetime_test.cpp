// SPDX-License-Identifier: BSD-3-Clause
// What may be destroyed when, and what answers NA_BUSY until then; many classes; operations used
// again and again.
#include "common.hpp"
#include "support/child.hpp"

using namespace na_test;

TEST_CASE("a child that closes what it has inherited takes nothing from its parent", "[lifetime]") {
    Pair p;
    std::vector<std::byte> here(5000);
    std::vector<std::byte> there(5000);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    const auto move = [&](std::uint64_t seed) {
        support::fill(here.data(), here.size(), seed);
        Op put(p.a);
        REQUIRE(put.put(local, 0, remote, 0, here.size(), p.to_b) == NA_SUCCESS);
        REQUIRE(until([&] { return put.done(); }, [&] { p.pump(); }));
        CHECK(put.ret() == NA_SUCCESS);
        CHECK(here == there);
    };
    move(1);
    CHECK(support::in_child([&] {
              NA_Mem_handle_free(p.a.cls(), local);
              NA_Mem_handle_free(p.a.cls(), remote);
              NA_Mem_handle_free(p.b.cls(), target);
              NA_Addr_free(p.a.cls(), p.to_b);
              int failures = 0;
              for (Endpoint* e : {&p.a, &p.b}) {
                  failures += NA_Context_destroy(e->cls(), e->context()) == NA_SUCCESS ? 0 : 1;
                  failures += NA_Finalize(e->cls()) == NA_SUCCESS ? 0 : 1;
              }
              return failures;
          }) == 0);
    for (std::uint64_t seed = 2; seed < 10; ++seed) {
        move(seed);
    }
}

TEST_CASE("a class with contexts, addresses or memory stays open", "[lifetime]") {
    // First, as the port of a class that has no context is free for others.
    Endpoint other;
    na_class_t* cls = NA_Initialize(options().protocol.c_str(), true);
    REQUIRE(cls != nullptr);
    const Quiet quiet;
    na_context_t* context = NA_Context_create(cls);
    REQUIRE(context != nullptr);
    CHECK(NA_Finalize(cls) == NA_BUSY);
    CHECK(std::string(NA_Get_last_error()).find("context") != std::string::npos);
    CHECK(NA_Context_destroy(cls, context) == NA_SUCCESS);

    na_addr_t* self = nullptr;
    REQUIRE(NA_Addr_self(cls, &self) == NA_SUCCESS);
    char text[300];
    std::size_t size = sizeof text;
    REQUIRE(NA_Addr_to_string(cls, text, &size, self) == NA_SUCCESS);
    // Oneself is no reason: the class holds it anyway. Another one is.
    NA_Addr_free(cls, self);
    na_addr_t* addr = nullptr;
    REQUIRE(NA_Addr_lookup(cls, other.uri().c_str(), &addr) == NA_SUCCESS);
    CHECK(NA_Finalize(cls) == NA_BUSY);
    CHECK(std::string(NA_Get_last_error()).find("address") != std::string::npos);
    NA_Addr_free(cls, addr);
    char memory[16];
    na_mem_handle_t* handle = nullptr;
    REQUIRE(NA_Mem_handle_create(cls, memory, sizeof memory, NA_MEM_READWRITE, &handle) ==
            NA_SUCCESS);
    CHECK(NA_Finalize(cls) == NA_BUSY);
    CHECK(std::string(NA_Get_last_error()).find("memory") != std::string::npos);
    NA_Mem_handle_free(cls, handle);
    CHECK(NA_Finalize(cls) == NA_SUCCESS);
    CHECK(NA_Finalize(nullptr) == NA_SUCCESS);
}

TEST_CASE("a context with receives or completions stays open", "[lifetime]") {
    const bool expected = GENERATE(false, true);
    Pair p;
    Buffer in(p.b);
    Op recv(p.b);
    const Quiet quiet;
    REQUIRE((expected ? recv.recv_expected(in, p.to_a, 1) : recv.recv_unexpected(in)) ==
            NA_SUCCESS);
    CHECK(NA_Context_destroy(p.b.cls(), p.b.context()) == NA_BUSY);
    REQUIRE(recv.cancel() == NA_SUCCESS);
    REQUIRE(until([&] { return NA_Context_get_completion_count(p.b.context()) == 1; },
                  [&] { NA_Poll(p.b.cls(), p.b.context(), nullptr); }));
    CHECK(NA_Context_destroy(p.b.cls(), p.b.context()) == NA_BUSY);
    p.b.pump();
    CHECK(recv.ret() == NA_CANCELED);
    CHECK(NA_Context_destroy(p.b.cls(), nullptr) == NA_SUCCESS);
    CHECK(NA_Context_destroy(p.a.cls(), p.b.context()) == NA_INVALID_ARG);  // of another class
}

TEST_CASE("a receive whose operation is destroyed is taken back", "[lifetime]") {
    enum class Kind { unexpected, expected, multi };
    const auto kind = GENERATE(Kind::unexpected, Kind::expected, Kind::multi);
    Pair p;
    if (kind == Kind::multi && !NA_Has_opt_feature(p.b.cls(), NA_OPT_MULTI_RECV)) {
        return;
    }
    Buffer in(p.b, 2 * p.b.max_message(), kind == Kind::multi ? NA_MULTI_RECV : 0);
    support::fill(in.data(), in.size(), 1);
    const std::vector<std::byte> before(in.data(), in.data() + in.size());
    unsigned called = 0;
    const auto callback = [](const na_cb_info* info) { ++*static_cast<unsigned*>(info->arg); };
    na_op_id_t* op = NA_Op_create(p.b.cls(), kind == Kind::multi ? NA_OP_MULTI : NA_OP_SINGLE);
    REQUIRE(op != nullptr);
    const std::size_t size = kind == Kind::multi ? in.size() : p.b.max_message();
    na_return_t posted = NA_RETURN_MAX;
    switch (kind) {
        case Kind::unexpected:
            posted = NA_Msg_recv_unexpected(p.b.cls(), p.b.context(), callback, &called, in.data(),
                                            size, in.plugin_data(), op);
            break;
        case Kind::expected:
            posted = NA_Msg_recv_expected(p.b.cls(), p.b.context(), callback, &called, in.data(),
                                          size, in.plugin_data(), p.to_a, 0, 7, op);
            break;
        case Kind::multi:
            posted = NA_Msg_multi_recv_unexpected(p.b.cls(), p.b.context(), callback, &called,
                                                  in.data(), size, in.plugin_data(), op);
            break;
    }
    REQUIRE(posted == NA_SUCCESS);
    {
        const Quiet quiet;
        NA_Op_destroy(p.b.cls(), op);
    }
    // The next one gets what comes, and nothing comes to the former.
    const bool expected = kind == Kind::expected;
    Buffer out(p.a), other(p.b);
    Op send(p.a), recv(p.b);
    REQUIRE((expected ? recv.recv_expected(other, p.to_a, 7) : recv.recv_unexpected(other)) ==
            NA_SUCCESS);
    const std::size_t total = fill_message(p.a, out, 100, 2, expected);
    REQUIRE((expected ? send.send_expected(out, total, p.to_b, 7)
                      : send.send_unexpected(out, total, p.to_b, 7)) == NA_SUCCESS);
    REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
    CHECK(recv.ret() == NA_SUCCESS);
    CHECK(holds(p.b, other.data(), recv.result().size, 2, expected));
    CHECK(called == 0);
    CHECK(std::equal(before.begin(), before.end(), in.data()));
}

TEST_CASE("what has come is told although its operation is destroyed", "[lifetime]") {
    const bool multi = GENERATE(false, true);
    Pair p;
    if (multi && !NA_Has_opt_feature(p.b.cls(), NA_OPT_MULTI_RECV)) {
        return;
    }
    Buffer in(p.b, 2 * p.b.max_message(), multi ? NA_MULTI_RECV : 0);
    Buffer out(p.a);
    Op send(p.a);
    struct Told {
        na_class_t* cls;
        unsigned callbacks = 0;
        bool last = false;
    } told{.cls = p.b.cls()};
    const auto callback = [](const na_cb_info* info) {
        auto& t = *static_cast<Told*>(info->arg);
        ++t.callbacks;
        if (info->ret != NA_SUCCESS) {
            t.last = true;
        } else if (info->type == NA_CB_MULTI_RECV_UNEXPECTED) {
            t.last = info->info.multi_recv_unexpected.last;
            NA_Addr_free(t.cls, info->info.multi_recv_unexpected.source);
        } else {
            t.last = true;
            NA_Addr_free(t.cls, info->info.recv_unexpected.source);
        }
    };
    na_op_id_t* op = NA_Op_create(p.b.cls(), multi ? NA_OP_MULTI : NA_OP_SINGLE);
    REQUIRE(op != nullptr);
    REQUIRE((multi ? NA_Msg_multi_recv_unexpected(p.b.cls(), p.b.context(), callback, &told,
                                                  in.data(), in.size(), in.plugin_data(), op)
                   : NA_Msg_recv_unexpected(p.b.cls(), p.b.context(), callback, &told, in.data(),
                                            in.size(), in.plugin_data(), op)) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 10, 1), p.to_b, 1) == NA_SUCCESS);
    REQUIRE(until([&] { return NA_Context_get_completion_count(p.b.context()) == 1; },
                  [&] {
                      p.a.pump();
                      NA_Poll(p.b.cls(), p.b.context(), nullptr);
                  }));
    {
        const Quiet quiet;
        NA_Op_destroy(p.b.cls(), op);  // kept
    }
    p.b.pump();
    CHECK(told.callbacks == 1);
    if (!told.last) {
        REQUIRE(NA_Cancel(p.b.cls(), p.b.context(), op) == NA_SUCCESS);
        REQUIRE(until([&] { return told.last; }, [&] { p.b.pump(); }));
    }
    NA_Op_destroy(p.b.cls(), op);
    REQUIRE(until([&] { return send.done(); }, [&] { p.pump(); }));
}

TEST_CASE("a context whose sends wait stays open", "[lifetime][backpressure]") {
    Pair p;
    Buffer out(p.a);
    const std::size_t total = fill_message(p.a, out, 200, 1);
    std::vector<std::unique_ptr<Op>> ops;
    for (unsigned i = 0; i < 1500; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        REQUIRE(ops.back()->send_unexpected(out, total, p.to_b, i) == NA_SUCCESS);
    }
    const Quiet quiet;
    REQUIRE(until([&] { return NA_Trigger(p.a.context(), 10000, nullptr) == NA_SUCCESS; }));
    CHECK(NA_Context_destroy(p.a.cls(), p.a.context()) == NA_BUSY);
    for (const auto& op : ops) {
        REQUIRE(op->cancel() == NA_SUCCESS);
    }
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
}

TEST_CASE("an operation in use cannot be posted again", "[lifetime]") {
    Pair p;
    Buffer in(p.b);
    Buffer other(p.b);
    Op recv(p.b);
    std::vector<std::byte> memory(8);
    Mem mem(p.b, memory.data(), 8, NA_MEM_READWRITE);
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    const Quiet quiet;
    CHECK(recv.recv_unexpected(other) == NA_BUSY);
    CHECK(recv.recv_expected(other, p.to_a, 1) == NA_BUSY);
    CHECK(recv.send_unexpected(other, p.b.header() + 1, p.to_a, 1) == NA_BUSY);
    CHECK(recv.send_expected(other, p.b.header(true) + 1, p.to_a, 1) == NA_BUSY);
    CHECK(recv.put(mem, 0, mem, 0, 1, p.to_a) == NA_BUSY);
    CHECK(recv.get(mem, 0, mem, 0, 1, p.to_a) == NA_BUSY);
    // Also between completion and callback.
    REQUIRE(recv.cancel() == NA_SUCCESS);
    REQUIRE(until([&] { return NA_Context_get_completion_count(p.b.context()) == 1; },
                  [&] { NA_Poll(p.b.cls(), p.b.context(), nullptr); }));
    CHECK(recv.recv_unexpected(other) == NA_BUSY);
    p.b.pump();
    CHECK(recv.ret() == NA_CANCELED);
    recv.reset();
    REQUIRE(recv.recv_unexpected(other) == NA_SUCCESS);
}

TEST_CASE("an operation can be posted again in its callback", "[lifetime]") {
    Pair p;
    const unsigned count = 1000;
    Buffer out(p.a);
    Buffer in(p.b);
    Op send(p.a);
    Op recv(p.b);
    unsigned sent = 0;
    unsigned received = 0;
    send.on_result = [&](Op& op, const Result& r) {
        REQUIRE(r.ret == NA_SUCCESS);
        if (++sent < count) {
            REQUIRE(op.send_unexpected(out, fill_message(p.a, out, 20, sent), p.to_b, sent) ==
                    NA_SUCCESS);
        }
    };
    recv.on_result = [&](Op& op, const Result& r) {
        REQUIRE(r.tag == received);
        REQUIRE(holds(p.b, in.data(), r.size, received));
        if (++received < count) {
            REQUIRE(op.recv_unexpected(in) == NA_SUCCESS);
        }
    };
    REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
    REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 20, 0), p.to_b, 0) == NA_SUCCESS);
    REQUIRE(until([&] { return sent == count && received == count; }, [&] { p.pump(); }));
}

TEST_CASE("an operation can be destroyed in its callback", "[lifetime]") {
    Endpoint e;
    Buffer in(e);
    struct State {
        Endpoint& e;
        na_op_id_t* op;
        int calls;
    } state{e, NA_Op_create(e.cls(), NA_OP_SINGLE), 0};
    REQUIRE(NA_Msg_recv_unexpected(
                e.cls(), e.context(),
                [](const na_cb_info* info) {
                    auto& s = *static_cast<State*>(info->arg);
                    NA_Op_destroy(s.e.cls(), s.op);
                    ++s.calls;
                },
                &state, in.data(), in.size(), in.plugin_data(), state.op) == NA_SUCCESS);
    REQUIRE(NA_Cancel(e.cls(), e.context(), state.op) == NA_SUCCESS);
    REQUIRE(until([&] { return state.calls == 1; }, [&] { e.pump(); }));
}

TEST_CASE("a callback is optional", "[lifetime]") {
    Pair p;
    Buffer out(p.a);
    Buffer in(p.b);
    na_op_id_t* send = NA_Op_create(p.a.cls(), NA_OP_SINGLE);
    na_op_id_t* recv = NA_Op_create(p.b.cls(), NA_OP_SINGLE);
    REQUIRE(NA_Msg_recv_unexpected(p.b.cls(), p.b.context(), nullptr, nullptr, in.data(), in.size(),
                                   in.plugin_data(), recv) == NA_SUCCESS);
    REQUIRE(NA_Msg_send_unexpected(p.a.cls(), p.a.context(), nullptr, nullptr, out.data(),
                                   p.a.header() + 4, out.plugin_data(), p.to_b, 0, 1,
                                   send) == NA_SUCCESS);
    // Nobody tells: an operation that answers NA_BUSY no more has ended.
    const Quiet quiet;
    REQUIRE(until(
        [&] {
            return NA_Msg_recv_unexpected(p.b.cls(), p.b.context(), nullptr, nullptr, in.data(),
                                          in.size(), in.plugin_data(), recv) == NA_SUCCESS;
        },
        [&] { p.pump(); }));
    REQUIRE(NA_Cancel(p.b.cls(), p.b.context(), recv) == NA_SUCCESS);
    settle([&] { p.pump(); });
    NA_Op_destroy(p.a.cls(), send);
    NA_Op_destroy(p.b.cls(), recv);
    NA_Op_destroy(p.b.cls(), nullptr);
}

TEST_CASE("an exception of a callback leaves NA_Trigger, which counts what ran", "[lifetime]") {
    struct Thrown {};
    Pair p;
    Buffer out(p.a);
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recv;
    Op send(p.a);
    unsigned ran = 0;
    constexpr unsigned kMessages = 4;
    for (unsigned i = 0; i < kMessages; ++i) {
        in.push_back(std::make_unique<Buffer>(p.b));
        recv.push_back(std::make_unique<Op>(p.b));
        recv.back()->on_result = [&](Op&, const Result&) {
            if (++ran == 2) {
                throw Thrown{};
            }
        };
        REQUIRE(recv.back()->recv_unexpected(*in.back()) == NA_SUCCESS);
    }
    for (unsigned i = 0; i < kMessages; ++i) {
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 8, i), p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done(); },
                      [&] {
                          p.a.pump();
                          NA_Progress(p.b.cls(), p.b.context(), 0);
                      }));
        send.reset();
    }
    unsigned count = 99;
    unsigned total = 0;
    int caught = 0;
    REQUIRE(until([&] { return ran == kMessages; },
                  [&] {
                      NA_Progress(p.b.cls(), p.b.context(), 0);
                      try {
                          const na_return_t ret = NA_Trigger(p.b.context(), 3, &count);
                          CHECK(ret == NA_SUCCESS);
                      } catch (const Thrown&) {
                          ++caught;
                          CHECK(ran == 2);
                          CHECK(count >= 1);
                      }
                      total += count;
                  }));
    CHECK(caught == 1);
    CHECK(total == kMessages);
}

TEST_CASE("addresses may be freed while operations use them", "[lifetime][peer]") {
    Pair p;
    Buffer out(p.a);
    Buffer in(p.b);
    const std::string a_uri = p.a.uri();
    const std::string b_uri = p.b.uri();
    p.to_a.reset();
    p.to_b.reset();
    std::vector<std::byte> here = support::payload(100000, 3);
    std::vector<std::byte> there(100000);
    Mem local(p.a, here.data(), here.size(), NA_MEM_READWRITE);
    Mem target(p.b, there.data(), there.size(), NA_MEM_READWRITE);
    Mem remote(p.a, target.serialize());
    for (unsigned i = 0; i < 100; ++i) {
        Op send(p.a);
        Op put(p.a);
        Op recv(p.b);
        {
            Addr to_a(p.b, a_uri);
            REQUIRE(recv.recv_expected(in, to_a, i) == NA_SUCCESS);
        }
        p.pump();
        {
            Addr to_b(p.a, b_uri);
            REQUIRE(put.put(local, 0, remote, 0, here.size(), to_b) == NA_SUCCESS);
            REQUIRE(send.send_expected(out, fill_message(p.a, out, i, i, true), to_b, i) ==
                    NA_SUCCESS);
        }
        REQUIRE(until([&] { return send.done() && recv.done() && put.done(); }, [&] { p.pump(); }));
        REQUIRE(recv.ret() == NA_SUCCESS);
        REQUIRE(put.ret() == NA_SUCCESS);
        REQUIRE(holds(p.b, in.data(), recv.result().size, i, true));
    }
    CHECK(here == there);
}

TEST_CASE("a process may open many classes", "[lifetime]") {
    constexpr unsigned kClasses = 32;
    std::vector<std::unique_ptr<Endpoint>> all;
    std::vector<std::unique_ptr<Buffer>> in;
    std::vector<std::unique_ptr<Op>> recv;
    for (unsigned i = 0; i < kClasses; ++i) {
        all.push_back(std::make_unique<Endpoint>());
        for (unsigned k = 0; k < i; ++k) {
            REQUIRE(all[k]->uri() != all[i]->uri());
        }
        in.push_back(std::make_unique<Buffer>(*all[i]));
        recv.push_back(std::make_unique<Op>(*all[i]));
    }
    const auto pump = [&] {
        for (const auto& e : all) {
            e->pump();
        }
    };
    // Everybody to everybody, oneself included.
    for (unsigned shift = 0; shift < kClasses; shift += 5) {
        std::vector<std::unique_ptr<Op>> send;
        std::vector<std::unique_ptr<Buffer>> out;
        std::vector<Addr> to;
        for (unsigned i = 0; i < kClasses; ++i) {
            recv[i]->reset();
            REQUIRE(recv[i]->recv_unexpected(*in[i]) == NA_SUCCESS);
        }
        for (unsigned i = 0; i < kClasses; ++i) {
            const unsigned peer = (i + shift) % kClasses;
            to.emplace_back(*all[i], all[peer]->uri());
            send.push_back(std::make_unique<Op>(*all[i]));
            out.push_back(std::make_unique<Buffer>(*all[i]));
            REQUIRE(send[i]->send_unexpected(*out[i], fill_message(*all[i], *out[i], 100, peer),
                                             to[i], i) == NA_SUCCESS);
        }
        REQUIRE(until(
            [&] {
                return std::all_of(recv.begin(), recv.end(),
                                   [](const auto& o) { return o->done(); }) &&
                       std::all_of(send.begin(), send.end(),
                                   [](const auto& o) { return o->done(); });
            },
            pump));
        for (unsigned i = 0; i < kClasses; ++i) {
            CHECK(recv[i]->result().tag == (i + kClasses - shift) % kClasses);
            CHECK(holds(*all[i], in[i]->data(), recv[i]->result().size, i));
        }
    }
}

TEST_CASE("classes open and close many times", "[lifetime]") {
    for (unsigned i = 0; i < 60; ++i) {
        Pair p;
        Op send(p.a);
        Op recv(p.b);
        Buffer out(p.a);
        Buffer in(p.b);
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 50, i), p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }));
        REQUIRE(recv.ret() == NA_SUCCESS);
    }
}

TEST_CASE("messages that nobody received go with their context", "[lifetime]") {
    Pair p;
    Buffer out(p.a);
    std::vector<std::unique_ptr<Op>> ops;
    for (unsigned i = 0; i < 100; ++i) {
        ops.push_back(std::make_unique<Op>(p.a));
        const std::size_t total = fill_message(p.a, out, 100, 1);
        REQUIRE((i % 2 == 0 ? ops.back()->send_unexpected(out, total, p.to_b, i)
                            : ops.back()->send_expected(out, total, p.to_b, i)) == NA_SUCCESS);
    }
    REQUIRE(until(
        [&] {
            return std::all_of(ops.begin(), ops.end(), [](const auto& o) { return o->done(); });
        },
        [&] { p.pump(); }));
    p.to_a.reset();
    p.b.close();
}
