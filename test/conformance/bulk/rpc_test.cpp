// SPDX-License-Identifier: BSD-3-Clause
// What bulk is for: a client sends a descriptor inside an RPC, the server moves the data in the
// handler and answers when it is there.
#include <catch2/catch.hpp>

#include <initializer_list>

#include "mercury_proc_bulk.h"
#include "party.hpp"

using namespace test;

namespace {

struct Transferred {
    hg_bulk_t bulk;
    hg_bool_t push;
};

hg_return_t proc_transferred(hg_proc_t proc, void* data) {
    auto* t = static_cast<Transferred*>(data);
    const hg_return_t ret = hg_proc_hg_bulk_t(proc, &t->bulk);
    return ret != HG_SUCCESS ? ret : hg_proc_uint8_t(proc, &t->push);
}

// At the server, from the request to the answer.
struct Job {
    hg_handle_t handle;
    Transferred in;
    hg_bulk_t local;
    void* memory;
};

hg_return_t moved(const hg_cb_info* info) {
    auto* job = static_cast<Job*>(info->arg);
    std::uint64_t answer = info->ret == HG_SUCCESS ? 0 : 1;
    if (answer == 0) {
        const auto* bytes = static_cast<const std::byte*>(job->memory);
        answer = hash({bytes, bytes + HG_Bulk_get_size(job->local)});
    }
    (void)HG_Respond(job->handle, nullptr, nullptr, &answer);
    HG_Bulk_free(job->local);
    HG_Free_input(job->handle, &job->in);
    HG_Destroy(job->handle);
    delete job;
    return HG_SUCCESS;
}

hg_return_t serve(hg_handle_t handle) {
    auto* job = new Job{};
    job->handle = handle;
    const hg_info* info = HG_Get_info(handle);
    PARTY_REQUIRE(HG_Get_input(handle, &job->in) == HG_SUCCESS);
    const hg_size_t size = HG_Bulk_get_size(job->in.bulk);
    PARTY_REQUIRE(HG_Bulk_create(info->hg_class, 1, nullptr, &size, HG_BULK_READWRITE,
                                 &job->local) == HG_SUCCESS);
    PARTY_REQUIRE(HG_Bulk_access(job->local, 0, size, HG_BULK_READWRITE, 1, &job->memory, nullptr,
                                 nullptr) == HG_SUCCESS);
    if (job->in.push != 0) {
        fill(job->memory, size, 99);
    }
    PARTY_REQUIRE(HG_Bulk_transfer(info->context, moved, job,
                                   job->in.push != 0 ? HG_BULK_PUSH : HG_BULK_PULL, info->addr,
                                   job->in.bulk, 0, job->local, 0, size,
                                   HG_OP_ID_IGNORE) == HG_SUCCESS);
    return HG_SUCCESS;
}

hg_id_t register_rpc(const Node& node, hg_rpc_cb_t callback) {
    return HG_Register_name(node.cls(), "move", proc_transferred, hg_proc_uint64_t, callback);
}

void server(support::Link& link) {
    Node node;
    PARTY_REQUIRE(register_rpc(node, serve) != 0);
    link.put(node.uri());
    PARTY_REQUIRE(support::until_for(
        std::chrono::minutes(5), [&] { return link.readable(); }, [&] { node.pump(); }));
    node.close();
}

struct Answer {
    unsigned count = 0;
    hg_return_t ret = HG_OTHER_ERROR;
    std::uint64_t value = 0;
};

hg_return_t answered(const hg_cb_info* info) {
    auto& answer = *static_cast<Answer*>(info->arg);
    ++answer.count;
    answer.ret = info->ret;
    if (info->ret == HG_SUCCESS) {
        PARTY_REQUIRE(HG_Get_output(info->info.forward.handle, &answer.value) == HG_SUCCESS);
        PARTY_REQUIRE(HG_Free_output(info->info.forward.handle, &answer.value) == HG_SUCCESS);
    }
    return HG_SUCCESS;
}

}  // namespace

TEST_CASE("descriptors inside RPCs", "[rpc]") {
    support::Party party(other_party(), server);
    Node node;
    const hg_id_t id = register_rpc(node, nullptr);
    REQUIRE(id != 0);
    {
        const Address addr(node, party.link().take_text());
        for (const bool to_oneself : {false, true}) {
            if (to_oneself) {
                REQUIRE(register_rpc(node, serve) == id);
            }
            const Address self(node, node.uri());
            hg_handle_t handle = HG_HANDLE_NULL;
            REQUIRE(HG_Create(node.context(), to_oneself ? self : addr, id, &handle) == HG_SUCCESS);
            // 20 bytes fit into the request, the others do not.
            for (const hg_size_t size :
                 {hg_size_t{20}, hg_size_t{100 * 1000}, hg_size_t{3 << 20}}) {
                for (const bool push : {false, true}) {
                    const Memory memory(node, {size / 2, 0, size - size / 2}, size,
                                        HG_BULK_READWRITE);
                    Transferred in{memory.bulk, static_cast<hg_bool_t>(push)};
                    Answer answer;
                    REQUIRE(HG_Forward(handle, answered, &answer, &in) == HG_SUCCESS);
                    REQUIRE(
                        support::until([&] { return answer.count != 0; }, [&] { node.pump(); }));
                    CHECK(answer.ret == HG_SUCCESS);
                    CHECK(answer.value == hash(memory.flat()));
                    if (push) {
                        CHECK(memory.flat() == filled(size, 99));
                    }
                }
            }
            CHECK(HG_Destroy(handle) == HG_SUCCESS);
        }
    }
    party.link().put("end");
    CHECK(party.join() == "");
    node.close();
}

