// SPDX-License-Identifier: BSD-3-Clause
// What UCX is asked for: the info string's wishes, and the user's UCX_* variables, which win.
#pragma once

#include "na/plugin.hpp"
#include "na/util/ip.hpp"
#include "plugins/ucx/library.hpp"

namespace na::ucx {

struct Settings {
    util::IpChoice ip;    // of the bootstrap ports
    bool native = false;  // puts and gets are UCX's own, where the other side's are as well
    // UCX's own mind which memory is a device's. Where they do not, the processor would copy it,
    // and the process (the target's, too) end.
    bool minds_devices = false;
    UcpConfig config;
};

// Errors name what was asked for, what there is, and what to do.
Result<Settings> settle(const plugin::OpenSpec& spec);

// "UCX_TLS=tcp, UCX_NET_DEVICES=eth0": what the environment says to UCX; empty: nothing.
std::string users_variables();

}  // namespace na::ucx
