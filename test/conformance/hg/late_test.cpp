// SPDX-License-Identifier: BSD-3-Clause
// Targets that give the handle of a request back before they respond, as Mercury allows, and those
// that never respond.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/hg/owing.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

bool answered(const hg_cb_info* info) {
    return info->type == HG_CB_RESPOND && info->ret == HG_SUCCESS;
}

}  // namespace

TEST_CASE("a target destroys its handle, and responds later") {
    Owing pair;
    static unsigned sent;
    sent = 0;
    const auto on_sent = [](const hg_cb_info* info) {
        sent += answered(info) ? 1 : 0;
        return HG_SUCCESS;
    };
    Call call(pair.a, pair.to_b, pair.a.echo);
    unsigned n = 0;
    for (const std::size_t in_size : {10, 300'000}) {
        for (const std::size_t out_size : {10, 300'000}) {
            for (unsigned i = 0; i < 20; ++i) {
                Blob in = blob(i, in_size);
                REQUIRE(call.forward(in) == HG_SUCCESS);
                REQUIRE(pair.await(1));
                pair.rounds();
                CHECK(!call.done());
                Blob out = blob(i + 7, out_size);
                CHECK(HG_Respond(owed[0], i % 2 == 0 ? nullptr : +on_sent, nullptr, &out) ==
                      HG_SUCCESS);
                n += i % 2;
                owed.clear();
                REQUIRE(pair.wait(call) == HG_SUCCESS);
                CHECK(is_blob(call.out(), i + 7, out_size, i + 7));
            }
        }
    }
    CHECK(pair.all_over());
    CHECK(sent == n);
}

TEST_CASE("many requests are owed their answers, which come in another order") {
    constexpr std::size_t kCalls = 300;
    Owing pair;
    std::vector<std::unique_ptr<Call>> calls;
    for (std::size_t i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, i % 200);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
        if (i % 16 == 0) {
            pair.pump();
        }
    }
    REQUIRE(pair.await(kCalls));
    // What comes meanwhile is served.
    Call other(pair.a, pair.to_b, pair.a.empty);
    for (int i = 0; i < 100; ++i) {
        REQUIRE(pair.run(other) == HG_SUCCESS);
    }
    std::reverse(owed.begin(), owed.end());
    for (std::size_t i = kCalls; i-- > 0;) {
        Blob out = blob(numbers[i] + 1, numbers[i] % 200);
        CHECK(HG_Respond(owed[kCalls - 1 - i], nullptr, nullptr, &out) == HG_SUCCESS);
    }
    for (std::size_t i = 0; i < kCalls; ++i) {
        REQUIRE(pair.wait(*calls[i]) == HG_SUCCESS);
        CHECK(is_blob(calls[i]->out(), i + 1, i % 200, i + 1));
    }
    CHECK(pair.all_over());
}

TEST_CASE("threads respond to what the callback gave back", "[threads]") {
    constexpr unsigned kCalls = 400 / support::kSlow;
    constexpr unsigned kThreads = 3;
    Owing pair;
    std::atomic<bool> stop{false};
    std::atomic<std::size_t> taken{0};
    std::vector<std::atomic<hg_handle_t>> posted(kCalls);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
            while (!stop) {
                std::size_t at = taken.load();
                if (at == kCalls) {
                    return;
                }
                hg_handle_t h = posted[at].load();
                if (h == nullptr || !taken.compare_exchange_strong(at, at + 1)) {
                    std::this_thread::yield();
                    continue;
                }
                Blob out = blob(3, at % 2 == 0 ? 20 : 100'000);
                HG_Respond(h, nullptr, nullptr, &out);
            }
        });
    }
    std::vector<std::unique_ptr<Call>> calls;
    std::size_t handed = 0;
    const auto hand = [&] {
        pair.pump();
        for (; handed < owed.size(); ++handed) {
            posted[handed] = owed[handed];
        }
    };
    std::size_t over = 0;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, i % 100);
        CHECK(calls.back()->forward(in) == HG_SUCCESS);
        hand();
    }
    const bool all = support::until(
        [&] {
            while (over < kCalls && calls[over]->done()) {
                ++over;
            }
            return over == kCalls;
        },
        [&] { hand(); });
    stop = true;
    for (std::thread& t : threads) {
        t.join();
    }
    REQUIRE(all);
    for (unsigned i = 0; i < kCalls; ++i) {
        CHECK(calls[i]->ret() == HG_SUCCESS);
    }
    CHECK(pair.all_over());
}

