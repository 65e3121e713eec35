// SPDX-License-Identifier: BSD-3-Clause
// What a callback of a C++ program throws comes out of the call that ran it (HG_Trigger), and
// leaves nothing of the library's behind: that every handle, transfer and context can be given back
// is looked at by the ends of the sides.
#include <catch2/catch.hpp>

#include <memory>
#include <new>
#include <vector>

#include "conformance/hg/side.hpp"
#include "mercury_bulk.h"
#include "mercury_core.h"
#include "support/until.hpp"

using namespace hgtest;

namespace {

struct Thrown {};

// Until the end of the call, and until so many exceptions have come out.
bool run_until(Pair& pair, const Call& call, int exceptions) {
    int caught = 0;
    const bool ended = support::until([&] { return call.done() && caught >= exceptions; },
                                      [&] {
                                          try {
                                              pair.pump();
                                          } catch (const Thrown&) {
                                              ++caught;
                                          } catch (const std::bad_alloc&) {
                                              ++caught;
                                          }
                                      });
    return ended && caught == exceptions;
}

std::vector<hg_handle_t> kept;

}  // namespace

TEST_CASE("an exception that leaves a handler is its failure") {
    Pair pair;
    kept.clear();
    struct Case {
        hg_rpc_cb_t serve;
        hg_return_t answer;
    };
    const auto given_back = [](hg_handle_t h) -> hg_return_t {
        HG_Destroy(h);
        throw Thrown{};
    };
    const auto still_held = [](hg_handle_t h) -> hg_return_t {
        kept.push_back(h);
        throw Thrown{};
    };
    const auto no_memory = [](hg_handle_t h) -> hg_return_t {
        HG_Destroy(h);
        throw std::bad_alloc();
    };
    const auto answered = [](hg_handle_t h) -> hg_return_t {
        HG_Respond(h, nullptr, nullptr, nullptr);
        HG_Destroy(h);
        throw Thrown{};
    };
    const auto answered_and_held = [](hg_handle_t h) -> hg_return_t {
        HG_Respond(h, nullptr, nullptr, nullptr);
        kept.push_back(h);
        throw Thrown{};
    };
    for (const Case& c : {Case{given_back, HG_OTHER_ERROR}, Case{still_held, HG_OTHER_ERROR},
                          Case{no_memory, HG_NOMEM}, Case{answered, HG_SUCCESS},
                          Case{answered_and_held, HG_SUCCESS}}) {
        REQUIRE(HG_Register(pair.b.cls(), pair.a.unserved, nullptr, nullptr, c.serve) ==
                HG_SUCCESS);
        Call call(pair.a, pair.to_b, pair.a.unserved);
        for (int i = 0; i < 3; ++i) {
            REQUIRE(call.forward() == HG_SUCCESS);
            REQUIRE(run_until(pair, call, 1));
            CHECK(call.ret() == c.answer);
            call.reset();
            CHECK(HG_Ref_get(call.handle()) == 1);
            for (const hg_handle_t h : kept) {
                // The answer may be here before its sender hears that it has left.
                CHECK(support::until([&] { return HG_Ref_get(h) == 1; }, [&] { pair.b.pump(); }));
                CHECK(HG_Destroy(h) == HG_SUCCESS);
            }
            kept.clear();
        }
    }
    // Others are served as before.
    Call other(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(7, 100);
    REQUIRE(pair.run(other, in) == HG_SUCCESS);
    CHECK(is_blob(other.out(), 8, 100, 7));
}

TEST_CASE("an exception that leaves the handler of a one-way RPC, or of an RPC to oneself") {
    Pair pair;
    const auto serve = [](hg_handle_t h) -> hg_return_t {
        HG_Destroy(h);
        throw Thrown{};
    };
    for (Side* side : {&pair.a, &pair.b}) {
        for (const hg_id_t id : {pair.a.unserved, pair.a.note}) {
            REQUIRE(HG_Register(side->cls(), id, nullptr, nullptr, serve) == HG_SUCCESS);
        }
    }
    REQUIRE(HG_Registered_disable_response(pair.a.cls(), pair.a.note, 1) == HG_SUCCESS);
    REQUIRE(HG_Registered_disable_response(pair.b.cls(), pair.a.note, 1) == HG_SUCCESS);
    Addr self(pair.a, pair.a.uri());
    for (const hg_addr_t to : {hg_addr_t(pair.to_b), hg_addr_t(self)}) {
        for (const hg_id_t id : {pair.a.unserved, pair.a.note}) {
            Call call(pair.a, to, id);
            for (int i = 0; i < 3; ++i) {
                REQUIRE(call.forward() == HG_SUCCESS);
                REQUIRE(run_until(pair, call, 1));
                CHECK(call.ret() == (id == pair.a.note ? HG_SUCCESS : HG_OTHER_ERROR));
                call.reset();
                CHECK(HG_Ref_get(call.handle()) == 1);
            }
        }
    }
}

TEST_CASE("an exception that leaves the callback of a forward or of a response") {
    Pair pair;
    const auto throws = [](const struct hg_cb_info*) -> hg_return_t { throw Thrown{}; };
    Call call(pair.a, pair.to_b, pair.a.unserved);
    static hg_cb_t after_respond;
    after_respond = nullptr;
    const auto serve = [](hg_handle_t h) -> hg_return_t {
        const hg_return_t ret = HG_Respond(h, after_respond, nullptr, nullptr);
        HG_Destroy(h);
        return ret;
    };
    REQUIRE(HG_Register(pair.b.cls(), pair.a.unserved, nullptr, nullptr, serve) == HG_SUCCESS);
    call.on_done = [](Call&) { throw Thrown{}; };
    for (int i = 0; i < 3; ++i) {
        REQUIRE(call.forward() == HG_SUCCESS);
        REQUIRE(run_until(pair, call, 1));
        CHECK(call.ret() == HG_SUCCESS);
        call.reset();
        CHECK(HG_Ref_get(call.handle()) == 1);
    }
    call.on_done = nullptr;
    after_respond = throws;
    for (int i = 0; i < 3; ++i) {
        REQUIRE(call.forward() == HG_SUCCESS);
        REQUIRE(run_until(pair, call, 1));
        CHECK(call.ret() == HG_SUCCESS);
        call.reset();
    }
}

TEST_CASE("an exception that leaves the callback of a bulk transfer or of a lookup") {
    Pair pair;
    const auto throws = [](const struct hg_cb_info*) -> hg_return_t { throw Thrown{}; };
    std::vector<char> from(5000, 'x');
    std::vector<char> to(from.size());
    void* from_ptr = from.data();
    void* to_ptr = to.data();
    const hg_size_t size = from.size();
    hg_bulk_t source = HG_BULK_NULL;
    hg_bulk_t target = HG_BULK_NULL;
    REQUIRE(HG_Bulk_create(pair.a.cls(), 1, &from_ptr, &size, HG_BULK_READ_ONLY, &source) ==
            HG_SUCCESS);
    REQUIRE(HG_Bulk_create(pair.a.cls(), 1, &to_ptr, &size, HG_BULK_READWRITE, &target) ==
            HG_SUCCESS);
    Addr self(pair.a, pair.a.uri());
    int caught = 0;
    const auto until_caught = [&](int n) {
        return support::until([&] { return caught == n; },
                              [&] {
                                  try {
                                      pair.pump();
                                  } catch (const Thrown&) {
                                      ++caught;
                                  }
                              });
    };
    for (int i = 1; i <= 3; ++i) {
        REQUIRE(HG_Bulk_transfer(pair.a.context(), throws, nullptr, HG_BULK_PULL, self, source, 0,
                                 target, 0, size, HG_OP_ID_IGNORE) == HG_SUCCESS);
        REQUIRE(until_caught(i));
    }
    CHECK(to == from);
    static hg_addr_t found;
    found = HG_ADDR_NULL;
    const auto keeps = [](const struct hg_cb_info* info) -> hg_return_t {
        found = info->info.lookup.addr;
        throw Thrown{};
    };
    REQUIRE(HG_Addr_lookup1(pair.a.context(), keeps, nullptr, pair.b.uri().c_str(),
                            HG_OP_ID_IGNORE) == HG_SUCCESS);
    REQUIRE(until_caught(4));
    CHECK(HG_Addr_free(pair.a.cls(), found) == HG_SUCCESS);
    CHECK(HG_Bulk_free(source) == HG_SUCCESS);
    CHECK(HG_Bulk_free(target) == HG_SUCCESS);
}

// The context cannot be closed in one go then, but later.
TEST_CASE("an exception that leaves a callback run by HG_Context_destroy") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    call.on_done = [](Call&) { throw Thrown{}; };
    REQUIRE(call.forward(1) == HG_SUCCESS);
    CHECK_THROWS_AS(HG_Context_destroy(pair.a.context()), Thrown);
    CHECK(call.ret() == HG_CANCELED);
    CHECK(HG_Ref_get(call.handle()) == 1);
}

