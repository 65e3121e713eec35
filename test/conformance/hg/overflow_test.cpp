// SPDX-License-Identifier: BSD-3-Clause
// Structures beyond the eager size, in both directions.
#include <catch2/catch.hpp>

#include <memory>

#include "conformance/hg/side.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

constexpr std::size_t kHead = 16;  // of an encoded blob: number and size

}  // namespace

TEST_CASE("structures around the eager size arrive whole") {
    Pair pair;
    const std::size_t in_eager = HG_Class_get_input_eager_size(pair.a.cls()) - kHead;
    const std::size_t out_eager = HG_Class_get_output_eager_size(pair.a.cls()) - kHead;
    REQUIRE(in_eager > 512);
    Call call(pair.a, pair.to_b, pair.a.echo);
    for (const std::size_t at : {in_eager, out_eager}) {
        for (const int off : {-2, -1, 0, 1, 2, 8, 100}) {
            const std::size_t size = at + static_cast<std::size_t>(off);
            Blob in = blob(size, size);
            REQUIRE(pair.run(call, in) == HG_SUCCESS);
            CHECK(is_blob(call.out(), size + 1, size, size));
            CHECK(pair.b.last_bytes == size);
        }
    }
    // Exactly the eager size is the last that needs no second message.
    const auto before = pair.a.counters().rpc_req_extra_count;
    Blob fits = blob(1, in_eager);
    CHECK(pair.run(call, fits) == HG_SUCCESS);
    CHECK(pair.a.counters().rpc_req_extra_count == before);
    Blob over = blob(1, in_eager + 1);
    CHECK(pair.run(call, over) == HG_SUCCESS);
    CHECK(pair.a.counters().rpc_req_extra_count == before + 1);
}

TEST_CASE("large structures travel in either direction alone, and in both") {
    Pair pair;
    for (const std::size_t size : {std::size_t{70'000}, std::size_t{200'000},
                                   std::size_t{1'000'000}, std::size_t{9'000'000}}) {
        Call out(pair.a, pair.to_b, pair.a.grow);
        REQUIRE(pair.run(out, size) == HG_SUCCESS);
        CHECK(is_blob(out.out(), size, size, size));
        Call both(pair.a, pair.to_b, pair.a.echo);
        Blob in = blob(size, size);
        REQUIRE(pair.run(both, in) == HG_SUCCESS);
        CHECK(is_blob(both.out(), size + 1, size, size));
        Call one_way(pair.a, pair.to_b, pair.a.note);
        REQUIRE(pair.run(one_way, in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return pair.b.last_number == size && pair.b.notes != 0; },
                               [&] { pair.pump(); }));
        CHECK(pair.b.last_bytes == size);
        CHECK(pair.b.last_bytes_good);
    }
    CHECK(pair.b.counters().rpc_req_extra_count == 8);
    CHECK(pair.b.counters().rpc_resp_extra_count == 8);
    CHECK(pair.a.counters().rpc_resp_extra_count == 8);
}

TEST_CASE("many large calls at a time") {
    Pair pair;
    constexpr unsigned kCalls = 60;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, 5000 + i * 1000);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    for (unsigned i = 0; i < kCalls; ++i) {
        REQUIRE(pair.wait(*calls[i]) == HG_SUCCESS);
        REQUIRE(is_blob(calls[i]->out(), i + 1, 5000 + i * 1000, i));
    }
}

