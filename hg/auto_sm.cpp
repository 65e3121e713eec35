// SPDX-License-Identifier: BSD-3-Clause
#include "hg/auto_sm.hpp"

#include <fmt/format.h>

namespace hg {
namespace {

constexpr std::string_view kPrefix = "uid://";

}  // namespace

bool has_pair_prefix(std::string_view name) noexcept {
    return name.starts_with(kPrefix);
}

std::optional<PairName> parse_pair(std::string_view name) noexcept {
    if (!has_pair_prefix(name)) {
        return std::nullopt;
    }
    name.remove_prefix(kPrefix.size());
    const std::size_t first = name.find('#');
    if (first == 0 || first == std::string_view::npos) {
        return std::nullopt;
    }
    const std::size_t second = name.find('#', first + 1);
    if (second == std::string_view::npos || second == first + 1 || second + 1 == name.size()) {
        return std::nullopt;
    }
    return PairName{.host = name.substr(0, first),
                    .sm = name.substr(first + 1, second - first - 1),
                    .net = name.substr(second + 1)};
}

std::string format_pair(const PairName& pair) {
    return fmt::format("{}{}#{}#{}", kPrefix, pair.host, pair.sm, pair.net);
}

}  // namespace hg
