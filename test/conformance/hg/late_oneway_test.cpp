// SPDX-License-Identifier: BSD-3-Clause
// One-way calls of RPCs that the target responds to, perhaps late: a peer's word decides about
// nobody else's answer.
#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "conformance/hg/owing.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("one-way calls of an RPC that is not one-way at the target keep nothing there") {
    // More than the limit of requests at a time, which would refuse them.
    constexpr unsigned kCalls = 20'000 / support::kSlow;
    Owing pair;
    REQUIRE(HG_Registered_disable_response(pair.a.cls(), pair.a.drop, 1) == HG_SUCCESS);
    const auto give_back = [](hg_handle_t h) {
        owed.push_back(nullptr);
        return HG_Destroy(h);
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.drop, nullptr, nullptr, give_back) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.drop);
    for (unsigned i = 0; i < kCalls; ++i) {
        REQUIRE(call.forward() == HG_SUCCESS);
        pair.pump();
        REQUIRE(support::until([&] { return call.done(); }, [&] { pair.pump(); }));
        REQUIRE(call.ret() == HG_SUCCESS);
        call.reset();
    }
    REQUIRE(pair.await(kCalls));
    CHECK(pair.all_over());
    CHECK(pair.core().counters().requests_refused == 0);
    CHECK(pair.core().handles() < 600);
    Call echo(pair.a, pair.to_b, pair.a.empty);
    CHECK(pair.run(echo) == HG_SUCCESS);
}

TEST_CASE("the late answer to a one-way call reaches nobody else") {
    Owing pair;
    Side other;
    const Addr from_other(other, pair.b.uri());
    REQUIRE(HG_Registered_disable_response(other.cls(), other.echo, 1) == HG_SUCCESS);
    Call sly(other, from_other, other.echo);
    sly.decode_output = false;
    const auto pump = [&] {
        other.pump();
        pair.pump();
    };
    for (const std::size_t size : {10, 200'000}) {
        owed.clear();
        for (unsigned i = 0; i < 50; ++i) {
            Blob in = blob(i, size);
            REQUIRE(sly.forward(in) == HG_SUCCESS);
            REQUIRE(support::until([&] { return sly.done() && owed.size() > i; }, pump));
            CHECK(sly.ret() == HG_SUCCESS);
            sly.reset();
        }
        const std::vector<hg_handle_t> gone = owed;
        owed.clear();
        std::vector<std::unique_ptr<Call>> calls;
        for (unsigned i = 0; i < 100; ++i) {
            calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
            Blob in = blob(i, 10);
            REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
            pump();
        }
        REQUIRE(support::until([&] { return owed.size() == calls.size(); }, pump));
        Blob wrong = blob(1234, 10);
        for (hg_handle_t h : gone) {
            CHECK(HG_Respond(h, nullptr, nullptr, &wrong) == HG_OPNOTSUPPORTED);
        }
        pair.rounds();
        for (hg_handle_t h : owed) {
            Blob right = blob(77, 10);
            CHECK(HG_Respond(h, nullptr, nullptr, &right) == HG_SUCCESS);
        }
        for (const auto& call : calls) {
            REQUIRE(pair.wait(*call) == HG_SUCCESS);
            CHECK(is_blob(call->out(), 77, 10, 77));
        }
        CHECK(pair.all_over());
    }
}

TEST_CASE("a call that waits for the answer of an RPC that is one-way at its target is told") {
    Pair pair;
    REQUIRE(HG_Registered_disable_response(pair.b.cls(), pair.b.drop, 1) == HG_SUCCESS);
    const auto once = [](hg_handle_t h) { return HG_Destroy(h); };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.drop, nullptr, nullptr, once) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.drop);
    for (int i = 0; i < 100; ++i) {
        CHECK(pair.run(call) == HG_OTHER_ERROR);
    }
}

TEST_CASE("buffers of one-way calls that were given back are nobody else's") {
    Owing pair;
    static std::vector<std::pair<std::byte*, std::size_t>> rooms;
    static std::vector<hg_handle_t> kept;
    rooms.clear();
    kept.clear();
    const auto keep_room = [](hg_handle_t h) {
        void* room = nullptr;
        hg_size_t size = 0;
        for (const auto get : {HG_Get_input_buf, HG_Get_output_buf}) {
            if (get(h, &room, &size) == HG_SUCCESS) {
                rooms.emplace_back(static_cast<std::byte*>(room), size);
            }
        }
        owed.push_back(h);
        return HG_Destroy(h);
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, keep_room) == HG_SUCCESS);
    Sly sly(pair.b);
    for (unsigned i = 0; i < 40; ++i) {
        sly.run(pair, i);
    }
    REQUIRE(rooms.size() == 80);
    const auto keep = [](hg_handle_t h) {
        kept.push_back(h);
        return HG_SUCCESS;
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, keep) == HG_SUCCESS);
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 100; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, 50);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
        pair.pump();
    }
    REQUIRE(support::until([&] { return kept.size() == calls.size(); }, [&] { pair.pump(); }));
    for (const auto& [room, size] : rooms) {
        std::fill_n(room, std::min<std::size_t>(size, 200), std::byte{0xee});
    }
    for (hg_handle_t h : kept) {
        Blob in;
        REQUIRE(HG_Get_input(h, &in) == HG_SUCCESS);
        CHECK(is_blob(in, in.number, 50, in.number));
        CHECK(HG_Respond(h, nullptr, nullptr, &in) == HG_SUCCESS);
        CHECK(HG_Free_input(h, &in) == HG_SUCCESS);
        CHECK(HG_Destroy(h) == HG_SUCCESS);
    }
    for (unsigned i = 0; i < calls.size(); ++i) {
        REQUIRE(pair.wait(*calls[i]) == HG_SUCCESS);
        CHECK(is_blob(calls[i]->out(), i, 50, i));
    }
}

