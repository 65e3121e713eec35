// SPDX-License-Identifier: BSD-3-Clause
// Registered memory: one registration per segment, and what a peer is told of it.
//
// A key is a number of up to 64 bits, or bytes of the provider (FI_MR_RAW), which the peer has its
// own provider turn into a number before it uses them. What is told begins with the form and the
// number of segments; per segment follow
//   numbers   length, address, key
//   raw       length, address, base of the registration, size of the key, key
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "na/plugin.hpp"
#include "na/util/bytes.hpp"
#include "plugins/ofi/fabric.hpp"

namespace na::ofi {

inline constexpr std::size_t kMaxSegments = 256;
// Longer keys are refused: a descriptor travels in messages, and comes from anybody.
inline constexpr std::size_t kMaxRawKey = 256;

// A peer's raw key, as a number that this domain takes. Gives it back.
class MappedKey {
 public:
    MappedKey(fid_domain* domain, std::uint64_t key) noexcept : domain_(domain), key_(key) {}
    MappedKey(MappedKey&& other) noexcept
        : domain_(std::exchange(other.domain_, nullptr)), key_(other.key_) {}
    MappedKey& operator=(MappedKey&&) = delete;
    ~MappedKey() {
        if (domain_ != nullptr) {
            fi_mr_unmap_key(domain_, key_);
        }
    }

 private:
    fid_domain* domain_;
    std::uint64_t key_;
};

class Region final : public plugin::Region {
 public:
    struct Part {
        std::uint64_t length = 0;
        std::uint64_t start = 0;  // sum of the lengths before
        std::uint64_t address =
            0;  // remote: what the provider wants as address of the first byte; local: the pointer
        std::uint64_t key = 0;       // remote and local
        void* descriptor = nullptr;  // local
        std::uint64_t told = 0;      // the address that peers are told
    };

    std::size_t encode(std::span<std::byte> out) const override;

    bool host() const noexcept { return host_; }

    // The part that holds byte `offset` of the region, which exists.
    const Part& at(std::uint64_t offset) const noexcept;

 private:
    friend class Registrar;
    struct RawKey {
        std::uint64_t base = 0;
        std::vector<std::uint8_t> bytes;
    };

    std::vector<FabricMr> registrations_;  // local
    std::vector<RawKey> raw_keys_;         // FI_MR_RAW: one per part
    std::vector<MappedKey> mapped_;        // remote, FI_MR_RAW
    std::vector<Part> parts_;
    bool host_ = true;
};

// Registers with a domain; any thread.
class Registrar {
 public:
    void open(fid_domain* domain, const fi_info& info) noexcept;
    // What the user's memory is bound to where the provider wants it (FI_MR_ENDPOINT). null: it is
    // about to close, after which memory is refused.
    void bind_to(fid_ep* endpoint) noexcept {
        const std::lock_guard guard(binding_);
        endpoint_ = endpoint;
    }

    Result<std::unique_ptr<plugin::Region>> make(std::span<const Segment> segments, Access access,
                                                 MemoryKind kind, std::uint64_t device) const;
    // The inverse of Region::encode: checks what came from anybody, but for the bytes of raw keys,
    // which mean something to the provider only.
    Result<std::unique_ptr<plugin::Region>> decode(std::span<const std::byte> in,
                                                   std::uint64_t length) const;
    // For the plugin's own buffers, those of one endpoint: null where the provider needs no
    // registration of local memory.
    Result<FabricMr> local(void* memory, std::size_t bytes, fid_ep& endpoint) const;
    // Whether libfabric can register memory of any device. Some providers say so (FI_HMEM) whatever
    // libfabric was built with: a page of the host's is offered as each kind to find out.
    bool knows_a_device() const noexcept;
    bool local_needed() const noexcept { return (mode_ & FI_MR_LOCAL) != 0; }

 private:
    Result<FabricMr> register_one(void* memory, std::size_t bytes, std::uint64_t access,
                                  MemoryKind kind, std::uint64_t device, fid_ep* endpoint) const;
    bool raw() const noexcept { return (mode_ & FI_MR_RAW) != 0; }
    Result<Region::RawKey> raw_key(fid_mr& mr) const;
    Error read_key(util::ByteReader& r, Region& region, Region::Part& part) const;

    fid_domain* domain_ = nullptr;
    mutable std::mutex binding_;
    fid_ep* endpoint_ = nullptr;
    int mode_ = 0;
    std::size_t key_bits_ = 64;
    std::size_t key_bytes_ = 0;  // of raw keys, at most
};

}  // namespace na::ofi
