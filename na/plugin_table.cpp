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
    std::size_t built_in = 0;     // of `plugins`, the first
    std::vector<Loaded> plugins;  // then modules, in the order in which they were loaded
    std::vector<PluginFailure> failures;

    Table() {
        for (const plugin::Entry* entry : kBuiltIn) {
            if (entry != nullptr) {
                plugins.push_back({entry->create(), {}});
            }
        }
        built_in = plugins.size();
    }

    // The plugin of a module, which is loaded unless it is there already. Null: the module cannot
    // be used, and `failures` says why.
    plugin::Plugin* module(const std::string& file) {
        for (const Loaded& l : plugins) {
            if (l.file == file) {
                return l.plugin.get();
            }
        }
        std::erase_if(failures, [&](const PluginFailure& f) { return f.file == file; });
        auto plugin = load_plugin(file);
        if (!plugin) {
            failures.push_back({file, plugin.error().message});
            return nullptr;
        }
        plugins.push_back({std::move(*plugin), file});
        return plugins.back().plugin.get();
    }

    // Every call reads the folders again: NA_PLUGIN_PATH may have changed since.
    void load_all() {
        failures.clear();
        for (const std::string& file : plugin_modules()) {
            module(file);
        }
    }

    plugin::Plugin* of_class(std::string_view class_name) const {
        for (const Loaded& l : plugins) {
            if (l.plugin->class_name() == class_name) {
                return l.plugin.get();
            }
        }
        return nullptr;
    }

    // Loads the module that bears the name of the class. A module may bear another name: only where
    // none has the right one are all of them loaded.
    plugin::Plugin* load_class(std::string_view class_name) {
        plugin::Plugin* found = of_class(class_name);
        if (found != nullptr) {
            return found;
        }
        for (const std::string& file : plugin_modules()) {
            if (plugin::Plugin* p = named_for(file, class_name) ? module(file) : nullptr;
                p != nullptr && p->class_name() == class_name) {
                return p;
            }
        }
        load_all();
        return of_class(class_name);
    }

    // The first plugin that accepts the protocol: those built in, then modules in the order of
    // their folders, whatever was loaded before. Modules behind the first are not loaded.
    plugin::Plugin* load_protocol(std::string_view protocol) {
        for (std::size_t i = 0; i < built_in; ++i) {
            if (plugins[i].plugin->accepts(protocol)) {
                return plugins[i].plugin.get();
            }
        }
        for (const std::string& file : plugin_modules()) {
            if (plugin::Plugin* p = module(file); p != nullptr && p->accepts(protocol)) {
                return p;
            }
        }
        return nullptr;
    }
};

Table& table() {
    static Table& t = *new Table;  // never destroyed: modules stay loaded until the process ends
    return t;
}

// For what Mercury has had and recommends no more, or dropped: what takes its place.
std::string_view instead_of(std::string_view class_name, std::string_view protocol) {
    struct Row {
        std::string_view name;
        std::string_view instead;
    };
    constexpr Row kDeprecated[] = {
        {"mpi", "\"mpi\" is deprecated: use ofi or ucx over the network that MPI uses; "},
        {"bmi", "\"bmi\" is deprecated: use ofi+tcp; "},
        {"cci", "\"cci\" is deprecated: use ofi+tcp or ofi+verbs; "},
        {"psm", "\"psm\" is deprecated: use ofi+opx or ofi+verbs; "},
        {"psm2", "\"psm2\" is deprecated: use ofi+opx; "},
    };
    for (const Row& row : kDeprecated) {
        if (row.name == class_name || row.name == protocol) {
            return row.instead;
        }
    }
    return "";
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
    plugin::Plugin* found =
        class_name.empty() ? t.load_protocol(protocol) : t.load_class(class_name);
    if (found == nullptr || !found->accepts(protocol)) {
        t.load_all();  // the message lists everything that can be opened
        return Error{Status::protonosupport,
                     fmt::format("no plugin for \"{}{}{}\"; {}available here: {}", class_name,
                                 class_name.empty() ? "" : "+", protocol,
                                 instead_of(class_name, protocol), what_there_is(t))};
    }
    return found;
}

PluginList list_plugins() {
    Table& t = table();
    const std::lock_guard guard(t.mutex);
    t.load_all();
    PluginList list;
    const auto add = [&](const Loaded& l) {
        list.plugins.push_back(
            {std::string(l.plugin->class_name()), l.file, l.plugin->library(), l.plugin.get()});
    };
    std::for_each(t.plugins.begin(), t.plugins.begin() + static_cast<std::ptrdiff_t>(t.built_in),
                  add);
    for (const std::string& file : plugin_modules()) {
        for (const Loaded& l : t.plugins) {
            if (l.file == file) {
                add(l);
            }
        }
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
