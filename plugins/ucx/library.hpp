// SPDX-License-Identifier: BSD-3-Clause
// Owners of UCX's objects, its error codes, and what differs between its versions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <ucp/api/ucp.h>

#include "na/result.hpp"

namespace na::ucx {

struct Destroy {
    void operator()(ucp_context_h context) const noexcept { ucp_cleanup(context); }
    void operator()(ucp_worker_h worker) const noexcept { ucp_worker_destroy(worker); }
    void operator()(ucp_config_t* config) const noexcept { ucp_config_release(config); }
};
using UcpContext = std::unique_ptr<ucp_context, Destroy>;
using UcpWorker = std::unique_ptr<ucp_worker, Destroy>;
using UcpConfig = std::unique_ptr<ucp_config_t, Destroy>;

// "1.13.1".
std::string version_text();
// Of the library that runs, which may be newer than the headers.
bool at_least(unsigned major, unsigned minor) noexcept;

// The code nearest to what UCX answered.
Status status_of(ucs_status_t status) noexcept;
// The same, with UCX's own words: "cannot <do>: <text>".
Error failure(ucs_status_t status, std::string_view doing);
// The peer, or the way to it, is gone: not a fault of one operation.
bool means_lost(ucs_status_t status) noexcept;

}  // namespace na::ucx
