// SPDX-License-Identifier: BSD-3-Clause
// Codes that cross the wire, and wrong use of the C API.
#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

TEST_CASE("what the target cannot run is answered with a code") {
    Pair pair;
    const hg_id_t stranger = HG_Register_name(pair.a.cls(), "not there", nullptr, nullptr, nullptr);
    Call unknown(pair.a, pair.to_b, stranger);
    CHECK(pair.run(unknown) == HG_NOENTRY);
    Call unserved(pair.a, pair.to_b, pair.a.unserved);
    CHECK(pair.run(unserved) == HG_INVALID_ARG);
    REQUIRE(HG_Deregister(pair.b.cls(), pair.b.echo) == HG_SUCCESS);
    Call gone(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(1, 100'000);
    CHECK(pair.run(gone, in) == HG_NOENTRY);
    CHECK(HG_Get_output_payload_size(gone.handle()) == 0);
    Blob out;
    CHECK(HG_Get_output(gone.handle(), &out) == HG_FAULT);
}

TEST_CASE("calls that the target cannot run end all, however many come at a time") {
    constexpr unsigned kCalls = 400;
    Pair pair;
    const hg_id_t stranger = HG_Register_name(pair.a.cls(), "not there", nullptr, nullptr, nullptr);
    std::vector<std::unique_ptr<Call>> calls;
    for (unsigned i = 0; i < kCalls; ++i) {
        calls.push_back(
            std::make_unique<Call>(pair.a, pair.to_b, i % 2 == 0 ? stranger : pair.a.unserved));
        REQUIRE(calls.back()->forward() == HG_SUCCESS);
        if (i % 16 == 0) {
            pair.b.pump();  // whose answers are not taken meanwhile
        }
    }
    for (int i = 0; i < 500; ++i) {
        pair.b.pump();
    }
    for (unsigned i = 0; i < kCalls; ++i) {
        REQUIRE(pair.wait(*calls[i]) == (i % 2 == 0 ? HG_NOENTRY : HG_INVALID_ARG));
    }
}

TEST_CASE("the code of a handler that fails reaches the caller") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.fail);
    for (unsigned c = 1; c < HG_RETURN_MAX; ++c) {
        CHECK(pair.run(call, c) == static_cast<hg_return_t>(c));
    }
    Call drop(pair.a, pair.to_b, pair.a.drop);
    CHECK(pair.run(drop, 1) == HG_OTHER_ERROR);
}

TEST_CASE("a target that destroys its handle once too often takes nobody else's reference") {
    Pair pair;
    static hg_return_t second;
    static hg_return_t third;
    // Programs give up the reference of a response that they do not send, too, which is one more
    // than of a request that wants none.
    const auto thrice = [](hg_handle_t h) {
        const hg_return_t first = HG_Destroy(h);
        second = HG_Destroy(h);
        third = HG_Destroy(h);
        return first;
    };
    for (const hg_id_t id : {pair.a.unserved, pair.a.note}) {
        REQUIRE(HG_Register(pair.b.cls(), id, nullptr, nullptr, thrice) == HG_SUCCESS);
    }
    // One that has answered has nothing to give up.
    const auto answered = [](hg_handle_t h) {
        const hg_return_t first = HG_Respond(h, nullptr, nullptr, nullptr);
        HG_Destroy(h);
        second = HG_Destroy(h);
        return first;
    };
    const hg_id_t answer = HG_Register_name(pair.a.cls(), "answered", nullptr, nullptr, nullptr);
    REQUIRE(HG_Register(pair.b.cls(), answer, nullptr, nullptr, answered) == HG_SUCCESS);
    Call served(pair.a, pair.to_b, answer);
    REQUIRE(HG_Registered_disable_response(pair.b.cls(), pair.b.note, 1) == HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.unserved);
    Call note(pair.a, pair.to_b, pair.a.note);
    Call empty(pair.a, pair.to_b, pair.a.empty);
    for (unsigned i = 0; i < 100; ++i) {
        second = HG_RETURN_MAX;
        CHECK(pair.run(call) == HG_OTHER_ERROR);
        CHECK(second == HG_SUCCESS);
        CHECK(third == HG_INVALID_ARG);
        CHECK(pair.run(served) == HG_SUCCESS);
        CHECK(second == HG_INVALID_ARG);
        second = HG_RETURN_MAX;
        Blob in = blob(i, 10);
        CHECK(pair.run(note, in) == HG_SUCCESS);
        REQUIRE(support::until([&] { return second != HG_RETURN_MAX; }, [&] { pair.pump(); }));
        CHECK(second == HG_INVALID_ARG);
        CHECK(pair.run(empty) == HG_SUCCESS);
    }
}

