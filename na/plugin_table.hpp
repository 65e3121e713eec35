// SPDX-License-Identifier: BSD-3-Clause
// The transports of this process: those built in, listed in one place, and those loaded from
// modules.
//
// Modules are files `libna_plugin_<name>.so` in the folders of NA_PLUGIN_PATH and in the installed
// plugin folder; each is loaded once and stays. A module is loaded when a class that needs it is
// opened: `libna_plugin_ucx.so` for `ucx+tcp`, no other. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "na/plugin.hpp"

namespace na {

// The plugin for `class_name`, or without one the first that accepts `protocol`. protonosupport:
// the message lists what there is, and why modules could not be loaded.
Result<plugin::Plugin*> find_plugin(std::string_view class_name, std::string_view protocol);

struct PluginInfo {
    std::string class_name;
    std::string file;     // empty: built in
    std::string library;  // version of the library beneath
    plugin::Plugin* plugin = nullptr;
};
// A module that is there but cannot be used.
struct PluginFailure {
    std::string file;
    std::string why;
};
struct PluginList {
    std::vector<PluginInfo> plugins;  // in order of preference
    std::vector<PluginFailure> failures;
};
PluginList list_plugins();

}  // namespace na