TEST_CASE("one-way calls, and a program that refuses handles, leave a target that listens") {
    static unsigned seen;
    seen = 0;
    Side::Settings settings;
    settings.init.request_post_init = 4;
    settings.init.request_post_incr = -1;
    Owing pair(settings);
    // From now on; it has refused whatever came since.
    const auto refuse = [](hg_handle_t, void*) {
        ++seen;
        return HG_NOMEM;
    };
    REQUIRE(HG_Class_set_handle_create_callback(pair.b.cls(), refuse, nullptr) == HG_SUCCESS);
    Sly sly(pair.b);
    for (unsigned i = 0; i < 20; ++i) {
        Blob in = blob(i, 10);
        REQUIRE(sly.call.forward(in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return sly.call.done() && seen > i; },
                               [&] {
                                   sly.side.pump();
                                   pair.pump();
                               }));
        sly.call.reset();
    }
    CHECK(owed.empty());
    Call call(pair.a, pair.to_b, pair.a.empty);
    for (unsigned i = 0; i < 20; ++i) {
        CHECK(pair.run(call) == HG_SUCCESS);
    }
    CHECK(pair.all_over());
}

TEST_CASE("each handle of one-way calls is shown to the program once, and keeps its data") {
    static unsigned seen;
    static unsigned freed;
    static std::vector<void*> met;
    seen = freed = 0;
    met.clear();
    {
        Owing pair;
        const auto created = [](hg_handle_t h, void*) {
            ++seen;
            return HG_Set_data(h, &seen, [](void*) { ++freed; });
        };
        REQUIRE(HG_Class_set_handle_create_callback(pair.b.cls(), created, nullptr) == HG_SUCCESS);
        const auto look = [](hg_handle_t h) {
            met.push_back(HG_Get_data(h));
            owed.push_back(h);
            return HG_Destroy(h);
        };
        REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, look) == HG_SUCCESS);
        Sly sly(pair.b);
        for (unsigned i = 0; i < 300; ++i) {
            sly.run(pair, i, i % 20 == 0 ? 100'000 : 10);
        }
        CHECK(seen < 200);  // those that are not used again at once, and some posted receives
        CHECK(freed == 0);
        CHECK(met == std::vector<void*>(300, &seen));
    }
    CHECK(freed == seen);
}

TEST_CASE("an RPC is made one-way while a request of it waits for trigger") {
    Pair pair;
    const auto once = [](hg_handle_t h) { return HG_Destroy(h); };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.drop, nullptr, nullptr, once) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.drop);
    REQUIRE(call.forward() == HG_SUCCESS);
    auto& b = *reinterpret_cast<hg::Context*>(pair.b.context());
    REQUIRE(support::until([&] { return b.callbacks_due() != 0; },
                           [&] {
                               pair.a.pump();
                               (void)HG_Progress(pair.b.context(), 0);
                           }));
    REQUIRE(HG_Registered_disable_response(pair.b.cls(), pair.b.drop, 1) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_OTHER_ERROR);
}

TEST_CASE("who gives up the response to a one-way call takes nobody's reference") {
    Owing pair;
    static std::vector<hg_handle_t> held;
    held.clear();
    Sly sly(pair.b);
    sly.run(pair, 1);
    const hg_handle_t gone = owed[0];
    const auto hold = [](hg_handle_t h) {
        held.push_back(h);
        owed.push_back(h);
        return HG_SUCCESS;
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.b.echo, proc_blob, proc_blob, hold) == HG_SUCCESS);
    for (unsigned i = 0; i < 20; ++i) {
        sly.run(pair, i);
        CHECK(HG_Destroy(gone) == HG_INVALID_ARG);
    }
    for (unsigned i = 0; i < held.size(); ++i) {
        Blob in;
        REQUIRE(HG_Get_input(held[i], &in) == HG_SUCCESS);
        CHECK(is_blob(in, i, 10, i));
        CHECK(HG_Free_input(held[i], &in) == HG_SUCCESS);
        CHECK(HG_Destroy(held[i]) == HG_SUCCESS);
    }
    CHECK(pair.all_over());
}
