// SPDX-License-Identifier: BSD-3-Clause
// Plugin modules: where they are, and how one is loaded and checked.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "na/plugin.hpp"

namespace na {

// Full paths of the modules of NA_PLUGIN_PATH, in its order, then of the installed folder:
// `cinnabar` beside the library, or where it was configured to be. In a privileged process
// NA_PLUGIN_PATH does not count, and the variables of the libraries beneath are removed from the
// environment (config.hpp).
std::vector<std::string> plugin_modules();

// Whether a file is named `libna_plugin_<class_name>.so`.
bool named_for(std::string_view file, std::string_view class_name) noexcept;

// Loads a module for good. Refuses one without `na_plugin_entry`, with another ABI, or that cannot
// be linked; says why.
Result<std::unique_ptr<plugin::Plugin>> load_plugin(const std::string& file);

}  // namespace na
