// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/fabric.hpp"

#include <catch2/catch.hpp>
#include <utility>

using na::Status;
using na::ofi::failure;
using na::ofi::status_of;
using na::ofi::status_with_peer;

TEST_CASE("what fails without a peer is not called unreachable") {
    CHECK(status_of(-FI_EIO) == Status::io_error);
    CHECK(status_of(-FI_ENOENT) == Status::noentry);
    CHECK(status_of(-FI_ECANCELED) == Status::canceled);
    CHECK(status_of(-FI_ETIMEDOUT) == Status::timeout);
    CHECK(status_of(-FI_ENETDOWN) == Status::io_error);
    CHECK(status_of(-FI_ENODEV) == Status::nodev);
    CHECK(failure(-FI_EIO, "open something").status == Status::io_error);
}

TEST_CASE("what means that a peer is lost says so of operations on it") {
    for (const int lost : {FI_EIO, FI_ENOENT, FI_ECANCELED, FI_ETIMEDOUT, FI_ENETDOWN, FI_ESHUTDOWN,
                           FI_ECONNREFUSED, FI_EHOSTUNREACH}) {
        INFO(fi_strerror(lost));
        CHECK(status_with_peer(-lost) == Status::hostunreach);
        CHECK(status_with_peer(lost) == Status::hostunreach);
    }
}

TEST_CASE("other errors are the same with a peer and without") {
    const std::pair<int, Status> all[] = {
        {0, Status::success},
        {FI_EAGAIN, Status::again},
        {FI_ENOMEM, Status::nomem},
        {FI_ETRUNC, Status::msgsize},
        {FI_ENOKEY, Status::exist},
        {FI_EADDRINUSE, Status::addrinuse},
        {FI_EACCES, Status::permission},
        {FI_EINVAL, Status::invalid_arg},
        {FI_ENOSYS, Status::opnotsupported},
        {FI_EOTHER, Status::io_error},
    };
    for (const auto& [error, status] : all) {
        INFO(fi_strerror(error));
        CHECK(status_of(-error) == status);
        CHECK(status_with_peer(error) == status);
    }
}

TEST_CASE("what only the provider knows more of says where that is") {
    CHECK(failure(-FI_EIO, "open something").message ==
          "cannot open something: Input/output error; with FI_LOG_LEVEL=warn in the environment "
          "libfabric says more");
    CHECK(failure(-FI_EBUSY, "open something").message ==
          "cannot open something: Device or resource busy");
}
