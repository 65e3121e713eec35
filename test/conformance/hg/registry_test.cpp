// SPDX-License-Identifier: BSD-3-Clause
// Registration: ids, names, data, and changes while RPCs are in flight.
#include <catch2/catch.hpp>

#include <string>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

unsigned released;
void release(void* data) {
    ++released;
    *static_cast<int*>(data) = -1;
}

}  // namespace

TEST_CASE("RPCs are registered by name and by id") {
    Side side;
    hg_class_t* cls = side.cls();
    hg_id_t id = 0;
    uint8_t flag = 9;
    CHECK(HG_Registered_name(cls, "one", &id, &flag) == HG_SUCCESS);
    CHECK(flag == 0);
    CHECK(HG_Register_name(cls, "one", hg_proc_uint64_t, nullptr, nullptr) == id);
    CHECK(HG_Registered_name(cls, "one", nullptr, &flag) == HG_SUCCESS);
    CHECK(flag == 1);
    CHECK(HG_Register_name(cls, "", nullptr, nullptr, nullptr) == 0);
    CHECK(HG_Register(cls, 0, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    for (hg_id_t n = 1; n < 2000; ++n) {
        REQUIRE(HG_Register(cls, n << 40, nullptr, nullptr, nullptr) == HG_SUCCESS);
    }
    for (hg_id_t n = 1; n < 2000; ++n) {
        REQUIRE(HG_Registered(cls, n << 40, &flag) == HG_SUCCESS);
        REQUIRE(flag == 1);
        if (n % 2 == 0) {
            REQUIRE(HG_Deregister(cls, n << 40) == HG_SUCCESS);
            REQUIRE(HG_Deregister(cls, n << 40) == HG_NOENTRY);
        }
    }
    HG_Registered(cls, 2U << 1, &flag);
    CHECK(flag == 0);
    hg_proc_cb_t in = nullptr;
    hg_proc_cb_t out = hg_proc_uint8_t;
    CHECK(HG_Registered_proc_cb(cls, id, &flag, &in, &out) == HG_SUCCESS);
    CHECK(flag == 1);
    CHECK(in == hg_proc_uint64_t);
    CHECK(out == nullptr);
    CHECK(HG_Registered_proc_cb(cls, 77, &flag, nullptr, nullptr) == HG_SUCCESS);
    CHECK(flag == 0);
    CHECK(HG_Registered_disable_response(cls, 77, 1) == HG_NOENTRY);
    CHECK(HG_Registered_disabled_response(cls, 77, &flag) == HG_NOENTRY);
    // Churn does not fill the table.
    for (unsigned i = 0; i < 20000; ++i) {
        REQUIRE(HG_Register(cls, 1000 + i % 50, nullptr, nullptr, nullptr) == HG_SUCCESS);
        REQUIRE(HG_Deregister(cls, 1000 + i % 50) == HG_SUCCESS);
    }
}

TEST_CASE("ids follow from names alone, and two names do not share one") {
    Side side;
    hg_id_t id = 0;
    REQUIRE(HG_Registered_name(side.cls(), "hello", &id, nullptr) == HG_SUCCESS);
    CHECK(id == 0xa430d84680aabd0bU);  // the same in every process, with every version
    // Two names whose ids are equal.
    REQUIRE(HG_Register_name(side.cls(), "8yn0iYCKYHlIj4-BwPqk", nullptr, nullptr, nullptr) ==
            0x4eac0c95540867e4U);
    CHECK(HG_Register_name(side.cls(), "GReLUrM4wMqfg9yzV3KQ", nullptr, nullptr, nullptr) == 0);
    CHECK(std::string(HG_Get_last_error()).find("8yn0iYCKYHlIj4-BwPqk") != std::string::npos);
    CHECK(HG_Register_name(side.cls(), "8yn0iYCKYHlIj4-BwPqk", nullptr, nullptr, nullptr) ==
          0x4eac0c95540867e4U);
}

TEST_CASE("data of an RPC is released once, when nobody uses it any more") {
    int data[3] = {1, 2, 3};
    released = 0;
    {
        Pair pair;
        hg_class_t* cls = pair.b.cls();
        CHECK(HG_Register_data(cls, 99, &data[0], release) == HG_NOENTRY);
        CHECK(HG_Registered_data(cls, 99) == nullptr);
        REQUIRE(HG_Register_data(cls, pair.b.hold, &data[0], release) == HG_SUCCESS);
        CHECK(HG_Registered_data(cls, pair.b.hold) == &data[0]);
        Call call(pair.a, pair.to_b, pair.a.hold);
        call.decode_output = false;
        REQUIRE(call.forward(1) == HG_SUCCESS);
        auto& held = pair.b.held();
        REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
        CHECK(HG_Deregister(cls, pair.b.hold) == HG_SUCCESS);
        CHECK(released == 0);  // a handle of it is still there
        HG_Respond(held[0], nullptr, nullptr, nullptr);
        HG_Destroy(held[0]);
        held.clear();
        // When the answer has left.
        CHECK(support::until([&] { return released == 1; }, [&] { pair.pump(); }));
        CHECK(data[0] == -1);
        CHECK(pair.wait(call) == HG_SUCCESS);
        CHECK(pair.run(call, 1) == HG_NOENTRY);

        REQUIRE(HG_Register_data(cls, pair.b.empty, &data[1], release) == HG_SUCCESS);
        CHECK(HG_Deregister(cls, pair.b.empty) == HG_SUCCESS);
        CHECK(released == 2);  // nobody used it
        // Registering again keeps the data; the class's end releases it.
        REQUIRE(HG_Register_data(cls, pair.b.echo, &data[2], release) == HG_SUCCESS);
        REQUIRE(HG_Register_name(cls, "test_echo", proc_blob, proc_blob, nullptr) == pair.b.echo);
        CHECK(HG_Registered_data(cls, pair.b.echo) == &data[2]);
        CHECK(released == 2);
    }
    CHECK(released == 3);
}

TEST_CASE(
    "an RPC that is registered again runs the new handler, and what is in flight ends with the "
    "old") {
    Pair pair;
    const hg_id_t id =
        HG_Register_name(pair.a.cls(), "versions", nullptr, hg_proc_uint64_t, nullptr);
    static hg_handle_t kept;
    kept = HG_HANDLE_NULL;
    REQUIRE(HG_Register_name(pair.b.cls(), "versions", nullptr, hg_proc_uint64_t,
                             [](hg_handle_t h) -> hg_return_t {
                                 kept = h;
                                 return HG_SUCCESS;
                             }) == id);
    Call old_call(pair.a, pair.to_b, id);
    REQUIRE(old_call.forward() == HG_SUCCESS);
    REQUIRE(support::until([&] { return kept != HG_HANDLE_NULL; }, [&] { pair.pump(); }));
    REQUIRE(HG_Register_name(pair.b.cls(), "versions", nullptr, hg_proc_uint64_t,
                             [](hg_handle_t h) -> hg_return_t {
                                 std::uint64_t n = 2;
                                 HG_Respond(h, nullptr, nullptr, &n);
                                 return HG_Destroy(h);
                             }) == id);
    Call new_call(pair.a, pair.to_b, id);
    CHECK(pair.run(new_call) == HG_SUCCESS);
    std::uint64_t n = 0;
    REQUIRE(HG_Get_output(new_call.handle(), &n) == HG_SUCCESS);
    CHECK(n == 2);
    HG_Free_output(new_call.handle(), &n);
    n = 1;
    CHECK(HG_Respond(kept, nullptr, nullptr, &n) == HG_SUCCESS);
    HG_Destroy(kept);
    CHECK(pair.wait(old_call) == HG_SUCCESS);
    // A handle made before its RPC was registered again goes on with the new one.
    REQUIRE(HG_Register_name(pair.a.cls(), "versions", nullptr, hg_proc_uint64_t, nullptr) == id);
    CHECK(pair.run(old_call) == HG_SUCCESS);
}
