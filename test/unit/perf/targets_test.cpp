// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf/targets.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace perf;

using Places = std::vector<std::size_t>;

TEST_CASE("handles go to the addresses in turn, each client beginning at its own") {
    Options o;
    o.handles = 4;
    CHECK(targets_of(o, 0, 0, 1) == Places{0});
    CHECK(targets_of(o, 0, 0, 2) == Places{0, 1});
    CHECK(targets_of(o, 0, 0, 8) == Places{0, 1, 2, 3});

    o.clients = 2;
    CHECK(targets_of(o, 0, 0, 3) == Places{0, 2, 1});
    CHECK(targets_of(o, 1, 0, 3) == Places{1, 0, 2});
    // As many clients as addresses: each has one.
    CHECK(targets_of(o, 1, 0, 2) == Places{1});

    // So has each class.
    o.clients = 1;
    o.classes = 2;
    CHECK(targets_of(o, 0, 0, 2) == Places{0});
    CHECK(targets_of(o, 0, 1, 2) == Places{1});
    CHECK(targets_of(o, 0, 1, 4) == Places{1, 3});
}
