// SPDX-License-Identifier: BSD-3-Clause
// Threads: several on one context, one per context, classes in parallel. Run under the thread
// sanitizer.
#include <atomic>
#include <mutex>
#include <thread>

#include "common.hpp"

using namespace na_test;

namespace {

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "in a thread: %s\n", what);
    std::abort();
}

void require(bool condition, const char* what) {
    if (!condition) {
        die(what);
    }
}

}  // namespace

TEST_CASE("threads share a context", "[threads]") {
    // Each thread sends its own numbered messages, receives whatever comes, progresses and triggers
    // for all.
    constexpr unsigned kThreads = 4;
    const unsigned per_thread = 400 / support::kSlow;
    Pair p;
    std::atomic<unsigned> received{0};
    std::atomic<unsigned> sent{0};
    std::mutex mutex;
    std::vector<std::vector<unsigned>> by_sender(kThreads);
    const unsigned total = kThreads * per_thread;

    struct Slot {
        explicit Slot(Endpoint& e) : buffer(e), op(e) {}
        Buffer buffer;
        Op op;
    };
    std::vector<std::unique_ptr<Slot>> slots;
    for (int i = 0; i < 16; ++i) {
        slots.push_back(std::make_unique<Slot>(p.b));
        Slot* slot = slots.back().get();
        slot->op.on_result = [&, slot](Op& op, const Result& r) {
            require(r.ret == NA_SUCCESS, "a receive failed");
            require(holds(p.b, slot->buffer.data(), r.size, r.tag),
                    "a message is not what was sent");
            {
                const std::lock_guard guard(mutex);
                by_sender[r.tag / 100000].push_back(r.tag % 100000);
            }
            ++received;
            op.reset();
            require(op.recv_unexpected(slot->buffer) == NA_SUCCESS, "a receive cannot be posted");
        };
        REQUIRE(slot->op.recv_unexpected(slot->buffer) == NA_SUCCESS);
    }
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            Op op(p.a);
            Buffer out(p.a);
            for (unsigned i = 0; i < per_thread; ++i) {
                op.reset();
                const na_tag_t tag = t * 100000 + i;
                const std::size_t size = fill_message(p.a, out, 20 + i % 3000, tag);
                require(op.send_unexpected(out, size, p.to_b, tag) == NA_SUCCESS,
                        "a send cannot be posted");
                require(until([&] { return op.done(); }, [&] { p.pump(); }), "a send does not end");
                ++sent;
            }
            require(until([&] { return received == total; }, [&] { p.pump(); }),
                    "messages are missing");
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(sent == total);
    CHECK(received == total);
    for (const std::vector<unsigned>& list : by_sender) {
        CHECK(list.size() == per_thread);
    }
}

TEST_CASE("each context has its thread", "[threads]") {
    constexpr unsigned kContexts = 3;
    const unsigned count = 500 / support::kSlow;
    Endpoint::Settings settings;
    settings.contexts = kContexts;
    for (const int mode : {0, NA_THREAD_MODE_SINGLE_CTX}) {
        settings.init.thread_mode = static_cast<std::uint8_t>(mode);
        Pair p(settings);
        std::vector<std::thread> threads;
        std::atomic<unsigned> finished{0};
        for (unsigned c = 0; c < kContexts; ++c) {
            // Context c of `a` talks to context c of `b`.
            threads.emplace_back([&, c] {
                const auto id = static_cast<std::uint8_t>(c);
                Op send(p.a, NA_OP_SINGLE, c);
                Op recv(p.a, NA_OP_SINGLE, c);
                Buffer out(p.a);
                Buffer in(p.a);
                for (unsigned i = 0; i < count; ++i) {
                    send.reset();
                    recv.reset();
                    require(recv.recv_expected(in, in.size(), p.to_b, i, id) == NA_SUCCESS, "post");
                    require(send.send_unexpected(out, fill_message(p.a, out, 100, i), p.to_b, i,
                                                 id) == NA_SUCCESS,
                            "post");
                    require(until([&] { return send.done() && recv.done(); },
                                  [&] {
                                      NA_Progress(p.a.cls(), p.a.context(c), 10);
                                      NA_Trigger(p.a.context(c), 10, nullptr);
                                  }),
                            "no answer");
                    require(recv.ret() == NA_SUCCESS &&
                                holds(p.a, in.data(), recv.result().size, i + c, true),
                            "answer");
                }
                ++finished;
            });
            threads.emplace_back([&, c] {
                const auto id = static_cast<std::uint8_t>(c);
                Op send(p.b, NA_OP_SINGLE, c);
                Op recv(p.b, NA_OP_SINGLE, c);
                Buffer out(p.b);
                Buffer in(p.b);
                const auto pump = [&] {
                    NA_Progress(p.b.cls(), p.b.context(c), 10);
                    NA_Trigger(p.b.context(c), 10, nullptr);
                };
                for (unsigned i = 0; i < count; ++i) {
                    send.reset();
                    recv.reset();
                    require(recv.recv_unexpected(in) == NA_SUCCESS, "post");
                    require(until([&] { return recv.done(); }, pump), "no request");
                    require(recv.result().tag == i, "requests out of order");
                    // The address that came with it: references are taken and dropped by all
                    // threads.
                    require(send.send_expected(out, fill_message(p.b, out, 50, i + c, true),
                                               recv.result().source, i, id) == NA_SUCCESS,
                            "post");
                    require(until([&] { return send.done(); }, pump), "answer not sent");
                }
                ++finished;
            });
        }
        for (std::thread& t : threads) {
            t.join();
        }
        CHECK(finished == 2 * kContexts);
    }
}

