// SPDX-License-Identifier: BSD-3-Clause
// What peers may make a side keep: late answers, requests that are not answered, large payloads.
// Beyond a limit the caller is told to come again, and nothing is lost without a code.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "conformance/hg/owing.hpp"
#include "conformance/hg/setting.hpp"
#include "conformance/hg/side.hpp"
#include "hg/context.hpp"
#include "hg/wire.hpp"
#include "support/na_endpoint.hpp"
#include "support/payload.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

hg::Context& core(Side& side) {
    return *reinterpret_cast<hg::Context*>(side.context());
}

std::uint64_t stat(Side& side, const std::string& name) {
    for (const na::plugin::Stat& s : core(side).net().stats()) {
        if (s.name == name) {
            return s.value;
        }
    }
    throw std::runtime_error("no counter " + name);
}

}  // namespace

TEST_CASE("answers that nobody waits for any more are not kept") {
    // More than stragglers take.
    constexpr unsigned kCalls = 1500;
    Pair pair;
    std::vector<std::unique_ptr<Call>> calls;
    const auto all_done = [&] {
        for (const auto& call : calls) {
            if (!call->done()) {
                return false;
            }
        }
        return true;
    };
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
        REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
        pair.b.pump();
    }
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return held.size() == kCalls; }, [&] { pair.pump(); }));
    for (const auto& call : calls) {
        REQUIRE(HG_Cancel(call->handle()) == HG_SUCCESS);
    }
    REQUIRE(support::until(all_done, [&] { pair.a.pump(); }));
    Blob out = blob(1, 20);
    for (hg_handle_t h : held) {
        CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
        HG_Destroy(h);
    }
    held.clear();
    REQUIRE(support::until(
        [&] {
            return pair.b.counters().rpc_resp_sent_count == kCalls &&
                   stat(pair.a, "dropped") >= kCalls - 1024;
        },
        [&] { pair.pump(); }));
    CHECK(stat(pair.a, "held") == 0);
    Call next(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(1, 10);
    CHECK(pair.run(next, in) == HG_SUCCESS);
}

TEST_CASE("answers to nobody are not kept, and cost others none") {
    Side target;
    support::Endpoint stranger;
    const support::Addr to(stranger, target.uri());
    support::Buffer out(stranger);
    constexpr unsigned kMessages = 200;
    unsigned sent = 0;
    const auto pump = [&] {
        target.pump();
        stranger.pump();
    };
    for (unsigned i = 0; i < kMessages; ++i) {
        support::Op send(stranger);
        REQUIRE(send.send_expected(out, stranger.header(true) + 30, to, i) == NA_SUCCESS);
        REQUIRE(support::until([&] { return send.done(); }, pump));
        sent += send.ret() == NA_SUCCESS ? 1 : 0;
    }
    CHECK(sent == kMessages);
    REQUIRE(support::until(
        [&] { return stat(target, "dropped") + stat(target, "held") >= kMessages; }, pump));
    CHECK(stat(target, "held") == 0);
}

namespace {

// Registers an RPC that takes a blob and keeps its handle.
hg_id_t add_keep(Side& side) {
    return HG_Register_name(
        side.cls(), "keep", proc_blob, nullptr, [](hg_handle_t h) -> hg_return_t {
            static_cast<Side*>(HG_Class_get_data(HG_Get_info(h)->hg_class))->held().push_back(h);
            return HG_SUCCESS;
        });
}

void answer_held(Side& side) {
    for (hg_handle_t h : side.held()) {
        CHECK(HG_Respond(h, nullptr, nullptr, nullptr) == HG_SUCCESS);
        HG_Destroy(h);
    }
    side.held().clear();
}

}  // namespace

