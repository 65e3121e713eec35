// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/transfer_endpoint.hpp"

#include <utility>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "na/util/tcp.hpp"

namespace na::ofi {

Result<std::unique_ptr<TransferEndpoint>> TransferEndpoint::open(const EndpointSpec& spec,
                                                                 fid_cq& cq,
                                                                 std::string_view source) {
    const Info info(fi_dupinfo(spec.choice->info.get()));
    if (info == nullptr || !ok(set_source(*info, source))) {
        return Error{Status::nomem, {}};
    }
    std::unique_ptr<TransferEndpoint> e(new TransferEndpoint());
    fid_ep* ep = nullptr;
    if (const int rc = fi_endpoint(spec.domain, info.get(), &ep, nullptr); rc != 0) {
        return failure(rc, "make an endpoint for transfers");
    }
    e->ep_.reset(ep);
    fi_av_attr attr{};
    attr.type = info->domain_attr->av_type;
    fid_av* av = nullptr;
    if (const int rc = fi_av_open(spec.domain, &attr, &av, nullptr); rc != 0) {
        return failure(rc, "make an address vector for transfers");
    }
    e->av_.reset(av);
    int rc = fi_ep_bind(ep, &av->fid, 0);
    if (rc == 0) {
        rc = fi_ep_bind(ep, &cq.fid, FI_TRANSMIT | FI_RECV);
    }
    if (rc == 0) {
        rc = fi_enable(ep);
    }
    if (rc != 0) {
        return failure(rc, "open an endpoint for transfers");
    }
    // Helper programs do not inherit the socket that listens.
    char name[Address::kMaxBytes] = {};
    std::size_t size = sizeof name;
    if (fi_getname(&ep->fid, name, &size) == 0) {
        if (const auto here = Address::from_raw(spec.choice->provider->naming, name, size)) {
            util::close_on_exec([&](const util::IpEndpoint& own, const util::IpEndpoint&) {
                return own.port == here->ip().port &&
                       (own.address == here->ip().address || own.address.is_any());
            });
        }
    }
    return e;
}

}  // namespace na::ofi
