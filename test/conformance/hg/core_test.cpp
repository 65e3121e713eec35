// SPDX-License-Identifier: BSD-3-Clause
// The interface without structures, mercury_core.h: contexts that are told when to accept requests,
// payloads as bytes.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "conformance/hg/core_side.hpp"

namespace {

using namespace conformance;

}  // namespace

TEST_CASE("core: bytes there and back") {
    Core a({.listen = false});
    Core b({});
    Call call(a, b, kEcho);
    for (const std::size_t size : {0, 1, 60, 1000}) {
        const std::string bytes(size, 'x');
        REQUIRE(call.forward(bytes) == HG_SUCCESS);
        REQUIRE(call.wait() == HG_SUCCESS);
        CHECK(call.out == bytes);
        CHECK(HG_Core_get_output_payload_size(call.handle) == size);
    }
    CHECK(b.served == 4);
    CHECK(HG_Core_ref_get(call.handle) == 1);
    CHECK(HG_Core_get_info(call.handle)->id == kEcho);
    CHECK(HG_Core_get_info(call.handle)->addr != HG_CORE_ADDR_NULL);
    CHECK(HG_Core_context_get_completion_count(a.context) == 0);
}

TEST_CASE("core: what the buffer does not have is not sent") {
    Core a({});
    Core b({});
    Call call(a, b, kEcho);
    const hg_size_t most = HG_Core_class_get_input_eager_size(a.cls);
    void* in = nullptr;
    hg_size_t room = 0;
    REQUIRE(HG_Core_get_input(call.handle, &in, &room) == HG_SUCCESS);
    CHECK(room >= most);
    CHECK(HG_Core_forward(call.handle, nullptr, nullptr, 0, room + 1) == HG_MSGSIZE);
    CHECK(HG_Core_forward(call.handle, nullptr, nullptr, 1 << 1, 0) == HG_INVALID_ARG);
    REQUIRE(call.forward(std::string(most, 'y')) == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(HG_Core_respond(call.handle, nullptr, nullptr, 0, 0) == HG_INVALID_ARG);
    CHECK(HG_Core_release_input(call.handle) == HG_INVALID_ARG);
}

TEST_CASE("core: a context accepts requests when it is told to, and again after it stopped") {
    Core a({.listen = false});
    CHECK(HG_Core_context_post(a.context) == HG_OPNOTSUPPORTED);
    Core b({.post = false});
    unsigned created = 0;
    REQUIRE(HG_Core_context_set_handle_create_callback(
                b.context,
                [](hg_core_handle_t h, void* arg) {
                    ++*static_cast<unsigned*>(arg);
                    return HG_Core_set_data(h, arg, nullptr);
                },
                &created) == HG_SUCCESS);
    CHECK(created == 0);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    CHECK(created > 0);
    Call call(a, b, kEcho);
    REQUIRE(call.forward("one") == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    REQUIRE(HG_Core_context_unpost(b.context) == HG_SUCCESS);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    REQUIRE(call.forward("two") == HG_SUCCESS);
    CHECK(call.wait() == HG_SUCCESS);
    CHECK(call.out == "two");
}

TEST_CASE("core: requests that have waited use all receives up when a context begins to accept") {
    Core a({.listen = false});
    Core b({.post = false, .fixed = true});
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < 40; ++i) {
        calls.push_back(std::make_unique<Call>(a, b, kEcho));
        REQUIRE(calls.back()->forward("waits") == HG_SUCCESS);
    }
    for (unsigned i = 0; i < 1000;
         ++i) {  // until they are there, as far as the transport takes them
        a.pump();
        b.pump();
    }
    CHECK(b.served == 0);
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    for (auto& call : calls) {
        CHECK(call->wait() == HG_SUCCESS);
    }
    CHECK(b.served == 40);
}

TEST_CASE("core: a context that accepts already goes on when it is told again") {
    Core a({.listen = false});
    Core b({.fixed = true});
    Call held(a, b, kHeld);
    REQUIRE(held.forward("") == HG_SUCCESS);
    REQUIRE(held.until([&] { return b.held != HG_CORE_HANDLE_NULL; }));
    REQUIRE(HG_Core_context_post(b.context) == HG_SUCCESS);
    CHECK(HG_Core_respond(b.held, nullptr, nullptr, 0, 0) == HG_SUCCESS);
    CHECK(HG_Core_destroy(std::exchange(b.held, HG_CORE_HANDLE_NULL)) == HG_SUCCESS);
    CHECK(held.wait() == HG_SUCCESS);
    Call next(a, b, kEcho);
    REQUIRE(next.forward("next") == HG_SUCCESS);
    CHECK(next.wait() == HG_SUCCESS);
}

TEST_CASE("core: what lies underneath") {
    Core a({});
    CHECK(std::string(NA_Get_class_name(HG_Core_class_get_na(a.cls))) ==
          HG_Core_class_get_name(a.cls));
    CHECK(HG_Core_class_get_na_sm(a.cls) == nullptr);
    CHECK(HG_Core_context_get_na(a.context) != nullptr);
    CHECK(HG_Core_context_get_na_sm(a.context) == nullptr);
    CHECK(HG_Core_context_get_class(a.context) == a.cls);
    hg_core_addr_t self = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_self(a.cls, &self) == HG_SUCCESS);
    CHECK(NA_Addr_is_self(HG_Core_class_get_na(a.cls), HG_Core_addr_get_na(self)));
    CHECK(HG_Core_addr_get_na_sm(self) == nullptr);
    REQUIRE(HG_Core_addr_free(self) == HG_SUCCESS);
    int data = 0;
    REQUIRE(HG_Core_register_data(a.cls, kEcho, &data, nullptr) == HG_SUCCESS);
    Call call(a, a, kEcho);
    CHECK(HG_Core_get_rpc_data(call.handle) == &data);
}

