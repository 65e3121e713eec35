// SPDX-License-Identifier: BSD-3-Clause
// How log lines and error texts name an RPC: `"name" (0x1f)`, and `0x1f` where no name is known.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace hg {

// `name` is borrowed: the registration that owns it is in use meanwhile.
struct RpcName {
    std::uint64_t id = 0;
    std::string_view name;
};

// Whether the `n`th warning of a kind that peers can cause goes to the log: the first sixteen, then
// one each time that the number doubles.
constexpr bool worth_a_line(std::uint64_t n) noexcept {
    return n <= 16 || std::has_single_bit(n);
}

}  // namespace hg

template <>
struct fmt::formatter<hg::RpcName> : fmt::formatter<std::string_view> {
    template <typename Context>
    auto format(const hg::RpcName& rpc, Context& context) const {
        return rpc.name.empty() ? fmt::format_to(context.out(), "{:#x}", rpc.id)
                                : fmt::format_to(context.out(), "\"{}\" ({:#x})", rpc.name, rpc.id);
    }
};
