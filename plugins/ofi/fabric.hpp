// SPDX-License-Identifier: BSD-3-Clause
// Owners of libfabric's objects, and its error codes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "na/result.hpp"

namespace na::ofi {

struct CloseFid {
    template <typename T>
    void operator()(T* object) const noexcept {
        fi_close(&object->fid);
    }
};
using Fabric = std::unique_ptr<fid_fabric, CloseFid>;
using FabricDomain = std::unique_ptr<fid_domain, CloseFid>;
using FabricEp = std::unique_ptr<fid_ep, CloseFid>;
using FabricCq = std::unique_ptr<fid_cq, CloseFid>;
using FabricAv = std::unique_ptr<fid_av, CloseFid>;
using FabricMr = std::unique_ptr<fid_mr, CloseFid>;

struct FreeInfo {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// The version of libfabric's interface that this is written for; what is used of it is there
// since 1.11.
inline constexpr std::uint32_t kApi = FI_VERSION(1, 11);

// The code nearest to what libfabric answered (negative or positive) where no peer is involved: to
// what opens, makes or registers something here.
Status status_of(long fi_error) noexcept;
// Of an operation on a peer: hostunreach for all that means_lost(), which says nothing of the kind
// elsewhere.
Status status_with_peer(long fi_error) noexcept;
// status_of(), with libfabric's own words: "cannot <do>: <text>".
Error failure(long fi_error, std::string_view doing);
// The peer, or the way to it, is gone: not a fault of one operation.
bool means_lost(int fi_error) noexcept;

}  // namespace na::ofi
