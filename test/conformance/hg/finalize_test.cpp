// SPDX-License-Identifier: BSD-3-Clause
// Closing with things still in use or in flight: refused or ended, each with a code, and nothing
// left over.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include <unistd.h>

#include "conformance/hg/side.hpp"
#include "mercury_bulk.h"
#include "support/child.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("what is in use keeps a context and a class open") {
    Pair pair;
    auto call = std::make_unique<Call>(pair.a, pair.to_b, pair.a.empty);
    CHECK(HG_Context_destroy(pair.a.context()) == HG_BUSY);
    CHECK(std::string(HG_Get_last_error()).find("handle") != std::string::npos);
    // It works on, as an origin.
    CHECK(pair.run(*call) == HG_SUCCESS);
    call.reset();
    CHECK(HG_Finalize(pair.a.cls()) == HG_BUSY);
    pair.a.pump();
}

// As libraries that programs preload do when a child of the program ends.
TEST_CASE("a child that closes what it has inherited takes nothing from its parent") {
    Pair pair;
    auto call = std::make_unique<Call>(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(1, 3000);
    REQUIRE(pair.run(*call, in) == HG_SUCCESS);
    hg_size_t size = 100'000;
    hg_bulk_t bulk = HG_BULK_NULL;
    REQUIRE(HG_Bulk_create(pair.a.cls(), 1, nullptr, &size, HG_BULK_READWRITE, &bulk) ==
            HG_SUCCESS);
    void* memory = nullptr;
    hg_uint32_t segments = 0;
    REQUIRE(HG_Bulk_access(bulk, 0, size, HG_BULK_READWRITE, 1, &memory, nullptr, &segments) ==
            HG_SUCCESS);
    std::memset(memory, 7, size);
    const std::vector<unsigned char> before(size, 7);
    CHECK(support::in_child([&] {
              int failures = 0;
              const auto expect = [&](hg_return_t r) { failures += r == HG_SUCCESS ? 0 : 1; };
              expect(HG_Bulk_free(bulk));
              expect(HG_Destroy(call->handle()));
              expect(HG_Addr_free(pair.a.cls(), pair.to_b));
              for (Side* side : {&pair.a, &pair.b}) {
                  expect(HG_Context_destroy(side->context()));
                  expect(HG_Finalize(side->cls()));
              }
              return failures;
          }) == 0);
    CHECK(std::memcmp(memory, before.data(), size) == 0);
    for (std::uint64_t i = 0; i < 20; ++i) {
        call->reset();
        Blob next = blob(i, 20 * i * i);
        CHECK(pair.run(*call, next) == HG_SUCCESS);
    }
    CHECK(HG_Bulk_free(bulk) == HG_SUCCESS);
    // Whoever comes anew finds it, too.
    Side other;
    Addr to(other, pair.b.uri());
    Call hello(other, to, other.empty);
    REQUIRE(hello.forward() == HG_SUCCESS);
    REQUIRE(
        support::until([&] { return hello.done(); }, [&] { other.pump(); }, [&] { pair.pump(); }));
    CHECK(hello.ret() == HG_SUCCESS);
}

// Whoever had a lock when the process was copied does not exist in the copy.
TEST_CASE("a child that closes what it has inherited waits for no thread of its parent") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    std::atomic<bool> stop{false};
    std::thread addresses([&] {
        while (!stop) {
            hg_addr_t self = HG_ADDR_NULL;
            HG_Addr_self(pair.a.cls(), &self);
            HG_Addr_free(pair.a.cls(), self);
        }
    });
    std::thread handles([&] {
        while (!stop) {
            hg_handle_t handle = HG_HANDLE_NULL;
            HG_Create(pair.a.context(), pair.to_b, pair.a.empty, &handle);
            HG_Destroy(handle);
        }
    });
    int failures = 0;
    for (int i = 0; i < 60 && failures == 0; ++i) {
        failures = support::in_child([&] {
            ::alarm(10);
            return HG_Destroy(call.handle()) == HG_SUCCESS &&
                           HG_Addr_free(pair.a.cls(), pair.to_b) == HG_SUCCESS &&
                           HG_Context_destroy(pair.a.context()) == HG_SUCCESS &&
                           HG_Finalize(pair.a.cls()) == HG_SUCCESS
                       ? 0
                       : 1;
        });
    }
    stop = true;
    addresses.join();
    handles.join();
    CHECK(failures == 0);
}

TEST_CASE("calls in flight when their context is destroyed end with a code") {
    Pair pair;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 20; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.hold));
        REQUIRE(calls.back()->forward(i) == HG_SUCCESS);
    }
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return held.size() == 20; }, [&] { pair.pump(); }));
    CHECK(HG_Context_destroy(pair.a.context()) == HG_BUSY);  // their handles are there
    for (auto& call : calls) {
        REQUIRE(call->done());
        CHECK(call->ret() == HG_CANCELED);
    }
    calls.clear();
    // The target answers into the void.
    for (const hg_handle_t h : held) {
        Blob out = blob(1, 90'000);
        (void)HG_Respond(h, nullptr, nullptr, &out);
        HG_Destroy(h);
    }
    held.clear();
    for (int i = 0; i < 20; ++i) {
        pair.pump();
    }
}

