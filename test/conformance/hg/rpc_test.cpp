// SPDX-License-Identifier: BSD-3-Clause
// The ordinary RPC: arguments there, results back, handles used again, many in flight.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>

#include "conformance/hg/side.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("a call carries its arguments there and the results back") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (const std::size_t size : {0, 1, 7, 8, 63, 64, 100, 1000, 3000}) {
        Blob in = blob(size + 3, size);
        REQUIRE(pair.run(call, in) == HG_SUCCESS);
        CHECK(is_blob(call.out(), size + 4, size, size + 3));
        CHECK(pair.b.last_bytes_good);
    }
    CHECK(pair.b.served == 9);
}

TEST_CASE("a handle is used many times") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (unsigned i = 0; i < 2000 / support::kSlow; ++i) {
        Blob in = blob(i, i % 128);
        REQUIRE(pair.run(call, in) == HG_SUCCESS);
        REQUIRE(call.out().number == i + 1);
    }
    CHECK(HG_Ref_get(call.handle()) == 1);
}

TEST_CASE("nothing need be encoded") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.empty);
    CHECK(pair.run(call) == HG_SUCCESS);
    CHECK(pair.b.served == 1);
    CHECK(HG_Get_output_payload_size(call.handle()) == 0);
    int dummy = 0;
    CHECK(HG_Get_output(call.handle(), &dummy) == HG_FAULT);  // it has no output structure
}

TEST_CASE("many calls are in flight at a time") {
    Pair pair;
    constexpr unsigned kCalls = 700;  // more than are posted at a time
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, i % 200);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    REQUIRE(support::until([&] { return pair.b.served == kCalls; }, [&] { pair.pump(); }));
    for (unsigned i = 0; i < kCalls; ++i) {
        REQUIRE(pair.wait(*calls[i]) == HG_SUCCESS);
        REQUIRE(is_blob(calls[i]->out(), i + 1, i % 200, i));
    }
}

TEST_CASE("many requests are held by the target at a time, and answered in any order") {
    Pair pair;
    constexpr unsigned kCalls = 1500;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
        REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
    }
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return held.size() == kCalls; }, [&] { pair.pump(); }));
    CHECK(pair.b.counters().rpc_req_recv_active_count == kCalls);
    for (unsigned i = 0; i < kCalls; ++i) {
        const hg_handle_t h = held[kCalls - 1 - i];
        Blob out = blob(i, 10);
        REQUIRE(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
        REQUIRE(HG_Destroy(h) == HG_SUCCESS);
    }
    held.clear();
    for (auto& call : calls) {
        REQUIRE(pair.wait(*call) == HG_SUCCESS);
        REQUIRE(call->out().bytes.size() == 10);
    }
    // The last answers may be here before their sender hears that they were sent.
    CHECK(support::until([&] { return pair.b.counters().rpc_req_recv_active_count == 0; },
                         [&] { pair.pump(); }));
}

TEST_CASE("no more handles than asked for are posted where they must not grow") {
    Side::Settings few;
    few.init.request_post_init = 3;
    few.init.request_post_incr = -1;
    Pair pair(Side::Settings{}, few);
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 10; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
        calls.back()->decode_output = false;
        REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
    }
    auto& held = pair.b.held();
    unsigned answered = 0;
    REQUIRE(support::until([&] { return answered == 10; },
                           [&] {
                               pair.pump();
                               REQUIRE(held.size() <= 3);
                               if (held.size() == 3 || answered == 9) {
                                   for (const hg_handle_t h : held) {
                                       HG_Respond(h, nullptr, nullptr, nullptr);
                                       HG_Destroy(h);
                                       ++answered;
                                   }
                                   held.clear();
                               }
                           }));
    for (auto& call : calls) {
        CHECK(pair.wait(*call) == HG_SUCCESS);
    }
}

TEST_CASE("the target knows who asks, and can ask back") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(5) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    const struct hg_info* info = HG_Get_info(held[0]);
    CHECK(info->hg_class == pair.b.cls());
    CHECK(info->context == pair.b.context());
    CHECK(info->id == pair.b.hold);
    CHECK(info->context_id == 0);
    CHECK(HG_Get_input_payload_size(held[0]) == 8);
    REQUIRE(info->addr != HG_ADDR_NULL);
    {
        // The address of the handle is borrowed; a duplicate outlives it.
        hg_addr_t dup = HG_ADDR_NULL;
        REQUIRE(HG_Addr_dup(pair.b.cls(), info->addr, &dup) == HG_SUCCESS);
        const Addr to_a(pair.b, dup);
        CHECK(HG_Addr_cmp(pair.b.cls(), dup, info->addr) == HG_TRUE);
        CHECK(HG_Addr_free(pair.b.cls(), info->addr) == HG_INVALID_ARG);
        HG_Respond(held[0], nullptr, nullptr, nullptr);
        HG_Destroy(held[0]);
        held.clear();
        call.decode_output = false;
        CHECK(pair.wait(call) == HG_SUCCESS);
        Call back(pair.b, to_a, pair.b.echo);
        Blob in = blob(9, 9);
        CHECK(pair.run(back, in) == HG_SUCCESS);
        CHECK(back.out().number == 10);
    }
}

