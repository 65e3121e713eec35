// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/library.hpp"

#include <fmt/format.h>

namespace na::ucx {

std::string version_text() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    return fmt::format("{}.{}.{}", major, minor, release);
}

bool at_least(unsigned major, unsigned minor) noexcept {
    unsigned m = 0;
    unsigned n = 0;
    unsigned release = 0;
    ucp_get_version(&m, &n, &release);
    return m > major || (m == major && n >= minor);
}

Status status_of(ucs_status_t status) noexcept {
    if (means_lost(status)) {
        return Status::hostunreach;
    }
    switch (status) {
        case UCS_OK:
            return Status::success;
        case UCS_ERR_NO_RESOURCE:
            return Status::again;
        case UCS_ERR_NO_MEMORY:
            return Status::nomem;
        case UCS_ERR_INVALID_PARAM:
            return Status::invalid_arg;
        case UCS_ERR_NO_DEVICE:
        case UCS_ERR_NO_ELEM:
            return Status::nodev;
        case UCS_ERR_UNSUPPORTED:
        case UCS_ERR_NOT_IMPLEMENTED:
            return Status::opnotsupported;
        case UCS_ERR_BUSY:
            return Status::busy;
        case UCS_ERR_CANCELED:
            return Status::canceled;
        case UCS_ERR_MESSAGE_TRUNCATED:
        case UCS_ERR_EXCEEDS_LIMIT:
            return Status::msgsize;
        default:
            return Status::io_error;
    }
}

Error failure(ucs_status_t status, std::string_view doing) {
    return Error{status_of(status), fmt::format("cannot {}: {}", doing, ucs_status_string(status))};
}

bool means_lost(ucs_status_t status) noexcept {
    switch (status) {
        case UCS_ERR_UNREACHABLE:
        case UCS_ERR_CONNECTION_RESET:
        case UCS_ERR_NOT_CONNECTED:
        case UCS_ERR_REJECTED:
        case UCS_ERR_ENDPOINT_TIMEOUT:
        case UCS_ERR_TIMED_OUT:
        case UCS_ERR_SHMEM_SEGMENT:  // of a process that is no more
        // Nobody here cancels what UCX has: canceled means that the endpoint was given up.
        case UCS_ERR_CANCELED:
            return true;
        default:
            return status <= UCS_ERR_FIRST_ENDPOINT_FAILURE &&
                   status >= UCS_ERR_LAST_ENDPOINT_FAILURE;
    }
}

}  // namespace na::ucx
