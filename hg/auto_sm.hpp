// SPDX-License-Identifier: BSD-3-Clause
// auto_sm: peers of the same host are reached by shared memory, others by the network, under one
// address.
//
// The name of such an address is "uid://<host>#<sm URI>#<network URI>". Every class understands it,
// with auto_sm or without.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "na/util/host.hpp"

namespace hg {

using na::util::host_id;

struct PairName {
    std::string_view host;
    std::string_view sm;
    std::string_view net;
};

// Null: not of this form (has_pair_prefix() tells whether it was meant to be).
std::optional<PairName> parse_pair(std::string_view name) noexcept;
bool has_pair_prefix(std::string_view name) noexcept;
std::string format_pair(const PairName& pair);

}  // namespace hg