TEST_CASE("contexts of one class are addressed by their id") {
    Side::Settings three;
    three.contexts = 3;
    Pair pair(three, three);
    for (std::uint8_t from = 0; from < 3; ++from) {
        for (std::uint8_t to = 0; to < 3; ++to) {
            Call call(pair.a, pair.to_b, pair.a.hold, from);
            REQUIRE(HG_Set_target_id(call.handle(), to) == HG_SUCCESS);
            REQUIRE(call.forward(to) == HG_SUCCESS);
            auto& held = pair.b.held();
            REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
            CHECK(HG_Get_info(held[0])->context == pair.b.context(to));
            CHECK(HG_Get_info(held[0])->context_id == from);
            Blob out = blob(1, 6000);
            CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
            HG_Destroy(held[0]);
            held.clear();
            REQUIRE(pair.wait(call) == HG_SUCCESS);
            CHECK(is_blob(call.out(), 1, 6000, 1));
        }
    }
}

TEST_CASE("respond callbacks come once, and may come after the handle was destroyed") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(5) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    struct Seen {
        unsigned count = 0;
        hg_return_t ret = HG_RETURN_MAX;
        hg_cb_type_t type = HG_CB_LOOKUP;
        hg_handle_t handle = nullptr;
    } seen;
    const auto on_responded = [](const struct hg_cb_info* info) -> hg_return_t {
        auto& s = *static_cast<Seen*>(info->arg);
        ++s.count;
        s.ret = info->ret;
        s.type = info->type;
        s.handle = info->info.respond.handle;
        return HG_SUCCESS;
    };
    Blob out = blob(1, 1);
    REQUIRE(HG_Respond(held[0], on_responded, &seen, &out) == HG_SUCCESS);
    CHECK(HG_Respond(held[0], on_responded, &seen, &out) == HG_BUSY);
    CHECK(HG_Get_output_payload_size(held[0]) == 17);
    const hg_handle_t handle = held[0];
    HG_Destroy(held[0]);
    held.clear();
    CHECK(pair.wait(call) == HG_SUCCESS);
    REQUIRE(support::until([&] { return seen.count != 0; }, [&] { pair.pump(); }));
    pair.pump();
    CHECK(seen.count == 1);
    CHECK(seen.ret == HG_SUCCESS);
    CHECK(seen.type == HG_CB_RESPOND);
    CHECK(seen.handle == handle);
}

// Who cleans up when he gives back what HG_Ref_get says is the last reference may still have to
// respond (Margo).
TEST_CASE("a target's handle has a reference more until the response has left") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(5) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    const hg_handle_t handle = held[0];
    CHECK(HG_Ref_get(handle) == 2);
    struct Seen {
        unsigned count = 0;
        int32_t references = 0;
    } seen;
    const auto on_responded = [](const struct hg_cb_info* info) -> hg_return_t {
        auto& s = *static_cast<Seen*>(info->arg);
        ++s.count;
        s.references = HG_Ref_get(info->info.respond.handle);
        return HG_SUCCESS;
    };
    Blob out = blob(1, 1);
    REQUIRE(HG_Respond(handle, on_responded, &seen, &out) == HG_SUCCESS);
    CHECK(HG_Ref_get(handle) == 2);
    REQUIRE(support::until([&] { return seen.count != 0; }, [&] { pair.pump(); }));
    CHECK(seen.references == 2);
    REQUIRE(support::until([&] { return HG_Ref_get(handle) == 1; }, [&] { pair.pump(); }));
    CHECK(HG_Destroy(handle) == HG_SUCCESS);
    held.clear();
    CHECK(pair.wait(call) == HG_SUCCESS);
}

TEST_CASE("results stay until the handle is used again") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.grow);
    for (const std::size_t size : {100, 70'000}) {
        REQUIRE(pair.run(call, size) == HG_SUCCESS);
        for (int i = 0; i < 2; ++i) {
            Blob out;
            REQUIRE(HG_Get_output(call.handle(), &out) == HG_SUCCESS);
            CHECK(is_blob(out, size, size, size));
            CHECK(HG_Ref_get(call.handle()) == 2);
            CHECK(HG_Free_output(call.handle(), &out) == HG_SUCCESS);
        }
        CHECK(HG_Get_output_payload_size(call.handle()) == size + 16);
    }
}

