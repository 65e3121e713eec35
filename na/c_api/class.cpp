// SPDX-License-Identifier: BSD-3-Clause
// Library and class functions of na.h.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "na/c_api/handles.hpp"
#include "na/plugin_table.hpp"
#include "na/util/config.hpp"
#include "na/util/standard_fds.hpp"
#include "na/util/uri.hpp"

using namespace na;
using namespace na::c_api;

namespace na::c_api {

namespace {

constexpr unsigned kProgressModes = NA_NO_BLOCK | NA_NO_RETRY;
constexpr unsigned kThreadModes = NA_THREAD_MODE_SINGLE;

// Of structures that begin alike.
template <typename Info>
Result<InitInfo> common(const Info& info) {
    if ((info.progress_mode & ~kProgressModes) != 0) {
        return Error{Status::invalid_arg,
                     fmt::format("na_init_info.progress_mode {:#x} has unknown bits: it is made of "
                                 "NA_NO_BLOCK ({:#x}) and NA_NO_RETRY ({:#x})",
                                 info.progress_mode, NA_NO_BLOCK, NA_NO_RETRY)};
    }
    if ((info.thread_mode & ~kThreadModes) != 0) {
        return Error{
            Status::invalid_arg,
            fmt::format("na_init_info.thread_mode {:#x} has unknown bits: it is made of "
                        "NA_THREAD_MODE_SINGLE_CLS ({:#x}) and NA_THREAD_MODE_SINGLE_CTX "
                        "({:#x})",
                        info.thread_mode, NA_THREAD_MODE_SINGLE_CLS, NA_THREAD_MODE_SINGLE_CTX)};
    }
    InitInfo i;
    i.ip_subnet = info.ip_subnet == nullptr ? "" : info.ip_subnet;
    i.auth_key = info.auth_key == nullptr ? "" : info.auth_key;
    i.max_unexpected = info.max_unexpected_size;
    i.max_expected = info.max_expected_size;
    i.no_block = (info.progress_mode & NA_NO_BLOCK) != 0;
    i.no_retry = (info.progress_mode & NA_NO_RETRY) != 0;
    i.address_format = value_of<AddressFormat>(info.addr_format);
    i.max_contexts = info.max_contexts;
    // Users of Mercury set these modes and have two threads in the class nevertheless: Mercury
    // keeps its own locks. So the mode alone removes none.
    const bool unlocked = config::number(config::kUnlocked) != 0;
    i.single_class = unlocked && (info.thread_mode & NA_THREAD_MODE_SINGLE_CLS) != 0;
    i.single_context = unlocked && (info.thread_mode & NA_THREAD_MODE_SINGLE_CTX) != 0;
    i.device_memory = info.request_mem_device;
    return i;
}

}  // namespace

Result<InitInfo> init_info(const struct na_init_info_4_0& info) {
    return common(info);
}

Result<InitInfo> init_info(const struct na_init_info& info) {
    auto i = common(info);
    if (!i) {
        return i;
    }
    i->traffic_class = value_of<TrafficClass>(info.traffic_class);
    return i;
}

}  // namespace na::c_api

namespace {

// One row in C memory; null when out of memory.
na_protocol_info* make_row(std::string_view cls, const plugin::ProtocolInfo& p) {
    auto* row = static_cast<na_protocol_info*>(std::calloc(1, sizeof(na_protocol_info)));
    if (row == nullptr) {
        return nullptr;
    }
    row->class_name = strndup(cls.data(), cls.size());
    row->protocol_name = strdup(p.protocol.c_str());
    row->device_name = strdup(p.device.c_str());
    if (row->class_name == nullptr || row->protocol_name == nullptr ||
        row->device_name == nullptr) {
        NA_Free_protocol_info(row);
        return nullptr;
    }
    return row;
}

na_class_t* open(const char* info_string, bool listen, Result<InitInfo> asked) noexcept {
    if (!asked) {
        NA_LOG_ERROR(cls, "cannot open \"{}\": {}", info_string, asked.error().message);
        return nullptr;
    }
    InitInfo& info = *asked;
    if (info.max_expected != 0) {  // that of the library comes on top
        info.expected_spare = std::min(kMostOverhead, SIZE_MAX - info.max_expected);
        info.max_expected += info.expected_spare;
    }
    try {
        auto cls = Class::open(info_string, listen, info);
        if (!cls) {
            NA_LOG_ERROR(cls, "cannot open \"{}\": {}", info_string, cls.error().message);
            return nullptr;
        }
        return handle(cls->release());
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "cannot open \"{}\": out of memory", info_string);
        return nullptr;
    }
}

}  // namespace

