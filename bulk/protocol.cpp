// SPDX-License-Identifier: BSD-3-Clause
#include "bulk/protocol.hpp"

namespace bulk {
namespace {

// Large enough that posting costs nothing beside moving the bytes, small enough that pieces overlap
// and that a context that moves them itself gets back to its other work.
constexpr std::uint64_t kPiece = 1 << 20;
constexpr std::uint32_t kWindow = 8;
static_assert(kWindow <= kMaxWindow);

}  // namespace

Choice choose(const Facts& facts) noexcept {
    if (facts.size == 0) {
        return {.protocol = Protocol::nothing};
    }
    if (facts.copyable && facts.origin_is_local) {
        return {.protocol = Protocol::local_copy};
    }
    if (facts.copyable && facts.origin_has_contents && facts.direction == Direction::pull) {
        return {.protocol = Protocol::eager_copy};
    }
    for (const Rail rail : {Rail::sm, Rail::net}) {
        if (facts.reachable[index(rail)]) {
            return {.protocol = Protocol::rma, .rail = rail, .piece = kPiece, .window = kWindow};
        }
    }
    return {.protocol = Protocol::unreachable};
}

}  // namespace bulk
