// SPDX-License-Identifier: BSD-3-Clause
// Shared memory between processes of one machine: class "na", protocol "sm". Built in;
// plugins/sm/README.md explains it.
#pragma once

#include "na/plugin.hpp"

namespace na::sm {

extern const na::plugin::Entry sm_entry;

}  // namespace na::sm
