// SPDX-License-Identifier: BSD-3-Clause
// Ending calls early, and what the target does about it.
#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <thread>

#include "conformance/hg/side.hpp"
#include "hg/context.hpp"
#include "hg/handle.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("a canceled call ends, once, and its handle works on") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    CHECK(HG_Cancel(call.handle()) == HG_SUCCESS);  // nothing is in flight
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(!call.done());  // only trigger runs callbacks
    CHECK(pair.wait(call) == HG_CANCELED);
    REQUIRE(HG_Reset(call.handle(), HG_ADDR_NULL, pair.a.echo) == HG_SUCCESS);
    Blob in = blob(1, 10);
    CHECK(pair.run(call, in) == HG_SUCCESS);

    // The answer comes late, and goes nowhere.
    Blob out = blob(1, 10);
    CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
    HG_Destroy(held[0]);
    held.clear();
    for (int i = 0; i < 50; ++i) {
        CHECK(pair.run(call, in) == HG_SUCCESS);
    }
}

TEST_CASE("a large answer to a canceled call ends at the target too") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_CANCELED);
    struct Seen {
        unsigned count = 0;
        hg_return_t ret = HG_RETURN_MAX;
    } seen;
    Blob out = blob(1, 1'000'000);
    REQUIRE(HG_Respond(
                held[0],
                [](const struct hg_cb_info* info) -> hg_return_t {
                    auto& s = *static_cast<Seen*>(info->arg);
                    ++s.count;
                    s.ret = info->ret;
                    return HG_SUCCESS;
                },
                &seen, &out) == HG_SUCCESS);
    HG_Destroy(held[0]);
    held.clear();
    REQUIRE(support::until([&] { return seen.count != 0; }, [&] { pair.pump(); }));
    CHECK(seen.ret == HG_CANCELED);
}

TEST_CASE("a canceled call without an answer keeps no context, whatever its handles did before") {
    Side b;
    Side a;
    {
        hg_addr_t self = HG_ADDR_NULL;
        REQUIRE(HG_Addr_self(a.cls(), &self) == HG_SUCCESS);
        const Addr to_self(a, self);
        const Addr to_b(a, b.uri());
        const auto pump = [&] {
            a.pump();
            b.pump();
        };
        {
            Call call(a, to_self, a.echo);
            Blob in = blob(1, 100);
            REQUIRE(call.forward(in) == HG_SUCCESS);
            REQUIRE(support::until([&] { return call.done(); }, pump));
            CHECK(call.ret() == HG_SUCCESS);
        }
        Call call(a, to_b, a.hold);
        REQUIRE(call.forward(1) == HG_SUCCESS);
        REQUIRE(support::until([&] { return !b.held().empty(); }, pump));
        REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, pump));
        CHECK(call.ret() == HG_CANCELED);
    }
    // b has not answered.
    CHECK_NOTHROW(a.close(nullptr));
}

TEST_CASE("calls are canceled before the target has looked") {
    Pair pair;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 300; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, i % 3 == 0 ? 70'000 : 50);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    for (auto& call : calls) {
        REQUIRE(HG_Cancel(call->handle()) == HG_SUCCESS);
    }
    REQUIRE(support::until(
        [&] {
            for (auto& call : calls) {
                if (!call->done()) {
                    return false;
                }
            }
            return true;
        },
        [&] { pair.a.pump(); }));
    for (auto& call : calls) {
        CHECK(call->ret() == HG_CANCELED);
    }
    // The target meets requests whose payload is gone, or answers that nobody waits for, and goes
    // on.
    Call next(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(1, 70'000);
    CHECK(pair.run(next, in) == HG_SUCCESS);
}

TEST_CASE("cancel races with the answer, and one of them wins") {
    Pair pair;
    support::Random random(support::options().seed);
    unsigned canceled = 0;
    unsigned answered = 0;
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (unsigned i = 0; i < 400; ++i) {
        const std::size_t size = random.below(4) == 0 ? 80'000 : 30;
        Blob in = blob(i, size);
        call.reset();
        REQUIRE(call.forward(in) == HG_SUCCESS);
        for (std::uint64_t n = random.below(8); n != 0; --n) {
            if (random.below(2) == 0) {
                pair.b.pump();
            } else {
                HG_Progress(pair.a.context(), 0);
            }
        }
        REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, [&] { pair.pump(); }));
        if (call.ret() == HG_SUCCESS) {
            ++answered;
            CHECK(is_blob(call.out(), i + 1, size, i));
        } else {
            CHECK(call.ret() == HG_CANCELED);
            ++canceled;
        }
    }
    CHECK(canceled + answered == 400);
    call.reset();
    Blob in = blob(5, 80'000);
    CHECK(pair.run(call, in) == HG_SUCCESS);
}

