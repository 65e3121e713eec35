// SPDX-License-Identifier: BSD-3-Clause
// An open class: one libfabric domain, one endpoint per context, all listening from the start.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/secret.hpp"
#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/memory.hpp"
#include "plugins/ofi/peer.hpp"

namespace na::ofi {

class Domain final : public plugin::Domain {
 public:
    ~Domain() override;
    static Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec);

    const plugin::Caps& caps() const noexcept override { return caps_; }
    std::string self_uri() const override { return protocol_ + "://" + address_.text(); }
    Result<std::unique_ptr<plugin::Peer>> connect(std::string_view uri) override;
    Result<std::unique_ptr<plugin::Peer>> decode_peer(std::span<const std::byte> identity) override;
    Result<std::unique_ptr<plugin::Region>> register_memory(std::span<const Segment> segments,
                                                            Access access, MemoryKind kind,
                                                            std::uint64_t device) override;
    Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                          std::uint64_t length) override;
    Result<std::unique_ptr<plugin::Context>> open_context(std::uint8_t id,
                                                          plugin::Sink& sink) override;

    // For contexts.
    const fi_info& info() const noexcept { return *choice_.info; }
    const Provider& provider() const noexcept { return *choice_.provider; }
    const Address& address() const noexcept { return address_; }
    const Registrar& registrar() const noexcept { return registrar_; }
    fid_fabric* fabric() const noexcept { return fabric_.get(); }
    const session::Secret& secret() const noexcept { return secret_; }
    bool delivery_complete() const noexcept { return choice_.delivery_complete; }
    bool no_block() const noexcept { return no_block_; }
    AddressFormat format() const noexcept { return format_; }
    std::uint8_t contexts() const noexcept { return static_cast<std::uint8_t>(contexts_); }
    // Bounded by what receivers keep for each peer.
    std::uint16_t window() const noexcept { return window_; }

 private:
    Domain(const plugin::OpenSpec& spec, Choice choice);
    Error open_endpoints(const plugin::OpenSpec& spec);
    Error open_named();
    Result<bool> listen(std::uint16_t port);
    EndpointSpec endpoint_spec() const noexcept;
    Result<std::unique_ptr<Endpoint>> listen_as(std::uint8_t id) const;

    const std::string protocol_;
    Choice choice_;
    const bool no_block_;
    AddressFormat format_ = AddressFormat::unspec;
    plugin::Caps caps_;
    std::uint16_t window_ = 0;
    session::Secret secret_;
    Fabric fabric_;
    FabricDomain domain_;
    Registrar registrar_;
    Address address_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Endpoint>>
        endpoints_;  // by context id; null: a context has it, or had it
    const std::size_t contexts_;
};

}  // namespace na::ofi