TEST_CASE("addresses are looked up and dropped by several threads", "[threads][peer]") {
    Pair p;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    const std::string uri = p.b.uri();
    p.to_b.reset();
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
            Op send(p.a);
            Buffer out(p.a);
            for (unsigned i = 0; i < 300 / support::kSlow; ++i) {
                Addr addr(p.a, uri);
                require(NA_Addr_get_serialize_size(p.a.cls(), addr) > 0, "size");
                if (t == 0) {
                    send.reset();
                    require(send.send_unexpected(out, p.a.header() + 10, addr, i) == NA_SUCCESS,
                            "post");
                    addr.reset();
                    require(until([&] { return send.done(); }, [&] { p.pump(); }), "send");
                } else {
                    addr.reset();
                    p.a.pump();
                }
            }
        });
    }
    std::thread receiver([&] {
        Op recv(p.b);
        Buffer in(p.b);
        for (unsigned i = 0; i < 300 / support::kSlow; ++i) {
            recv.reset();
            require(recv.recv_unexpected(in) == NA_SUCCESS, "post");
            require(until([&] { return recv.done(); }, [&] { p.pump(); }), "receive");
        }
        stop = true;
    });
    for (std::thread& t : threads) {
        t.join();
    }
    receiver.join();
    CHECK(stop);
}

TEST_CASE("threads trigger one multi-receive", "[threads][multi_recv]") {
    Pair p;
    if (!NA_Has_opt_feature(p.b.cls(), NA_OPT_MULTI_RECV)) {
        support::skip("no multi-receive");
        return;
    }
    const unsigned count = 3000 / support::kSlow;
    std::atomic<unsigned> received{0};
    std::atomic<unsigned> reposted{0};
    struct Shared {
        Endpoint& e;
        Buffer& buffer;
        std::atomic<unsigned>& received;
        std::atomic<unsigned>& reposted;
        na_op_id_t* op;
        static void callback(const na_cb_info* info) {
            auto& s = *static_cast<Shared*>(info->arg);
            const auto& m = info->info.multi_recv_unexpected;
            if (info->ret == NA_SUCCESS) {
                require(holds(s.e, m.actual_buf, m.actual_buf_size, m.tag),
                        "a message is not what was sent");
                NA_Addr_free(s.e.cls(), m.source);
                ++s.received;
            }
            if (m.last && info->ret == NA_SUCCESS) {
                // A fresh operation each time: nothing may refer to the old one any more.
                NA_Op_destroy(s.e.cls(), s.op);
                s.op = NA_Op_create(s.e.cls(), NA_OP_MULTI);
                ++s.reposted;
                s.post();
            }
        }
        void post() {
            require(
                NA_Msg_multi_recv_unexpected(e.cls(), e.context(), callback, this, buffer.data(),
                                             buffer.size(), buffer.plugin_data(), op) == NA_SUCCESS,
                "post");
        }
    };
    // Messages lie in a buffer that is posted again while other threads may still look at the last
    // ones: two would race, so each message is checked by its callback while one thread at a time
    // has the last one. A large buffer makes that rare.
    Buffer in(p.b, 512 * p.b.max_message(), NA_MULTI_RECV);
    Shared shared{p.b, in, received, reposted, NA_Op_create(p.b.cls(), NA_OP_MULTI)};
    shared.post();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            require(until([&] { return received == count; }, [&] { p.b.pump(); }),
                    "messages are missing");
        });
    }
    Op send(p.a);
    Buffer out(p.a);
    for (unsigned i = 0; i < count; ++i) {
        send.reset();
        REQUIRE(send.send_unexpected(out, fill_message(p.a, out, 16, i), p.to_b, i) == NA_SUCCESS);
        REQUIRE(until([&] { return send.done(); }, [&] { p.a.pump(); }));
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(received == count);
    NA_Cancel(p.b.cls(), p.b.context(), shared.op);
    REQUIRE(until([&] { return NA_Context_get_completion_count(p.b.context()) == 0; },
                  [&] { p.b.pump(); }));
    p.b.pump();
    NA_Op_destroy(p.b.cls(), shared.op);
}