TEST_CASE("one-way calls can be canceled as well") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.note);
    Blob in = blob(1, 90'000);
    REQUIRE(call.forward(in) == HG_SUCCESS);
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    const hg_return_t ret = pair.wait(call);
    CHECK((ret == HG_CANCELED || ret == HG_SUCCESS));
    for (int i = 0; i < 100; ++i) {
        pair.pump();
    }
    Blob small = blob(2, 5);
    CHECK(pair.run(call, small) == HG_SUCCESS);
}

// HG_Forward makes the handle one that can be canceled, and then posts: whoever cancels in between
// finds nothing posted.
TEST_CASE("a cancel on another thread while the call is being posted is not lost", "[threads]") {
    Pair pair;
    for (const bool one_way : {false, true}) {
        Call call(pair.a, pair.to_b, one_way ? pair.a.note : pair.a.hold);
        const auto& core = *reinterpret_cast<hg::Handle*>(call.handle());
        Blob in = blob(1, 10);
        std::uint64_t number = 1;
        std::atomic<unsigned> round{0};
        std::atomic<unsigned> canceled{0};
        std::thread canceler([&] {
            // To the nanosecond, where each thread has a processor; where it has not, the other one
            // must get it.
            unsigned looks = 0;
            const auto look_again = [&] {
                if (++looks % 256 == 0) {
                    std::this_thread::yield();
                }
            };
            for (unsigned mine = 1;; ++mine) {
                unsigned now = 0;
                for (; (now = round.load()) != mine; look_again()) {
                    if (now == UINT32_MAX) {
                        return;
                    }
                }
                while (core.stage() != hg::Handle::Stage::in_flight && round.load() == mine) {
                    look_again();
                }
                (void)HG_Cancel(call.handle());
                canceled = mine;
            }
        });
        bool ended = true;
        for (unsigned i = 1; i <= 3000 / support::kSlow && ended; ++i) {
            call.reset();
            round = i;
            // The target does not answer: nothing but the cancel ends the call.
            ended = call.forward(one_way ? static_cast<void*>(&in) : &number) == HG_SUCCESS &&
                    support::until([&] { return call.done() && (one_way || canceled == i); },
                                   [&] { pair.a.pump(); },
                                   [&] {
                                       if (one_way) {
                                           pair.b.pump();
                                       }
                                   });
            if (ended && !one_way) {
                CHECK(call.ret() == HG_CANCELED);
            }
            if (i % 100 == 0) {
                pair.b.pump();
                for (hg_handle_t h : pair.b.held()) {
                    HG_Respond(h, nullptr, nullptr, &in);
                    HG_Destroy(h);
                }
                pair.b.held().clear();
            }
        }
        CHECK(ended);
        round = UINT32_MAX;
        canceler.join();
        HG_Cancel(call.handle());
        REQUIRE(support::until([&] { return call.done(); }, [&] { pair.pump(); }));
    }
}

TEST_CASE("an answer that is on its way when its call is canceled leaves nothing behind") {
    Pair pair;
    auto& held = pair.b.held();
    const auto& context = *reinterpret_cast<hg::Context*>(pair.a.context());
    std::size_t handles = 0;
    for (int i = 0; i < 60; ++i) {
        Call call(pair.a, pair.to_b, pair.a.hold);
        REQUIRE(call.forward(1) == HG_SUCCESS);
        REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
        Blob out = blob(1, 10);
        REQUIRE(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
        HG_Destroy(held[0]);
        held.clear();
        for (int k = 0; k < 20; ++k) {
            pair.b.pump();  // the answer leaves, and its origin has not looked
        }
        REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
        const hg_return_t ret = pair.wait(call);
        CHECK((ret == HG_CANCELED || ret == HG_SUCCESS));
        Call again(pair.a, pair.to_b, pair.a.empty);
        CHECK(pair.run(again) == HG_SUCCESS);
        if (i == 9) {
            handles = const_cast<hg::Context&>(context).handles();
        }
    }
    CHECK(const_cast<hg::Context&>(context).handles() <= handles + 2);
}

TEST_CASE("a call to a class that does not listen is answered") {
    Side::Settings mute;
    mute.listen = false;
    Side client(mute);
    Side server;
    Addr to_server(client, server.uri());
    Call call(client, to_server, client.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto pump = [&] {
        client.pump();
        server.pump();
    };
    REQUIRE(support::until([&] { return !server.held().empty(); }, pump));
    const struct hg_info* info = HG_Get_info(server.held()[0]);
    REQUIRE(info != nullptr);
    for (const std::size_t size : {std::size_t{10}, std::size_t{100'000}}) {
        Call back(server, info->addr, server.echo);
        Blob in = blob(1, size);
        REQUIRE(back.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return back.done(); }, pump));
        CHECK(back.ret() == HG_OPNOTSUPPORTED);
    }
    Blob out = blob(1, 10);
    CHECK(HG_Respond(server.held()[0], nullptr, nullptr, &out) == HG_SUCCESS);
    HG_Destroy(server.held()[0]);
    server.held().clear();
    REQUIRE(support::until([&] { return call.done(); }, pump));
    CHECK(call.ret() == HG_SUCCESS);
    CHECK(client.served == 0);
}