TEST_CASE("a target with as many requests as it may have tells callers to come again") {
    constexpr unsigned kLimit = 8;
    constexpr unsigned kCalls = 30;
    for (const bool release_early : {false, true}) {
        const Setting limit("HG_REQUEST_LIMIT", "8");
        Side::Settings few;
        few.init.request_post_init = 4;
        few.init.request_post_incr = 4;
        few.init.release_input_early = release_early ? 1 : 0;
        Pair pair(Side::Settings{}, few);
        const hg_id_t keep = add_keep(pair.b);
        REQUIRE(HG_Register_name(pair.a.cls(), "keep", proc_blob, nullptr, nullptr) == keep);
        std::vector<std::unique_ptr<Call>> calls;
        Blob in = blob(1, 10);
        const auto run = [&] {
            for (unsigned i = 0; i < kCalls; ++i) {
                calls.push_back(
                    std::make_unique<Call>(pair.a, pair.to_b, release_early ? pair.a.hold : keep));
                calls.back()->decode_output = false;
                REQUIRE((release_early ? calls.back()->forward(i) : calls.back()->forward(in)) ==
                        HG_SUCCESS);
            }
            unsigned refused = 0;
            REQUIRE(support::until(
                [&] {
                    refused = 0;
                    for (const auto& call : calls) {
                        refused += call->done() ? 1 : 0;
                    }
                    return refused == kCalls - kLimit && pair.b.held().size() == kLimit;
                },
                [&] { pair.pump(); }));
            for (int i = 0; i < 100; ++i) {
                pair.pump();
            }
            CHECK(pair.b.held().size() == kLimit);
            for (const auto& call : calls) {
                CHECK((!call->done() || call->ret() == HG_AGAIN));
            }
            answer_held(pair.b);
            for (const auto& call : calls) {
                if (!call->done()) {
                    CHECK(pair.wait(*call) == HG_SUCCESS);
                }
            }
            calls.clear();
        };
        run();
        CHECK(core(pair.b).counters().requests_refused == kCalls - kLimit);
        CHECK(core(pair.b).counters().requests_unanswered == 0);
        run();  // there is room again
        Call next(pair.a, pair.to_b, pair.a.echo);
        CHECK(pair.run(next, in) == HG_SUCCESS);
    }
}