TEST_CASE("cancels race with arrivals across threads", "[threads][cancel]") {
    Pair p;
    std::atomic<bool> enough{false};
    std::atomic<bool> stop{false};
    std::atomic<unsigned> callbacks{0};
    std::atomic<unsigned> posts{0};
    Op recv(p.b);
    Buffer in(p.b);
    recv.on_result = [&](Op&, const Result&) { ++callbacks; };
    std::thread receiver([&] {
        while (!stop) {
            p.b.pump();
        }
    });
    std::thread sender([&] {
        Op send(p.a);
        Buffer out(p.a);
        unsigned sent = 0;
        while (!enough) {
            if (sent < posts) {  // about one message per receive
                ++sent;
                send.reset();
                require(send.send_unexpected(out, p.a.header() + 10, p.to_b, 0) == NA_SUCCESS,
                        "post");
                require(until([&] { return send.done(); }, [&] { p.a.pump(); }), "send");
            }
            std::this_thread::yield();
        }
    });
    for (unsigned i = 0; i < 60 / support::kSlow; ++i) {
        recv.reset();
        REQUIRE(recv.recv_unexpected(in) == NA_SUCCESS);
        ++posts;
        if (i % 2 == 0) {
            std::this_thread::yield();
        }
        REQUIRE(recv.cancel() == NA_SUCCESS);
        REQUIRE(until([&] { return callbacks == posts; }, [] { std::this_thread::yield(); }));
    }
    // The last message may need the receiver's progress.
    enough = true;
    sender.join();
    stop = true;
    receiver.join();
    CHECK(callbacks == posts);
}

TEST_CASE("classes come and go in several threads", "[threads][lifetime]") {
    std::vector<std::thread> threads;
    std::atomic<unsigned> finished{0};
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (unsigned i = 0; i < 20 / support::kSlow + 1; ++i) {
                Pair p;
                Op send(p.a);
                Op recv(p.b);
                Buffer out(p.a);
                Buffer in(p.b);
                require(recv.recv_unexpected(in) == NA_SUCCESS, "post");
                require(send.send_unexpected(out, fill_message(p.a, out, 50, i), p.to_b, i) ==
                            NA_SUCCESS,
                        "post");
                require(until([&] { return send.done() && recv.done(); }, [&] { p.pump(); }),
                        "message");
                require(recv.ret() == NA_SUCCESS, "receive");
            }
            ++finished;
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    CHECK(finished == 3);
}

// As soon as its callback can run an operation is the user's, also while the thread that has
// completed it is still on its way out.
TEST_CASE("an operation is destroyed in its callback while another thread makes progress",
          "[threads][lifetime]") {
    Pair p;
    struct Shared {
        na_class_t* cls;
        std::atomic<unsigned> ended{0};
    } shared{p.b.cls()};
    struct Once {
        Shared* shared;
        na_op_id_t* op;
    };
    constexpr unsigned kCount = 200 / support::kSlow;
    std::atomic<bool> stop{false};
    std::thread progress([&] {
        while (!stop) {
            NA_Poll(p.b.cls(), p.b.context(), nullptr);
            std::this_thread::yield();
        }
    });
    std::thread trigger([&] {
        while (!stop) {
            NA_Trigger(p.b.context(), 1, nullptr);
            std::this_thread::yield();
        }
    });
    Op send(p.a);
    Buffer out(p.a);
    Buffer in(p.b);
    bool good = true;
    for (unsigned i = 0; i < kCount && good; ++i) {
        auto* once = new Once{&shared, NA_Op_create(p.b.cls(), NA_OP_SINGLE)};
        good =
            NA_Msg_recv_expected(
                p.b.cls(), p.b.context(),
                [](const na_cb_info* info) {
                    const std::unique_ptr<Once> o(static_cast<Once*>(info->arg));
                    NA_Op_destroy(o->shared->cls, o->op);
                    ++o->shared->ended;
                },
                once, in.data(), in.size(), in.plugin_data(), p.to_a, 0, i, once->op) == NA_SUCCESS;
        send.reset();
        good = good && send.send_expected(out, p.a.header(true) + 8, p.to_b, i) == NA_SUCCESS &&
               until([&] { return send.done() && shared.ended == i + 1; },
                     [&] {
                         p.a.pump();
                         std::this_thread::yield();
                     });
    }
    CHECK(good);
    stop = true;
    progress.join();
    trigger.join();
}
