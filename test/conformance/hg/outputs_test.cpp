// SPDX-License-Identifier: BSD-3-Clause
// What functions do to their outputs where there is nothing to do (docs/migration.md).
#include <catch2/catch.hpp>

#include "conformance/hg/side.hpp"
#include "mercury_bulk.h"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("counts of nothing are 0") {
    Side side;
    unsigned count = 77;
    CHECK(HG_Trigger(side.context(), 0, 10, &count) == HG_TIMEOUT);
    CHECK(count == 0);
    count = 77;
    CHECK(HG_Trigger(side.context(), 0, 0, &count) == HG_SUCCESS);
    CHECK(count == 0);
    CHECK(HG_Trigger(side.context(), 0, 0, nullptr) == HG_SUCCESS);
    count = 77;
    CHECK(HG_Event_trigger(side.context(), 10, &count) == HG_SUCCESS);
    CHECK(count == 0);
    count = 77;
    CHECK(HG_Event_trigger(side.context(), 0, &count) == HG_SUCCESS);
    CHECK(count == 0);
    count = 77;
    CHECK(HG_Event_progress(side.context(), &count) == HG_SUCCESS);
    CHECK(count == 0);
}

TEST_CASE("what is said of an unknown RPC") {
    Side side;
    const auto untouched = reinterpret_cast<hg_proc_cb_t>(&proc_blob);
    hg_proc_cb_t in = untouched;
    hg_proc_cb_t out = untouched;
    std::uint8_t flag = 77;
    hg_id_t id = 0;
    CHECK(HG_Registered_name(side.cls(), "nobody's", &id, &flag) == HG_SUCCESS);
    CHECK(flag == 0);
    CHECK(id != 0);
    CHECK(HG_Registered_name(side.cls(), "nobody's", nullptr, nullptr) == HG_SUCCESS);
    flag = 77;
    CHECK(HG_Registered(side.cls(), id, &flag) == HG_SUCCESS);
    CHECK(flag == 0);
    flag = 77;
    CHECK(HG_Registered_proc_cb(side.cls(), id, &flag, &in, &out) == HG_SUCCESS);
    CHECK(flag == 0);
    CHECK(in == untouched);
    CHECK(out == untouched);
    flag = 77;
    CHECK(HG_Registered_disabled_response(side.cls(), id, &flag) == HG_NOENTRY);
    CHECK(flag == 77);
}

TEST_CASE("a request without an extra buffer has none") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    void* buffer = &pair;
    hg_size_t size = 77;
    CHECK(HG_Get_input_extra_buf(held[0], &buffer, &size) == HG_SUCCESS);
    CHECK(buffer == nullptr);
    CHECK(size == 0);
    Blob out = blob(1, 10);
    CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
    CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
    held.clear();
    CHECK(pair.wait(call) == HG_SUCCESS);
    buffer = &pair;
    size = 77;
    CHECK(HG_Get_output_extra_buf(call.handle(), &buffer, &size) == HG_SUCCESS);
    CHECK(buffer == nullptr);
    CHECK(size == 0);
}

TEST_CASE("what is asked of nothing") {
    CHECK(HG_Destroy(HG_HANDLE_NULL) == HG_SUCCESS);
    CHECK(HG_Bulk_free(HG_BULK_NULL) == HG_SUCCESS);
    CHECK(HG_Bulk_get_size(HG_BULK_NULL) == 0);
    CHECK(HG_Bulk_get_segment_count(HG_BULK_NULL) == 0);
    CHECK(HG_Bulk_get_serialize_size(HG_BULK_NULL, 0) == 0);
    CHECK(hg_proc_free(HG_PROC_NULL) == HG_SUCCESS);
    Side side;
    CHECK(HG_Addr_free(side.cls(), HG_ADDR_NULL) == HG_SUCCESS);
    hg_size_t size = 0;
    hg_addr_t self = HG_ADDR_NULL;
    REQUIRE(HG_Addr_self(side.cls(), &self) == HG_SUCCESS);
    const Addr owner(side, self);
    CHECK(HG_Addr_to_string(side.cls(), nullptr, &size, self) == HG_SUCCESS);
    CHECK(size == side.uri().size() + 1);
}
