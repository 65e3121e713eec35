// SPDX-License-Identifier: BSD-3-Clause
// Clients that send arguments: of hg_rate, and of hg_bw for the bandwidth of large ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hg_side.hpp"

namespace perf {

std::unique_ptr<Client> open_args(const Options& options, const std::vector<std::string>& addresses,
                                  unsigned index);

}  // namespace perf
