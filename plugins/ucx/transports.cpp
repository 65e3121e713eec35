// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/transports.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include <uct/api/uct.h>

#include "na/session/local.hpp"

namespace na::ucx {
namespace {

// UCX's groups. Its own list is no part of its interface.
struct Group {
    std::string_view name;
    std::vector<std::string_view> transports;
    bool local = false;
};

const std::vector<Group>& groups() {
    static const std::vector<Group>& all = *new std::vector<Group>{
        // never destroyed, as below
        {"rc", {"rc_mlx5", "rc_verbs"}},
        {"rc_v", {"rc_verbs"}},
        {"rc_x", {"rc_mlx5"}},
        {"ud", {"ud_mlx5", "ud_verbs"}},
        {"ud_v", {"ud_verbs"}},
        {"ud_x", {"ud_mlx5"}},
        {"dc", {"dc_mlx5"}},
        {"dc_x", {"dc_mlx5"}},
        {"ib", {"rc_mlx5", "dc_mlx5", "ud_mlx5", "rc_verbs", "ud_verbs"}},
        {"ugni", {"ugni_smsg", "ugni_udt", "ugni_rdma"}},
        {"shm", {"posix", "sysv", "xpmem", "knem", "cma"}, true},
        {"sm", {"posix", "sysv", "xpmem", "knem", "cma"}, true},
        {"mm", {"posix", "sysv", "xpmem"}, true},
    };
    return all;
}

// Whose remote memory access is done by hardware that looks at keys and ranges. (ud has none, and
// UCX makes it of messages; so it does over tcp and in shared memory.)
constexpr std::string_view kChecksKeys[] = {"rc_verbs", "rc_mlx5", "dc_mlx5"};

// What is listed, most preferred first.
constexpr std::string_view kListed[] = {"rc", "dc", "ud", "ugni", "tcp", "shm"};

// Those that move bulk data only, or reach nobody else.
bool carries_messages(std::string_view transport) noexcept {
    constexpr std::string_view kNot[] = {
        "self",     "cma",      "knem",    "cuda_copy", "cuda_ipc", "gdr_copy", "rocm_copy",
        "rocm_ipc", "rocm_gdr", "ze_copy", "ze_ipc",    "gga_mlx5", "srd"};
    return std::find(std::begin(kNot), std::end(kNot), transport) == std::end(kNot);
}

template <typename Each>
void each_member(std::string_view protocol, Each&& each) {
    for (std::size_t from = 0; from <= protocol.size();) {
        const std::size_t to = std::min(protocol.find(',', from), protocol.size());
        each(protocol.substr(from, to - from));
        from = to + 1;
    }
}

bool covers(std::string_view member, std::string_view transport) {
    if (member == "all" || member == transport) {
        return true;
    }
    for (const Group& g : groups()) {
        if (g.name == member) {
            return std::find(g.transports.begin(), g.transports.end(), transport) !=
                   g.transports.end();
        }
    }
    return false;
}

// With the transport's name in front, as newer versions have it; with that of the table of settings
// that it shares with others (1.13), or alone.
std::string key_of(void* config, const std::string& transport, const char* setting,
                   const char* value) {
    for (const std::string& key :
         {upper(transport) + "_" + setting, std::string("MM_") + setting, std::string(setting)}) {
        if (uct_config_modify(config, key.c_str(), value) == UCS_OK) {
            return key;
        }
    }
    return {};
}

Transport transport_of(uct_md_h domain, const uct_tl_resource_desc_t& r, std::string family_key) {
    Transport t;
    t.name = r.tl_name;
    t.device = r.dev_name;
    t.family_key = std::move(family_key);
    uct_iface_config_t* config = nullptr;
    if (uct_md_iface_config_read(domain, r.tl_name, nullptr, nullptr, &config) == UCS_OK) {
        t.errors_key = key_of(config, t.name, "ERROR_HANDLING", "y");
        t.gather_key = key_of(config, t.name, "MAX_IOV", "0");
        t.segment_key = key_of(config, t.name, "TX_SEG_SIZE", "8kb");
        uct_config_release(config);
    }
    return t;
}

void query_domain(uct_component_h component, const char* name, std::vector<Transport>& found) {
    uct_md_config_t* config = nullptr;
    if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) {
        return;
    }
    uct_md_h domain = nullptr;
    const std::string family_key = key_of(config, name, "AF_PRIO", "inet,inet6");
    const ucs_status_t opened = uct_md_open(component, name, config, &domain);
    uct_config_release(config);
    if (opened != UCS_OK) {
        return;
    }
    uct_tl_resource_desc_t* list = nullptr;
    unsigned count = 0;
    if (uct_md_query_tl_resources(domain, &list, &count) == UCS_OK) {
        for (const uct_tl_resource_desc_t& r : std::span(list, count)) {
            found.push_back(transport_of(domain, r, family_key));
        }
        uct_release_tl_resource_list(list);
    }
    uct_md_close(domain);
}

std::vector<Transport> query() {
    std::vector<Transport> found;
    uct_component_h* components = nullptr;
    unsigned count = 0;
    if (uct_query_components(&components, &count) != UCS_OK) {
        return found;
    }
    for (uct_component_h component : std::span(components, count)) {
        uct_component_attr_t attr{};
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        if (uct_component_query(component, &attr) != UCS_OK || attr.md_resource_count == 0) {
            continue;
        }
        std::vector<uct_md_resource_desc_t> domains(attr.md_resource_count);
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attr.md_resources = domains.data();
        if (uct_component_query(component, &attr) != UCS_OK) {
            continue;
        }
        for (const uct_md_resource_desc_t& d : domains) {
            query_domain(component, d.md_name, found);
        }
    }
    uct_release_component_list(components);
    return found;
}

}  // namespace