// Who counts on trigger's count knows what has run, the callback that threw included.
TEST_CASE("trigger counts what ran before an exception, and the one that threw") {
    Pair pair;
    constexpr unsigned kCalls = 6;
    std::vector<std::unique_ptr<Call>> calls;
    unsigned ran = 0;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.empty));
        calls.back()->on_done = [&](Call&) {
            if (++ran % 3 == 0) {
                throw Thrown{};
            }
        };
        REQUIRE(calls.back()->forward() == HG_SUCCESS);
    }
    unsigned due = 0;
    REQUIRE(support::until([&] { return due == kCalls; },
                           [&] {
                               pair.b.pump();
                               HG_Event_progress(pair.a.context(), &due);
                           }));
    unsigned count = 99;
    CHECK_THROWS_AS(HG_Trigger(pair.a.context(), 0, 5, &count), Thrown);
    CHECK(count == 3);
    CHECK(HG_Trigger(pair.a.context(), 0, 2, &count) == HG_SUCCESS);
    CHECK(count == 2);
    count = 99;
    CHECK_THROWS_AS(HG_Event_trigger(pair.a.context(), 5, &count), Thrown);
    CHECK(count == 1);
    CHECK(ran == kCalls);
    CHECK(HG_Event_trigger(pair.a.context(), 5, &count) == HG_SUCCESS);
    CHECK(count == 0);
    for (const auto& call : calls) {
        CHECK(call->ret() == HG_SUCCESS);
    }
    // Nobody asked for it.
    Call last(pair.a, pair.to_b, pair.a.empty);
    last.on_done = [](Call&) { throw Thrown{}; };
    REQUIRE(last.forward() == HG_SUCCESS);
    due = 0;
    REQUIRE(support::until([&] { return due == 1; },
                           [&] {
                               pair.b.pump();
                               HG_Event_progress(pair.a.context(), &due);
                           }));
    CHECK_THROWS_AS(HG_Trigger(pair.a.context(), 0, 1, nullptr), Thrown);
}