namespace {

unsigned releases = 0;
hg_return_t counting_proc(hg_proc_t proc, void* number) {
    releases += hg_proc_get_op(proc) == HG_FREE ? 1U : 0U;
    return hg_proc_uint64_t(proc, number);
}

}  // namespace

TEST_CASE("releasing a structure that was not got does nothing") {
    Pair pair;
    static hg_return_t released;
    static int refs_before;
    static int refs_after;
    const auto careless = [](hg_handle_t h) {
        std::uint64_t in = 0;
        refs_before = HG_Ref_get(h);
        released = HG_Free_input(h, &in);
        refs_after = HG_Ref_get(h);
        const hg_return_t ret = HG_Respond(h, nullptr, nullptr, &in);
        HG_Destroy(h);
        return ret;
    };
    const auto define = [&](Side& side, hg_rpc_cb_t serve) {
        return HG_Register_name(side.cls(), "careless", counting_proc, counting_proc, serve);
    };
    REQUIRE(define(pair.a, nullptr) == define(pair.b, careless));
    Call call(pair.a, pair.to_b, define(pair.a, nullptr));
    std::uint64_t number = 7;
    for (int i = 0; i < 3; ++i) {
        releases = 0;
        CHECK(pair.run(call, number) == HG_SUCCESS);
        CHECK(released == HG_INVALID_ARG);
        CHECK(refs_after == refs_before);
        CHECK(HG_Free_output(call.handle(), &number) == HG_INVALID_ARG);
        CHECK(releases == 0);
        CHECK(HG_Ref_get(call.handle()) == 1);
        REQUIRE(HG_Get_output(call.handle(), &number) == HG_SUCCESS);
        CHECK(HG_Ref_get(call.handle()) == 2);
        CHECK(HG_Free_output(call.handle(), &number) == HG_SUCCESS);
        CHECK(HG_Free_output(call.handle(), &number) == HG_INVALID_ARG);
        CHECK(releases == 1);
        CHECK(HG_Ref_get(call.handle()) == 1);
    }
    // After a call that failed, as the forward callback of a careless program does.
    const hg_id_t unknown =
        HG_Register_name(pair.a.cls(), "nowhere", counting_proc, counting_proc, nullptr);
    Call fails(pair.a, pair.to_b, unknown);
    CHECK(pair.run(fails, number) == HG_NOENTRY);
    CHECK(HG_Free_output(fails.handle(), &number) == HG_INVALID_ARG);
    CHECK(HG_Ref_get(fails.handle()) == 1);
}