namespace {

struct Kept {
    hg_bulk_t bulk = HG_BULK_NULL;
    hg_addr_t owner = HG_ADDR_NULL;
};
Kept g_kept;

hg_return_t keep(hg_handle_t handle) {
    Transferred in{};
    PARTY_REQUIRE(HG_Get_input(handle, &in) == HG_SUCCESS);
    const hg_info* info = HG_Get_info(handle);
    g_kept.bulk = in.bulk;
    PARTY_REQUIRE(HG_Bulk_ref_incr(in.bulk) == HG_SUCCESS);
    PARTY_REQUIRE(HG_Addr_dup(info->hg_class, info->addr, &g_kept.owner) == HG_SUCCESS);
    PARTY_REQUIRE(HG_Free_input(handle, &in) == HG_SUCCESS);
    std::uint64_t answer = 0;
    PARTY_REQUIRE(HG_Respond(handle, nullptr, nullptr, &answer) == HG_SUCCESS);
    return HG_Destroy(handle);
}

}  // namespace

// Of less than that the contents may have come with it.
TEST_CASE("a window of 4 KiB and more shows what is there when it is looked at", "[rpc]") {
    Node owner;
    Node viewer;
    const hg_id_t id = register_rpc(owner, nullptr);
    REQUIRE(register_rpc(viewer, keep) == id);
    const auto pump = [&] {
        owner.pump();
        viewer.pump();
    };
    {
        const Address addr(owner, viewer.uri());
        hg_handle_t handle = HG_HANDLE_NULL;
        REQUIRE(HG_Create(owner.context(), addr, id, &handle) == HG_SUCCESS);
        for (const hg_size_t size :
             std::initializer_list<hg_size_t>{4096, 8192, 16'000, 66'000, 300'000}) {
            for (const std::uint8_t flags :
                 std::initializer_list<std::uint8_t>{HG_BULK_READ_ONLY, HG_BULK_READWRITE}) {
                INFO("size " << size << ", flags " << unsigned{flags});
                Memory window(owner, {size}, 1, flags);
                const Memory view(viewer, {size}, 2, HG_BULK_WRITE_ONLY);
                Transferred in{window.bulk, 0};
                Answer answer;
                REQUIRE(HG_Forward(handle, answered, &answer, &in) == HG_SUCCESS);
                REQUIRE(support::until([&] { return answer.count != 0; }, pump));
                REQUIRE(answer.ret == HG_SUCCESS);
                for (unsigned change = 3; change != 5; ++change) {
                    fill(window.parts[0].data(), size, change);
                    Answer pulled;
                    REQUIRE(HG_Bulk_transfer(
                                viewer.context(),
                                [](const hg_cb_info* info) {
                                    auto& over = *static_cast<Answer*>(info->arg);
                                    over.ret = info->ret;
                                    ++over.count;
                                    return HG_SUCCESS;
                                },
                                &pulled, HG_BULK_PULL, g_kept.owner, g_kept.bulk, 0, view.bulk, 0,
                                size, HG_OP_ID_IGNORE) == HG_SUCCESS);
                    REQUIRE(support::until([&] { return pulled.count != 0; }, pump));
                    CHECK(pulled.ret == HG_SUCCESS);
                    CHECK(view.flat() == filled(size, change));
                }
                CHECK(HG_Bulk_free(g_kept.bulk) == HG_SUCCESS);
                CHECK(HG_Addr_free(viewer.cls(), g_kept.owner) == HG_SUCCESS);
            }
        }
        CHECK(HG_Destroy(handle) == HG_SUCCESS);
    }
    owner.close();
    viewer.close();
}

TEST_CASE("no descriptor at all", "[rpc]") {
    Node node;
    std::byte buffer[64];
    hg_proc_t proc = HG_PROC_NULL;
    hg_bulk_t none = HG_BULK_NULL;
    REQUIRE(hg_proc_create_set(node.cls(), buffer, sizeof buffer, HG_ENCODE, HG_NOHASH, &proc) ==
            HG_SUCCESS);
    REQUIRE(hg_proc_hg_bulk_t(proc, &none) == HG_SUCCESS);
    REQUIRE(hg_proc_reset(proc, buffer, sizeof buffer, HG_DECODE) == HG_SUCCESS);
    auto* got = reinterpret_cast<hg_bulk_t>(buffer);
    CHECK(hg_proc_hg_bulk_t(proc, &got) == HG_SUCCESS);
    CHECK(got == HG_BULK_NULL);
    CHECK(hg_proc_free(proc) == HG_SUCCESS);
    node.close();
}