extern "C" {

void NA_Version_get(unsigned int* major, unsigned int* minor, unsigned int* patch) {
    if (major != nullptr) {
        *major = NA_VERSION_MAJOR;
    }
    if (minor != nullptr) {
        *minor = NA_VERSION_MINOR;
    }
    if (patch != nullptr) {
        *patch = NA_VERSION_PATCH;
    }
}

const char* NA_Error_to_string(na_return_t errnum) {
#define X(a) #a,
    static const char* const names[] = {NA_RETURN_VALUES};
#undef X
    const auto i = static_cast<unsigned>(errnum);
    return i < static_cast<unsigned>(NA_RETURN_MAX) ? names[i] : nullptr;
}

const char* NA_Get_last_error(void) {
    return log::last_error().c_str();
}

void NA_Set_log_level(const char* level) {
    if (level != nullptr) {
        log::set_level(*level == '\0' ? "none" : level);
    }
}

na_return_t NA_Get_protocol_info(const char* info_string,
                                 struct na_protocol_info** na_protocol_info_p) {
    NA_C_REQUIRE(na_protocol_info_p != nullptr, cls, "na_protocol_info_p is NULL");
    try {
        util::Uri uri;
        if (info_string != nullptr) {
            auto parsed = util::parse_uri(info_string);
            if (!parsed) {
                return failed<log::Outlet::cls>(parsed.error());
            }
            uri = std::move(*parsed);
        }
        const util::OccupiedStandardFds standard;  // the libraries of plugins open descriptors
        const PluginList list = list_plugins();
        na_protocol_info* rows = nullptr;
        bool class_known = uri.class_name.empty();
        std::string why_not;
        for (const PluginInfo& p : list.plugins) {
            const bool by_class = uri.class_name.empty()
                                      ? p.class_name == uri.protocol && !uri.has_host
                                      : p.class_name == uri.class_name;
            class_known = class_known || by_class;
            const bool all = info_string == nullptr || (uri.class_name.empty() && by_class);
            if (!all && !(uri.class_name.empty() || by_class)) {
                continue;
            }
            const auto protocols = p.plugin->protocols();
            const auto named = [&](std::string_view name) {
                std::vector<plugin::ProtocolInfo> some;
                std::copy_if(protocols.begin(), protocols.end(), std::back_inserter(some),
                             [&](const plugin::ProtocolInfo& i) { return i.protocol == name; });
                return some;
            };
            std::vector<plugin::ProtocolInfo> listed = all ? protocols : named(uri.protocol);
            if (!all && listed.empty() && by_class && p.plugin->accepts(uri.protocol)) {
                // A name that is known and not listed: an alias, or a protocol that is not here.
                // It is here if it opens.
                const auto cls = Class::open(fmt::format("{}+{}", p.class_name, uri.protocol),
                                             false, InitInfo{});
                if (cls) {
                    listed = named((*cls)->caps().protocol);
                    if (listed.empty()) {
                        listed.push_back({.protocol = uri.protocol, .device = {}});
                    }
                } else {
                    why_not = cls.error().message;
                }
            }
            for (const plugin::ProtocolInfo& i : listed) {
                na_protocol_info* row = make_row(p.class_name, i);
                if (row == nullptr) {
                    NA_Free_protocol_info(rows);
                    NA_LOG_ERROR(cls, "out of memory");
                    return NA_NOMEM;
                }
                row->next = rows;
                rows = row;
            }
        }
        if (rows == nullptr && info_string != nullptr && class_known) {
            NA_LOG_ERROR(cls, "no plugin offers \"{}\"{}{}", info_string,
                         why_not.empty() ? "" : ": ", why_not);
            return NA_PROTONOSUPPORT;
        }
        *na_protocol_info_p = rows;
        return NA_SUCCESS;
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "out of memory");
        return NA_NOMEM;
    }
}

