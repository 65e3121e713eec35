// SPDX-License-Identifier: BSD-3-Clause
// mercury_core.h: messages whose receiver fetches more (HG_CORE_MORE_DATA).
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "conformance/hg/core_side.hpp"

namespace {

using namespace conformance;

}  // namespace

TEST_CASE("core: a reference that is taken while the rest is fetched is kept") {
    Core a({.listen = false});
    Core b({.fetches = true});
    b.keeps = true;
    for (const hg_id_t id : {kHeld, kOneWay}) {
        Call call(a, b, id);
        REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(call.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
        const hg_core_handle_t h = std::exchange(b.fetching, HG_CORE_HANDLE_NULL);
        b.fetched(h, HG_SUCCESS);
        if (id == kHeld) {
            REQUIRE(call.until([&] { return b.held == h; }));
            CHECK(HG_Core_ref_get(h) == 3);  // the program's, twice, and that of the answer
            CHECK(HG_Core_destroy(h) == HG_SUCCESS);
            CHECK(HG_Core_ref_get(h) == 2);
            CHECK(HG_Core_respond(h, nullptr, nullptr, 0, 0) == HG_SUCCESS);
            b.held = HG_CORE_HANDLE_NULL;
        } else {
            REQUIRE(call.until([&] { return b.one_way == 1; }));  // which destroys it once
            CHECK(HG_Core_ref_get(h) == 1);
        }
        CHECK(HG_Core_destroy(h) == HG_SUCCESS);
        CHECK(call.wait() == HG_SUCCESS);
        REQUIRE(call.until([&] { return b.released == b.acquired; }));
    }
}

TEST_CASE("core: a request is served when its receiver has fetched the rest") {
    Core a({.listen = false});
    Core b({.fetches = true});
    for (const hg_id_t id : {kEcho, kOneWay}) {
        Call call(a, b, id);
        REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(call.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
        CHECK(b.served == 0);
        CHECK(b.one_way == 0);
        CHECK(call.count == 0);  // the origin keeps what is fetched until then
        b.fetched(std::exchange(b.fetching, HG_CORE_HANDLE_NULL), HG_SUCCESS);
        CHECK(call.wait() == HG_SUCCESS);
        REQUIRE(call.until([&] { return (id == kEcho ? b.served : b.one_way) == 1; }));
        REQUIRE(call.until([&] { return b.released == b.acquired; }));
        b.served = 0;
    }
    CHECK(b.acquired == 2);
}

TEST_CASE("core: what cannot be fetched ends its RPC") {
    Core a({.listen = false});
    Core b({.fetches = true});
    Call call(a, b, kEcho);
    b.fetch_at_once = true;
    b.fetch_ret = HG_NOMEM;
    REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
    CHECK(call.wait() == HG_NOMEM);
    REQUIRE(call.forward("less", HG_CORE_MORE_DATA) == HG_SUCCESS);  // acquire itself refuses it
    CHECK(call.wait() == HG_PROTOCOL_ERROR);
    b.fetch_ret = HG_SUCCESS;
    REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(b.served == 1);
    REQUIRE(call.until([&] { return b.released == 3; }));
}

TEST_CASE("core: an exception of the receiver that fetches ends the RPC") {
    Core a({.listen = false, .fetches = true});
    Core b({.fetches = true});
    for (Core* core : {&a, &b}) {
        core->throws = true;
    }
    for (const hg_id_t id : {kEcho, kLarge}) {
        Call call(a, b, id);
        REQUIRE(call.forward("more", id == kEcho ? HG_CORE_MORE_DATA : 0) == HG_SUCCESS);
        int thrown = 0;
        const auto pump = [&](const Core& core) {
            (void)HG_Core_progress(core.context, 0);
            try {
                (void)HG_Core_trigger(core.context, 0, 16, nullptr);
            } catch (int) {
                ++thrown;
            }
        };
        REQUIRE(support::until([&] { return call.count != 0 && thrown != 0; },
                               [&] {
                                   pump(a);
                                   pump(b);
                               }));
        CHECK(thrown == 1);
        CHECK(call.wait() == HG_OTHER_ERROR);
        CHECK(HG_Core_ref_get(call.handle) == 1);
    }
}

TEST_CASE("core: nobody fetches") {
    Core a({.listen = false});
    Core b({});
    Call call(a, b, kEcho);
    REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
    CHECK(call.wait() == HG_OPNOTSUPPORTED);
    CHECK(b.served == 0);
    Call large(a, b, kLarge);
    REQUIRE(large.forward("") == HG_SUCCESS);
    CHECK(large.wait() == HG_OPNOTSUPPORTED);
    REQUIRE(large.until([&] { return b.responses_left == 1; }));
    CHECK(b.respond_ret == HG_OPNOTSUPPORTED);
}

TEST_CASE("core: who fetches is said, and taken back, while contexts are there") {
    Core a({.listen = false});
    Core b({});
    for (const bool on : {true, false, true}) {
        b.fetch(on);
        b.served = 0;
        Call call(a, b, kEcho);
        REQUIRE(call.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        if (on) {
            REQUIRE(call.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
            b.fetched(std::exchange(b.fetching, HG_CORE_HANDLE_NULL), HG_SUCCESS);
        }
        CHECK(call.wait() == (on ? HG_SUCCESS : HG_OPNOTSUPPORTED));
        CHECK(b.served == (on ? 1 : 0));
        // Who is told last is asked to release: before that changes.
        REQUIRE(call.until([&] { return b.released == b.acquired; }));
    }
    CHECK(b.acquired == 2);
}

TEST_CASE("core: the sender of a response hears when the rest of it was fetched") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Call call(a, b, kLarge);
    for (const hg_return_t ret : {HG_SUCCESS, HG_IO_ERROR}) {
        b.responses_left = 0;
        REQUIRE(call.forward("") == HG_SUCCESS);
        REQUIRE(call.until([&] { return a.fetching != HG_CORE_HANDLE_NULL; }));
        CHECK(call.count == 0);
        CHECK(b.responses_left == 0);
        a.fetched(std::exchange(a.fetching, HG_CORE_HANDLE_NULL), ret);
        CHECK(call.wait() == ret);
        REQUIRE(call.until([&] { return b.responses_left == 1; }));
        CHECK(b.respond_ret == ret);
    }
    CHECK(a.acquired == 2);
    CHECK(a.released == 1);  // the last goes with its handle
}

TEST_CASE("core: what was fetched is released before its handle is another RPC's") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Core c({});
    hg_core_addr_t other = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_lookup2(a.cls, c.uri().c_str(), &other) == HG_SUCCESS);
    {
        Call call(a, b, kLarge);
        a.fetch_at_once = true;
        REQUIRE(call.forward("") == HG_SUCCESS);
        CHECK(call.wait() == HG_SUCCESS);
        CHECK(a.released == 0);
        CHECK(HG_Core_reset(call.handle, other, 12345) == HG_NOENTRY);  // nothing has changed
        CHECK(a.released == 0);
        const hg_core_addr_t before = HG_Core_get_info(call.handle)->addr;
        REQUIRE(HG_Core_reset(call.handle, other, kEcho) == HG_SUCCESS);
        CHECK(a.released == 1);
        CHECK(a.released_addr == before);
        CHECK(HG_Core_get_info(call.handle)->addr != before);
        REQUIRE(call.until([&] { return b.responses_left == 1; }));
    }
    CHECK(a.released == 1);
    CHECK(HG_Core_addr_free(other) == HG_SUCCESS);
}

TEST_CASE("core: who cancels late does not keep the sender of a response waiting", "[threads]") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Call call(a, b, kLarge);
    for (unsigned i = 1; i <= 200 / support::kSlow; ++i) {
        REQUIRE(call.forward("") == HG_SUCCESS);
        REQUIRE(call.until([&] { return a.fetching != HG_CORE_HANDLE_NULL; }));
        std::atomic<bool> stop{false};
        std::thread canceler([&] {
            do {
                HG_Core_cancel(call.handle);
            } while (!stop);
        });
        a.fetched(std::exchange(a.fetching, HG_CORE_HANDLE_NULL), HG_SUCCESS);
        const bool heard = call.until([&] { return call.count != 0 && b.responses_left == i; });
        stop = true;
        canceler.join();
        REQUIRE(heard);
        REQUIRE(call.ret == HG_SUCCESS);
        REQUIRE(b.respond_ret == HG_SUCCESS);
    }
}

