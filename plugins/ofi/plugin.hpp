// SPDX-License-Identifier: BSD-3-Clause
// Fabrics and networks through libfabric: class "ofi"; plugins/ofi/README.md explains it.
#pragma once

#include "na/plugin.hpp"

namespace na::ofi {

extern const na::plugin::Entry ofi_entry;

}  // namespace na::ofi