void NA_Free_protocol_info(struct na_protocol_info* na_protocol_info) {
    while (na_protocol_info != nullptr) {
        struct na_protocol_info* next = na_protocol_info->next;
        std::free(na_protocol_info->class_name);
        std::free(na_protocol_info->protocol_name);
        std::free(na_protocol_info->device_name);
        std::free(na_protocol_info);
        na_protocol_info = next;
    }
}

na_class_t* NA_Initialize(const char* info_string, bool listen) {
    return NA_Initialize_opt2(info_string, listen, 0, nullptr);
}

na_class_t* NA_Initialize_opt(const char* info_string, bool listen,
                              const struct na_init_info* na_init_info) {
    return NA_Initialize_opt2(info_string, listen, na_init_info == nullptr ? 0 : NA_VERSION(4, 0),
                              na_init_info);
}

na_class_t* NA_Initialize_opt2(const char* info_string, bool listen, unsigned int version,
                               const struct na_init_info* na_init_info) try {
    if (info_string == nullptr) {
        NA_LOG_ERROR(cls, "info_string is NULL: give [class+]protocol[://host], as in na+sm");
        return nullptr;
    }
    if (na_init_info == nullptr) {
        return open(info_string, listen, InitInfo{});
    }
    if (version == 0) {
        NA_LOG_ERROR(cls, "na_init_info given without its version: pass NA_VERSION(major, minor)");
        return nullptr;
    }
    if (version < NA_VERSION(5, 0)) {
        na_init_info_4_0 old;
        std::memcpy(&old, na_init_info, sizeof old);  // the caller's object is of the old type
        return open(info_string, listen, init_info(old));
    }
    return open(info_string, listen, init_info(*na_init_info));
} catch (const std::bad_alloc&) {
    NA_LOG_ERROR(cls, "out of memory");
    return nullptr;
}

na_return_t NA_Finalize(na_class_t* na_class) {
    if (na_class == nullptr) {
        return NA_SUCCESS;
    }
    Class* cls = core(na_class);
    if (cls->inherited()) {
        return NA_SUCCESS;
    }
    try {
        if (const auto can = cls->closable(); !can) {
            return failed<log::Outlet::cls>(can.error());
        }
    } catch (const std::bad_alloc&) {
        return NA_NOMEM;  // for the text of the refusal
    }
    delete cls;
    return NA_SUCCESS;
}

void NA_Cleanup(void) {
    try {
        for (const PluginInfo& p : list_plugins().plugins) {
            p.plugin->remove_stale();
        }
    } catch (const std::bad_alloc&) {
        NA_LOG_ERROR(cls, "out of memory");
    }
}

bool NA_Has_opt_feature(na_class_t* na_class, unsigned long flags) {
    if (na_class == nullptr) {
        NA_LOG_ERROR(cls, "NULL class");
        return false;
    }
    const plugin::Caps& caps = core(na_class)->caps();
    return (flags & NA_OPT_MULTI_RECV) != 0 && (caps.multi_recv || !caps.matches[0]);
}

const char* NA_Get_class_name(const na_class_t* na_class) {
    return na_class == nullptr ? nullptr : core(na_class)->class_name().c_str();
}

const char* NA_Get_class_protocol(const na_class_t* na_class) {
    return na_class == nullptr ? nullptr : core(na_class)->protocol().c_str();
}

bool NA_Is_listening(const na_class_t* na_class) {
    return na_class != nullptr && core(na_class)->listening();
}

}  // extern "C"
