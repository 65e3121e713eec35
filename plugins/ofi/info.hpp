// SPDX-License-Identifier: BSD-3-Clause
// What is asked of libfabric, and the choice among its answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "na/plugin.hpp"
#include "na/session/address.hpp"
#include "plugins/ofi/fabric.hpp"
#include "plugins/ofi/providers.hpp"

namespace na::ofi {

using session::Address;

struct Choice {
    const Provider* provider = nullptr;
    Info info;
    util::IpChoice ip;  // Naming::ip
    std::string name;   // Naming::text
    NativeHost from;    // Naming::native
    bool delivery_complete = false;
    bool ordered = false;
    bool device_memory = false;
    bool keyed = false;          // the provider has taken InitInfo::auth_key
    bool traffic_class = false;  // and InitInfo::traffic_class
};

// The first provider of the protocol that has what is needed. Errors name what was asked for and
// what there is.
Result<Choice> choose(const plugin::OpenSpec& spec);

// The protocols of this machine, with the device each would use.
std::vector<plugin::ProtocolInfo> list_protocols();

// Whether a row with this protocol exists, installed or not.
bool known_protocol(std::string_view protocol) noexcept;

// "tcp is tcp;ofi_rxm": which provider stands behind a protocol that has several; empty: none is
// there.
std::string_view provider_of(std::string_view protocol);

// The source address of an endpoint, in place of what `info` has.
Status set_source(fi_info& info, std::string_view bytes) noexcept;

}  // namespace na::ofi
