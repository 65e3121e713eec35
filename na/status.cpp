// SPDX-License-Identifier: BSD-3-Clause
#include "na/status.hpp"

#include <cerrno>

#include "na/result.hpp"

namespace na {

const char* to_string(Status status) noexcept {
    switch (status) {
        case Status::success:
            return "success";
        case Status::permission:
            return "operation not permitted";
        case Status::noentry:
            return "no such entry";
        case Status::interrupt:
            return "interrupted";
        case Status::again:
            return "resources short, try again";
        case Status::nomem:
            return "out of memory";
        case Status::access:
            return "access denied";
        case Status::fault:
            return "bad address";
        case Status::busy:
            return "busy";
        case Status::exist:
            return "exists already";
        case Status::nodev:
            return "no such device";
        case Status::invalid_arg:
            return "invalid argument";
        case Status::protocol_error:
            return "protocol error";
        case Status::overflow:
            return "does not fit";
        case Status::msgsize:
            return "message too long";
        case Status::protonosupport:
            return "protocol not supported";
        case Status::opnotsupported:
            return "operation not supported";
        case Status::addrinuse:
            return "address in use";
        case Status::addrnotavail:
            return "address not available";
        case Status::hostunreach:
            return "peer unreachable";
        case Status::timeout:
            return "timed out";
        case Status::canceled:
            return "canceled";
        case Status::io_error:
            return "input/output error";
        case Status::hostfirewall:
            return "peer behind a firewall";
        case Status::checksum_error:
            return "checksum mismatch";
        case Status::na_error:
            return "network layer error";
        case Status::other_error:
            return "unspecified error";
    }
    return "unknown status";
}

Status status_of_errno(int error) noexcept {
    switch (error) {
        case 0:
            return Status::success;
        case EPERM:
            return Status::permission;
        case ENOENT:
            return Status::noentry;
        case EINTR:
            return Status::interrupt;
        case EAGAIN:
            return Status::again;
        case ENOMEM:
        case ENOBUFS:
        case EMFILE:
        case ENFILE:
        case EFBIG:  // a segment beyond RLIMIT_FSIZE
        case ENOSPC:
            return Status::nomem;
        case EACCES:
            return Status::access;
        case EFAULT:
            return Status::fault;
        case EBUSY:
            return Status::busy;
        case EEXIST:
            return Status::exist;
        case ENODEV:
            return Status::nodev;
        case EINVAL:
            return Status::invalid_arg;
        case EPROTO:
            return Status::protocol_error;
        case EOVERFLOW:
            return Status::overflow;
        case EMSGSIZE:
            return Status::msgsize;
        case EPROTONOSUPPORT:
            return Status::protonosupport;
        case EOPNOTSUPP:
        case ENOSYS:
            return Status::opnotsupported;
        case EADDRINUSE:
            return Status::addrinuse;
        case EADDRNOTAVAIL:
            return Status::addrnotavail;
        case ESRCH:
        case EPIPE:
        case ECONNREFUSED:
        case ECONNRESET:
        case ECONNABORTED:
        case ENOTCONN:
        case ENETUNREACH:
        case EHOSTUNREACH:
            return Status::hostunreach;
        case ETIMEDOUT:
            return Status::timeout;
        case ECANCELED:
            return Status::canceled;
        default:
            return Status::io_error;
    }
}

std::string Error::text() const {
    const std::string code = to_string(status);
    return message.empty() ? code : code + ": " + message;
}

Failure::Failure(const Error& error) : std::runtime_error(error.text()), status_(error.status) {}
Failure::~Failure() = default;

void fail(const Error& error) {
    throw Failure(error);
}

void check(Status status, const char* doing) {
    if (!ok(status)) {
        fail(Error{status, doing == nullptr ? "" : doing});
    }
}

}  // namespace na