TEST_CASE("handles whose structures are never released end all the same") {
    Pair pair;
    static unsigned ended;
    ended = 0;
    // The last reference goes before the response, or after it.
    const auto keeps = [](hg_handle_t h) {
        std::uint64_t in = 0;
        hg_return_t ret = HG_Get_input(h, &in);
        HG_Set_data(h, &ended, [](void* n) { ++*static_cast<unsigned*>(n); });
        const auto destroy = [&] {
            for (int i = 0; i < 2; ++i) {
                HG_Destroy(h);
            }
        };
        if (in % 2 == 0) {
            destroy();
        }
        ret = ret == HG_SUCCESS ? HG_Respond(h, nullptr, nullptr, &in) : ret;
        if (in % 2 != 0) {
            destroy();
        }
        return ret;
    };
    const auto define = [&](Side& side, hg_rpc_cb_t serve) {
        return HG_Register_name(side.cls(), "keeps", counting_proc, counting_proc, serve);
    };
    REQUIRE(define(pair.a, nullptr) == define(pair.b, keeps));
    Call call(pair.a, pair.to_b, define(pair.a, nullptr));
    for (std::uint64_t i = 0; i < 10; ++i) {
        REQUIRE(pair.run(call, i) == HG_SUCCESS);
        REQUIRE(support::until([&] { return ended == i + 1; }, [&] { pair.pump(); }));
    }
}

TEST_CASE("a target answers with a code, then and later") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    CHECK(HG_Respond_error(held[0], nullptr, nullptr, HG_SUCCESS) == HG_INVALID_ARG);
    CHECK(HG_Respond_error(held[0], nullptr, nullptr, HG_RETURN_MAX) == HG_INVALID_ARG);
    CHECK(HG_Respond_error(held[0], nullptr, nullptr, static_cast<hg_return_t>(31)) ==
          HG_INVALID_ARG);
    CHECK(HG_Respond_error(held[0], nullptr, nullptr, HG_AGAIN) == HG_SUCCESS);
    CHECK(HG_Respond_error(held[0], nullptr, nullptr, HG_AGAIN) == HG_BUSY);
    CHECK(HG_Respond(held[0], nullptr, nullptr, nullptr) == HG_BUSY);
    HG_Destroy(held[0]);
    held.clear();
    CHECK(pair.wait(call) == HG_AGAIN);
}

TEST_CASE("a proc that fails leaves the handle as it was") {
    Pair pair;
    static hg_return_t code;
    code = HG_SUCCESS;
    const hg_proc_cb_t picky = [](hg_proc_t proc, void* data) -> hg_return_t {
        return hg_proc_get_op(proc) == HG_ENCODE && code != HG_SUCCESS
                   ? code
                   : hg_proc_uint64_t(proc, data);
    };
    const hg_id_t id = HG_Register_name(pair.a.cls(), "picky", picky, picky, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "picky", picky, picky, [](hg_handle_t h) -> hg_return_t {
                std::uint64_t n = 0;
                hg_return_t ret = HG_Get_input(h, &n);
                HG_Free_input(h, &n);
                code = HG_NODEV;
                if (ret == HG_SUCCESS && HG_Respond(h, nullptr, nullptr, &n) != HG_NODEV) {
                    ret = HG_FAULT;
                }
                code = HG_SUCCESS;
                if (ret == HG_SUCCESS) {
                    ret = HG_Respond(h, nullptr, nullptr, &n);
                }
                HG_Destroy(h);
                return ret;
            }) == id);
    Call call(pair.a, pair.to_b, id);
    code = HG_ACCESS;
    CHECK(call.forward(5) == HG_ACCESS);
    CHECK(HG_Ref_get(call.handle()) == 1);
    code = HG_SUCCESS;
    CHECK(pair.run(call, 5) == HG_SUCCESS);
}

