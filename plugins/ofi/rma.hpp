// SPDX-License-Identifier: BSD-3-Clause
// A put or get on its way: lives in Op::scratch, zeroed once by the core.
#pragma once

#include <cstdint>

#include "na/plugin.hpp"
#include "na/util/intrusive_list.hpp"

namespace na::ofi {

struct Link;

struct Transfer {
    Op* op;
    Link* link;
    std::uint64_t posted;  // bytes with the provider, or done
    std::uint32_t pieces;  // with the provider
    Status status;
    bool stopped;         // post no more: it failed or was canceled
    bool direct;          // the provider works on the user's memory
    util::ListHook hook;  // those not wholly posted
};

}  // namespace na::ofi
