// SPDX-License-Identifier: BSD-3-Clause
// What a target learns of an origin that does not wait any more.
#include <catch2/catch.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "conformance/hg/side.hpp"
#include "support/options.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

// What the callback of HG_Set_cancel_callback was told.
struct Told {
    unsigned count = 0;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_return_t status = HG_RETURN_MAX;
};

hg_return_t note(hg_handle_t handle, hg_return_t status, void* arg) {
    auto& told = *static_cast<Told*>(arg);
    ++told.count;
    told.handle = handle;
    told.status = status;
    return HG_SUCCESS;
}

hg_return_t state(hg_handle_t handle) {
    hg_return_t status = HG_RETURN_MAX;
    REQUIRE(HG_Get_cancel_status(handle, &status) == HG_SUCCESS);
    return status;
}

void answer(Side& side, bool destroy = true) {
    for (hg_handle_t h : std::exchange(side.held(), {})) {
        Blob out = blob(1, 10);
        CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
        if (destroy) {
            CHECK(HG_Destroy(h) == HG_SUCCESS);
        }
    }
}

// Transports that lose messages, or delay them for ever, may lose a notice.
bool may_lose() {
    return support::options().protocol.find("drop=") != std::string::npos;
}

}  // namespace

TEST_CASE("a handler is told that its call was canceled", "[canceled]") {
    Pair pair;
    for (const bool before : {false, true}) {  // it asks before or after the cancel
        INFO((before ? "asks before" : "asks after"));
        Call call(pair.a, pair.to_b, pair.a.hold);
        Call other(pair.a, pair.to_b, pair.a.hold);
        auto& held = pair.b.held();
        REQUIRE(call.forward(1) == HG_SUCCESS);
        REQUIRE(support::until([&] { return held.size() == 1; }, [&] { pair.pump(); }));
        REQUIRE(other.forward(2) == HG_SUCCESS);
        REQUIRE(support::until([&] { return held.size() == 2; }, [&] { pair.pump(); }));
        Told told;
        Told untold;
        REQUIRE(HG_Set_cancel_callback(held[1], note, &untold) == HG_SUCCESS);
        if (before) {
            REQUIRE(HG_Set_cancel_callback(held[0], note, &told) == HG_SUCCESS);
            CHECK(state(held[0]) == HG_SUCCESS);
        }
        REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
        CHECK(pair.wait(call) == HG_CANCELED);
        if (!before) {
            // The notice is behind the request, and in front of what is sent now.
            Call next(pair.a, pair.to_b, pair.a.echo);
            Blob in = blob(1, 10);
            REQUIRE(pair.run(next, in) == HG_SUCCESS);
            REQUIRE(HG_Set_cancel_callback(held[0], note, &told) == HG_SUCCESS);
            CHECK(told.count == 0);  // only trigger runs callbacks
        }
        if (!may_lose()) {
            REQUIRE(support::until([&] { return told.count != 0; }, [&] { pair.pump(); }));
            CHECK(told.handle == held[0]);
            CHECK(told.status == HG_CANCELED);
            CHECK(state(held[0]) == HG_CANCELED);
        }
        CHECK(untold.count == 0);
        CHECK(state(held[1]) == HG_SUCCESS);
        answer(pair.b);
        CHECK(pair.wait(other) == HG_SUCCESS);
        for (int i = 0; i < 20; ++i) {
            pair.pump();
        }
        CHECK(told.count <= 1);
        CHECK(untold.count == 0);
    }
}

TEST_CASE("a handler of a call to oneself is told that it was canceled", "[canceled]") {
    Side side;
    {
        const Addr self(side, side.uri());
        for (const bool before : {false, true}) {
            Call call(side, self, side.hold);
            auto& held = side.held();
            REQUIRE(call.forward(1) == HG_SUCCESS);
            REQUIRE(support::until([&] { return !held.empty(); }, [&] { side.pump(); }));
            Told told;
            if (before) {
                REQUIRE(HG_Set_cancel_callback(held[0], note, &told) == HG_SUCCESS);
            }
            CHECK(HG_Cancel(call.handle()) == HG_SUCCESS);
            if (!before) {
                REQUIRE(HG_Set_cancel_callback(held[0], note, &told) == HG_SUCCESS);
            }
            REQUIRE(support::until([&] { return told.count != 0 && call.done(); },
                                   [&] { side.pump(); }));
            CHECK(told.handle == held[0]);
            CHECK(told.status == HG_CANCELED);
            CHECK(told.count == 1);
            answer(side);
        }
    }
    side.end(nullptr);
}