TEST_CASE("a class that calls itself gets late answers, too") {
    owed.clear();
    Side side;
    REQUIRE(HG_Register(side.cls(), side.echo, proc_blob, proc_blob, on_owe) == HG_SUCCESS);
    const Addr to(side, side.uri());
    for (const std::size_t size : {10, 200'000}) {
        Call call(side, to, side.echo);
        Blob in = blob(4, size);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return !owed.empty(); }, [&] { side.pump(); }));
        Blob out = blob(5, size);
        CHECK(HG_Respond(owed[0], nullptr, nullptr, &out) == HG_SUCCESS);
        owed.clear();
        REQUIRE(support::until([&] { return call.done(); }, [&] { side.pump(); }));
        CHECK(call.ret() == HG_SUCCESS);
        CHECK(is_blob(call.out(), 5, size, 5));
    }
}

TEST_CASE("a late answer to a call that was canceled frees its handle") {
    Owing pair;
    for (const std::size_t size : {10, 200'000}) {
        Call call(pair.a, pair.to_b, pair.a.echo);
        Blob in = blob(4, size);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(pair.await(1));
        REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
        CHECK(pair.wait(call) == HG_CANCELED);
        Blob out = blob(5, size);
        CHECK(HG_Respond(owed[0], nullptr, nullptr, &out) == HG_SUCCESS);
        owed.clear();
        CHECK(pair.all_over());
    }
}

TEST_CASE("a late answer that cannot be encoded ends the call, or is tried again") {
    Owing pair;
    const auto refuse = [](hg_proc_t proc, void*) {
        return hg_proc_get_op(proc) == HG_ENCODE ? HG_NOMEM : HG_SUCCESS;
    };
    for (const bool kept : {false, true}) {
        REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, refuse, on_owe) == HG_SUCCESS);
        Call call(pair.a, pair.to_b, pair.a.echo);
        Blob in = blob(4, 10);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(pair.await(1));
        hg_handle_t h = owed[0];
        owed.clear();
        if (kept) {
            HG_Ref_incr(h);
        }
        CHECK(HG_Respond(h, nullptr, nullptr, &in) == HG_NOMEM);
        if (kept) {
            pair.rounds();
            CHECK(!call.done());
            CHECK(HG_Respond(h, nullptr, nullptr, nullptr) == HG_SUCCESS);
            call.decode_output = false;
            CHECK(HG_Destroy(h) == HG_SUCCESS);
            CHECK(pair.wait(call) == HG_SUCCESS);
        } else {
            // Whoever tries again all the same answers nobody else.
            CHECK(HG_Respond(h, nullptr, nullptr, nullptr) == HG_BUSY);
            CHECK(pair.wait(call) == HG_OTHER_ERROR);
        }
        CHECK(pair.all_over());
    }
}

TEST_CASE("a target gives up the response to a request that it gave back") {
    Owing pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(4, 10);
    REQUIRE(call.forward(in) == HG_SUCCESS);
    REQUIRE(pair.await(1));
    CHECK(HG_Destroy(owed[0]) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_OTHER_ERROR);
    CHECK(pair.all_over());
}

