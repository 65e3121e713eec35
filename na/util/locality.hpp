// SPDX-License-Identifier: BSD-3-Clause
// Which network device is close to the processors that this process may run on. With hwloc; without
// it all are alike.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace na::util {

// "0000:3b:00.0", as the system names devices at a bus.
std::string pci_name(unsigned domain, unsigned bus, unsigned device, unsigned function);

// For each device, by its name in the system ("eth0", "mlx5_0", "cxi0") or at its bus: how many
// levels of the machine (memory node, package, group) one has to go up from it to meet a processor
// of this process. What bundles devices (bonds, VLANs, bridges) is as near as the nearest of these,
// what is no device (tunnels, veth) is farther than all that are. All 0 if hwloc was not there at
// build time, or if there is nothing to choose: the machine is explored, which takes milliseconds,
// for two devices or more.
std::vector<unsigned> device_distances(std::span<const std::string> devices);

// Whether hwloc was there at build time.
bool knows_locality() noexcept;

}  // namespace na::util
