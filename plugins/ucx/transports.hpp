// SPDX-License-Identifier: BSD-3-Clause
// The names of protocols, and the transports of UCX that this machine has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "na/plugin.hpp"

namespace na::ucx {

// One transport on one device.
struct Transport {
    std::string name;  // UCX's: "tcp", "rc_mlx5", "posix"
    std::string device;
    // What ucp_config_modify() calls settings of it, which differs between versions of UCX; empty:
    // it has none.
    std::string errors_key;   // UCX_<NAME>_ERROR_HANDLING
    std::string family_key;   // UCX_<NAME>_AF_PRIO
    std::string gather_key;   // UCX_<NAME>_MAX_IOV
    std::string segment_key;  // UCX_<NAME>_TX_SEG_SIZE
};

// As UCX's variables name a transport.
std::string upper(std::string name);

// What UCX finds here; asks it once.
const std::vector<Transport>& transports_here();

// "all", or UCX's names of transports and groups of them, comma-separated: "tcp", "rc,ud", "shm",
// "rc_mlx5". What UCX of this machine has counts as known, and the usual groups do.
bool known_protocol(std::string_view protocol);

// A protocol's transports that are here, of those that can carry messages.
std::vector<Transport> transports_of(std::string_view protocol);

// Whether a transport of this machine belongs to both protocols.
bool meet(std::string_view protocol, std::string_view other);

// Protocols that can be opened here, with the device each would use.
std::vector<plugin::ProtocolInfo> list_protocols();

// Whether hardware checks the keys of every put and get over whatever a protocol may use.
bool checks_keys(std::string_view protocol);

// Whether a protocol reaches this machine only.
bool is_local(std::string_view protocol);

}  // namespace na::ucx
