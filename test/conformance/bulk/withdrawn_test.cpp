// SPDX-License-Identifier: BSD-3-Clause
// Memory that its owner takes back while others still have its descriptor. A transfer of it ends by
// itself: the calls between the same two processes, and the transfers of other memory, go on.
#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mercury_proc_bulk.h"
#include "party.hpp"

using namespace test;

namespace {

constexpr hg_size_t kMiB = 1 << 20;

struct Order {
    hg_bulk_t bulk;
    hg_bool_t push;
    hg_bool_t late;  // the server waits for "go" before it moves the data
};

hg_return_t proc_order(hg_proc_t proc, void* data) {
    auto* o = static_cast<Order*>(data);
    hg_return_t ret = hg_proc_hg_bulk_t(proc, &o->bulk);
    ret = ret == HG_SUCCESS ? hg_proc_uint8_t(proc, &o->push) : ret;
    return ret == HG_SUCCESS ? hg_proc_uint8_t(proc, &o->late) : ret;
}

struct Job {
    hg_handle_t handle;
    Order in;
    hg_bulk_t local;
};

// Of the server, one thread.
std::deque<Job*> waiting_jobs;
std::vector<hg_return_t> ends_of_late;

hg_return_t moved(const hg_cb_info* info) {
    auto* job = static_cast<Job*>(info->arg);
    if (job->in.late != 0) {
        ends_of_late.push_back(info->ret);
    }
    std::uint64_t answer = info->ret;
    (void)HG_Respond(job->handle, nullptr, nullptr, &answer);
    HG_Bulk_free(job->local);
    HG_Free_input(job->handle, &job->in);
    HG_Destroy(job->handle);
    delete job;
    return HG_SUCCESS;
}

void move(Job* job) {
    const hg_info* info = HG_Get_info(job->handle);
    const hg_return_t ret = HG_Bulk_transfer(
        info->context, moved, job, job->in.push != 0 ? HG_BULK_PUSH : HG_BULK_PULL, info->addr,
        job->in.bulk, 0, job->local, 0, HG_Bulk_get_size(job->local), HG_OP_ID_IGNORE);
    if (ret != HG_SUCCESS) {  // some transports know at once
        hg_cb_info end{};
        end.arg = job;
        end.ret = ret;
        (void)moved(&end);
    }
}

hg_return_t serve(hg_handle_t handle) {
    auto* job = new Job{};
    job->handle = handle;
    PARTY_REQUIRE(HG_Get_input(handle, &job->in) == HG_SUCCESS);
    const hg_size_t size = HG_Bulk_get_size(job->in.bulk);
    PARTY_REQUIRE(HG_Bulk_create(HG_Get_info(handle)->hg_class, 1, nullptr, &size,
                                 HG_BULK_READWRITE, &job->local) == HG_SUCCESS);
    if (job->in.late != 0) {
        waiting_jobs.push_back(job);
    } else {
        move(job);
    }
    return HG_SUCCESS;
}

hg_return_t echo(hg_handle_t handle) {
    std::uint64_t number = 0;
    PARTY_REQUIRE(HG_Get_input(handle, &number) == HG_SUCCESS);
    (void)HG_Respond(handle, nullptr, nullptr, &number);
    HG_Free_input(handle, &number);
    HG_Destroy(handle);
    return HG_SUCCESS;
}

struct Rpcs {
    hg_id_t move;
    hg_id_t echo;
};

Rpcs register_rpcs(const Node& node) {
    return {HG_Register_name(node.cls(), "order", proc_order, hg_proc_uint64_t, serve),
            HG_Register_name(node.cls(), "echo", hg_proc_uint64_t, hg_proc_uint64_t, echo)};
}

// "waiting": answers when a late job is there. "go": moves its data. "ends": their codes, when all
// have ended.
void server(support::Link& link) {
    waiting_jobs.clear();
    ends_of_late.clear();
    Node node;
    const Quiet quiet;
    register_rpcs(node);
    link.put(node.uri());
    std::size_t begun = 0;
    for (;;) {
        PARTY_REQUIRE(support::until_for(
            std::chrono::minutes(5), [&] { return link.readable(); }, [&] { node.pump(); }));
        const std::string command = link.take_text();
        if (command == "end") {
            break;
        }
        if (command == "waiting") {
            PARTY_REQUIRE(
                support::until([&] { return !waiting_jobs.empty(); }, [&] { node.pump(); }));
            link.put("ok");
        } else if (command == "go") {
            for (; !waiting_jobs.empty(); waiting_jobs.pop_front(), ++begun) {
                move(waiting_jobs.front());
            }
        } else {
            PARTY_REQUIRE(
                support::until([&] { return ends_of_late.size() == begun; }, [&] { node.pump(); }));
            std::string codes;
            for (const hg_return_t ret : ends_of_late) {
                codes += std::string(HG_Error_to_string(ret)) + " ";
            }
            link.put(codes);
        }
    }
    node.close();
}

// One call of the client.
struct Call {
    hg_handle_t handle = HG_HANDLE_NULL;
    unsigned count = 0;
    hg_return_t ret = HG_OTHER_ERROR;
    std::uint64_t answer = 1;

