// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/providers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>

using na::ofi::providers;
using na::ofi::usual_name;

TEST_CASE("Mercury's other names stand for protocols that there are") {
    CHECK(usual_name("tcp_rxm") == "tcp;ofi_rxm");
    CHECK(usual_name("tcp_exp") == "tcp");
    CHECK(usual_name("sm") == "shm");
    for (const std::string_view other : {"tcp_rxm", "tcp_exp", "sm"}) {
        const auto rows = providers();
        CHECK(std::any_of(rows.begin(), rows.end(), [&](const na::ofi::Provider& p) {
            return p.protocol == usual_name(other);
        }));
        CHECK(std::none_of(rows.begin(), rows.end(),
                           [&](const na::ofi::Provider& p) { return p.protocol == other; }));
    }
    for (const std::string_view usual : {"tcp", "tcp;ofi_rxm", "shm", "", "tcp_rxm2"}) {
        CHECK(usual_name(usual) == usual);
    }
}
