// SPDX-License-Identifier: BSD-3-Clause
// Registered memory: one registration per segment, and what a peer is told of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/ofi/fabric.hpp"

namespace na::ofi {

inline constexpr std::size_t kMaxSegments = 256;

class Region final : public plugin::Region {
 public:
    struct Part {
        std::uint64_t length = 0;
        std::uint64_t start = 0;  // sum of the lengths before
        std::uint64_t address =
            0;  // remote: what the provider wants as address of the first byte; local: the pointer
        std::uint64_t key = 0;       // remote and local
        void* descriptor = nullptr;  // local
        std::uint64_t told = 0;      // local: the address that peers are told
    };

    std::size_t encode(std::span<std::byte> out) const override;
    static Result<std::unique_ptr<plugin::Region>> decode(std::span<const std::byte> in,
                                                          std::uint64_t length);

    bool host() const noexcept { return host_; }

    // The part that holds byte `offset` of the region, which exists.
    const Part& at(std::uint64_t offset) const noexcept;

 private:
    friend class Registrar;
    std::vector<FabricMr> registrations_;  // local
    std::vector<Part> parts_;
    bool host_ = true;
};

// Registers with a domain; any thread.
class Registrar {
 public:
    // `endpoint`: what registrations are bound to where the provider wants it (FI_MR_ENDPOINT).
    void open(fid_domain* domain, const fi_info& info) noexcept;
    void bind_to(fid_ep* endpoint) noexcept { endpoint_ = endpoint; }

    Result<std::unique_ptr<plugin::Region>> make(std::span<const Segment> segments, Access access,
                                                 MemoryKind kind, std::uint64_t device) const;
    // For the plugin's own buffers: null where the provider needs no registration of local memory.
    Result<FabricMr> local(void* memory, std::size_t bytes) const;
    bool local_needed() const noexcept { return (mode_ & FI_MR_LOCAL) != 0; }

 private:
    Result<FabricMr> register_one(void* memory, std::size_t bytes, std::uint64_t access,
                                  MemoryKind kind, std::uint64_t device) const;

    fid_domain* domain_ = nullptr;
    fid_ep* endpoint_ = nullptr;
    int mode_ = 0;
    std::size_t key_bits_ = 64;
};

}  // namespace na::ofi
