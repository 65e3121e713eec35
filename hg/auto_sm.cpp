// SPDX-License-Identifier: BSD-3-Clause
#include "hg/auto_sm.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <sys/stat.h>

namespace hg {
namespace {

constexpr std::string_view kPrefix = "uid://";

std::string boot_id() {
    std::string text;
    if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
        char buffer[64];
        const std::size_t n = std::fread(buffer, 1, sizeof buffer, file);
        std::fclose(file);
        for (std::size_t i = 0; i < n; ++i) {
            const char c = buffer[i];
            if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
                text.push_back(c);
            }
        }
    }
    return text;
}

std::string make_host_id() {
    struct stat ns {};
    const bool known = stat("/proc/self/ns/net", &ns) == 0;
    return fmt::format("{}n{:x}", boot_id(), known ? static_cast<std::uint64_t>(ns.st_ino) : 0);
}

}  // namespace

const std::string& host_id() {
    static const std::string id = make_host_id();
    return id;
}

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
