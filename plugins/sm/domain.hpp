// SPDX-License-Identifier: BSD-3-Clause
// An endpoint: its name, its limits, its registered memory. Connections belong to the contexts.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "plugins/sm/layout.hpp"
#include "plugins/sm/permits.hpp"
#include "plugins/sm/region.hpp"
#include "plugins/sm/shared_memory.hpp"

namespace na::sm {

// When this process uses cross-memory attach (NA_SM_CMA). Never towards another user: see
// rma_attach.cpp.
enum class Attaching : std::uint8_t {
    never,
    unprivileged,  // unless this process holds CAP_SYS_PTRACE
    always,        // the program trusts every process of its user
};

class Domain final : public plugin::Domain {
 public:
    static Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec);
    ~Domain() override;

    const plugin::Caps& caps() const noexcept override { return caps_; }
    std::string self_uri() const override;
    Result<std::unique_ptr<plugin::Peer>> connect(std::string_view uri) override;
    Result<std::unique_ptr<plugin::Peer>> decode_peer(std::span<const std::byte> identity) override;
    Result<std::unique_ptr<plugin::Region>> register_memory(std::span<const Segment> segments,
                                                            Access access, MemoryKind kind,
                                                            std::uint64_t device) override;
    Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                          std::uint64_t length) override;
    Result<std::unique_ptr<plugin::Context>> open_context(std::uint8_t id,
                                                          plugin::Sink& sink) override;
    void* allocate(std::size_t bytes) override;
    void deallocate(void* memory, std::size_t bytes) override;
    void retire(void* memory, std::size_t bytes) override;

    const std::string& name() const noexcept { return name_; }
    bool listens() const noexcept { return listens_; }
    // util::find_namespaces() when the domain was opened.
    std::uint32_t namespaces() const noexcept { return namespaces_; }
    bool sleepless() const noexcept { return sleepless_; }
    Attaching attaching() const noexcept { return attaching_; }
    // Whether processes of this user may be peers.
    bool allows_user(std::uint32_t uid) const noexcept;
    const Geometry& geometry() const noexcept { return geometry_; }
    RegionTable& regions() noexcept { return regions_; }
    Allocations& allocations() noexcept { return allocations_; }
    PermitTable& permits() noexcept { return permits_; }
    Random& random() noexcept { return random_; }

    // The listening socket of a context: that of context 0 exists from the start, so that peers can
    // connect before the context is there.
    Result<UniqueFd> take_listener(std::uint8_t context);

 private:
    explicit Domain(const plugin::OpenSpec& spec);
    Status take_name(const plugin::OpenSpec& spec, Error& error);
    std::unique_ptr<plugin::Peer> make_peer(std::string name) const;

    plugin::Caps caps_;
    const std::size_t contexts_;
    const bool listens_;
    const std::uint32_t namespaces_;
    const bool sleepless_;
    const Attaching attaching_;
    bool any_user_ = false;
    std::vector<std::uint32_t> users_;
    Geometry geometry_{};
    std::string name_;
    UniqueFd reservation_;
    std::mutex mutex_;
    UniqueFd first_listener_;  // guarded by mutex_
    Random random_;
    RegionTable regions_;
    PermitTable permits_;
    Allocations allocations_;
};

}  // namespace na::sm