std::string upper(std::string text) {
    for (char& c : text) {
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    return text;
}

const std::vector<Transport>& transports_here() {
    // Never destroyed: classes may be opened while the process ends.
    static const std::vector<Transport>& found = *new std::vector<Transport>(query());
    return found;
}

bool known_protocol(std::string_view protocol) {
    bool known = true;
    each_member(protocol, [&](std::string_view member) {
        const bool group = std::any_of(groups().begin(), groups().end(),
                                       [&](const Group& g) { return g.name == member; });
        known = known && (member == "all" || member == "tcp" || group ||
                          std::any_of(transports_here().begin(), transports_here().end(),
                                      [&](const Transport& t) { return t.name == member; }));
    });
    return known;
}

std::vector<Transport> transports_of(std::string_view protocol) {
    std::vector<Transport> list;
    for (const Transport& t : transports_here()) {
        bool wanted = false;
        each_member(protocol,
                    [&](std::string_view member) { wanted = wanted || covers(member, t.name); });
        // Shared memory that cannot report errors (1.10 has such) is none for our endpoints.
        const bool reports = !is_local(t.name) || !t.errors_key.empty();
        if (wanted && reports && carries_messages(t.name)) {
            list.push_back(t);
        }
    }
    return list;
}

bool meet(std::string_view protocol, std::string_view other) {
    const std::vector<Transport> ours = transports_of(protocol);
    bool common = false;
    each_member(other, [&](std::string_view member) {
        common = common || std::any_of(ours.begin(), ours.end(),
                                       [&](const Transport& t) { return covers(member, t.name); });
    });
    return common;
}

std::vector<plugin::ProtocolInfo> list_protocols() {
    std::vector<plugin::ProtocolInfo> list;
    if (transports_of("all").empty()) {
        return list;
    }
    list.push_back({"all", "any"});
    for (const std::string_view protocol : kListed) {
        for (const Transport& t : transports_of(protocol)) {
            session::add_once(list,
                              {std::string(protocol), is_local(protocol) ? t.name : t.device});
        }
    }
    return list;
}

bool checks_keys(std::string_view protocol) {
    const std::vector<Transport> used = transports_of(protocol);
    return !used.empty() && std::all_of(used.begin(), used.end(), [](const Transport& t) {
        return std::find(std::begin(kChecksKeys), std::end(kChecksKeys), t.name) !=
               std::end(kChecksKeys);
    });
}

bool is_local(std::string_view protocol) {
    bool local = true;
    each_member(protocol, [&](std::string_view member) {
        const bool shared = std::any_of(groups().begin(), groups().end(), [&](const Group& g) {
            return g.local &&
                   (g.name == member || std::find(g.transports.begin(), g.transports.end(),
                                                  member) != g.transports.end());
        });
        local = local && (shared || member == "self");
    });
    return local;
}

}  // namespace na::ucx
