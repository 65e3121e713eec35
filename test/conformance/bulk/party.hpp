// SPDX-License-Identifier: BSD-3-Clause
// The two sides of a bulk transfer: the origin, a party of its own that shows memory, and the
// target, the process of the cases.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "mercury.h"
#include "mercury_bulk.h"
#include "support/options.hpp"
#include "support/payload.hpp"
#include "support/two_process.hpp"
#include "support/until.hpp"

namespace test {

// A class and a context. PARTY_REQUIRE reports what fails, so that both parties can use it.
class Node {
 public:
    explicit Node(const std::string& protocol = support::options().protocol,
                  std::uint8_t contexts = 1, std::uint8_t id = 0);
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    hg_class_t* cls() const noexcept { return cls_; }
    hg_context_t* context() const noexcept { return context_; }
    std::string uri() const;
    // One round of progress; callbacks run.
    void pump() const;
    // Everything has to be released by now.
    void close();
    void close_context();
    void close_class();

 private:
    hg_class_t* cls_ = nullptr;
    hg_context_t* context_ = nullptr;
};

// While errors are provoked.
struct Quiet {
    Quiet() { HG_Set_log_level("none"); }
    ~Quiet() {
        const char* level = std::getenv("HG_LOG_LEVEL");
        HG_Set_log_level(level != nullptr ? level : "error");
    }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
};

class Address {
 public:
    Address(const Node& node, const std::string& uri) : cls_(node.cls()) {
        PARTY_REQUIRE(HG_Addr_lookup2(cls_, uri.c_str(), &addr_) == HG_SUCCESS);
    }
    ~Address() { HG_Addr_free(cls_, addr_); }
    Address(const Address&) = delete;
    Address& operator=(const Address&) = delete;
    operator hg_addr_t() const noexcept { return addr_; }  // NOLINT: stands for it

 private:
    hg_class_t* const cls_;
    hg_addr_t addr_ = HG_ADDR_NULL;
};

// One reference to a descriptor.
class Bulk {
 public:
    explicit Bulk(hg_bulk_t handle = HG_BULK_NULL) noexcept : handle_(handle) {}
    ~Bulk() { HG_Bulk_free(handle_); }
    Bulk(Bulk&& other) noexcept : handle_(other.handle_) { other.handle_ = HG_BULK_NULL; }
    Bulk(const Bulk&) = delete;
    Bulk& operator=(const Bulk&) = delete;
    void reset() noexcept {
        HG_Bulk_free(handle_);
        handle_ = HG_BULK_NULL;
    }
    operator hg_bulk_t() const noexcept { return handle_; }  // NOLINT: stands for it

 private:
    hg_bulk_t handle_;
};

// Memory in segments, filled from a seed, with its descriptor.
struct Memory {
    std::vector<std::vector<std::byte>> parts;
    Bulk bulk;

    Memory(const Node& node, const std::vector<hg_size_t>& sizes, std::uint64_t seed,
           std::uint8_t flags);
    std::vector<std::byte> flat() const;

 private:
    static hg_bulk_t describe(const Node& node, std::vector<std::vector<std::byte>>& parts,
                              const std::vector<hg_size_t>& sizes, std::uint64_t seed,
                              std::uint8_t flags);
};

std::vector<std::byte> serialized(hg_bulk_t bulk, unsigned long flags = 0);
// Eight bytes at a time: sanitizers make every access slow.
void fill(void* memory, hg_size_t size, std::uint64_t seed);
bool holds(const void* memory, hg_size_t size, std::uint64_t seed);
std::vector<std::byte> filled(hg_size_t size, std::uint64_t seed);
std::uint64_t hash(const std::vector<std::byte>& bytes);

// Starts a transfer and waits for its end; a code of the call itself is answered as well.
hg_return_t transfer(const Node& node, hg_bulk_op_t op, hg_addr_t addr, hg_bulk_t origin,
                     hg_size_t origin_offset, hg_bulk_t local, hg_size_t local_offset,
                     hg_size_t size, std::uint8_t origin_id = 0);

// What a callback was called with.
struct Ended {
    unsigned count = 0;
    hg_cb_info info{};
};
hg_return_t note_end(const hg_cb_info* info);  // arg: Ended*

inline support::Party::As other_party() {
    return support::options().protocol.find("loop") == std::string::npos
               ? support::Party::As::process
               : support::Party::As::thread;
}

// What an origin shows.
struct Shown {
    std::vector<hg_size_t> sizes;
    std::uint64_t seed = 1;
    std::uint8_t flags = HG_BULK_READWRITE;
    unsigned long serialize = 0;  // HG_BULK_EAGER
    bool bind = false;
    bool own_memory = false;  // the library's
    std::uint8_t context_id = 0;
    std::string protocol = support::options().protocol;
};

// The origin. Made before the target's Node: it may fork.
class Origin {
 public:
    explicit Origin(Shown shown);

    support::Party& party() noexcept { return party_; }
    const std::string& uri();
    Bulk descriptor(const Node& node);
    // The origin's memory as of now.
    std::uint64_t memory_hash(const Node& node);
    // Waits for its regular end, which a case has to see.
    std::string end();

 private:
    support::Party party_;
    std::string uri_;
};

}  // namespace test
