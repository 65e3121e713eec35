// SPDX-License-Identifier: BSD-3-Clause
// The ucx plugin: class "ucx". Entry for the list of built-in plugins; a module exports its own.
#pragma once

#include "na/plugin.hpp"

namespace na::ucx {

extern const plugin::Entry ucx_entry;

}  // namespace na::ucx
