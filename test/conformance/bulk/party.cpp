// SPDX-License-Identifier: BSD-3-Clause
#include "party.hpp"

#include <algorithm>
#include <cstring>

namespace test {

Node::Node(const std::string& protocol, std::uint8_t contexts, std::uint8_t id) {
    hg_init_info info = HG_INIT_INFO_INITIALIZER;
    info.na_init_info.max_contexts = contexts;
    cls_ = HG_Init_opt2(protocol.c_str(), 1, HG_VERSION(2, 4), &info);
    PARTY_REQUIRE(cls_ != nullptr);
    context_ = HG_Context_create_id(cls_, id);
    PARTY_REQUIRE(context_ != nullptr);
}

Node::~Node() {
    if (context_ != nullptr) {
        HG_Context_destroy(context_);
    }
    HG_Finalize(cls_);
}

void Node::close() {
    close_context();
    close_class();
}

void Node::close_context() {
    PARTY_REQUIRE(HG_Context_destroy(context_) == HG_SUCCESS);
    context_ = nullptr;
}

void Node::close_class() {
    PARTY_REQUIRE(HG_Finalize(cls_) == HG_SUCCESS);
    cls_ = nullptr;
}

std::string Node::uri() const {
    hg_addr_t self = HG_ADDR_NULL;
    PARTY_REQUIRE(HG_Addr_self(cls_, &self) == HG_SUCCESS);
    char text[256];
    hg_size_t size = sizeof text;
    PARTY_REQUIRE(HG_Addr_to_string(cls_, text, &size, self) == HG_SUCCESS);
    PARTY_REQUIRE(HG_Addr_free(cls_, self) == HG_SUCCESS);
    return text;
}

void Node::pump() const {
    support::rest_point();
    unsigned count = 0;
    do {
        HG_Trigger(context_, 0, 1, &count);
    } while (count != 0);
    const hg_return_t ret = HG_Progress(context_, 0);
    PARTY_REQUIRE((ret == HG_SUCCESS || ret == HG_TIMEOUT));
}

Memory::Memory(const Node& node, const std::vector<hg_size_t>& sizes, std::uint64_t seed,
               std::uint8_t flags)
    : bulk(describe(node, parts, sizes, seed, flags)) {}

hg_bulk_t Memory::describe(const Node& node, std::vector<std::vector<std::byte>>& parts,
                           const std::vector<hg_size_t>& sizes, std::uint64_t seed,
                           std::uint8_t flags) {
    support::Random random(seed);
    std::vector<void*> bases;
    for (const hg_size_t size : sizes) {
        parts.push_back(filled(size, random.next()));
        bases.push_back(size == 0 ? nullptr : parts.back().data());
    }
    hg_bulk_t handle = HG_BULK_NULL;
    PARTY_REQUIRE(HG_Bulk_create(node.cls(), static_cast<std::uint32_t>(sizes.size()), bases.data(),
                                 sizes.data(), flags, &handle) == HG_SUCCESS);
    return handle;
}

std::vector<std::byte> Memory::flat() const {
    std::vector<std::byte> all;
    for (const auto& p : parts) {
        all.insert(all.end(), p.begin(), p.end());
    }
    return all;
}

std::vector<std::byte> serialized(hg_bulk_t bulk, unsigned long flags) {
    std::vector<std::byte> bytes(HG_Bulk_get_serialize_size(bulk, flags));
    PARTY_REQUIRE(!bytes.empty());
    PARTY_REQUIRE(HG_Bulk_serialize(bytes.data(), bytes.size(), flags, bulk) == HG_SUCCESS);
    return bytes;
}

void fill(void* memory, hg_size_t size, std::uint64_t seed) {
    support::Random random(seed);
    auto* at = static_cast<std::byte*>(memory);
    for (hg_size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next();
        std::memcpy(at + i, &word, std::min<hg_size_t>(sizeof word, size - i));
    }
}

// Whether it is as fill() leaves it.
bool holds(const void* memory, hg_size_t size, std::uint64_t seed) {
    support::Random random(seed);
    const auto* at = static_cast<const std::byte*>(memory);
    for (hg_size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next();
        if (std::memcmp(at + i, &word, std::min<hg_size_t>(sizeof word, size - i)) != 0) {
            return false;
        }
    }
    return true;
}

std::vector<std::byte> filled(hg_size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    fill(bytes.data(), size, seed);
    return bytes;
}

std::uint64_t hash(const std::vector<std::byte>& bytes) {
    std::uint64_t h = 14695981039346656037ULL;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
        h = (h ^ word) * 1099511628211ULL;
        h ^= h >> 29;
    }
    return h;
}

hg_return_t note_end(const hg_cb_info* info) {
    auto& ended = *static_cast<Ended*>(info->arg);
    ++ended.count;
    ended.info = *info;
    return HG_SUCCESS;
}