TEST_CASE("a context stays while its requests are owed late answers") {
    Owing pair;
    pair.learn();
    Call first(pair.a, pair.to_b, pair.a.echo);
    Call second(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(4, 10);
    REQUIRE(first.forward(in) == HG_SUCCESS);
    REQUIRE(second.forward(in) == HG_SUCCESS);
    REQUIRE(pair.await(2));
    CHECK(HG_Context_destroy(pair.b.context()) == HG_BUSY);
    Blob out = blob(5, 20);
    CHECK(HG_Respond(owed[0], nullptr, nullptr, &out) == HG_SUCCESS);
    CHECK(HG_Destroy(owed[1]) == HG_SUCCESS);  // once more
    std::vector<hg_return_t> rets = {pair.wait(first), pair.wait(second)};
    std::sort(rets.begin(), rets.end());
    CHECK(rets == std::vector<hg_return_t>{HG_SUCCESS, HG_OTHER_ERROR});
}

TEST_CASE("a context ends although nobody responds to its requests") {
    Owing pair;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 10; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, i % 2 == 0 ? 10 : 100'000);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    REQUIRE(pair.await(calls.size()));
    std::atomic<bool> stop{false};
    std::thread origin([&] {
        while (!stop) {
            pair.a.pump();
        }
    });
    const hg_return_t ret = HG_Context_destroy(pair.b.context());
    stop = true;
    origin.join();
    CHECK(ret == HG_SUCCESS);
    pair.b.forget_context();
    for (const auto& call : calls) {
        REQUIRE(support::until([&] { return call->done(); }, [&] { pair.a.pump(); }));
        CHECK(call->ret() == HG_OTHER_ERROR);
    }
}

TEST_CASE("a program that never responds is served on") {
    // More than are kept for a late response.
    constexpr std::size_t kCalls = 3000;
    Owing pair;
    const auto calls = pair.call(kCalls);
    const auto ended = [&] {
        return static_cast<std::size_t>(std::count_if(
            calls.begin(), calls.end(), [](const auto& call) { return call->done(); }));
    };
    REQUIRE(support::until([&] { return ended() == kCalls - 1024; }, [&] { pair.pump(); }));
    for (const auto& call : calls) {
        CHECK((!call->done() || call->ret() == HG_OTHER_ERROR));
    }
    // An answer may be here before its sender hears that it has gone.
    CHECK(support::until([&] { return pair.active() == 1024; }, [&] { pair.pump(); }));
    // The oldest have ended; whoever responds to one of them all the same does it to nobody.
    CHECK(HG_Respond(owed[kCalls - 1025], nullptr, nullptr, nullptr) == HG_BUSY);
    Blob out = blob(1, 10);
    CHECK(HG_Respond(owed[kCalls - 1], nullptr, nullptr, &out) == HG_SUCCESS);
    REQUIRE(support::until([&] { return ended() == kCalls - 1023; }, [&] { pair.pump(); }));
    for (std::size_t i = kCalls - 1024; i < kCalls - 1; ++i) {
        CHECK(HG_Destroy(owed[i]) == HG_SUCCESS);
    }
    CHECK(pair.all_over());
    REQUIRE(support::until([&] { return ended() == kCalls; }, [&] { pair.pump(); }));
}

TEST_CASE("who responds to requests that were ended meanwhile answers nobody else") {
    constexpr std::size_t kCalls = 2000;
    Owing pair;
    const auto calls = pair.call(kCalls);
    std::size_t good = 0;
    for (std::size_t i = 0; i < kCalls; ++i) {
        Blob out = blob(numbers[i] + 1, 10);
        const hg_return_t ret = HG_Respond(owed[i], nullptr, nullptr, &out);
        CHECK((ret == HG_SUCCESS || ret == HG_BUSY));
        good += ret == HG_SUCCESS ? 1 : 0;
        if (i % 16 == 0) {  // handles that were given back are posted, and taken, meanwhile
            Call other(pair.a, pair.to_b, pair.a.empty);
            REQUIRE(pair.run(other) == HG_SUCCESS);
        }
    }
    CHECK(good == 1024);
    for (std::size_t i = 0; i < kCalls; ++i) {
        const hg_return_t ret = pair.wait(*calls[i]);
        if (ret == HG_SUCCESS) {
            CHECK(is_blob(calls[i]->out(), i + 1, 10, i + 1));
            --good;
        } else {
            CHECK(ret == HG_OTHER_ERROR);
        }
    }
    CHECK(good == 0);
    CHECK(pair.all_over());
}

TEST_CASE("two threads give a handle back at a time", "[threads]") {
    constexpr unsigned kCalls = 2000 / support::kSlow;
    Owing pair;
    std::atomic<hg_handle_t> given{HG_HANDLE_NULL};
    std::atomic<bool> stop{false};
    std::atomic<unsigned> good{0};
    std::thread other([&] {
        while (!stop) {
            if (const hg_handle_t h = given.load(); h != HG_HANDLE_NULL) {
                good += HG_Destroy(h) == HG_SUCCESS ? 1 : 0;
                given = HG_HANDLE_NULL;
            } else {
                std::this_thread::yield();
            }
        }
    });
    for (unsigned i = 0; i < kCalls; ++i) {
        Call call(pair.a, pair.to_b, pair.b.hold);
        call.decode_output = false;
        REQUIRE(call.forward(1) == HG_SUCCESS);
        REQUIRE(support::until([&] { return !pair.b.held().empty(); }, [&] { pair.pump(); }));
        const hg_handle_t h = pair.b.held()[0];
        pair.b.held().clear();
        given = h;
        for (std::atomic<unsigned> wait{0}; wait < i % 90; ++wait) {
        }
        const hg_return_t ret = HG_Destroy(h);
        while (given != HG_HANDLE_NULL) {
            std::this_thread::yield();
        }
        // One was the program's reference, the other gave the response up.
        REQUIRE(ret == HG_SUCCESS);
        REQUIRE(pair.wait(call) == HG_OTHER_ERROR);
    }
    stop = true;
    other.join();
    CHECK(good == kCalls);
    CHECK(pair.all_over());
}

TEST_CASE("an RPC that is registered anew is known to be responded to late; others are not") {
    Owing pair;
    pair.learn();
    REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, on_owe) == HG_SUCCESS);
    auto calls = pair.call(1500);  // more than of one that is not
    for (const auto& call : calls) {
        CHECK_FALSE(call->done());
    }
    Blob out = blob(1, 10);
    for (hg_handle_t h : owed) {
        CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
    }
    for (const auto& call : calls) {
        REQUIRE(pair.wait(*call) == HG_SUCCESS);
    }
    calls.clear();
    CHECK(pair.all_over());
    REQUIRE(HG_Deregister(pair.b.cls(), pair.b.echo) == HG_SUCCESS);
    owed.clear();
    REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, on_owe) == HG_SUCCESS);
    calls = pair.call(1100);
    REQUIRE(support::until([&] { return pair.active() == 1024; }, [&] { pair.pump(); }));
    for (hg_handle_t h : owed) {
        (void)HG_Respond(h, nullptr, nullptr, &out);
    }
    for (const auto& call : calls) {
        (void)pair.wait(*call);
    }
    CHECK(pair.all_over());
}

