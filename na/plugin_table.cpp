// SPDX-License-Identifier: BSD-3-Clause
#include "na/plugin_table.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <set>

#include <fmt/format.h>

#include "na/plugin_loader.hpp"
#include "na/util/log.hpp"
#ifdef CINNABAR_HAS_SM
#include "plugins/sm/plugin.hpp"
#endif
#ifdef CINNABAR_HAS_OFI
#include "plugins/ofi/plugin.hpp"
#endif
#ifdef CINNABAR_HAS_UCX
#include "plugins/ucx/plugin.hpp"
#endif

namespace na {
namespace {

// The built-in transports, most preferred first.
constexpr const plugin::Entry* kBuiltIn[] = {
#ifdef CINNABAR_HAS_SM
    &sm::sm_entry,
#endif
#ifdef CINNABAR_HAS_OFI
    &ofi::ofi_entry,
#endif
#ifdef CINNABAR_HAS_UCX
    &ucx::ucx_entry,
#endif
    nullptr,
};

struct Loaded {
    std::unique_ptr<plugin::Plugin> plugin;
    std::string file;
};

struct Table {
    std::mutex mutex;
    std::vector<Loaded> plugins;
    std::vector<PluginFailure> failures;

    Table() {
        for (const plugin::Entry* entry : kBuiltIn) {
            if (entry != nullptr) {
                plugins.push_back({entry->create(), {}});
            }
        }
    }

    // New modules may have come with a changed NA_PLUGIN_PATH: each call looks again, each file is
    // loaded once.
    void load_modules() {
        failures.clear();
        for (const std::string& file : plugin_modules()) {
            const bool known = std::any_of(plugins.begin(), plugins.end(),
                                           [&](const Loaded& l) { return l.file == file; });
            if (known) {
                continue;
            }
            auto plugin = load_plugin(file);
            if (plugin) {
                plugins.push_back({std::move(*plugin), file});
            } else {
                failures.push_back({file, plugin.error().message});
            }
        }
    }
};

Table& table() {
    static Table& t = *new Table;  // never destroyed: modules stay loaded until the process ends
    return t;
}

std::string what_there_is(const Table& t) {
    std::string text;
    for (const Loaded& l : t.plugins) {
        std::set<std::string> said;  // a protocol is there once for each device
        for (const plugin::ProtocolInfo& p : l.plugin->protocols()) {
            if (said.insert(std::string(p.protocol)).second) {
                text += fmt::format("{}{}+{}", text.empty() ? "" : ", ", l.plugin->class_name(),
                                    p.protocol);
            }
        }
    }
    for (const PluginFailure& f : t.failures) {
        text += fmt::format("; {} could not be loaded: {}", f.file, f.why);
    }
    return text.empty() ? "no protocol at all" : text;
}

}  // namespace

Result<plugin::Plugin*> find_plugin(std::string_view class_name, std::string_view protocol) {
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    const auto search = [&]() -> plugin::Plugin* {
        for (const Loaded& l : t.plugins) {
            if (class_name.empty() ? l.plugin->accepts(protocol)
                                   : l.plugin->class_name() == class_name) {
                return l.plugin.get();
            }
        }
        return nullptr;
    };
    plugin::Plugin* found = search();
    if (found == nullptr) {
        t.load_modules();
        found = search();
    }
    if (found == nullptr || !found->accepts(protocol)) {
        return Error{Status::protonosupport,
                     fmt::format("no plugin for \"{}{}{}\"; available here: {}", class_name,
                                 class_name.empty() ? "" : "+", protocol, what_there_is(t))};
    }
    return found;
}

PluginList list_plugins() {
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.load_modules();
    PluginList list;
    for (const Loaded& l : t.plugins) {
        list.plugins.push_back(
            {std::string(l.plugin->class_name()), l.file, l.plugin->library(), l.plugin.get()});
    }
    list.failures = t.failures;
    return list;
}

namespace plugin {

void* Domain::allocate(std::size_t) {
    return nullptr;
}
void Domain::deallocate(void*, std::size_t) {}

bool Plugin::accepts(std::string_view protocol) {
    const auto list = protocols();
    return std::any_of(list.begin(), list.end(),
                       [&](const ProtocolInfo& p) { return p.protocol == protocol; });
}

}  // namespace plugin
}  // namespace na
