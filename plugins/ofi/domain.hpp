// SPDX-License-Identifier: BSD-3-Clause
// An open class: one libfabric domain, one endpoint per context, all listening from the start.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/domain.hpp"
#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/memory.hpp"

namespace na::ofi {

class Domain final : public session::Domain {
 public:
    ~Domain() override;
    static Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec);

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
    const Registrar& registrar() const noexcept { return registrar_; }
    void context_closes(std::uint8_t id) noexcept {
        if (id == 0) {
            registrar_.bind_to(nullptr);
        }
    }
    fid_fabric* fabric() const noexcept { return base_->fabric.get(); }
    std::shared_ptr<void> base() const noexcept { return base_; }
    bool delivery_complete() const noexcept { return choice_.delivery_complete; }
    util::IpAddress bind_address() const noexcept { return choice_.ip.bind_address(); }

 private:
    Domain(const plugin::OpenSpec& spec, Choice choice);
    std::string foreign(std::string_view scheme) const override;
    Error open_endpoints(const plugin::OpenSpec& spec);
    Error open_in_row();
    Error open_named();
    void forget_spots() const noexcept;
    Result<Address> open_all();
    EndpointSpec endpoint_spec() const noexcept;
    std::string source_of(std::uint8_t id, std::uint16_t port) const;
    Error at_place(Error error, std::uint16_t port) const;
    Result<Address> add_endpoint(std::string_view source);

    // What endpoints are made of.
    struct Base {
        Fabric fabric;
        FabricDomain domain;
    };

    const bool listens_;
    Choice choice_;
    const std::shared_ptr<Base> base_ = std::make_shared<Base>();
    Registrar registrar_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Endpoint>>
        endpoints_;  // by context id; null: a context has it, or had it
};

}  // namespace na::ofi
