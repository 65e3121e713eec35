// SPDX-License-Identifier: BSD-3-Clause
// Registration: ids, names, data, and changes while RPCs are in flight.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

unsigned released;
void release(void* data) {
    ++released;
    *static_cast<int*>(data) = -1;
}

hg_id_t own_id;

hg_return_t answers(hg_handle_t h) {
    HG_Respond(h, nullptr, nullptr, nullptr);
    return HG_Destroy(h);
}

hg_return_t takes_itself_away(hg_handle_t h) {
    CHECK(HG_Deregister(HG_Get_info(h)->hg_class, own_id) == HG_SUCCESS);
    CHECK(HG_Registered_data(HG_Get_info(h)->hg_class, own_id) == nullptr);
    return answers(h);
}

// So many calls whose requests are at b, where nobody has triggered.
std::vector<std::unique_ptr<Call>> waiting(Pair& pair, hg_addr_t to, hg_id_t id, unsigned number,
                                           const Blob* in = nullptr) {
    Side& target = to == pair.to_b ? pair.b : pair.a;
    std::vector<std::unique_ptr<Call>> calls;
    const auto before = target.counters().rpc_req_recv_count;
    for (unsigned i = 0; i < number; ++i) {
        calls.push_back(std::make_unique<Call>(pair.a, to, id));
        Blob copy;
        if (in != nullptr) {
            copy = *in;
        }
        REQUIRE(calls.back()->forward(copy) == HG_SUCCESS);
    }
    unsigned due = 0;
    REQUIRE(support::until(
        [&] { return target.counters().rpc_req_recv_count == before + number && due >= number; },
        [&] {
            // Payloads beyond a message are fetched before.
            REQUIRE(HG_Event_progress(pair.b.context(), &due) == HG_SUCCESS);
            unsigned due_here = 0;
            REQUIRE(HG_Event_progress(pair.a.context(), &due_here) == HG_SUCCESS);
            if (&target == &pair.a) {
                due = due_here;
            }
        }));
    return calls;
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

TEST_CASE("requests that wait for trigger while their RPC goes are not served") {
    int data = 1;
    released = 0;
    {
        Pair pair;
        const hg_id_t id = pair.a.echo;
        REQUIRE(HG_Register_data(pair.b.cls(), id, &data, release) == HG_SUCCESS);
        const Blob large = blob(3, 100000);
        for (const Blob* in : {static_cast<const Blob*>(nullptr), &large}) {
            auto calls = waiting(pair, pair.to_b, id, 20, in);
            REQUIRE(HG_Deregister(pair.b.cls(), id) == HG_SUCCESS);
            CHECK(HG_Registered_data(pair.b.cls(), id) == nullptr);
            for (const auto& call : calls) {
                CHECK(pair.wait(*call) == HG_NOENTRY);
            }
            CHECK(pair.b.served == 0);
            CHECK(released == 1);
            CHECK(data == -1);
            Call later(pair.a, pair.to_b, id);
            Blob small = blob(1, 10);
            CHECK(pair.run(later, small) == HG_NOENTRY);
            // And it is served again when it is registered again.
            REQUIRE(HG_Register_name(pair.b.cls(), "test_echo", proc_blob, proc_blob,
                                     [](hg_handle_t h) -> hg_return_t {
                                         Blob b;
                                         HG_Get_input(h, &b);
                                         HG_Respond(h, nullptr, nullptr, &b);
                                         HG_Free_input(h, &b);
                                         return HG_Destroy(h);
                                     }) == id);
            CHECK(pair.run(later, small) == HG_SUCCESS);
            CHECK(is_blob(later.out(), 1, 10, 1));
            CHECK(pair.b.served == 0);
        }
    }
    CHECK(released == 1);
}

TEST_CASE("a handler that takes its own RPC away is the last one") {
    Pair pair;
    for (Side* side : {&pair.a, &pair.b}) {
        own_id = HG_Register_name(side->cls(), "goes", nullptr, nullptr, takes_itself_away);
    }
    const hg_id_t id = own_id;
    Addr self(pair.a, pair.a.uri());
    for (const hg_addr_t to : {hg_addr_t(pair.to_b), hg_addr_t(self)}) {
        std::vector<std::unique_ptr<Call>> calls;
        for (unsigned i = 0; i < 10; ++i) {
            calls.push_back(std::make_unique<Call>(pair.a, to, id));
            REQUIRE(calls.back()->forward() == HG_SUCCESS);
        }
        Side& target = to == pair.to_b ? pair.b : pair.a;
        REQUIRE(support::until([&] { return target.counters().rpc_req_recv_count == 10; },
                               [&] {
                                   unsigned due = 0;
                                   HG_Event_progress(pair.a.context(), &due);
                                   HG_Event_progress(pair.b.context(), &due);
                               }));
        unsigned served = 0;
        for (const auto& call : calls) {
            const hg_return_t ret = pair.wait(*call);
            CHECK((ret == HG_SUCCESS || ret == HG_NOENTRY));
            served += ret == HG_SUCCESS ? 1 : 0;
        }
        CHECK(served == 1);
        // For the next round, as its origin needs it.
        REQUIRE(HG_Register_name(pair.a.cls(), "goes", nullptr, nullptr, takes_itself_away) == id);
    }
}

TEST_CASE(
    "requests that wait for trigger while their RPC is registered again get the new handler") {
    Pair pair;
    hg_class_t* cls = pair.b.cls();
    const hg_id_t id = pair.a.echo;
    auto calls = waiting(pair, pair.to_b, id, 5);
    REQUIRE(HG_Deregister(cls, id) == HG_SUCCESS);
    REQUIRE(
        HG_Register_name(cls, "test_echo", proc_blob, proc_blob, [](hg_handle_t h) -> hg_return_t {
            Blob b;
            HG_Get_input(h, &b);
            b.number = 77;
            HG_Respond(h, nullptr, nullptr, &b);
            HG_Free_input(h, &b);
            return HG_Destroy(h);
        }) == id);
    for (const auto& call : calls) {
        CHECK(pair.wait(*call) == HG_SUCCESS);
        CHECK(call->out().number == 77);
    }
    CHECK(pair.b.served == 0);
    // Without a handler, as where it is so from the start.
    calls = waiting(pair, pair.to_b, id, 5);
    REQUIRE(HG_Register(cls, id, proc_blob, proc_blob, nullptr) == HG_SUCCESS);
    for (const auto& call : calls) {
        CHECK(pair.wait(*call) == HG_INVALID_ARG);
    }
}

TEST_CASE("one-way requests that wait for trigger while their RPC goes are let go") {
    Pair pair;
    const hg_id_t id = pair.a.note;
    for (const std::size_t size : {std::size_t{10}, std::size_t{100000}}) {
        const Blob in = blob(1, size);
        auto calls = waiting(pair, pair.to_b, id, 5, &in);
        REQUIRE(HG_Deregister(pair.b.cls(), id) == HG_SUCCESS);
        for (const auto& call : calls) {
            CHECK(pair.wait(*call) == HG_SUCCESS);  // they have arrived, and nobody answers
        }
        Blob small = blob(2, 10);
        Call other(pair.a, pair.to_b, pair.a.echo);
        CHECK(pair.run(other, small) == HG_SUCCESS);
        CHECK(pair.b.notes == 0);
        CHECK(support::until([&] { return pair.b.counters().rpc_req_recv_active_count == 0; },
                             [&] { pair.pump(); }));
        REQUIRE(HG_Register_name(pair.b.cls(), "test_note", proc_blob, nullptr, answers) == id);
        REQUIRE(HG_Registered_disable_response(pair.b.cls(), id, 1) == HG_SUCCESS);
    }
}

TEST_CASE("whether a request is answered is said by its origin, whatever changes while it waits") {
    Pair pair;
    const hg_id_t id = HG_Register_name(pair.a.cls(), "maybe", nullptr, nullptr, nullptr);
    static std::vector<hg_return_t> codes;
    codes.clear();
    const auto serve = [](hg_handle_t h) -> hg_return_t {
        codes.push_back(HG_Respond(h, nullptr, nullptr, nullptr));
        return HG_Destroy(h);
    };
    REQUIRE(HG_Register_name(pair.b.cls(), "maybe", nullptr, nullptr, serve) == id);
    auto calls = waiting(pair, pair.to_b, id, 3);
    REQUIRE(HG_Registered_disable_response(pair.b.cls(), id, 1) == HG_SUCCESS);
    for (const auto& call : calls) {
        CHECK(pair.wait(*call) == HG_SUCCESS);
    }
    CHECK(codes == std::vector<hg_return_t>(3, HG_SUCCESS));
    codes.clear();
    REQUIRE(HG_Registered_disable_response(pair.a.cls(), id, 1) == HG_SUCCESS);
    calls = waiting(pair, pair.to_b, id, 3);
    REQUIRE(HG_Registered_disable_response(pair.b.cls(), id, 0) == HG_SUCCESS);
    for (const auto& call : calls) {
        CHECK(pair.wait(*call) == HG_SUCCESS);
    }
    REQUIRE(support::until([&] { return codes.size() == 3; }, [&] { pair.pump(); }));
    CHECK(codes == std::vector<hg_return_t>(3, HG_OPNOTSUPPORTED));
}
