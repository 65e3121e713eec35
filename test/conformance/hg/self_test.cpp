// SPDX-License-Identifier: BSD-3-Clause
// RPCs to oneself, with the shortcut and without it.
#include <catch2/catch.hpp>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

struct Self {
    explicit Self(Side::Settings settings = {}) : side(settings), to(side, self_of(side)) {}
    static hg_addr_t self_of(Side& side) {
        hg_addr_t self = HG_ADDR_NULL;
        HG_Addr_self(side.cls(), &self);
        return self;
    }
    hg_return_t wait(Call& call) {
        if (!support::until([&] { return call.done(); }, [&] { side.pump(); })) {
            return HG_TIMEOUT;
        }
        const hg_return_t ret = call.ret();
        call.reset();
        return ret;
    }
    Side side;
    Addr to;
};

// `one_handle`: of both ends, as the shortcut has it.
void check_all(Self& self, bool one_handle = true) {
    for (const std::size_t size : {0, 100, 3000, 5000, 500'000}) {
        Call call(self.side, self.to, self.side.echo);
        Blob in = blob(size, size);
        REQUIRE(call.forward(in) == HG_SUCCESS);
        CHECK(call.forward(in) == HG_BUSY);
        REQUIRE(self.wait(call) == HG_SUCCESS);
        CHECK(is_blob(call.out(), size + 1, size, size));
        Call note(self.side, self.to, self.side.note);
        REQUIRE(note.forward(in) == HG_SUCCESS);
        CHECK(self.wait(note) == HG_SUCCESS);
    }
    REQUIRE(support::until([&] { return self.side.notes == 5; }, [&] { self.side.pump(); }));
    Call fail(self.side, self.to, self.side.fail);
    REQUIRE(fail.forward(HG_FAULT) == HG_SUCCESS);
    CHECK(self.wait(fail) == HG_FAULT);
    if (!one_handle) {  // else the second reference that is given back is the origin's
        Call drop(self.side, self.to, self.side.drop);
        REQUIRE(drop.forward(1) == HG_SUCCESS);
        CHECK(self.wait(drop) == HG_OTHER_ERROR);
    }
    Call unserved(self.side, self.to, self.side.unserved);
    REQUIRE(unserved.forward() == HG_SUCCESS);
    CHECK(self.wait(unserved) == HG_INVALID_ARG);
}

// What a callback was told.
struct Told {
    unsigned count = 0;
    hg_return_t ret = HG_RETURN_MAX;
    hg_cb_type_t type = HG_CB_LOOKUP;
    hg_handle_t handle = HG_HANDLE_NULL;
};
hg_return_t note(const struct hg_cb_info* info) {
    Told& told = *static_cast<Told*>(info->arg);
    ++told.count;
    told.ret = info->ret;
    told.type = info->type;
    told.handle =
        info->type == HG_CB_RESPOND ? info->info.respond.handle : info->info.forward.handle;
    return HG_SUCCESS;
}

}  // namespace

TEST_CASE("a class calls itself") {
    Self self;
    check_all(self);
    const auto c = self.side.counters();
    CHECK(c.rpc_req_sent_count == c.rpc_req_recv_count);
}

TEST_CASE("a class that does not listen calls itself") {
    Side::Settings quiet;
    quiet.listen = false;
    Self self(quiet);
    check_all(self);
}

TEST_CASE("a class calls itself over the transport") {
    Side::Settings around;
    around.init.no_loopback = 1;
    Self self(around);
    check_all(self, false);
}

TEST_CASE("another context of the same class is reached over the transport") {
    Side::Settings two;
    two.contexts = 2;
    Self self(two);
    Call call(self.side, self.to, self.side.hold, 0);
    REQUIRE(HG_Set_target_id(call.handle(), 1) == HG_SUCCESS);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    auto& held = self.side.held();
    REQUIRE(support::until([&] { return !held.empty(); }, [&] { self.side.pump(); }));
    CHECK(HG_Get_info(held[0])->context == self.side.context(1));
    Blob out = blob(1, 10);
    HG_Respond(held[0], nullptr, nullptr, &out);
    HG_Destroy(held[0]);
    held.clear();
    CHECK(self.wait(call) == HG_SUCCESS);
}