TEST_CASE("the user's bytes at the start of messages travel untouched") {
    Pair pair;
    for (Side* side : {&pair.a, &pair.b}) {
        REQUIRE(HG_Class_set_input_offset(side->cls(), 24) == HG_SUCCESS);
        REQUIRE(HG_Class_set_output_offset(side->cls(), 16) == HG_SUCCESS);
        CHECK(HG_Class_set_input_offset(side->cls(), 1 << 30) == HG_INVALID_ARG);
    }
    for (const std::uint64_t size : {50U, 90'000U}) {
        Call call(pair.a, pair.to_b, pair.a.hold);
        void* buf = nullptr;
        hg_size_t room = 0;
        REQUIRE(HG_Get_input_buf(call.handle(), &buf, &room) == HG_SUCCESS);
        CHECK(room >= 1000);
        std::memcpy(buf, "twenty-four bytes there!", 24);
        REQUIRE(call.forward(size) == HG_SUCCESS);
        auto& held = pair.b.held();
        REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
        REQUIRE(HG_Get_input_buf(held[0], &buf, &room) == HG_SUCCESS);
        CHECK(room == 24 + 8);
        CHECK(std::memcmp(buf, "twenty-four bytes there!", 24) == 0);
        CHECK(HG_Get_input_payload_size(held[0]) == 8);
        REQUIRE(HG_Get_output_buf(held[0], &buf, &room) == HG_SUCCESS);
        std::memcpy(buf, "and sixteen back", 16);
        Blob out = blob(1, size);
        REQUIRE(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
        HG_Destroy(held[0]);
        held.clear();
        REQUIRE(pair.wait(call) == HG_SUCCESS);
        CHECK(is_blob(call.out(), 1, size, 1));
        REQUIRE(HG_Get_output_buf(call.handle(), &buf, &room) == HG_SUCCESS);
        CHECK(room >= 16);
        CHECK(std::memcmp(buf, "and sixteen back", 16) == 0);
        CHECK(HG_Get_output_payload_size(call.handle()) == size + 16);
        CHECK(HG_Get_input_payload_size(call.handle()) == 8);
    }
}

TEST_CASE("both ends know how large the structures were") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    CHECK(HG_Get_input_payload_size(call.handle()) == 0);
    for (const std::size_t size : {0, 10, 90'000}) {
        Blob in = blob(1, size);
        REQUIRE(pair.run(call, in) == HG_SUCCESS);
        CHECK(HG_Get_input_payload_size(call.handle()) == size + 16);
        CHECK(HG_Get_output_payload_size(call.handle()) == size + 16);
    }
    REQUIRE(HG_Reset(call.handle(), HG_ADDR_NULL, pair.a.empty) == HG_SUCCESS);
    CHECK(HG_Get_input_payload_size(call.handle()) == 0);
    call.reset();
    call.decode_output = false;
    REQUIRE(pair.run(call) == HG_SUCCESS);
    CHECK(HG_Get_input_payload_size(call.handle()) == 0);
    CHECK(HG_Get_output_payload_size(call.handle()) == 0);
}

TEST_CASE("an input can be released before the handle") {
    Side::Settings early;
    early.init.release_input_early = 1;
    Pair pair(Side::Settings{}, early);
    for (const std::size_t size : {10, 80'000}) {
        Call call(pair.a, pair.to_b, pair.a.hold);
        REQUIRE(call.forward(size) == HG_SUCCESS);  // the handler gets the input, which releases it
        auto& held = pair.b.held();
        REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
        std::uint64_t n = 0;
        CHECK(HG_Get_input(held[0], &n) == HG_FAULT);
        void* buf = nullptr;
        hg_size_t room = 0;
        CHECK(HG_Get_input_buf(held[0], &buf, &room) == HG_FAULT);
        CHECK(HG_Release_input_buf(held[0]) == HG_SUCCESS);
        HG_Respond(held[0], nullptr, nullptr, nullptr);
        HG_Destroy(held[0]);
        held.clear();
        call.decode_output = false;
        CHECK(pair.wait(call) == HG_SUCCESS);
        Call large(pair.a, pair.to_b, pair.a.echo);
        Blob in = blob(2, size);
        CHECK(pair.run(large, in) == HG_SUCCESS);
        CHECK(is_blob(large.out(), 3, size, 2));
    }
}