TEST_CASE("the respond callback of a large response comes when the origin has it") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    struct Seen {
        unsigned count = 0;
        hg_return_t ret = HG_RETURN_MAX;
    } seen;
    const auto responded = [](const struct hg_cb_info* info) -> hg_return_t {
        auto& s = *static_cast<Seen*>(info->arg);
        ++s.count;
        s.ret = info->ret;
        return HG_SUCCESS;
    };
    Blob out = blob(7, 100'000);
    REQUIRE(HG_Respond(held[0], responded, &seen, &out) == HG_SUCCESS);
    HG_Destroy(held[0]);
    held.clear();
    for (int i = 0; i < 100; ++i) {
        pair.b.pump();
    }
    CHECK(seen.count == 0);  // the origin has not looked yet
    CHECK(pair.wait(call) == HG_SUCCESS);
    CHECK(is_blob(call.out(), 7, 100'000, 7));
    REQUIRE(support::until([&] { return seen.count != 0; }, [&] { pair.pump(); }));
    CHECK(seen.count == 1);
    CHECK(seen.ret == HG_SUCCESS);
}

TEST_CASE("a large input is seen through the raw functions too") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    hg_id_t raw =
        HG_Register_name(pair.b.cls(), "raw", nullptr, nullptr, [](hg_handle_t h) -> hg_return_t {
            void* buf = nullptr;
            hg_size_t size = 0;
            HG_Get_input_extra_buf(h, &buf, &size);
            auto* side = static_cast<Side*>(HG_Class_get_data(HG_Get_info(h)->hg_class));
            side->last_bytes = size;
            side->last_bytes_good =
                HG_Get_input_payload_size(h) == size && buf != nullptr &&
                support::mismatch(static_cast<std::byte*>(buf) + kHead, size - kHead, 3) == -1;
            HG_Respond(h, nullptr, nullptr, nullptr);
            return HG_Destroy(h);
        });
    REQUIRE(HG_Register_name(pair.a.cls(), "raw", proc_blob, nullptr, nullptr) == raw);
    Call raw_call(pair.a, pair.to_b, raw);
    Blob in = blob(3, 70'000);
    CHECK(pair.run(raw_call, in) == HG_SUCCESS);
    CHECK(pair.b.last_bytes == 70'000 + kHead);
    CHECK(pair.b.last_bytes_good);
}

TEST_CASE("where large structures are switched off they are refused before anything is sent") {
    Side::Settings small;
    small.init.no_overflow = true;
    Pair pair(small, small);
    const std::size_t in_eager = HG_Class_get_input_eager_size(pair.a.cls()) - kHead;
    Call call(pair.a, pair.to_b, pair.a.echo);
    Blob over = blob(1, in_eager + 1);
    CHECK(call.forward(over) == HG_OVERFLOW);
    CHECK(pair.a.counters().rpc_req_sent_count == 0);
    Blob fits = blob(1, 100);
    CHECK(pair.run(call, fits) == HG_SUCCESS);  // the handle is as it was

    Call held_call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(held_call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    Blob large = blob(1, 100'000);
    CHECK(HG_Respond(held[0], nullptr, nullptr, &large) == HG_OVERFLOW);
    Blob little = blob(1, 10);
    CHECK(HG_Respond(held[0], nullptr, nullptr, &little) == HG_SUCCESS);
    HG_Destroy(held[0]);
    held.clear();
    CHECK(pair.wait(held_call) == HG_SUCCESS);
}

TEST_CASE("more than the target accepts is refused by it, and the origin told") {
    setenv("HG_OVERFLOW_LIMIT", "100000", 1);
    Side target;
    setenv("HG_OVERFLOW_LIMIT", "", 1);
    Side origin;
    const Addr to(origin, target.uri());
    Call call(origin, to, origin.echo);
    const auto pump = [&] {
        origin.pump();
        target.pump();
    };
    Blob over = blob(1, 100'001);
    REQUIRE(call.forward(over) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, pump));
    CHECK(call.ret() == HG_MSGSIZE);
    CHECK(target.served == 0);
    call.reset();
    Blob fits = blob(1, 90'000);
    REQUIRE(call.forward(fits) == HG_SUCCESS);
    REQUIRE(support::until([&] { return call.done(); }, pump));
    CHECK(call.ret() == HG_SUCCESS);

    // And the other way: an origin that does not want the response says so to the target.
    Side& greedy = origin;
    const Addr to_origin(target, greedy.uri());
    Call back(target, to_origin, target.grow);
    REQUIRE(back.forward(200'000) == HG_SUCCESS);
    REQUIRE(support::until([&] { return back.done(); }, pump));
    CHECK(back.ret() == HG_MSGSIZE);
    // One-way, too: its origin waits for the acknowledgement.
    Call note(origin, to, origin.note);
    REQUIRE(note.forward(over) == HG_SUCCESS);
    REQUIRE(support::until([&] { return note.done(); }, pump));
    CHECK(note.ret() == HG_MSGSIZE);
    CHECK(target.notes == 0);
}