TEST_CASE("whoever is answered is not told of anything", "[canceled]") {
    Pair pair;
    auto& held = pair.b.held();
    Call call(pair.a, pair.to_b, pair.a.hold);
    for (unsigned i = 0; i < 100; ++i) {
        call.reset();
        REQUIRE(call.forward(i) == HG_SUCCESS);
        REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
        Told told;
        REQUIRE(HG_Set_cancel_callback(held[0], note, &told) == HG_SUCCESS);
        answer(pair.b);
        CHECK(pair.wait(call) == HG_SUCCESS);
        CHECK(told.count == 0);
    }
    // A callback that was taken back.
    call.reset();
    REQUIRE(call.forward(1) == HG_SUCCESS);
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    Told told;
    REQUIRE(HG_Set_cancel_callback(held[0], note, &told) == HG_SUCCESS);
    REQUIRE(HG_Set_cancel_callback(held[0], nullptr, nullptr) == HG_SUCCESS);
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_CANCELED);
    if (!may_lose()) {
        REQUIRE(
            support::until([&] { return state(held[0]) == HG_CANCELED; }, [&] { pair.pump(); }));
    }
    CHECK(told.count == 0);
    answer(pair.b);
}

TEST_CASE("handles whose origin cannot be watched are refused", "[canceled]") {
    Pair pair;
    Told told;
    hg_return_t status = HG_RETURN_MAX;
    Call call(pair.a, pair.to_b, pair.a.hold);
    HG_Set_log_level("none");
    CHECK(HG_Set_cancel_callback(HG_HANDLE_NULL, note, &told) == HG_INVALID_ARG);
    CHECK(HG_Set_cancel_callback(call.handle(), note, &told) == HG_INVALID_ARG);
    CHECK(HG_Get_cancel_status(call.handle(), &status) == HG_INVALID_ARG);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    REQUIRE(support::until([&] { return !pair.b.held().empty(); }, [&] { pair.pump(); }));
    hg_handle_t held = pair.b.held()[0];
    CHECK(HG_Get_cancel_status(held, nullptr) == HG_INVALID_ARG);
    answer(pair.b, false);
    CHECK(HG_Set_cancel_callback(held, note, &told) == HG_BUSY);
    CHECK(HG_Get_cancel_status(held, &status) == HG_BUSY);
    CHECK(status == HG_RETURN_MAX);
    HG_Set_log_level("error");
    CHECK(HG_Destroy(held) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_SUCCESS);
}

// More than are kept for handlers that ask later.
TEST_CASE("a crowd of calls is canceled", "[canceled]") {
    Pair pair;
    auto& held = pair.b.held();
    std::vector<std::unique_ptr<Call>> calls;
    constexpr unsigned kCalls = 100;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
        REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
    }
    REQUIRE(support::until([&] { return held.size() == kCalls; }, [&] { pair.pump(); }));
    std::vector<Told> told(kCalls);
    for (unsigned i = 0; i < kCalls; i += 2) {
        REQUIRE(HG_Set_cancel_callback(held[i], note, &told[i]) == HG_SUCCESS);
    }
    for (auto& call : calls) {
        REQUIRE(HG_Cancel(call->handle()) == HG_SUCCESS);
    }
    for (auto& call : calls) {
        CHECK(pair.wait(*call) == HG_CANCELED);
    }
    if (!may_lose()) {
        REQUIRE(support::until(
            [&] {
                for (unsigned i = 0; i < kCalls; i += 2) {
                    if (told[i].count == 0) {
                        return false;
                    }
                }
                return true;
            },
            [&] { pair.pump(); }));
    }
    answer(pair.b);
}