TEST_CASE("large responses that are not acknowledged end, the oldest first") {
    constexpr unsigned kCalls = 10;
    const Setting limit("HG_UNACKED_LIMIT", "1000000");
    Side target;
    Side honest;
    const Addr from_honest(honest, target.uri());
    const auto active = [&] { return target.counters().rpc_req_recv_active_count; };
    {
        support::Endpoint silent;
        const support::Addr to(silent, target.uri());
        support::Buffer out(silent);
        const auto pump = [&] {
            target.pump();
            silent.pump();
        };
        for (unsigned i = 0; i < kCalls; ++i) {
            const std::uint64_t size = 200'000;  // in a buffer of 256 KiB
            std::byte* at = out.data() + silent.header();
            std::memcpy(at + hg::wire::kRequestSize, &size, sizeof size);
            hg::wire::encode(at, hg::wire::Request{.cookie = i, .id = target.grow}, sizeof size);
            support::Op send(silent);
            REQUIRE(send.send_unexpected(out,
                                         silent.header() + hg::wire::kRequestSize + sizeof size, to,
                                         i) == NA_SUCCESS);
            REQUIRE(support::until([&] { return send.done(); }, pump));
        }
        REQUIRE(support::until([&] { return target.served == kCalls && active() <= 3; }, pump));
        CHECK(active() == 3);
        CHECK(core(target).counters().responses_given_up == kCalls - 3);
        // Another one is not harmed.
        Call call(honest, from_honest, honest.grow);
        REQUIRE(call.forward(300'000) == HG_SUCCESS);
        REQUIRE(support::until([&] { return call.done(); }, pump, [&] { honest.pump(); }));
        CHECK(call.ret() == HG_SUCCESS);
        CHECK(is_blob(call.out(), 300'000, 300'000, 300'000));
        CHECK(active() <= 3);
    }
    // The peer has gone: so have its responses.
    CHECK(support::until([&] { return active() == 0; }, [&] { target.pump(); }));
}

TEST_CASE(
    "requests that are owed nothing but their answers keep no payload, and no more than some") {
    constexpr std::size_t kSize = 100'000;
    const Setting total("HG_OVERFLOW_TOTAL", "300000");
    const Setting limit("HG_REQUEST_LIMIT", "600");
    Owing pair;
    const auto large = pair.call(10, kSize);
    for (const auto& call : large) {
        CHECK_FALSE(call->done());  // none was refused
    }
    const auto small = pair.call(1000 - large.size());
    CHECK(support::until([&] { return pair.active() == 150; }, [&] { pair.pump(); }));
    for (const auto& call : large) {
        CHECK(pair.wait(*call) == HG_OTHER_ERROR);
    }
    Call other(pair.a, pair.to_b, pair.a.empty);
    CHECK(pair.run(other) == HG_SUCCESS);
    for (hg_handle_t h : owed) {
        (void)HG_Destroy(h);
    }
    for (const auto& call : small) {
        CHECK(pair.wait(*call) == HG_OTHER_ERROR);
    }
    CHECK(pair.all_over());
}

TEST_CASE("an RPC that is responded to late keeps what it owes, and refuses what is beyond") {
    constexpr std::size_t kLimit = 64;
    const Setting limit("HG_REQUEST_LIMIT", "64");
    Side::Settings few;
    few.init.request_post_init = 16;
    Owing pair(few);
    pair.learn();
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 2 * kLimit; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo));
        Blob in = blob(i, 10);
        REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
    }
    const auto refused = [&] {
        return static_cast<std::size_t>(std::count_if(
            calls.begin(), calls.end(), [](const auto& call) { return call->done(); }));
    };
    REQUIRE(support::until([&] { return refused() == kLimit; }, [&] { pair.pump(); }));
    REQUIRE(owed.size() == kLimit);
    for (std::size_t i = 0; i < kLimit; ++i) {
        Blob out = blob(numbers[i] + 1, 10);
        CHECK(HG_Respond(owed[i], nullptr, nullptr, &out) == HG_SUCCESS);
    }
    std::size_t good = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const hg_return_t ret = pair.wait(*calls[i]);
        if (ret == HG_SUCCESS) {
            CHECK(is_blob(calls[i]->out(), i + 1, 10, i + 1));
            ++good;
        } else {
            CHECK(ret == HG_AGAIN);
        }
    }
    CHECK(good == kLimit);
    CHECK(pair.all_over());
}