hg_return_t transfer(const Node& node, hg_bulk_op_t op, hg_addr_t addr, hg_bulk_t origin,
                     hg_size_t origin_offset, hg_bulk_t local, hg_size_t local_offset,
                     hg_size_t size, std::uint8_t origin_id) {
    Ended ended;
    const hg_return_t ret =
        addr == HG_ADDR_NULL
            ? HG_Bulk_bind_transfer(node.context(), note_end, &ended, op, origin, origin_offset,
                                    local, local_offset, size, HG_OP_ID_IGNORE)
            : HG_Bulk_transfer_id(node.context(), note_end, &ended, op, addr, origin_id, origin,
                                  origin_offset, local, local_offset, size, HG_OP_ID_IGNORE);
    if (ret != HG_SUCCESS) {
        PARTY_REQUIRE(ended.count == 0);
        return ret;
    }
    PARTY_REQUIRE(ended.count == 0);  // never inside the call
    PARTY_REQUIRE(support::until([&] { return ended.count != 0; }, [&] { node.pump(); }));
    PARTY_REQUIRE(ended.count == 1);
    PARTY_REQUIRE(ended.info.type == HG_CB_BULK);
    PARTY_REQUIRE(ended.info.info.bulk.op == op);
    PARTY_REQUIRE(ended.info.info.bulk.size == size);
    PARTY_REQUIRE(ended.info.info.bulk.origin_handle == origin);
    PARTY_REQUIRE(ended.info.info.bulk.local_handle == local);
    return ended.info.ret;
}

namespace {

// The origin's life: shows its memory, makes progress, answers "hash", leaves on "end".
void show(support::Link& link, const Shown& shown) {
    Node node(shown.protocol, static_cast<std::uint8_t>(shown.context_id + 1), shown.context_id);
    {
        Memory memory(node, shown.sizes, shown.seed, shown.flags);
        hg_bulk_t own = HG_BULK_NULL;
        std::vector<void*> bases(shown.sizes.size());
        std::vector<hg_size_t> lengths(shown.sizes.size());
        const auto flat = [&] {
            if (own == HG_BULK_NULL) {
                return memory.flat();
            }
            std::vector<std::byte> all;
            for (std::size_t i = 0; i < bases.size(); ++i) {
                const auto* at = static_cast<const std::byte*>(bases[i]);
                all.insert(all.end(), at, at + lengths[i]);
            }
            return all;
        };
        if (shown.own_memory) {
            std::uint32_t count = 0;
            PARTY_REQUIRE(HG_Bulk_create(node.cls(), static_cast<std::uint32_t>(shown.sizes.size()),
                                         nullptr, shown.sizes.data(), shown.flags,
                                         &own) == HG_SUCCESS);
            PARTY_REQUIRE(HG_Bulk_access(own, 0, HG_Bulk_get_size(own), HG_BULK_READWRITE,
                                         static_cast<std::uint32_t>(bases.size()), bases.data(),
                                         lengths.data(), &count) == HG_SUCCESS);
            PARTY_REQUIRE(count == bases.size());  // no empty ones, please
            for (std::size_t i = 0; i < bases.size(); ++i) {
                std::memcpy(bases[i], memory.parts[i].data(), lengths[i]);
            }
        }
        const hg_bulk_t bulk = own != HG_BULK_NULL ? own : memory.bulk;
        if (shown.bind) {
            PARTY_REQUIRE(HG_Bulk_bind(bulk, node.context()) == HG_SUCCESS);
        }
        link.put(node.uri());
        link.put(serialized(bulk, shown.serialize));
        for (;;) {
            PARTY_REQUIRE(support::until_for(
                std::chrono::minutes(5), [&] { return link.readable(); }, [&] { node.pump(); }));
            const std::string command = link.take_text();
            if (command == "end") {
                break;
            }
            PARTY_REQUIRE(command == "hash");
            link.put(std::to_string(hash(flat())));
        }
        PARTY_REQUIRE(HG_Bulk_free(own) == HG_SUCCESS);
    }
    node.close();
}

}  // namespace

Origin::Origin(Shown shown)
    : party_(other_party(),
             [shown = std::move(shown)](support::Link& link) { show(link, shown); }) {}

const std::string& Origin::uri() {
    if (uri_.empty()) {
        uri_ = party_.link().take_text();
    }
    return uri_;
}

Bulk Origin::descriptor(const Node& node) {
    (void)uri();
    const std::vector<std::byte> bytes = party_.link().take();
    hg_bulk_t handle = HG_BULK_NULL;
    PARTY_REQUIRE(HG_Bulk_deserialize(node.cls(), &handle, bytes.data(), bytes.size()) ==
                  HG_SUCCESS);
    return Bulk(handle);
}

std::uint64_t Origin::memory_hash(const Node& node) {
    party_.link().put("hash");
    PARTY_REQUIRE(support::until([&] { return party_.link().readable(); }, [&] { node.pump(); }));
    return std::stoull(party_.link().take_text());
}

std::string Origin::end() {
    party_.link().put("end");
    return party_.join();
}

}  // namespace test