    Call(const Node& node, hg_addr_t to, hg_id_t id) {
        REQUIRE(HG_Create(node.context(), to, id, &handle) == HG_SUCCESS);
    }
    ~Call() { HG_Destroy(handle); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void forward(void* in) {
        REQUIRE(HG_Forward(
                    handle,
                    [](const hg_cb_info* info) -> hg_return_t {
                        auto& c = *static_cast<Call*>(info->arg);
                        ++c.count;
                        c.ret = info->ret;
                        if (c.ret == HG_SUCCESS &&
                            HG_Get_output(c.handle, &c.answer) == HG_SUCCESS) {
                            HG_Free_output(c.handle, &c.answer);
                        }
                        return HG_SUCCESS;
                    },
                    this, in) == HG_SUCCESS);
    }
};

void withdraw(bool push, hg_size_t size) {
    constexpr std::size_t kCalls = 32;
    support::Party party(other_party(), server);
    const std::string uri = party.link().take_text();
    Node node;
    const Rpcs rpcs = register_rpcs(node);
    {
        const Address to(node, uri);
        // What stays, and is moved beside that.
        const Memory kept(node, {4 * kMiB}, 5, HG_BULK_READWRITE);
        std::optional<Memory> taken(std::in_place, node, std::vector<hg_size_t>{size}, 6,
                                    HG_BULK_READWRITE);
        Call late(node, to, rpcs.move);
        Order order{taken->bulk, push ? hg_bool_t{1} : hg_bool_t{0}, 1};
        late.forward(&order);
        party.link().put("waiting");
        REQUIRE(support::until([&] { return party.link().readable(); }, [&] { node.pump(); }));
        REQUIRE(party.link().take_text() == "ok");
        REQUIRE(HG_Cancel(late.handle) == HG_SUCCESS);
        REQUIRE(support::until([&] { return late.count != 0; }, [&] { node.pump(); }));
        CHECK(late.ret == HG_CANCELED);
        taken->bulk.reset();  // the bytes stay: who checks no keys may still reach them

        std::vector<std::unique_ptr<Call>> calls;
        std::vector<std::uint64_t> numbers(kCalls);
        Order other{kept.bulk, 0, 0};
        party.link().put("go");
        for (std::size_t round = 0; round < 4; ++round) {
            for (std::size_t i = 0; i < kCalls; ++i) {
                const bool moves = i % 8 == 0;
                numbers[i] = i;
                calls.push_back(std::make_unique<Call>(node, to, moves ? rpcs.move : rpcs.echo));
                calls.back()->forward(moves ? static_cast<void*>(&other) : &numbers[i]);
            }
            REQUIRE(support::until(
                [&] {
                    return std::all_of(calls.begin(), calls.end(),
                                       [](const auto& c) { return c->count != 0; });
                },
                [&] { node.pump(); }));
            for (std::size_t i = 0; i < calls.size(); ++i) {
                INFO(i);
                CHECK(calls[i]->ret == HG_SUCCESS);
                CHECK(calls[i]->answer == (i % 8 == 0 ? std::uint64_t{HG_SUCCESS} : i % kCalls));
            }
            calls.clear();
        }
        party.link().put("ends");
        REQUIRE(support::until([&] { return party.link().readable(); }, [&] { node.pump(); }));
        const std::string ends = party.link().take_text();
        INFO(ends);
        CHECK(ends.find("UNREACH") == std::string::npos);
        if (support::lacks(support::Promise::checked_keys) == nullptr) {
            CHECK(ends.find("SUCCESS") == std::string::npos);
        }
        CHECK(late.count == 1);
    }
    party.link().put("end");
    CHECK(party.join() == "");
    node.close();
}

}  // namespace

TEST_CASE("a canceled call's memory is pulled: nothing else ends", "[withdrawn]") {
    withdraw(false, 20'000);
    withdraw(false, 8 * kMiB);
}

TEST_CASE("a canceled call's memory is pushed to: nothing else ends", "[withdrawn]") {
    withdraw(true, 20'000);
    withdraw(true, 8 * kMiB);
}