TEST_CASE("late answers that nobody acknowledges end nobody else's request") {
    constexpr unsigned kUnacked = 32;
    const Setting limit("HG_REQUEST_LIMIT", "64");
    Side::Settings few;
    few.init.request_post_init = 64;
    Owing pair(few);
    pair.learn();
    Side idle;
    const Addr to(idle, pair.b.uri());
    std::vector<std::unique_ptr<Call>> unacked;
    Blob in = blob(1, 10);
    for (unsigned i = 0; i < kUnacked; ++i) {
        unacked.push_back(std::make_unique<Call>(idle, to, idle.echo));
        REQUIRE(unacked.back()->forward(in) == HG_SUCCESS);
    }
    REQUIRE(support::until([&] { return owed.size() == kUnacked; }, [&] { pair.pump(); },
                           [&] { idle.pump(); }));
    Blob large = blob(1, 300'000);
    for (hg_handle_t h : owed) {
        REQUIRE(HG_Respond(h, nullptr, nullptr, &large) == HG_SUCCESS);
    }
    owed.clear();
    const auto calls = pair.call(5);
    pair.rounds();
    Blob out = blob(2, 10);
    for (hg_handle_t h : owed) {
        CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
    }
    for (const auto& call : calls) {
        CHECK(pair.wait(*call) == HG_SUCCESS);
    }
    for (const auto& call : unacked) {
        REQUIRE(support::until([&] { return call->done(); }, [&] { pair.pump(); },
                               [&] { idle.pump(); }));
    }
    CHECK(pair.all_over());
}

TEST_CASE("a limit that is smaller than what is posted is as large as that") {
    constexpr unsigned kBurst = 400;  // of which a quarter of 512 is kept
    constexpr unsigned kOthers = 60;
    const Setting limit("HG_REQUEST_LIMIT", "64");
    Side::Settings many;
    many.init.request_post_init = 512;
    Owing pair(many);
    const auto burst = pair.call(kBurst);
    const std::vector<hg_handle_t> first = std::exchange(owed, {});
    const auto others = pair.call(kOthers);
    // Those of the burst that were ended, and answered all the same, are nobody else's.
    Blob out = blob(7, 10);
    for (hg_handle_t h : first) {
        const hg_return_t ret = HG_Respond(h, nullptr, nullptr, &out);
        CHECK((ret == HG_SUCCESS || ret == HG_BUSY));
    }
    pair.rounds();
    for (const auto& call : others) {
        CHECK_FALSE(call->done());
    }
    for (hg_handle_t h : owed) {
        (void)HG_Destroy(h);
    }
    for (const auto* calls : {&burst, &others}) {
        for (const auto& call : *calls) {
            (void)pair.wait(*call);
        }
    }
    CHECK(pair.all_over());
}

TEST_CASE("large payloads are limited in all, too") {
    constexpr unsigned kCalls = 5;
    constexpr std::size_t kSize = 100'000;  // in a buffer of 128 KiB
    const Setting one("HG_OVERFLOW_LIMIT", "120000");
    const Setting all("HG_OVERFLOW_TOTAL", "300000");
    Pair pair;
    const hg_id_t keep = add_keep(pair.b);
    REQUIRE(HG_Register_name(pair.a.cls(), "keep", proc_blob, nullptr, nullptr) == keep);
    for (unsigned round = 0; round < 2; ++round) {
        std::vector<std::unique_ptr<Call>> calls;
        Blob in = blob(1, kSize);
        for (unsigned i = 0; i < kCalls; ++i) {
            calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, keep));
            REQUIRE(calls.back()->forward(in) == HG_SUCCESS);
        }
        unsigned refused = 0;
        REQUIRE(support::until(
            [&] {
                refused = 0;
                for (const auto& call : calls) {
                    refused += call->done() ? 1 : 0;
                }
                return refused + pair.b.held().size() == kCalls;
            },
            [&] { pair.pump(); }));
        CHECK(refused == kCalls - 2);
        for (const auto& call : calls) {
            CHECK((!call->done() || call->ret() == HG_AGAIN));
        }
        CHECK(core(pair.b).counters().overflow_refused == (round + 1) * (kCalls - 2));
        answer_held(pair.b);
        for (const auto& call : calls) {
            if (!call->done()) {
                CHECK(pair.wait(*call) == HG_SUCCESS);
            }
        }
    }
}

