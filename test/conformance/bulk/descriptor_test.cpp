// SPDX-License-Identifier: BSD-3-Clause
// Descriptors in one process: creation, access, serialised form, references, life time.
#include <cstring>
#include <limits>

#include <catch2/catch.hpp>

#include "party.hpp"

using namespace test;

TEST_CASE("bad arguments are refused", "[descriptor]") {
    const Quiet quiet;
    Node node;
    char memory[16];
    void* ptr = memory;
    void* null = nullptr;
    hg_size_t size = sizeof memory;
    auto* const untouched = reinterpret_cast<hg_bulk_t>(&node);
    hg_bulk_t b = untouched;
    CHECK(HG_Bulk_create(nullptr, 1, &ptr, &size, HG_BULK_READ_ONLY, &b) == HG_INVALID_ARG);
    CHECK(HG_Bulk_create(node.cls(), 0, &ptr, &size, HG_BULK_READ_ONLY, &b) == HG_INVALID_ARG);
    CHECK(HG_Bulk_create(node.cls(), 1, &ptr, nullptr, HG_BULK_READ_ONLY, &b) == HG_INVALID_ARG);
    CHECK(HG_Bulk_create(node.cls(), 1, &ptr, &size, HG_BULK_READ_ONLY, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Bulk_create(node.cls(), 1, &null, &size, HG_BULK_READ_ONLY, &b) == HG_INVALID_ARG);
    for (const int flags : {0, 4, 8, 7, 0xff}) {
        CHECK(HG_Bulk_create(node.cls(), 1, &ptr, &size, static_cast<std::uint8_t>(flags), &b) ==
              HG_INVALID_ARG);
    }
    hg_size_t huge[2] = {UINT64_MAX, UINT64_MAX};
    void* ptrs[2] = {memory, memory};
    CHECK(HG_Bulk_create(node.cls(), 2, ptrs, huge, HG_BULK_READ_ONLY, &b) == HG_INVALID_ARG);
    CHECK(HG_Bulk_create(node.cls(), 2, nullptr, huge, HG_BULK_READ_ONLY, &b) == HG_NOMEM);
    CHECK(HG_Bulk_create_attr(node.cls(), 1, &ptr, &size, HG_BULK_READ_ONLY, nullptr, &b) ==
          HG_INVALID_ARG);
    hg_bulk_attr attr{.mem_type = HG_MEM_TYPE_UNKNOWN, .device = 0};
    CHECK(HG_Bulk_create_attr(node.cls(), 1, &ptr, &size, HG_BULK_READ_ONLY, &attr, &b) ==
          HG_INVALID_ARG);
    attr.mem_type = HG_MEM_TYPE_CUDA;
    CHECK(HG_Bulk_create_attr(node.cls(), 1, &ptr, &size, HG_BULK_READ_ONLY, &attr, &b) ==
          HG_OPNOTSUPPORTED);
    CHECK(HG_Bulk_create_attr(node.cls(), 1, nullptr, &size, HG_BULK_READ_ONLY, &attr, &b) ==
          HG_OPNOTSUPPORTED);
    CHECK(b == untouched);
    CHECK(std::strlen(HG_Get_last_error()) != 0);

    CHECK(HG_Bulk_free(HG_BULK_NULL) == HG_SUCCESS);
    CHECK(HG_Bulk_ref_incr(HG_BULK_NULL) == HG_INVALID_ARG);
    CHECK(HG_Bulk_bind(HG_BULK_NULL, node.context()) == HG_INVALID_ARG);
    CHECK(HG_Bulk_get_addr(HG_BULK_NULL) == HG_ADDR_NULL);
    CHECK(HG_Bulk_get_context_id(HG_BULK_NULL) == 0);
    CHECK(HG_Bulk_get_size(HG_BULK_NULL) == 0);
    CHECK(HG_Bulk_get_segment_count(HG_BULK_NULL) == 0);
    CHECK(HG_Bulk_get_flags(HG_BULK_NULL) == 0);
    CHECK(HG_Bulk_get_serialize_size(HG_BULK_NULL, 0) == 0);
    CHECK(HG_Bulk_access(HG_BULK_NULL, 0, 1, 0, 1, &ptr, &size, nullptr) == HG_INVALID_ARG);
    CHECK(HG_Bulk_serialize(memory, sizeof memory, 0, HG_BULK_NULL) == HG_INVALID_ARG);
    CHECK(HG_Bulk_deserialize(node.cls(), &b, nullptr, 10) == HG_INVALID_ARG);
    CHECK(HG_Bulk_deserialize(node.cls(), nullptr, memory, 10) == HG_INVALID_ARG);
    CHECK(HG_Bulk_deserialize(nullptr, &b, memory, 10) == HG_INVALID_ARG);
    CHECK(HG_Bulk_deserialize(node.cls(), &b, memory, 0) == HG_OVERFLOW);
    CHECK(HG_Bulk_cancel(HG_OP_ID_NULL) == HG_INVALID_ARG);
    node.close();
}

TEST_CASE("bad arguments of transfers are refused", "[descriptor]") {
    const Quiet quiet;
    Node node;
    Node other;
    {
        const Memory m(node, {64}, 1, HG_BULK_READWRITE);
        const Memory n(node, {64}, 2, HG_BULK_READWRITE);
        const Memory foreign(other, {64}, 2, HG_BULK_READWRITE);
        const Address self(node, node.uri());
        const Address elsewhere(other, other.uri());
        Ended ended;
        auto* const untouched = reinterpret_cast<hg_op_id_t>(&ended);
        hg_op_id_t id = untouched;
        const auto start = [&](hg_context_t* c, hg_bulk_op_t op, hg_addr_t a, hg_bulk_t o,
                               hg_bulk_t l) {
            return HG_Bulk_transfer(c, note_end, &ended, op, a, o, 0, l, 0, 64, &id);
        };
        CHECK(start(nullptr, HG_BULK_PULL, self, m.bulk, n.bulk) == HG_INVALID_ARG);
        CHECK(start(node.context(), HG_BULK_PULL, HG_ADDR_NULL, m.bulk, n.bulk) == HG_INVALID_ARG);
        CHECK(start(node.context(), HG_BULK_PULL, self, HG_BULK_NULL, n.bulk) == HG_INVALID_ARG);
        CHECK(start(node.context(), HG_BULK_PULL, self, m.bulk, HG_BULK_NULL) == HG_INVALID_ARG);
        CHECK(start(node.context(), HG_BULK_PULL, self, m.bulk, foreign.bulk) == HG_INVALID_ARG);
        CHECK(start(node.context(), HG_BULK_PULL, self, foreign.bulk, m.bulk) == HG_INVALID_ARG);
        CHECK(start(node.context(), HG_BULK_PULL, elsewhere, m.bulk, n.bulk) == HG_INVALID_ARG);
        CHECK(start(other.context(), HG_BULK_PULL, self, m.bulk, n.bulk) == HG_INVALID_ARG);
        const Address peer(node, other.uri());
        CHECK(start(node.context(), HG_BULK_PULL, peer, m.bulk, n.bulk) == HG_INVALID_ARG);
        CHECK(HG_Bulk_bind_transfer(node.context(), note_end, &ended, HG_BULK_PULL, m.bulk, 0,
                                    n.bulk, 0, 64, &id) == HG_INVALID_ARG);
        CHECK(id == untouched);
        for (int i = 0; i < 10; ++i) {
            node.pump();
        }
        CHECK(ended.count == 0);
    }
    other.close();
    node.close();
}

TEST_CASE("what a descriptor says", "[descriptor]") {
    Node node;
    {
        const Memory m(node, {100, 0, 28}, 1, HG_BULK_WRITE_ONLY);
        CHECK(HG_Bulk_get_size(m.bulk) == 128);
        CHECK(HG_Bulk_get_segment_count(m.bulk) == 3);
        CHECK(HG_Bulk_get_flags(m.bulk) == HG_BULK_WRITE_ONLY);
        CHECK(HG_Bulk_get_addr(m.bulk) == HG_ADDR_NULL);

        const Memory nothing(node, {0, 0}, 1, HG_BULK_READ_ONLY);
        CHECK(HG_Bulk_get_size(nothing.bulk) == 0);
        CHECK(HG_Bulk_get_segment_count(nothing.bulk) == 2);
        hg_bulk_t copy = HG_BULK_NULL;
        const auto bytes = serialized(nothing.bulk);
        REQUIRE(HG_Bulk_deserialize(node.cls(), &copy, bytes.data(), bytes.size()) == HG_SUCCESS);
        CHECK(HG_Bulk_get_segment_count(copy) == 2);
        CHECK(HG_Bulk_free(copy) == HG_SUCCESS);
    }
    node.close();
}

TEST_CASE("access gives the pieces of a range, never past the end", "[descriptor]") {
    const Quiet quiet;
    Node node;
    {
        const Memory m(node, {10, 0, 20}, 1, HG_BULK_READWRITE);
        void* ptrs[4] = {};
        hg_size_t sizes[4] = {};
        std::uint32_t count = 99;
        REQUIRE(HG_Bulk_access(m.bulk, 0, 30, HG_BULK_READWRITE, 4, ptrs, sizes, &count) ==
                HG_SUCCESS);
        REQUIRE(count == 2);
        CHECK(ptrs[0] == m.parts[0].data());
        CHECK(sizes[0] == 10);
        CHECK(ptrs[1] == m.parts[2].data());
        CHECK(sizes[1] == 20);
        REQUIRE(HG_Bulk_access(m.bulk, 12, 3, HG_BULK_READWRITE, 4, ptrs, sizes, &count) ==
                HG_SUCCESS);
        REQUIRE(count == 1);
        CHECK(ptrs[0] == m.parts[2].data() + 2);
        CHECK(sizes[0] == 3);
        REQUIRE(HG_Bulk_access(m.bulk, 0, 30, HG_BULK_READWRITE, 1, ptrs, nullptr, &count) ==
                HG_SUCCESS);
        CHECK(count == 1);
        CHECK(HG_Bulk_access(m.bulk, 0, 30, HG_BULK_READWRITE, 4, nullptr, nullptr, nullptr) ==
              HG_SUCCESS);
        CHECK(HG_Bulk_access(m.bulk, 30, 0, HG_BULK_READWRITE, 4, ptrs, sizes, &count) ==
              HG_SUCCESS);
        CHECK(count == 1);  // as it was: nothing is written
        CHECK(HG_Bulk_access(m.bulk, 0, 30, HG_BULK_READWRITE, 0, ptrs, sizes, &count) ==
              HG_SUCCESS);
        CHECK(count == 1);  // as it was: nothing is written
        count = 99;
        for (const auto& [offset, size] :
             std::vector<std::pair<hg_size_t, hg_size_t>>{{0, 31},

                                                          {30, 1},
                                                          {1, UINT64_MAX},
                                                          {UINT64_MAX, 1},
                                                          {UINT64_MAX, UINT64_MAX},
                                                          {1ULL << 32, 1},
                                                          {1, (1ULL << 32) - 1}}) {
            CHECK(HG_Bulk_access(m.bulk, offset, size, HG_BULK_READWRITE, 4, ptrs, sizes, &count) ==
                  HG_INVALID_ARG);
        }
        CHECK(count == 99);
    }
    node.close();
}

TEST_CASE("memory of the library's own", "[descriptor]") {
    Node node;
    {
        const hg_size_t sizes[] = {1000, 0, 5};
        hg_bulk_t b = HG_BULK_NULL;
        REQUIRE(HG_Bulk_create(node.cls(), 3, nullptr, sizes, HG_BULK_READWRITE, &b) == HG_SUCCESS);
        void* ptrs[3] = {};
        hg_size_t lengths[3] = {};
        std::uint32_t count = 0;
        REQUIRE(HG_Bulk_access(b, 0, 1005, HG_BULK_READWRITE, 3, ptrs, lengths, &count) ==
                HG_SUCCESS);
        REQUIRE(count == 2);
        CHECK(lengths[0] == 1000);
        CHECK(lengths[1] == 5);
        for (hg_size_t i = 0; i < 1000; ++i) {
            REQUIRE(static_cast<char*>(ptrs[0])[i] == 0);
        }
        std::memset(ptrs[0], 1, 1000);
        std::memset(ptrs[1], 1, 5);
        CHECK(HG_Bulk_free(b) == HG_SUCCESS);
    }
    node.close();
}

TEST_CASE("references", "[descriptor]") {
    Node node;
    char memory[8];
    void* ptr = memory;
    const hg_size_t size = sizeof memory;
    hg_bulk_t b = HG_BULK_NULL;
    REQUIRE(HG_Bulk_create(node.cls(), 1, &ptr, &size, HG_BULK_READ_ONLY, &b) == HG_SUCCESS);
    CHECK(HG_Bulk_ref_incr(b) == HG_SUCCESS);
    CHECK(HG_Bulk_free(b) == HG_SUCCESS);
    CHECK(HG_Bulk_get_size(b) == 8);
    CHECK(HG_Bulk_free(b) == HG_SUCCESS);
    node.close();
}

TEST_CASE("a class waits for its descriptors", "[descriptor]") {
    const Quiet quiet;
    hg_class_t* cls = HG_Init(support::options().protocol.c_str(), 1);
    REQUIRE(cls != nullptr);
    char memory[8];
    void* ptr = memory;
    const hg_size_t size = sizeof memory;
    hg_bulk_t b = HG_BULK_NULL;
    REQUIRE(HG_Bulk_create(cls, 1, &ptr, &size, HG_BULK_READ_ONLY, &b) == HG_SUCCESS);
    CHECK(HG_Finalize(cls) == HG_BUSY);
    CHECK(HG_Bulk_free(b) == HG_SUCCESS);
    CHECK(HG_Finalize(cls) == HG_SUCCESS);
}

TEST_CASE("a bound descriptor carries its owner", "[descriptor]") {
    const Quiet quiet;
    Node node;
    Node other;
    {
        const Memory m(node, {64}, 1, HG_BULK_READWRITE);
        CHECK(HG_Bulk_bind(m.bulk, other.context()) == HG_INVALID_ARG);
        REQUIRE(HG_Bulk_bind(m.bulk, node.context()) == HG_SUCCESS);
        CHECK(HG_Bulk_bind(m.bulk, node.context()) == HG_SUCCESS);
        CHECK(HG_Bulk_get_context_id(m.bulk) == 0);
        const Address self(node, node.uri());
        REQUIRE(HG_Bulk_get_addr(m.bulk) != HG_ADDR_NULL);
        CHECK(HG_Addr_cmp(node.cls(), HG_Bulk_get_addr(m.bulk), self));

        const auto bytes = serialized(m.bulk);
        hg_bulk_t got = HG_BULK_NULL;
        REQUIRE(HG_Bulk_deserialize(other.cls(), &got, bytes.data(), bytes.size()) == HG_SUCCESS);
        const Bulk remote(got);
        const Address known(other, node.uri());
        REQUIRE(HG_Bulk_get_addr(remote) != HG_ADDR_NULL);
        CHECK(HG_Addr_cmp(other.cls(), HG_Bulk_get_addr(remote), known));
        CHECK(HG_Bulk_bind(remote, other.context()) == HG_INVALID_ARG);

        // Passed on, it still says whose it is.
        CHECK(serialized(remote) == bytes);
    }
    other.close();
    node.close();
}

TEST_CASE("the serialised form: contents, size, too little room", "[descriptor]") {
    const Quiet quiet;
    Node node;
    Node other;
    {
        const Memory m(node, {40, 24}, 5, HG_BULK_READ_ONLY);
        const auto with = serialized(m.bulk, HG_BULK_EAGER);
        CHECK(with.size() >= 64);
        CHECK(with.size() < 80);
        CHECK(serialized(m.bulk).size() < 128);
        std::vector<std::byte> room(with.size());
        for (std::size_t n = 0; n < room.size(); ++n) {
            CHECK(HG_Bulk_serialize(room.data(), n, HG_BULK_EAGER, m.bulk) == HG_OVERFLOW);
        }
        hg_bulk_t got = HG_BULK_NULL;
        REQUIRE(HG_Bulk_deserialize(other.cls(), &got, with.data(), with.size()) == HG_SUCCESS);
        const Bulk remote(got);
        void* ptrs[2] = {};
        hg_size_t sizes[2] = {};
        std::uint32_t count = 0;
        REQUIRE(HG_Bulk_access(remote, 0, 64, HG_BULK_READ_ONLY, 2, ptrs, sizes, &count) ==
                HG_SUCCESS);
        REQUIRE(count == 2);
        CHECK(std::memcmp(ptrs[0], m.parts[0].data(), 40) == 0);
        CHECK(std::memcmp(ptrs[1], m.parts[1].data(), 24) == 0);

        const auto without = serialized(m.bulk);
        REQUIRE(HG_Bulk_deserialize(other.cls(), &got, without.data(), without.size()) ==
                HG_SUCCESS);
        const Bulk far(got);
        CHECK(HG_Bulk_access(far, 0, 64, HG_BULK_READ_ONLY, 2, ptrs, sizes, &count) ==
              HG_INVALID_ARG);
    }
    other.close();
    node.close();
}

// Every byte of a real descriptor, changed in every way: refused, or safe to use.
TEST_CASE("malformed descriptors", "[descriptor]") {
    const Quiet quiet;
    Node node;
    Node other;
    {
        const Memory m(node, {40, 0, 24}, 5, HG_BULK_READWRITE);
        const Memory local(other, {64}, 6, HG_BULK_READWRITE);
        REQUIRE(HG_Bulk_bind(m.bulk, node.context()) == HG_SUCCESS);
        const Address peer(other, node.uri());
        unsigned refused = 0;
        // What is accepted, and of a size to be pulled.
        std::vector<std::vector<std::byte>> accepted;
        for (const unsigned long flags : {0UL, static_cast<unsigned long>(HG_BULK_EAGER)}) {
            const auto valid = serialized(m.bulk, flags);
            for (std::size_t n = 0; n < valid.size(); ++n) {
                const std::vector<std::byte> cut(valid.begin(),
                                                 valid.begin() + static_cast<std::ptrdiff_t>(n));
                hg_bulk_t got = HG_BULK_NULL;
                CHECK(HG_Bulk_deserialize(other.cls(), &got, cut.data(), cut.size()) ==
                      (n == 0 ? HG_INVALID_ARG : HG_OVERFLOW));
            }
            for (std::size_t at = 0; at < valid.size(); ++at) {
                for (int change = 1; change<256; change += support::kSlow> 1 ? 7 : 1) {
                    auto bytes = valid;
                    bytes[at] ^= static_cast<std::byte>(change);
                    hg_bulk_t got = HG_BULK_NULL;
                    if (HG_Bulk_deserialize(other.cls(), &got, bytes.data(), bytes.size()) !=
                        HG_SUCCESS) {
                        CHECK(got == HG_BULK_NULL);
                        ++refused;
                        continue;
                    }
                    const Bulk remote(got);
                    void* ptr = nullptr;
                    hg_size_t size = 0;
                    (void)HG_Bulk_access(remote, 0, HG_Bulk_get_size(remote), HG_BULK_READWRITE, 1,
                                         &ptr, &size, nullptr);
                    const auto again = serialized(remote, flags);
                    if (HG_Bulk_get_size(remote) <= 64) {
                        accepted.push_back(std::move(bytes));
                    }
                }
            }
        }
        CHECK(refused > 0);
        REQUIRE(!accepted.empty());
        // As many as time allows: transfers from memory that is not there take the kernel's time,
        // and end the connection of some transports. Where nobody checks, none.
        support::Random(support::options().seed).shuffle(accepted);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
        const char* const why = support::lacks(support::Promise::forged_gets_end);
        const bool checked = why == nullptr;
        if (!checked) {
            support::skip(std::string("transfers by malformed descriptors: ") + why);
        }
        for (std::size_t i = 0;
             checked && i < accepted.size() && std::chrono::steady_clock::now() < end; ++i) {
            hg_bulk_t got = HG_BULK_NULL;
            REQUIRE(HG_Bulk_deserialize(other.cls(), &got, accepted[i].data(),
                                        accepted[i].size()) == HG_SUCCESS);
            const Bulk remote(got);
            Ended ended;
            if (HG_Bulk_bind_transfer(other.context(), note_end, &ended, HG_BULK_PULL, remote, 0,
                                      local.bulk, 0, HG_Bulk_get_size(remote),
                                      HG_OP_ID_IGNORE) == HG_SUCCESS) {
                REQUIRE(support::until_for(
                    std::chrono::seconds(20), [&] { return ended.count == 1; },
                    [&] { other.pump(); }, [&] { node.pump(); }));
            }
        }
    }
    other.close();
    node.close();
}

// The memory is the same in all descriptors, but for the keys.
TEST_CASE("a descriptor with a wrong key pulls and pushes nothing", "[descriptor]") {
    if (const char* why = support::lacks(support::Promise::checked_keys)) {
        support::skip(why);
        return;
    }
    const Quiet quiet;
    Node node;
    Node other;
    {
        constexpr hg_size_t kSize = 60'000;
        std::vector<std::byte> there = filled(kSize, 1);
        const auto described = [&] {
            void* memory = there.data();
            hg_bulk_t made = HG_BULK_NULL;
            REQUIRE(HG_Bulk_create(node.cls(), 1, &memory, &kSize, HG_BULK_READWRITE, &made) ==
                    HG_SUCCESS);
            return Bulk(made);
        };
        const auto former = serialized(described());
        const Bulk now = described();
        const auto good = serialized(now);
        REQUIRE(former.size() == good.size());
        auto wrong = good;
        support::Random random(support::options().seed);
        for (std::size_t at = 0; at < good.size(); ++at) {
            if (good[at] != former[at]) {
                wrong[at] ^= static_cast<std::byte>(1 + random.below(255));
            }
        }
        REQUIRE(wrong != good);  // there are keys
        const Memory local(other, {kSize}, 2, HG_BULK_READWRITE);
        const auto before = local.flat();
        const Address peer(other, node.uri());
        for (const auto& bytes : {former, wrong}) {
            hg_bulk_t got = HG_BULK_NULL;
            REQUIRE(HG_Bulk_deserialize(other.cls(), &got, bytes.data(), bytes.size()) ==
                    HG_SUCCESS);
            const Bulk remote(got);
            for (const hg_size_t n : {hg_size_t{8}, hg_size_t{5000}, kSize}) {
                for (const hg_bulk_op_t op : {HG_BULK_PULL, HG_BULK_PUSH}) {
                    INFO(n << (op == HG_BULK_PULL ? " pulled" : " pushed"));
                    Ended ended;
                    if (HG_Bulk_transfer(other.context(), note_end, &ended, op, peer, remote, 0,
                                         local.bulk, 0, n, HG_OP_ID_IGNORE) == HG_SUCCESS) {
                        REQUIRE(support::until([&] { return ended.count == 1; },
                                               [&] { other.pump(); }, [&] { node.pump(); }));
                        CHECK(ended.info.ret != HG_SUCCESS);
                    }
                    CHECK(local.flat() == before);
                    CHECK(holds(there.data(), kSize, 1));
                }
            }
        }
    }
    other.close();
    node.close();
}