// As those of C++ frameworks do, whose callers catch it.
TEST_CASE("an exception of a proc passes through, and the handle is as it was") {
    struct Thrown {};
    Pair pair;
    static hg_proc_op_t at;
    static int caught;
    at = HG_FREE;
    caught = 0;
    const hg_proc_cb_t thrower = [](hg_proc_t proc, void* data) -> hg_return_t {
        const hg_return_t ret = hg_proc_uint64_t(proc, data);
        if (hg_proc_get_op(proc) == at && ret == HG_SUCCESS) {
            throw Thrown{};
        }
        return ret;
    };
    const hg_rpc_cb_t serve = [](hg_handle_t h) -> hg_return_t {
        std::uint64_t n = 0;
        at = HG_DECODE;
        try {
            (void)HG_Get_input(h, &n);
        } catch (const Thrown&) {
            ++caught;
        }
        at = HG_ENCODE;
        try {
            (void)HG_Respond(h, nullptr, nullptr, &n);
        } catch (const Thrown&) {
            ++caught;
        }
        at = HG_FREE;
        hg_return_t ret = HG_Get_input(h, &n);
        if (ret == HG_SUCCESS) {
            ret = HG_Respond(h, nullptr, nullptr, &n);
            at = HG_DECODE;
            (void)HG_Free_input(h, &n);
        }
        (void)HG_Destroy(h);
        return ret;
    };
    const hg_id_t id = HG_Register_name(pair.a.cls(), "thrower", thrower, thrower, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "thrower", thrower, thrower, serve) == id);
    Call call(pair.a, pair.to_b, id);
    call.decode_output = false;
    for (unsigned i = 1; i <= 3; ++i) {
        std::uint64_t n = i;
        at = HG_ENCODE;
        CHECK_THROWS_AS(call.forward(static_cast<void*>(&n)), Thrown);
        CHECK(HG_Ref_get(call.handle()) == 1);
        at = HG_FREE;
        CHECK(HG_Reset(call.handle(), HG_ADDR_NULL, 0) == HG_SUCCESS);
        REQUIRE(call.forward(static_cast<void*>(&n)) == HG_SUCCESS);
        CHECK(pair.wait(call) == HG_SUCCESS);
        CHECK(caught == 2 * static_cast<int>(i));
    }
}

TEST_CASE("a structure that is shorter than the target expects") {
    Pair pair;
    // The origin sends 4 bytes where the target decodes a blob.
    REQUIRE(HG_Register(pair.a.cls(), pair.a.echo, hg_proc_uint32_t, nullptr, nullptr) ==
            HG_SUCCESS);
    Call call(pair.a, pair.to_b, pair.a.echo);
    call.decode_output = false;
    std::uint32_t n = 1;
    REQUIRE(call.forward(static_cast<void*>(&n)) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_OVERFLOW);
}

TEST_CASE("no structure is made of a payload that is not there") {
    Pair pair;
    static hg_return_t input;
    static std::uint64_t number;
    static hg_size_t received;
    const hg_rpc_cb_t serve = [](hg_handle_t h) -> hg_return_t {
        number = 7;
        received = HG_Get_input_payload_size(h);
        input = HG_Get_input(h, &number);
        if (input == HG_SUCCESS) {
            HG_Free_input(h, &number);
        }
        const hg_return_t ret = HG_Respond(h, nullptr, nullptr, nullptr);
        HG_Destroy(h);
        return ret;
    };
    const hg_id_t id =
        HG_Register_name(pair.a.cls(), "nothing", hg_proc_uint64_t, hg_proc_uint64_t, nullptr);
    REQUIRE(HG_Register_name(pair.b.cls(), "nothing", hg_proc_uint64_t, hg_proc_uint64_t, serve) ==
            id);
    Call call(pair.a, pair.to_b, id);
    // After one that had a payload, in the same buffers.
    REQUIRE(pair.run(call, 1) == HG_SUCCESS);
    CHECK(input == HG_SUCCESS);
    CHECK(received == 8);
    call.reset();
    REQUIRE(call.forward() == HG_SUCCESS);
    REQUIRE(pair.wait(call) == HG_SUCCESS);
    CHECK(input == HG_OVERFLOW);
    CHECK(received == 0);
    CHECK(number == 7);
    std::uint64_t output = 8;
    CHECK(HG_Get_output_payload_size(call.handle()) == 0);
    CHECK(HG_Get_output(call.handle(), &output) == HG_OVERFLOW);
    CHECK(output == 8);
    CHECK(HG_Ref_get(call.handle()) == 1);
}

