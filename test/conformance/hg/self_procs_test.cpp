// SPDX-License-Identifier: BSD-3-Clause
// RPCs to oneself: caller and handler, who may be two threads, encode and decode by the same handle
// at the same time. What two threads would do is done by one here, in the middle of the other's.
#include <catch2/catch.hpp>

#include <functional>
#include <utility>

#include "conformance/hg/side.hpp"
#include "support/until.hpp"

using namespace hgtest;

namespace {

struct Numbers {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
};
bool operator==(const Numbers& a, const Numbers& b) {
    return a.first == b.first && a.second == b.second;
}

// What happens between a structure's members, once, and when.
std::function<void()> meanwhile;
hg_proc_op_t meanwhile_op = HG_DECODE;
hg_handle_t told_of = HG_HANDLE_NULL;  // the last that a proc named

hg_return_t proc_numbers(hg_proc_t proc, void* data) {
    Numbers& numbers = *static_cast<Numbers*>(data);
    hg_return_t ret = hg_proc_uint64_t(proc, &numbers.first);
    told_of = hg_proc_get_handle(proc);
    if (meanwhile && hg_proc_get_op(proc) == meanwhile_op) {
        std::exchange(meanwhile, nullptr)();
    }
    if (ret == HG_SUCCESS) {
        ret = hg_proc_uint64_t(proc, &numbers.second);
    }
    return ret;
}

hg_handle_t held = HG_HANDLE_NULL;

struct Caller {
    Caller() {
        held = HG_HANDLE_NULL;
        meanwhile = nullptr;
        const hg_id_t id =
            HG_Register_name(side.cls(), "numbers", proc_numbers, proc_numbers, [](hg_handle_t h) {
                held = h;
                return HG_SUCCESS;
            });
        HG_Addr_self(side.cls(), &self);
        REQUIRE(HG_Create(side.context(), self, id, &handle) == HG_SUCCESS);
    }
    ~Caller() {
        meanwhile = nullptr;
        HG_Destroy(handle);
        HG_Addr_free(side.cls(), self);
    }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

    hg_return_t call(Numbers in) {
        over = false;
        return HG_Forward(
            handle,
            [](const struct hg_cb_info* info) {
                auto& caller = *static_cast<Caller*>(info->arg);
                caller.over = true;
                caller.ret = info->ret;
                return HG_SUCCESS;
            },
            this, &in);
    }
    hg_return_t respond(Numbers out) {
        responded = false;
        return HG_Respond(
            held,
            [](const struct hg_cb_info* info) {
                *static_cast<bool*>(info->arg) = true;
                return HG_SUCCESS;
            },
            &responded, &out);
    }
    template <typename Done>
    void until(Done done) {
        REQUIRE(support::until(done, [&] { side.pump(); }));
    }

    Side side;
    hg_addr_t self = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    bool over = false;
    bool responded = false;
    hg_return_t ret = HG_RETURN_MAX;
};

}  // namespace

TEST_CASE("who calls himself takes the answer while his handler frees the arguments") {
    Caller caller;
    Numbers in, out;
    for (const bool caller_first : {true, false}) {
        REQUIRE(caller.call({1, 2}) == HG_SUCCESS);
        caller.until([] { return held != HG_HANDLE_NULL; });
        REQUIRE(held == caller.handle);
        REQUIRE(HG_Get_input(held, &in) == HG_SUCCESS);
        CHECK(told_of == caller.handle);
        CHECK(in == Numbers{1, 2});
        told_of = HG_HANDLE_NULL;
        REQUIRE(caller.respond({3, 4}) == HG_SUCCESS);
        CHECK(told_of == caller.handle);
        caller.until([&] { return caller.over && caller.responded; });
        REQUIRE(caller.ret == HG_SUCCESS);
        const auto take = [&] { CHECK(HG_Get_output(caller.handle, &out) == HG_SUCCESS); };
        const auto free = [&] {
            CHECK(HG_Free_input(held, &in) == HG_SUCCESS);
            CHECK(told_of == caller.handle);
        };
        out = {};
        if (caller_first) {
            meanwhile_op = HG_DECODE;
            meanwhile = free;
            take();
        } else {
            meanwhile_op = HG_FREE;
            meanwhile = take;
            free();
        }
        CHECK(!meanwhile);
        CHECK(out == Numbers{3, 4});
        CHECK(HG_Free_output(caller.handle, &out) == HG_SUCCESS);
        CHECK(HG_Destroy(std::exchange(held, HG_HANDLE_NULL)) == HG_SUCCESS);
    }
}

TEST_CASE("a call to oneself that was canceled is not made again while its handler is at work") {
    Caller caller;
    Numbers in;
    REQUIRE(caller.call({1, 2}) == HG_SUCCESS);
    caller.until([] { return held != HG_HANDLE_NULL; });
    REQUIRE(HG_Cancel(caller.handle) == HG_SUCCESS);
    caller.until([&] { return caller.over; });
    REQUIRE(caller.ret == HG_CANCELED);
    const auto again = [&] { CHECK(caller.call({5, 6}) == HG_BUSY); };
    for (int round = 0; round < 3; ++round) {
        meanwhile_op = HG_DECODE;
        meanwhile = again;
        REQUIRE(HG_Get_input(held, &in) == HG_SUCCESS);
        CHECK(!meanwhile);
        CHECK(in == Numbers{1, 2});
        meanwhile_op = HG_FREE;
        meanwhile = again;
        CHECK(HG_Free_input(held, &in) == HG_SUCCESS);
        CHECK(!meanwhile);
    }
    meanwhile_op = HG_ENCODE;
    meanwhile = again;
    REQUIRE(caller.respond({3, 4}) == HG_SUCCESS);
    CHECK(HG_Destroy(std::exchange(held, HG_HANDLE_NULL)) == HG_SUCCESS);
    caller.until([&] { return caller.responded; });
    REQUIRE(caller.call({7, 8}) == HG_SUCCESS);
    caller.until([] { return held != HG_HANDLE_NULL; });
    REQUIRE(HG_Get_input(held, &in) == HG_SUCCESS);
    CHECK(in == Numbers{7, 8});
    CHECK(HG_Free_input(held, &in) == HG_SUCCESS);
    REQUIRE(caller.respond({9, 10}) == HG_SUCCESS);
    CHECK(HG_Destroy(std::exchange(held, HG_HANDLE_NULL)) == HG_SUCCESS);
    caller.until([&] { return caller.over && caller.responded; });
    CHECK(caller.ret == HG_SUCCESS);
}
