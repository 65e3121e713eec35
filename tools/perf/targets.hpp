// SPDX-License-Identifier: BSD-3-Clause
// Where handles call when a host file has several addresses: of several classes, or of several
// servers.
#pragma once

#include <cstddef>
#include <vector>

#include "options.hpp"

namespace perf {

// The places in a list of `count` addresses that the handles of a context of this class go to, in
// turn, as those of Mercury's tools: handle i of rank r goes to (r + i * ranks) % count. A rank is
// a class of a client process. Without those that come again, or that no handle goes to.
inline std::vector<std::size_t> targets_of(const Options& options, unsigned client,
                                           unsigned number_of_class, std::size_t count) {
    const std::size_t rank = std::size_t{client} * options.classes + number_of_class;
    const std::size_t ranks = std::size_t{options.clients} * options.classes;
    std::vector<std::size_t> targets;
    for (std::size_t i = 0; i < options.handles; ++i) {
        const std::size_t next = (rank + i * ranks) % count;
        if (!targets.empty() && next == targets.front()) {
            break;
        }
        targets.push_back(next);
    }
    return targets;
}

}  // namespace perf
