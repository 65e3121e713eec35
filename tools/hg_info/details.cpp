// SPDX-License-Identifier: BSD-3-Clause
// What Mercury's tool does not show. It comes from the core, not from the C API, which has no words
// for it.
#include <fmt/format.h>
#if __has_include(<gnu/libc-version.h>)
#include <gnu/libc-version.h>
#endif
#include <mercury.h>
#include <na.h>
#include <sys/utsname.h>

#include <algorithm>

#include "na/core/class.hpp"
#include "na/plugin_table.hpp"
#include "na/util/config.hpp"
#include "tools/hg_info/report.hpp"

namespace info {
namespace {

Capabilities capabilities_of(const Protocol& protocol) {
    Capabilities c;
    c.class_name = protocol.class_name;
    c.protocol = protocol.protocol;
    const std::string name = protocol.class_name + "+" + protocol.protocol;
    {
        auto opened = na::Class::open(name, false, na::InitInfo{});
        if (!opened) {
            c.why_not = opened.error().message;
            return c;
        }
        na::Class& cls = **opened;
        const na::plugin::Caps& caps = cls.caps();
        c.max_unexpected = cls.max_message(na::Lane::unexpected);
        c.max_expected = cls.max_message(na::Lane::expected);
        c.headroom_unexpected = cls.headroom(na::Lane::unexpected);
        c.headroom_expected = cls.headroom(na::Lane::expected);
        c.max_segments = caps.max_segments;
        c.max_tag = caps.max_tag;
        c.ordered_unexpected = caps.ordered[static_cast<std::size_t>(na::Lane::unexpected)];
        c.ordered_expected = caps.ordered[static_cast<std::size_t>(na::Lane::expected)];
        c.multi_recv = caps.multi_recv;
        c.waitable = caps.waitable;
        c.looks = caps.looks;
        c.registers_messages = caps.register_messages;
        c.device_memory = caps.device_memory;
        c.delivery_complete = caps.rma_delivery_complete;
        constexpr std::size_t kPage = 4096;
        if (void* memory = cls.domain().allocate(kPage)) {
            c.own_allocator = true;
            cls.domain().deallocate(memory, kPage);
        }
    }
    if (hg_class_t* hg_class = HG_Init(name.c_str(), 0)) {
        c.rpc_input_eager = HG_Class_get_input_eager_size(hg_class);
        c.rpc_output_eager = HG_Class_get_output_eager_size(hg_class);
        HG_Finalize(hg_class);
    }
    return c;
}

std::vector<Library> versions() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;
    std::vector<Library> list = {{"cinnabar", CINNABAR_VERSION}};
    HG_Version_get(&major, &minor, &patch);
    list.push_back({"interface of mercury.h", fmt::format("{}.{}.{}", major, minor, patch)});
    NA_Version_get(&major, &minor, &patch);
    list.push_back({"interface of na.h", fmt::format("{}.{}.{}", major, minor, patch)});
    list.push_back({"plugin interface", std::to_string(na::plugin::kAbi)});
    list.push_back({"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                                       FMT_VERSION % 100)});
#ifdef __GLIBC__
    list.push_back({"C library", gnu_get_libc_version()});
#else
    list.push_back({"C library", "not GNU's"});
#endif
    struct utsname system = {};
    if (::uname(&system) == 0) {
        list.push_back(
            {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)});
    }
    return list;
}

std::vector<PluginState> plugins() {
    std::vector<PluginState> list;
    const na::PluginList table = na::list_plugins();
    for (const na::PluginInfo& p : table.plugins) {
        list.push_back({p.class_name, p.file.empty() ? "built in" : p.file, p.library, {}});
    }
    for (const na::PluginFailure& f : table.failures) {
        list.push_back({f.file, f.file, {}, f.why});
    }
    return list;
}

std::vector<EnvironmentVariable> environment() {
    std::vector<EnvironmentVariable> list;
    for (const na::config::Variable* v : na::config::all()) {
        EnvironmentVariable variable{v->name, {}, v->fallback, v->help};
        if (na::config::is_set(*v)) {
            variable.value = na::config::value(*v);
        }
        list.push_back(std::move(variable));
    }
    return list;
}

}  // namespace

Details gather_details(const std::vector<Protocol>& protocols) {
    Details details;
    for (const Protocol& p : protocols) {
        const bool seen = std::any_of(
            details.capabilities.begin(), details.capabilities.end(), [&](const Capabilities& c) {
                return c.class_name == p.class_name && c.protocol == p.protocol;
            });
        if (!seen) {
            details.capabilities.push_back(capabilities_of(p));
        }
    }
    details.versions = versions();
    details.plugins = plugins();
    details.environment = environment();
    return details;
}

}  // namespace info
