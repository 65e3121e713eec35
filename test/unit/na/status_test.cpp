// SPDX-License-Identifier: BSD-3-Clause
#include "na/status.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <set>
#include <string>

#include "na.h"
#include "na/plugin.hpp"
#include "na/result.hpp"

using na::Status;

TEST_CASE("codes of the core are those of the C API", "[status]") {
    CHECK(static_cast<int>(Status::success) == NA_SUCCESS);
    CHECK(static_cast<int>(Status::again) == NA_AGAIN);
    CHECK(static_cast<int>(Status::busy) == NA_BUSY);
    CHECK(static_cast<int>(Status::invalid_arg) == NA_INVALID_ARG);
    CHECK(static_cast<int>(Status::overflow) == NA_OVERFLOW);
    CHECK(static_cast<int>(Status::msgsize) == NA_MSGSIZE);
    CHECK(static_cast<int>(Status::hostunreach) == NA_HOSTUNREACH);
    CHECK(static_cast<int>(Status::canceled) == NA_CANCELED);
    CHECK(static_cast<int>(Status::hostfirewall) == NA_HOSTFIREWALL);
    CHECK(static_cast<int>(na::OpKind::send_unexpected) == NA_CB_SEND_UNEXPECTED);
    CHECK(static_cast<int>(na::OpKind::multi_recv_unexpected) == NA_CB_MULTI_RECV_UNEXPECTED);
    CHECK(static_cast<int>(na::OpKind::get) == NA_CB_GET);
    CHECK(sizeof(na::Segment) == sizeof(na_segment));
    std::set<std::string> texts;
    for (int i = 0; i <= static_cast<int>(Status::other_error); ++i) {
        CHECK(texts.insert(na::to_string(static_cast<Status>(i))).second);
    }
    CHECK(std::string(na::to_string(static_cast<Status>(200))) == "unknown status");
}

TEST_CASE("system errors become codes", "[status]") {
    CHECK(na::status_of_errno(0) == Status::success);
    CHECK(na::status_of_errno(ECONNREFUSED) == Status::hostunreach);
    CHECK(na::status_of_errno(ESRCH) == Status::hostunreach);
    CHECK(na::status_of_errno(EMFILE) == Status::nomem);
    CHECK(na::status_of_errno(EACCES) == Status::access);
    CHECK(na::status_of_errno(123456) == Status::io_error);
}

TEST_CASE("a result is a value or an error", "[status]") {
    na::Result<int> good = 5;
    REQUIRE(good);
    CHECK(*good == 5);
    CHECK(good.status() == Status::success);
    na::Result<std::string> bad = na::Error{Status::nodev, "why"};
    REQUIRE_FALSE(bad);
    CHECK(bad.status() == Status::nodev);
    CHECK(bad.error().message == "why");
}