TEST_CASE("a call to oneself can be canceled, before the handler and after it") {
    Self self;
    Call call(self.side, self.to, self.side.hold);
    REQUIRE(call.forward(1) == HG_SUCCESS);
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(self.wait(call) == HG_CANCELED);
    auto& held = self.side.held();
    REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
    REQUIRE(call.forward(2) == HG_SUCCESS);
    REQUIRE(support::until([&] { return held.size() == 2; }, [&] { self.side.pump(); }));
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(self.wait(call) == HG_CANCELED);
    for (const hg_handle_t h : held) {
        Blob out = blob(1, 90'000);
        CHECK(HG_Respond(h, nullptr, nullptr, &out) == HG_SUCCESS);
        HG_Destroy(h);
    }
    held.clear();
    for (int i = 0; i < 10; ++i) {
        self.side.pump();
    }
    CHECK(!call.done());
}

TEST_CASE("a handle knows nothing of the calls that it served before") {
    Self self;
    for (unsigned i = 0; i < 12; ++i) {
        Call hold(self.side, self.to, self.side.hold);
        {
            // Its handle is the next one that is taken: by the target.
            Call before(self.side, self.to, self.side.echo);
            Blob in = blob(i, 100);
            REQUIRE(before.forward(in) == HG_SUCCESS);
            REQUIRE(self.wait(before) == HG_SUCCESS);
        }
        REQUIRE(hold.forward(i) == HG_SUCCESS);
        auto& held = self.side.held();
        REQUIRE(support::until([&] { return !held.empty(); }, [&] { self.side.pump(); }));
        CHECK(HG_Get_output_payload_size(held[0]) == 0);  // not responded yet
        Blob out = blob(i, 100);
        REQUIRE(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
        CHECK(HG_Get_output_payload_size(held[0]) != 0);
        CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
        held.clear();
        CHECK(self.wait(hold) == HG_SUCCESS);
    }
}

TEST_CASE("origin and target of a call to oneself are one handle") {
    Self self;
    Call call(self.side, self.to, self.side.hold);
    int mine = 0;
    int yours = 0;
    HG_Set_data(call.handle(), &mine, nullptr);
    auto& held = self.side.held();
    for (unsigned round = 0; round < 5; ++round) {
        CHECK(HG_Ref_get(call.handle()) == 1);
        REQUIRE(call.forward(round) == HG_SUCCESS);
        REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
        REQUIRE(held[0] == call.handle());
        CHECK(HG_Get_data(held[0]) == &mine);
        CHECK(HG_Set_data(held[0], &yours, nullptr) == HG_SUCCESS);
        CHECK(HG_Set_data(held[0], &mine, nullptr) == HG_SUCCESS);
        CHECK(HG_Addr_cmp(self.side.cls(), HG_Get_info(held[0])->addr, self.to) == HG_TRUE);
        CHECK(HG_Ref_get(held[0]) >= 3);  // the origin's, the handler's, that of the answer
        // What belongs to the request, and the room for the answer.
        std::uint64_t number = 0;
        CHECK(HG_Get_input(held[0], &number) == HG_SUCCESS);
        CHECK(number == round);
        CHECK(HG_Free_input(held[0], &number) == HG_SUCCESS);
        void* buf = nullptr;
        hg_size_t size = 0;
        CHECK(HG_Get_input_buf(held[0], &buf, &size) == HG_SUCCESS);
        CHECK(size == HG_Get_input_payload_size(held[0]));
        void* const input = buf;
        CHECK(HG_Get_output_buf(held[0], &buf, &size) == HG_SUCCESS);
        CHECK(size > 1000);
        CHECK(call.forward(99) == HG_BUSY);
        CHECK(HG_Reset(held[0], self.to, self.side.hold) == HG_BUSY);
        if (round % 2 == 0) {  // its reference goes first, or last
            CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
        }
        Blob out = blob(round, 100);
        Told told;
        CHECK(HG_Respond(held[0], note, &told, &out) == HG_SUCCESS);
        void* still = nullptr;  // what came is there until the call has come back
        CHECK(HG_Get_input_buf(held[0], &still, &size) == HG_SUCCESS);
        CHECK(still == input);
        CHECK(size == HG_Get_input_payload_size(held[0]));
        CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_BUSY);
        CHECK(self.wait(call) == HG_SUCCESS);
        CHECK(told.handle == call.handle());
        Blob back;
        REQUIRE(HG_Get_output(call.handle(), &back) == HG_SUCCESS);
        CHECK(is_blob(back, round, 100, round));
        CHECK(HG_Free_output(call.handle(), &back) == HG_SUCCESS);
        if (round % 2 != 0) {
            CHECK(HG_Get_input(held[0], &number) == HG_SUCCESS);  // still there
            CHECK(number == round);
            CHECK(HG_Free_input(held[0], &number) == HG_SUCCESS);
            CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
        }
        held.clear();
        if (round == 3) {
            CHECK(HG_Reset(call.handle(), self.to, self.side.hold) == HG_SUCCESS);
        }
    }
    CHECK(HG_Get_data(call.handle()) == &mine);
}

TEST_CASE("who calls himself may give his reference back before he answers himself") {
    Self self;
    auto& held = self.side.held();
    for (const bool early : {false, true}) {
        hg_handle_t handle = HG_HANDLE_NULL;
        REQUIRE(HG_Create(self.side.context(), self.to, self.side.hold, &handle) == HG_SUCCESS);
        Told told;
        std::uint64_t number = 5;
        REQUIRE(HG_Forward(handle, note, &told, &number) == HG_SUCCESS);
        CHECK(HG_Destroy(handle) == HG_SUCCESS);
        REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
        CHECK(held[0] == handle);
        if (early) {  // nobody has a reference any more
            CHECK(HG_Destroy(handle) == HG_SUCCESS);
            self.side.pump();
        }
        Blob out = blob(1, 10);
        CHECK(HG_Respond(handle, nullptr, nullptr, &out) == HG_SUCCESS);
        REQUIRE(support::until([&] { return told.count != 0; }, [&] { self.side.pump(); }));
        CHECK(told.ret == HG_SUCCESS);
        CHECK(told.type == HG_CB_FORWARD);
        if (!early) {
            CHECK(HG_Destroy(handle) == HG_SUCCESS);
        }
        held.clear();
    }
}

TEST_CASE("a call to oneself that was canceled is over when its handler has responded") {
    Self self;
    Call call(self.side, self.to, self.side.hold);
    auto& held = self.side.held();
    REQUIRE(call.forward(1) == HG_SUCCESS);
    REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
    REQUIRE(HG_Cancel(call.handle()) == HG_SUCCESS);
    CHECK(self.wait(call) == HG_CANCELED);
    // Whatever it does with its handle is meant for that call.
    CHECK(call.forward(2) == HG_BUSY);
    CHECK(HG_Reset(call.handle(), self.to, self.side.hold) == HG_BUSY);
    Blob out = blob(1, 10);
    CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
    CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
    held.clear();
    self.side.pump();
    CHECK(!call.done());
    REQUIRE(call.forward(3) == HG_SUCCESS);
    REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
    CHECK(held[0] == call.handle());
    CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
    CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
    held.clear();
    CHECK(self.wait(call) == HG_SUCCESS);
}

TEST_CASE("the handler of a call that its origin has given up keeps its handle until it was told") {
    Self self;
    static bool released = false;
    static int data = 0;
    for (const bool cancel : {true, false}) {
        released = false;
        hg_handle_t handle = HG_HANDLE_NULL;
        REQUIRE(HG_Create(self.side.context(), self.to, self.side.hold, &handle) == HG_SUCCESS);
        Told back;
        std::uint64_t number = 5;
        REQUIRE(HG_Forward(handle, note, &back, &number) == HG_SUCCESS);
        auto& held = self.side.held();
        REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
        CHECK(held[0] == handle);
        held.clear();
        if (cancel) {
            REQUIRE(HG_Cancel(handle) == HG_SUCCESS);
            REQUIRE(support::until([&] { return back.count == 1; }, [&] { self.side.pump(); }));
        }
        CHECK(HG_Destroy(handle) == HG_SUCCESS);  // the origin's
        REQUIRE(HG_Set_data(handle, &data, [](void*) { released = true; }) == HG_SUCCESS);
        struct Responded {
            unsigned count = 0;
            bool there = false;
        } responded;
        Blob out = blob(1, 10);
        REQUIRE(HG_Respond(
                    handle,
                    [](const struct hg_cb_info* info) {
                        auto& r = *static_cast<Responded*>(info->arg);
                        ++r.count;
                        r.there = !released && HG_Get_data(info->info.respond.handle) == &data;
                        return HG_SUCCESS;
                    },
                    &responded, &out) == HG_SUCCESS);
        CHECK(HG_Destroy(handle) == HG_SUCCESS);  // the handler's
        REQUIRE(support::until([&] { return responded.count == 1 && back.count == 1; },
                               [&] { self.side.pump(); }));
        CHECK(responded.there);
        CHECK(back.ret == (cancel ? HG_CANCELED : HG_SUCCESS));
        REQUIRE(support::until([&] { return released; }, [&] { self.side.pump(); }));
    }
}

TEST_CASE("a late response answers no other call to oneself") {
    Self self;
    auto& held = self.side.held();
    hg_handle_t first = HG_HANDLE_NULL;
    REQUIRE(HG_Create(self.side.context(), self.to, self.side.hold, &first) == HG_SUCCESS);
    Told back;
    std::uint64_t number = 5;
    REQUIRE(HG_Forward(first, note, &back, &number) == HG_SUCCESS);
    REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
    CHECK(held[0] == first);
    CHECK(HG_Destroy(held[0]) == HG_SUCCESS);  // the handler's: it responds later
    held.clear();
    REQUIRE(HG_Cancel(first) == HG_SUCCESS);
    REQUIRE(support::until([&] { return back.count == 1; }, [&] { self.side.pump(); }));
    CHECK(HG_Destroy(first) == HG_SUCCESS);
    Call second(self.side, self.to, self.side.hold);
    CHECK(second.handle() != first);
    REQUIRE(second.forward(6) == HG_SUCCESS);
    REQUIRE(support::until([&] { return held.size() == 1; }, [&] { self.side.pump(); }));
    Blob late = blob(1, 10);
    CHECK(HG_Respond(first, nullptr, nullptr, &late) == HG_SUCCESS);
    for (int i = 0; i < 10; ++i) {
        self.side.pump();
    }
    CHECK_FALSE(second.done());
    Blob out = blob(2, 20);
    CHECK(HG_Respond(held[0], nullptr, nullptr, &out) == HG_SUCCESS);
    CHECK(HG_Destroy(held[0]) == HG_SUCCESS);
    held.clear();
    CHECK(self.wait(second) == HG_SUCCESS);
    CHECK(is_blob(second.out(), 2, 20, 2));
}
