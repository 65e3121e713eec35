// SPDX-License-Identifier: BSD-3-Clause
// Transfers of a process with itself whose descriptor its owner has freed meanwhile, and what the
// owner answers to peers then.
#include <cstdint>
#include <vector>

#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "mercury_proc_bulk.h"
#include "party.hpp"

using namespace test;

namespace {

// What the handler keeps until the owner has freed its descriptor.
struct Kept {
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_bulk_t bulk = HG_BULK_NULL;
};
Kept g_kept;

hg_return_t keep(hg_handle_t handle) {
    g_kept.handle = handle;
    return HG_SUCCESS;
}

struct Answer {
    unsigned count = 0;
    hg_return_t ret = HG_OTHER_ERROR;
};

hg_return_t answered(const hg_cb_info* info) {
    auto& answer = *static_cast<Answer*>(info->arg);
    ++answer.count;
    answer.ret = info->ret;
    return HG_SUCCESS;
}

// An RPC of a node to itself, which carries `bulk`.
class Errand {
 public:
    Errand(const Node& node, hg_addr_t self, hg_bulk_t bulk) : node_(node) {
        const hg_id_t id = HG_Register_name(node.cls(), "keep", hg_proc_hg_bulk_t, nullptr, keep);
        REQUIRE(id != 0);
        REQUIRE(HG_Create(node.context(), self, id, &handle_) == HG_SUCCESS);
        REQUIRE(HG_Forward(handle_, answered, &answer_, &bulk) == HG_SUCCESS);
    }
    // The descriptor as the handler decodes it.
    hg_bulk_t arrived() {
        REQUIRE(
            support::until([] { return g_kept.handle != HG_HANDLE_NULL; }, [&] { node_.pump(); }));
        REQUIRE(HG_Get_input(g_kept.handle, &g_kept.bulk) == HG_SUCCESS);
        return g_kept.bulk;
    }
    ~Errand() {
        CHECK(HG_Respond(g_kept.handle, nullptr, nullptr, nullptr) == HG_SUCCESS);
        CHECK(HG_Free_input(g_kept.handle, &g_kept.bulk) == HG_SUCCESS);
        CHECK(HG_Destroy(g_kept.handle) == HG_SUCCESS);
        g_kept = {};
        CHECK(support::until([&] { return answer_.count != 0; }, [&] { node_.pump(); }));
        CHECK(answer_.ret == HG_SUCCESS);
        CHECK(HG_Destroy(handle_) == HG_SUCCESS);
    }
    Errand(const Errand&) = delete;
    Errand& operator=(const Errand&) = delete;

 private:
    const Node& node_;
    hg_handle_t handle_ = HG_HANDLE_NULL;
    Answer answer_;
};

}  // namespace

TEST_CASE("a descriptor in an RPC to oneself serves after its owner has freed it", "[self]") {
    Node node;
    {
        const Address self(node, node.uri());
        for (const hg_size_t size : {hg_size_t{20}, hg_size_t{5'000}, hg_size_t{3 << 20}}) {
            for (const std::uint8_t flags :
                 {std::uint8_t{HG_BULK_READ_ONLY}, std::uint8_t{HG_BULK_READWRITE}}) {
                INFO("size " << size << ", flags " << unsigned{flags});
                std::vector<hg_size_t> sizes(100, size / 200);
                sizes.push_back(0);
                sizes.push_back(size - size / 200 * 100);
                Memory memory(node, sizes, size, flags);
                const Memory local(node, {size / 2, size - size / 2}, 7, HG_BULK_READWRITE);
                Errand errand(node, self, memory.bulk);
                memory.bulk.reset();
                const hg_bulk_t remote = errand.arrived();
                CHECK(transfer(node, HG_BULK_PULL, self, remote, 0, local.bulk, 0, size) ==
                      HG_SUCCESS);
                CHECK(local.flat() == memory.flat());
                if (flags == HG_BULK_READWRITE) {
                    fill(const_cast<std::byte*>(local.parts[1].data()), size - size / 2, 9);
                    CHECK(transfer(node, HG_BULK_PUSH, self, remote, 3, local.bulk, 3, size - 3) ==
                          HG_SUCCESS);
                    CHECK(local.flat() == memory.flat());
                }
            }
        }
    }
    node.close();
}

TEST_CASE("a descriptor in an RPC to oneself of memory that is gone ends with a code", "[self]") {
    const Quiet quiet;
    Node node;
    {
        const Address self(node, node.uri());
        constexpr hg_size_t kSize = 64 << 10;
        void* memory =
            mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(memory != MAP_FAILED);
        hg_bulk_t bulk = HG_BULK_NULL;
        REQUIRE(HG_Bulk_create(node.cls(), 1, &memory, &kSize, HG_BULK_READWRITE, &bulk) ==
                HG_SUCCESS);
        const Memory local(node, {kSize}, 7, HG_BULK_READWRITE);
        Errand errand(node, self, bulk);
        CHECK(HG_Bulk_free(bulk) == HG_SUCCESS);
        REQUIRE(munmap(memory, kSize) == 0);
        const hg_bulk_t remote = errand.arrived();
        for (const hg_bulk_op_t op : {HG_BULK_PULL, HG_BULK_PUSH}) {
            CHECK(transfer(node, op, self, remote, 0, local.bulk, 0, kSize) == HG_FAULT);
        }
    }
    node.close();
}

// Its bytes may come from anybody: only what is registered counts, and nothing else is touched.
TEST_CASE("a deserialised descriptor of oneself serves until its owner frees it", "[self]") {
    const Quiet quiet;
    Node node;
    {
        const Address self(node, node.uri());
        for (const hg_size_t size : {hg_size_t{20}, hg_size_t{100'000}}) {
            Memory memory(node, {size}, 1, HG_BULK_READWRITE);
            const Memory local(node, {size}, 2, HG_BULK_READWRITE);
            const auto bytes = serialized(memory.bulk);
            hg_bulk_t copy = HG_BULK_NULL;
            REQUIRE(HG_Bulk_deserialize(node.cls(), &copy, bytes.data(), bytes.size()) ==
                    HG_SUCCESS);
            const Bulk owner(copy);
            CHECK(transfer(node, HG_BULK_PULL, self, copy, 0, local.bulk, 0, size) == HG_SUCCESS);
            CHECK(local.flat() == memory.flat());
            const auto before = memory.flat();
            memory.bulk.reset();
            for (const hg_bulk_op_t op : {HG_BULK_PULL, HG_BULK_PUSH}) {
                CHECK(transfer(node, op, self, copy, 0, local.bulk, 0, size) == HG_FAULT);
            }
            CHECK(memory.flat() == before);
        }
        // Nothing else of the process has suffered.
        const Memory memory(node, {1000}, 3, HG_BULK_READWRITE);
        const Memory local(node, {1000}, 4, HG_BULK_READWRITE);
        const auto bytes = serialized(memory.bulk);
        hg_bulk_t copy = HG_BULK_NULL;
        REQUIRE(HG_Bulk_deserialize(node.cls(), &copy, bytes.data(), bytes.size()) == HG_SUCCESS);
        const Bulk owner(copy);
        CHECK(transfer(node, HG_BULK_PULL, self, copy, 0, local.bulk, 0, 1000) == HG_SUCCESS);
        CHECK(local.flat() == memory.flat());
    }
    node.close();
}
