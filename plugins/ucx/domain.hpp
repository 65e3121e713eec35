// SPDX-License-Identifier: BSD-3-Clause
// An open class: a context of UCX's, one bootstrap port per context of ours from the start.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/domain.hpp"
#include "plugins/ucx/bootstrap.hpp"
#include "plugins/ucx/library.hpp"
#include "plugins/ucx/memory.hpp"
#include "plugins/ucx/registrar.hpp"
#include "plugins/ucx/settings.hpp"

namespace na::ucx {

class Domain final : public session::Domain {
 public:
    static Result<std::unique_ptr<plugin::Domain>> open(const plugin::OpenSpec& spec);

    Result<std::unique_ptr<plugin::Region>> register_memory(std::span<const Segment> segments,
                                                            Access access, MemoryKind kind,
                                                            std::uint64_t device) override;
    Result<std::unique_ptr<plugin::Region>> decode_region(std::span<const std::byte> encoded,
                                                          std::uint64_t length) override;
    Result<std::unique_ptr<plugin::Context>> open_context(std::uint8_t id,
                                                          plugin::Sink& sink) override;

    // For contexts.
    ucp_context_h ucp() const noexcept { return ucp_.get(); }
    Gate& gate() noexcept { return gate_; }
    // Null: puts and gets are messages.
    Registrar* registrar() noexcept { return registrar_.get(); }

 private:
    Domain(const plugin::OpenSpec& spec, util::IpChoice ip);
    std::string foreign(std::string_view scheme) const override;
    Error listen();

    const util::IpChoice ip_;
    UcpContext ucp_;
    std::unique_ptr<Registrar> registrar_;
    Gate gate_;
    std::mutex mutex_;
    std::vector<BootstrapPort> ports_;  // by context id; closed: a context has it, or had it
};

}  // namespace na::ucx