TEST_CASE("handles destroyed while in flight are no obstacle: their callbacks run") {
    Side target;
    hg_class_t* cls = HG_Init(support::options().protocol.c_str(), 0);
    REQUIRE(cls != nullptr);
    hg_context_t* context = HG_Context_create(cls);
    REQUIRE(context != nullptr);
    const hg_id_t hold = HG_Register_name(cls, "test_hold", hg_proc_uint64_t, nullptr, nullptr);
    hg_addr_t to = HG_ADDR_NULL;
    REQUIRE(HG_Addr_lookup2(cls, target.uri().c_str(), &to) == HG_SUCCESS);
    unsigned ended = 0;
    for (unsigned i = 0; i < 10; ++i) {
        hg_handle_t h = HG_HANDLE_NULL;
        REQUIRE(HG_Create(context, to, hold, &h) == HG_SUCCESS);
        std::uint64_t n = i;
        REQUIRE(HG_Forward(
                    h,
                    [](const struct hg_cb_info* info) -> hg_return_t {
                        *static_cast<unsigned*>(info->arg) += info->ret == HG_CANCELED ? 1 : 0;
                        return HG_SUCCESS;
                    },
                    &ended, &n) == HG_SUCCESS);
        REQUIRE(HG_Destroy(h) == HG_SUCCESS);
    }
    for (int i = 0; i < 10; ++i) {
        target.pump();
    }
    REQUIRE(HG_Addr_free(cls, to) == HG_SUCCESS);
    REQUIRE(HG_Context_destroy(context) == HG_SUCCESS);
    CHECK(ended == 10);
    REQUIRE(HG_Finalize(cls) == HG_SUCCESS);
}

TEST_CASE("a context that is destroyed waits for handles that other threads still have",
          "[threads]") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    call.decode_output = false;
    REQUIRE(call.forward(1) == HG_SUCCESS);
    REQUIRE(support::until([&] { return !pair.b.held().empty(); }, [&] { pair.pump(); }));
    const hg_handle_t h = pair.b.held()[0];
    pair.b.held().clear();
    bool responded = false;
    const auto left = [](const struct hg_cb_info* info) -> hg_return_t {
        *static_cast<bool*>(info->arg) = info->ret == HG_SUCCESS;
        return HG_SUCCESS;
    };
    std::thread handler([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most likely closing by then
        HG_Respond(h, left, &responded, nullptr);
        HG_Destroy(h);
    });
    pair.b.close();  // throws what is not HG_SUCCESS
    handler.join();
    CHECK(responded);
    CHECK(pair.wait(call) == HG_SUCCESS);
}

TEST_CASE("requests that have arrived when their context is destroyed are served") {
    Pair pair;
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 5; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, pair.to_b, pair.a.empty));
        REQUIRE(calls.back()->forward() == HG_SUCCESS);
    }
    // All are there, and none has had its callback.
    REQUIRE(support::until([&] { return pair.b.counters().rpc_req_recv_count == 5; },
                           [&] { pair.a.pump(); },
                           [&] { (void)HG_Progress(pair.b.context(), 0); }));
    pair.b.close();
    CHECK(pair.b.served == 5);
    const auto ended = [&](const std::unique_ptr<Call>& call) {
        return support::until([&] { return call->done(); }, [&] { pair.a.pump(); });
    };
    for (auto& call : calls) {
        REQUIRE(ended(call));
        CHECK((call->ret() == HG_SUCCESS || call->ret() == HG_HOSTUNREACH));
    }
}

TEST_CASE("a context that stopped accepting requests still finishes those it has") {
    Pair pair;
    Call first(pair.a, pair.to_b, pair.a.hold);
    first.decode_output = false;
    REQUIRE(first.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    CHECK(HG_Context_unpost(pair.b.context()) == HG_SUCCESS);
    CHECK(HG_Context_unpost(pair.b.context()) == HG_SUCCESS);
    Call second(pair.a, pair.to_b, pair.a.empty);
    REQUIRE(second.forward() == HG_SUCCESS);
    HG_Respond(held[0], nullptr, nullptr, nullptr);
    HG_Destroy(held[0]);
    held.clear();
    CHECK(pair.wait(first) == HG_SUCCESS);
    for (int i = 0; i < 100; ++i) {
        pair.pump();
    }
    CHECK(pair.b.served == 1);
    CHECK(!second.done());
    HG_Cancel(second.handle());
    CHECK(pair.wait(second) == HG_CANCELED);
    // As an origin it works on.
    const Addr to_a(pair.b, pair.a.uri());
    Call back(pair.b, to_a, pair.b.empty);
    CHECK(pair.run(back) == HG_SUCCESS);
}

TEST_CASE("a peer that closes in good order ends the calls that wait for it") {
    auto target = std::make_unique<Side>();
    Side origin;
    const Addr to(origin, target->uri());
    Call call(origin, to, origin.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    REQUIRE(support::until([&] { return !target->held().empty(); }, [&] { origin.pump(); },
                           [&] { target->pump(); }));
    const std::string uri = target->uri();
    target.reset();  // its held handle is destroyed unanswered: the origin hears of that, or of the
                     // end
    const auto held = support::hold_port(uri);
    REQUIRE(support::until([&] { return call.done(); }, [&] { origin.pump(); }));
    CHECK((call.ret() == HG_OTHER_ERROR || call.ret() == HG_HOSTUNREACH));
    if (!held) {
        return;  // another program is there
    }
    call.reset();
    const hg_return_t ret = call.forward(2);
    if (ret == HG_SUCCESS) {
        REQUIRE(support::until([&] { return call.done(); }, [&] { origin.pump(); }));
        CHECK(call.ret() == HG_HOSTUNREACH);
    }
}

TEST_CASE("classes are opened and closed many times") {
    for (unsigned i = 0; i < 50 / support::kSlow; ++i) {
        Pair pair;
        Call call(pair.a, pair.to_b, pair.a.empty);
        REQUIRE(pair.run(call) == HG_SUCCESS);
    }
}