TEST_CASE("core: addresses travel as bytes and as names") {
    Core a({});
    Core b({});
    hg_core_addr_t self = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_self(b.cls, &self) == HG_SUCCESS);
    const hg_size_t size = HG_Core_addr_get_serialize_size(self, HG_CORE_SM);
    REQUIRE(size > 0);
    std::vector<char> bytes(size);
    CHECK(HG_Core_addr_serialize(bytes.data(), size - 1, HG_CORE_SM, self) == HG_OVERFLOW);
    REQUIRE(HG_Core_addr_serialize(bytes.data(), size, HG_CORE_SM, self) == HG_SUCCESS);
    hg_core_addr_t decoded = HG_CORE_ADDR_NULL;
    CHECK(HG_Core_addr_deserialize(a.cls, &decoded, bytes.data(), size - 1, 0) != HG_SUCCESS);
    REQUIRE(HG_Core_addr_deserialize(a.cls, &decoded, bytes.data(), size, 0) == HG_SUCCESS);

    hg_core_addr_t found = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_lookup1(
                a.context,
                [](const struct hg_core_cb_info* info) {
                    *static_cast<hg_core_addr_t*>(info->arg) = info->info.lookup.addr;
                    return info->ret;
                },
                &found, b.uri().c_str(), HG_CORE_OP_ID_IGNORE) == HG_SUCCESS);
    CHECK(found == HG_CORE_ADDR_NULL);  // not before trigger
    REQUIRE(support::until([&] { return found != HG_CORE_ADDR_NULL; }, [&] { a.pump(); }));
    CHECK(HG_Core_addr_cmp(found, decoded) == HG_TRUE);
    hg_core_addr_t copy = HG_CORE_ADDR_NULL;
    REQUIRE(HG_Core_addr_dup(found, &copy) == HG_SUCCESS);
    for (hg_core_addr_t addr : {self, decoded, found, copy}) {
        CHECK(HG_Core_addr_free(addr) == HG_SUCCESS);
    }
}

TEST_CASE("core: who is not there is named") {
    Core a({.listen = false});
    auto b = std::make_unique<Core>(Core::Settings{});
    const std::string uri = b->uri();
    auto call = std::make_unique<Call>(a, *b, kEcho);
    REQUIRE(call->forward("") == HG_SUCCESS);
    CHECK(call->wait() == HG_SUCCESS);
    b.reset();
    const auto held = support::hold_port(uri);
    if (!held) {
        return;  // another program is there
    }
    for (unsigned i = 0; i < 2; ++i) {  // known later, and at once
        REQUIRE(call->forward("") == HG_SUCCESS);
        REQUIRE(support::until([&] { return call->count != 0; }, [&] { a.pump(); }));
        CHECK(call->ret == HG_HOSTUNREACH);
    }
}