TEST_CASE("a handle in flight is not touched") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.echo);
    Blob in = blob(1, 1000);
    Blob other = blob(2, 1000);
    REQUIRE(call.forward(in) == HG_SUCCESS);
    CHECK(call.forward(other) == HG_BUSY);
    CHECK(HG_Reset(call.handle(), HG_ADDR_NULL, pair.a.empty) == HG_BUSY);
    CHECK(pair.wait(call) == HG_SUCCESS);
    CHECK(is_blob(call.out(), 2, 1000, 1));
    CHECK(pair.b.served == 1);
}

TEST_CASE("handles are created and reset with what is there") {
    Pair pair;
    hg_handle_t h = HG_HANDLE_NULL;
    CHECK(HG_Create(nullptr, pair.to_b, pair.a.echo, &h) == HG_INVALID_ARG);
    CHECK(HG_Create(pair.a.context(), pair.to_b, pair.a.echo, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Create(pair.a.context(), pair.to_b, 12345, &h) == HG_NOENTRY);
    CHECK(std::strlen(HG_Get_last_error()) > 0);
    CHECK(HG_Create(pair.b.context(), pair.to_b, pair.a.echo, &h) ==
          HG_INVALID_ARG);  // another class's address
    REQUIRE(HG_Create(pair.a.context(), HG_ADDR_NULL, 0, &h) == HG_SUCCESS);
    CHECK(HG_Get_info(h)->addr == HG_ADDR_NULL);
    CHECK(HG_Forward(h, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Reset(h, pair.to_b, 0) == HG_SUCCESS);
    CHECK(HG_Forward(h, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Reset(h, HG_ADDR_NULL, 999) == HG_NOENTRY);
    CHECK(HG_Reset(h, HG_ADDR_NULL, pair.a.empty) == HG_SUCCESS);
    CHECK(HG_Get_info(h)->id == pair.a.empty);
    CHECK(HG_Set_target_id(h, 3) == HG_SUCCESS);
    CHECK(HG_Get_info(h)->context_id == 3);
    CHECK(HG_Reset(h, HG_ADDR_NULL, 0) == HG_SUCCESS);
    CHECK(HG_Get_info(h)->context_id == 0);
    REQUIRE(HG_Forward(h, nullptr, nullptr, nullptr) == HG_SUCCESS);
    REQUIRE(support::until([&] { return pair.b.served == 1 && HG_Ref_get(h) == 1; },
                           [&] { pair.pump(); }));
    CHECK(HG_Deregister(pair.a.cls(), pair.a.empty) == HG_SUCCESS);
    CHECK(HG_Forward(h, nullptr, nullptr, nullptr) == HG_FAULT);
    // Neither end's functions on the other's handle.
    CHECK(HG_Respond(h, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Release_input_buf(h) == HG_INVALID_ARG);
    std::uint64_t n = 0;
    CHECK(HG_Get_input(h, &n) == HG_FAULT);
    CHECK(HG_Destroy(h) == HG_SUCCESS);
    CHECK(HG_Destroy(h) == HG_INVALID_ARG);  // noticed as long as it was not used again
}

TEST_CASE("the target's handle is no origin's") {
    Pair pair;
    Call call(pair.a, pair.to_b, pair.a.hold);
    call.decode_output = false;
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = pair.b.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { pair.pump(); }));
    CHECK(HG_Forward(held[0], nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Reset(held[0], HG_ADDR_NULL, pair.b.echo) == HG_INVALID_ARG);
    CHECK(HG_Set_target_id(held[0], 1) == HG_INVALID_ARG);
    Blob out;
    CHECK(HG_Get_output(held[0], &out) == HG_FAULT);
    CHECK(HG_Respond(held[0], nullptr, nullptr, nullptr) == HG_SUCCESS);
    CHECK(pair.wait(call) == HG_SUCCESS);
    const hg_handle_t h = held[0];
    held.clear();
    bool over = false;
    HG_Set_data(h, &over, [](void* p) { *static_cast<bool*>(p) = true; });
    CHECK(HG_Destroy(h) == HG_SUCCESS);
    // The answer may be there before its sender hears that it was sent; until then the handle is in
    // use.
    REQUIRE(support::until([&] { return over; }, [&] { pair.pump(); }));
    CHECK(HG_Destroy(h) == HG_INVALID_ARG);  // it is posted again, and nobody's
    Call next(pair.a, pair.to_b, pair.a.empty);
    CHECK(pair.run(next) == HG_SUCCESS);
}

TEST_CASE("NULL is refused") {
    hg_size_t size = 0;
    void* p = nullptr;
    uint8_t flag = 0;
    unsigned n = 0;
    hg_addr_t addr = nullptr;
    CHECK(HG_Init(nullptr, 0) == nullptr);
    CHECK(HG_Finalize(nullptr) == HG_SUCCESS);
    CHECK(HG_Class_get_name(nullptr) == nullptr);
    CHECK(HG_Class_get_protocol(nullptr) == nullptr);
    CHECK(!HG_Class_is_listening(nullptr));
    CHECK(HG_Class_get_input_eager_size(nullptr) == 0);
    CHECK(HG_Class_get_output_eager_size(nullptr) == 0);
    CHECK(HG_Class_set_input_offset(nullptr, 0) == HG_INVALID_ARG);
    CHECK(HG_Class_set_output_offset(nullptr, 0) == HG_INVALID_ARG);
    CHECK(HG_Class_set_data(nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Class_get_data(nullptr) == nullptr);
    CHECK(HG_Class_get_counters(nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Class_set_handle_create_callback(nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Context_create(nullptr) == nullptr);
    CHECK(HG_Context_destroy(nullptr) == HG_INVALID_ARG);
    CHECK(HG_Context_unpost(nullptr) == HG_INVALID_ARG);
    CHECK(HG_Context_get_class(nullptr) == nullptr);
    CHECK(HG_Context_get_id(nullptr) == 0);
    CHECK(HG_Context_set_data(nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Context_get_data(nullptr) == nullptr);
    CHECK(HG_Register_name(nullptr, "x", nullptr, nullptr, nullptr) == 0);
    CHECK(HG_Register(nullptr, 1, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Deregister(nullptr, 1) == HG_INVALID_ARG);
    CHECK(HG_Registered(nullptr, 1, &flag) == HG_INVALID_ARG);
    CHECK(HG_Registered_name(nullptr, "x", nullptr, &flag) == HG_INVALID_ARG);
    CHECK(HG_Registered_proc_cb(nullptr, 1, &flag, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Register_data(nullptr, 1, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Registered_data(nullptr, 1) == nullptr);
    CHECK(HG_Registered_disable_response(nullptr, 1, 1) == HG_INVALID_ARG);
    CHECK(HG_Registered_disabled_response(nullptr, 1, &flag) == HG_INVALID_ARG);
    CHECK(HG_Addr_lookup1(nullptr, nullptr, nullptr, "x", nullptr) == HG_INVALID_ARG);
    CHECK(HG_Addr_lookup2(nullptr, "x", &addr) == HG_INVALID_ARG);
    CHECK(HG_Addr_free(nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Addr_self(nullptr, &addr) == HG_INVALID_ARG);
    CHECK(HG_Addr_dup(nullptr, nullptr, &addr) == HG_INVALID_ARG);
    CHECK(HG_Addr_cmp(nullptr, nullptr, nullptr) == HG_TRUE);
    CHECK(HG_Addr_to_string(nullptr, nullptr, &size, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Addr_set_remove(nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Destroy(nullptr) == HG_SUCCESS);
    CHECK(HG_Reset(nullptr, nullptr, 0) == HG_INVALID_ARG);
    CHECK(HG_Ref_incr(nullptr) == HG_INVALID_ARG);
    CHECK(HG_Ref_get(nullptr) == -1);
    CHECK(HG_Get_info(nullptr) == nullptr);
    CHECK(HG_Set_data(nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Get_data(nullptr) == nullptr);
    CHECK(HG_Set_target_id(nullptr, 0) == HG_INVALID_ARG);
    CHECK(HG_Get_input_payload_size(nullptr) == 0);
    CHECK(HG_Get_output_payload_size(nullptr) == 0);
    CHECK(HG_Get_input(nullptr, &n) == HG_INVALID_ARG);
    CHECK(HG_Free_input(nullptr, &n) == HG_INVALID_ARG);
    CHECK(HG_Get_output(nullptr, &n) == HG_INVALID_ARG);
    CHECK(HG_Free_output(nullptr, &n) == HG_INVALID_ARG);
    CHECK(HG_Get_input_buf(nullptr, &p, &size) == HG_INVALID_ARG);
    CHECK(HG_Get_output_buf(nullptr, &p, &size) == HG_INVALID_ARG);
    CHECK(HG_Get_input_extra_buf(nullptr, &p, &size) == HG_INVALID_ARG);
    CHECK(HG_Get_output_extra_buf(nullptr, &p, &size) == HG_INVALID_ARG);
    CHECK(HG_Release_input_buf(nullptr) == HG_INVALID_ARG);
    CHECK(HG_Forward(nullptr, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Respond(nullptr, nullptr, nullptr, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Respond_error(nullptr, nullptr, nullptr, HG_FAULT) == HG_INVALID_ARG);
    CHECK(HG_Cancel(nullptr) == HG_INVALID_ARG);
    CHECK(HG_Progress(nullptr, 0) == HG_INVALID_ARG);
    CHECK(HG_Trigger(nullptr, 0, 1, &n) == HG_INVALID_ARG);
    CHECK(HG_Event_get_wait_fd(nullptr) == -1);
    CHECK(HG_Event_ready(nullptr));
    CHECK(HG_Event_progress(nullptr, &n) == HG_INVALID_ARG);
    CHECK(HG_Event_trigger(nullptr, 1, &n) == HG_INVALID_ARG);
    CHECK(HG_Get_na_protocol_info(nullptr, nullptr) == HG_INVALID_ARG);
    HG_Free_na_protocol_info(nullptr);
    HG_Set_log_level(nullptr);
    HG_Set_log_subsys(nullptr);
    HG_Set_log_stream(nullptr, nullptr);
    CHECK(HG_Error_to_string(HG_RETURN_MAX) == nullptr);
    CHECK(std::string(HG_Error_to_string(HG_NOENTRY)) == "HG_NOENTRY");
    CHECK(HG_Version_get(nullptr, &n, nullptr) == HG_SUCCESS);
    CHECK(n == HG_VERSION_MINOR);
}

TEST_CASE("malformed info strings are refused with a message") {
    for (const char* text : {"", ":", "+", "na+", "+sm", "na+sm:x", "na+sm:/x", "no such",
                             "na+nosuch", "\n", "na+sm://a b", "uid://x#y#z"}) {
        CHECK(HG_Init(text, 1) == nullptr);
        CHECK(std::strlen(HG_Get_last_error()) > 0);
    }
    const std::string longest(100'000, 'x');
    CHECK(HG_Init(longest.c_str(), 1) == nullptr);
    Side side;
    hg_addr_t addr = HG_ADDR_NULL;
    for (const char* text : {"", ":", "uid://", "uid://#", "uid://a#b", "uid://a##c", "uid://a#b#",
                             "uid://a#b#c", "na+sm://", "other+sm://1-1", "other://a:1"}) {
        CHECK(HG_Addr_lookup2(side.cls(), text, &addr) == HG_INVALID_ARG);
        CHECK(addr == HG_ADDR_NULL);
    }
    CHECK(HG_Addr_lookup2(side.cls(), longest.c_str(), &addr) == HG_INVALID_ARG);
}

TEST_CASE("addresses are resolved by callback, compared, printed") {
    Pair pair;
    struct Found {
        unsigned count = 0;
        hg_addr_t addr = HG_ADDR_NULL;
        hg_return_t ret = HG_RETURN_MAX;
    } found;
    const auto on_found = [](const struct hg_cb_info* info) -> hg_return_t {
        auto& f = *static_cast<Found*>(info->arg);
        ++f.count;
        f.addr = info->info.lookup.addr;
        f.ret = info->type == HG_CB_LOOKUP ? info->ret : HG_OTHER_ERROR;
        return HG_SUCCESS;
    };
    hg_op_id_t op = reinterpret_cast<hg_op_id_t>(1);
    REQUIRE(HG_Addr_lookup(pair.a.context(), on_found, &found, pair.b.uri().c_str(), &op) ==
            HG_SUCCESS);
    CHECK(op == HG_OP_ID_NULL);
    CHECK(found.count == 0);
    CHECK(HG_Progress(pair.a.context(), 1000) == HG_SUCCESS);
    pair.pump();
    REQUIRE(found.count == 1);
    REQUIRE(found.ret == HG_SUCCESS);
    {
        const Addr b(pair.a, found.addr);
        CHECK(HG_Addr_cmp(pair.a.cls(), b, pair.to_b) == HG_TRUE);
        const Addr self(pair.a, pair.a.uri());
        CHECK(HG_Addr_cmp(pair.a.cls(), b, self) == HG_FALSE);
        CHECK(HG_Addr_cmp(pair.a.cls(), b, HG_ADDR_NULL) == HG_FALSE);
        char text[8] = "";
        hg_size_t size = sizeof text;
        CHECK(HG_Addr_to_string(pair.a.cls(), text, &size, b) == HG_OVERFLOW);
        CHECK(size == pair.b.uri().size() + 1);
        CHECK(to_string(pair.a, b) == pair.b.uri());
        CHECK(HG_Addr_set_remove(pair.a.cls(), b) == HG_SUCCESS);
    }
    // What is wrong with a name is said at once, and no callback follows.
    hg_addr_t none = HG_ADDR_NULL;
    CHECK(HG_Addr_lookup1(pair.a.context(), on_found, &found, "nonsense", HG_OP_ID_IGNORE) ==
          HG_Addr_lookup2(pair.a.cls(), "nonsense", &none));
    CHECK(none == HG_ADDR_NULL);
    pair.pump();
    CHECK(found.count == 1);
}

TEST_CASE("an address that is freed twice is refused, and others are not harmed") {
    Side side;
    Side other;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_addr_t kept = HG_ADDR_NULL;
    REQUIRE(HG_Addr_lookup2(side.cls(), other.uri().c_str(), &kept) == HG_SUCCESS);
    REQUIRE(HG_Addr_lookup2(side.cls(), other.uri().c_str(), &addr) == HG_SUCCESS);
    CHECK(HG_Addr_free(other.cls(), addr) == HG_INVALID_ARG);  // another class's
    CHECK(HG_Addr_free(side.cls(), addr) == HG_SUCCESS);
    CHECK(HG_Addr_free(side.cls(), addr) == HG_INVALID_ARG);
    CHECK(HG_Addr_free(side.cls(), addr) == HG_INVALID_ARG);
    hg_addr_t copy = HG_ADDR_NULL;
    CHECK(HG_Addr_dup(side.cls(), addr, &copy) == HG_INVALID_ARG);
    hg_size_t size = 0;
    CHECK(HG_Addr_to_string(side.cls(), nullptr, &size, addr) == HG_INVALID_ARG);
    hg_handle_t handle = HG_HANDLE_NULL;
    CHECK(HG_Create(side.context(), addr, side.echo, &handle) == HG_INVALID_ARG);
    CHECK(to_string(side, kept) == other.uri());
    CHECK(HG_Addr_free(side.cls(), kept) == HG_SUCCESS);
    // Those that come later may stand in the same place.
    for (int i = 0; i < 3; ++i) {
        const Addr again(side, other.uri());
        CHECK(to_string(side, again) == other.uri());
    }
}