TEST_CASE("a canceled request is not served with the arguments of another") {
    Pair pair;
    std::vector<std::uint64_t> served;
    pair.b.on_served = [&](std::uint64_t number) { served.push_back(number); };
    Call canceled(pair.a, pair.to_b, pair.a.echo);
    Blob first = blob(1, 90'000);
    Blob second = blob(2, 90'000);
    REQUIRE(canceled.forward(first) == HG_SUCCESS);
    for (int i = 0; i < 20; ++i) {
        pair.a.pump();  // it has left, and the target has not looked
    }
    REQUIRE(HG_Cancel(canceled.handle()) == HG_SUCCESS);
    REQUIRE(support::until([&] { return canceled.done(); }, [&] { pair.a.pump(); }));
    CHECK(canceled.ret() == HG_CANCELED);
    Call call(pair.a, pair.to_b, pair.a.echo);
    CHECK(pair.run(call, second) == HG_SUCCESS);
    for (int i = 0; i < 100; ++i) {
        pair.pump();
    }
    CHECK(is_blob(call.out(), 3, 90'000, 2));
    CHECK(served.size() <= 2);  // the canceled one too, perhaps
    for (const std::uint64_t number : {1U, 2U}) {
        CHECK(std::count(served.begin(), served.end(), number) <= 1);
    }
}

namespace {

hg_return_t answer_and_keep(hg_handle_t h) {
    CHECK(HG_Respond(h, nullptr, nullptr, nullptr) == HG_SUCCESS);
    static_cast<Side*>(HG_Class_get_data(HG_Get_info(h)->hg_class))->held().push_back(h);
    return HG_SUCCESS;
}

// b serves "kept", keeping the handles, and up to 8 requests at a time.
struct Keeper {
    static constexpr unsigned kLimit = 8;

    Keeper() : limit("HG_REQUEST_LIMIT", "8"), pair(Side::Settings{}, settings()) {
        id = HG_Register_name(pair.a.cls(), "kept", nullptr, nullptr, nullptr);
        REQUIRE(HG_Register_name(pair.b.cls(), "kept", nullptr, nullptr, answer_and_keep) == id);
    }
    static Side::Settings settings() {
        Side::Settings few;
        few.init.request_post_init = 4;
        few.init.request_post_incr = 4;
        return few;
    }
    void destroy_kept() {
        for (const hg_handle_t h : pair.b.held()) {
            HG_Destroy(h);
        }
        pair.b.held().clear();
    }
    // More than the limit at once, of which none is answered: how many were served. The rest has
    // been refused.
    std::uint64_t burst() {
        const std::uint64_t before = pair.b.served;
        const std::size_t kept = pair.b.held().size();
        std::vector<std::unique_ptr<Call>> calls;
        for (unsigned i = 0; i < 40 * kLimit; ++i) {
            calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
            calls.back()->decode_output = false;
            REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
        }
        const auto refused = [&] {
            return static_cast<unsigned>(
                std::count_if(calls.begin(), calls.end(), [](const auto& c) { return c->done(); }));
        };
        REQUIRE(support::until([&] { return pair.b.served - before + refused() == 40 * kLimit; },
                               [&] { pair.pump(); }));
        const std::uint64_t served = pair.b.served - before;
        for (std::size_t i = kept; i < pair.b.held().size(); ++i) {
            CHECK(HG_Respond(pair.b.held()[i], nullptr, nullptr, nullptr) == HG_SUCCESS);
        }
        std::uint64_t again = 0;
        for (const auto& call : calls) {
            const hg_return_t ret = pair.wait(*call);
            CHECK((ret == HG_SUCCESS || ret == HG_AGAIN));
            again += ret == HG_AGAIN ? 1 : 0;
        }
        CHECK(again == 40 * kLimit - served);
        return served;
    }

    const Setting limit;
    Pair pair;
    hg_id_t id = 0;
};

}  // namespace

// Many programs never give back the handles that they have answered, or the reference of
// HG_Get_input. That is memory, and theirs.
TEST_CASE("handles that a program keeps when it has answered do not count") {
    Keeper k;
    Call call(k.pair.a, k.pair.to_b, k.id);
    for (unsigned i = 0; i < 20 * Keeper::kLimit; ++i) {
        REQUIRE(k.pair.run(call) == HG_SUCCESS);
    }
    CHECK(k.pair.b.held().size() == 20 * Keeper::kLimit);
    // What is not answered does, whatever is kept.
    CHECK(k.burst() == Keeper::kLimit);
    CHECK(core(k.pair.b).counters().requests_refused == 39 * Keeper::kLimit);
    // All of it is answered, though kept: nobody is refused.
    for (unsigned i = 0; i < 3 * Keeper::kLimit; ++i) {
        REQUIRE(k.pair.run(call) == HG_SUCCESS);
    }
    // And when it is given back after all, the limit is what it was.
    k.destroy_kept();
    CHECK(k.burst() == Keeper::kLimit);
    k.destroy_kept();
    REQUIRE(k.pair.run(call) == HG_SUCCESS);
    k.destroy_kept();
}

TEST_CASE("what a program keeps of RPCs to itself is no room for those of others") {
    Keeper k;
    Addr self(k.pair.b, k.pair.b.uri());
    Call call(k.pair.b, self, k.id);
    for (unsigned i = 0; i < 20 * Keeper::kLimit; ++i) {
        REQUIRE(k.pair.run(call) == HG_SUCCESS);
    }
    CHECK(k.pair.b.held().size() == 20 * Keeper::kLimit);
    CHECK(k.burst() == Keeper::kLimit);
    k.destroy_kept();
}
