// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/fabric.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace na::ofi {

Status status_of(long fi_error) noexcept {
    const long e = std::labs(fi_error);
    switch (e) {
        case 0:
            return Status::success;
        case FI_EAGAIN:
            return Status::again;
        case FI_ETOOSMALL:
        case FI_ETRUNC:
            return Status::msgsize;
        case FI_ENOKEY:
            return Status::exist;
        case FI_ENODATA:
            return Status::protonosupport;
        case FI_ENOAV:
            return Status::addrnotavail;
        case FI_EKEYREJECTED:
        case FI_EACCES:
        case FI_EPERM:
            return Status::permission;
        case FI_EOPNOTSUPP:
        case FI_ENOSYS:
            return Status::opnotsupported;
        default:
            break;
    }
    return status_of_errno(static_cast<int>(e));
}

Status status_with_peer(long fi_error) noexcept {
    return means_lost(static_cast<int>(std::labs(fi_error))) ? Status::hostunreach
                                                             : status_of(fi_error);
}

Error failure(long fi_error, std::string_view doing) {
    const Status status = status_of(fi_error);
    // Of these the provider alone knows the cause.
    const bool vague = status == Status::io_error || status == Status::noentry;
    return Error{
        status,
        fmt::format(
            "cannot {}: {}{}", doing, fi_strerror(static_cast<int>(std::labs(fi_error))),
            vague ? "; with FI_LOG_LEVEL=warn in the environment libfabric says more" : "")};
}

bool means_lost(int fi_error) noexcept {
    switch (fi_error) {
        case FI_ECONNREFUSED:
        case FI_ECONNRESET:
        case FI_ECONNABORTED:
        case FI_ENOTCONN:
        case FI_ESHUTDOWN:
        case FI_EHOSTUNREACH:
        case FI_EHOSTDOWN:
        case FI_ENETUNREACH:
        case FI_ENETDOWN:
        case FI_ETIMEDOUT:
        case EPIPE:
        // Nobody here cancels what the provider has: canceled means that it gave the connection up.
        case FI_ECANCELED:
        // What some providers say of connections that broke or could not be made.
        case FI_EIO:
        case FI_ENOENT:
            return true;
        default:
            return false;
    }
}

}  // namespace na::ofi