TEST_CASE("core: another thread says that the rest was fetched", "[threads]") {
    Core a({.listen = false, .fetches = true});
    Core b({.fetches = true});
    Call in(a, b, kEcho);
    Call out(a, b, kLarge);
    for (unsigned i = 0; i < 200 / support::kSlow; ++i) {
        REQUIRE(in.forward("more", HG_CORE_MORE_DATA) == HG_SUCCESS);
        REQUIRE(out.forward("") == HG_SUCCESS);
        REQUIRE(in.until([&] { return a.fetching != HG_CORE_HANDLE_NULL; }));
        REQUIRE(in.until([&] { return b.fetching != HG_CORE_HANDLE_NULL; }));
        std::thread done([&, x = std::exchange(a.fetching, HG_CORE_HANDLE_NULL),
                          y = std::exchange(b.fetching, HG_CORE_HANDLE_NULL)] {
            a.fetched(x, HG_SUCCESS);
            b.fetched(y, HG_SUCCESS);
        });
        const bool ended = in.until([&] { return in.count != 0 && out.count != 0; });
        done.join();
        REQUIRE(ended);
        REQUIRE(in.ret == HG_SUCCESS);
        REQUIRE(out.ret == HG_SUCCESS);
        REQUIRE(in.out == "more");
    }
    REQUIRE(in.until([&] { return b.responses_left == b.served; }));
}

TEST_CASE("core: a response to a canceled RPC keeps nobody waiting") {
    Core a({.listen = false, .fetches = true});
    Core b({});
    Call call(a, b, kHeld);
    REQUIRE(call.forward("") == HG_SUCCESS);
    REQUIRE(call.until([&] { return b.held != HG_CORE_HANDLE_NULL; }));
    REQUIRE(HG_Core_cancel(call.handle) == HG_SUCCESS);
    CHECK(call.wait() == HG_CANCELED);
    b.answer_held();
    REQUIRE(call.until([&] { return b.responses_left == 1; }));
    CHECK(b.respond_ret == HG_CANCELED);
    CHECK(a.acquired == 0);
}

TEST_CASE("core: one does not fetch from oneself") {
    Core a({.fetches = true});
    Call call(a, a, kEcho);
    CHECK(call.forward("more", HG_CORE_MORE_DATA) == HG_OPNOTSUPPORTED);
    REQUIRE(call.forward("more") == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(call.out == "more");
}
