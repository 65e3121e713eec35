// SPDX-License-Identifier: BSD-3-Clause
// The endpoint that puts and gets leave by, where the provider answers one that the target refuses
// by closing the connection (Provider::closes_on_refusal). Messages have a connection of their own
// then, which stays. Peers send nothing to this endpoint. It reports to the completion queue of the
// context's endpoint.
#pragma once

#include <memory>
#include <string_view>

#include "plugins/ofi/endpoint.hpp"
#include "plugins/ofi/fabric.hpp"

namespace na::ofi {

class TransferEndpoint {
 public:
    // `source`: an address of this host with port 0, as libfabric has it. `cq` outlives it. Errors:
    // what libfabric says.
    static Result<std::unique_ptr<TransferEndpoint>> open(const EndpointSpec& spec, fid_cq& cq,
                                                          std::string_view source);

    fid_ep* ep() const noexcept { return ep_.get(); }
    fid_av* av() const noexcept { return av_.get(); }

 private:
    TransferEndpoint() = default;

    FabricAv av_;
    FabricEp ep_;  // closed first
};

}  // namespace na::ofi