TEST_CASE("a program that responds late may owe many responses") {
    constexpr std::size_t kCalls = 3000;
    Owing pair;
    pair.learn();
    const auto calls = pair.call(kCalls);
    Blob out = blob(1, 10);
    for (hg_handle_t h : owed) {
        CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
    }
    for (const auto& call : calls) {
        REQUIRE(pair.wait(*call) == HG_SUCCESS);
    }
    CHECK(pair.all_over());
}

TEST_CASE("a context that ends waits for threads that respond", "[threads]") {
    Owing pair;
    const auto calls = pair.call(10);
    // An RPC of the target's own: canceled when its context ends, it tells that from inside.
    const Addr to_a(pair.b, pair.a.uri());
    Call back(pair.b, to_a, pair.b.hold);
    back.decode_output = false;
    std::atomic<bool> ending{false};
    back.on_done = [&](Call& call) {
        HG_Destroy(call.handle());
        call.release();
        ending = true;
    };
    REQUIRE(back.forward(1) == HG_SUCCESS);
    std::atomic<unsigned> good{0};
    std::thread late([&] {
        while (!ending) {
            std::this_thread::yield();
        }
        for (hg_handle_t h : owed) {
            Blob out = blob(9, 10);
            good += HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS ? 1 : 0;
        }
    });
    std::atomic<bool> stop{false};
    std::thread origin([&] {
        while (!stop) {
            pair.a.pump();
        }
    });
    // Progress and callbacks of the target run inside, until all is done.
    const hg_return_t ret = HG_Context_destroy(pair.b.context());
    late.join();
    stop = true;
    origin.join();
    CHECK(ret == HG_SUCCESS);
    CHECK(back.ret() == HG_CANCELED);
    CHECK(good == calls.size());
    pair.b.forget_context();
    for (const auto& call : calls) {
        REQUIRE(support::until([&] { return call->done(); }, [&] { pair.a.pump(); }));
        CHECK(call->ret() == HG_SUCCESS);
    }
}

TEST_CASE("who gives a response up too often, or fails and responds, ends nobody else's call") {
    Owing pair;
    const auto fails = [](hg_handle_t h) {
        owed.push_back(h);
        HG_Destroy(h);
        return HG_FAULT;
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.drop, nullptr, nullptr, fails) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.echo);
    Call failed(pair.a, pair.to_b, pair.a.drop);
    for (unsigned i = 0; i < 20; ++i) {
        owed.clear();
        Blob in = blob(i, 10);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        REQUIRE(pair.await(1));
        const hg_handle_t given = owed[0];
        CHECK(HG_Destroy(given) == HG_SUCCESS);
        CHECK(pair.wait(call) == HG_OTHER_ERROR);
        CHECK(pair.run(failed) == HG_FAULT);
        const hg_handle_t late = owed[1];
        owed.clear();
        std::vector<std::unique_ptr<Call>> others;
        for (unsigned k = 0; k < 20; ++k) {
            others.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
            REQUIRE(others.back()->forward(in) == HG_SUCCESS);
        }
        REQUIRE(pair.await(others.size()));
        CHECK(HG_Destroy(given) == HG_INVALID_ARG);
        CHECK(HG_Respond(late, nullptr, nullptr, nullptr) == HG_BUSY);
        for (hg_handle_t h : owed) {
            Blob out = blob(1, 1);
            CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
        }
        for (const auto& other : others) {
            CHECK(pair.wait(*other) == HG_SUCCESS);
        }
    }
    CHECK(pair.all_over());
}

TEST_CASE("only HG_Destroy gives a response up") {
    Owing pair;
    const auto keep_input = [](hg_handle_t h) {
        owed.push_back(h);
        return HG_SUCCESS;
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, keep_input) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(3, 10);
    REQUIRE(call.forward(in) == HG_SUCCESS);
    REQUIRE(pair.await(1));
    Blob got;
    REQUIRE(HG_Get_input(owed[0], &got) == HG_SUCCESS);
    CHECK(HG_Destroy(owed[0]) == HG_SUCCESS);
    CHECK(HG_Free_input(owed[0], &got) == HG_SUCCESS);
    CHECK(HG_Free_input(owed[0], &got) == HG_INVALID_ARG);
    pair.rounds();
    CHECK(!call.done());
    CHECK(HG_Respond(owed[0], nullptr, nullptr, &in) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_SUCCESS);
}
