// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ucx/settings.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "na/session/local.hpp"
#include "na/util/config.hpp"
#include "na/util/log.hpp"
#include "plugins/ucx/transports.hpp"

namespace na::ucx {
namespace {

Error not_there(const plugin::OpenSpec& spec) {
    return Error{
        Status::protonosupport,
        fmt::format("ucx+{}: UCX {} finds no such transport on this machine; available: {}",
                    spec.protocol, version_text(), session::names_of("ucx", list_protocols()))};
}

// Whether UCX moves the bytes of puts and gets itself.
Result<bool> wants_native(const plugin::OpenSpec& spec) {
    const std::string how = config::value(config::kUcxRma);
    if (how != "messages" && how != "native" && how != "auto") {
        return Error{Status::invalid_arg, fmt::format("{}=\"{}\": say messages, native or auto",
                                                      config::kUcxRma.name, how)};
    }
    const std::string transports = config::of_library("UCX_TLS").value_or(spec.protocol);
    const bool by_hardware = checks_keys(transports);
    const bool native = how == "native" || (how == "auto" && by_hardware);
    if (native && !by_hardware && !at_least(1, 13)) {
        return Error{
            Status::opnotsupported,
            fmt::format("ucx+{}: puts and gets of UCX {} itself ({}=native) do not work over "
                        "this with endpoints that report errors: 1.13 is needed",
                        spec.protocol, version_text(), config::kUcxRma.name)};
    }
    return native;
}

// UCX's variables that say what an info string says, too.
class Wishes {
 public:
    Wishes(const plugin::OpenSpec& spec, ucp_config_t* config) : spec_(spec), config_(config) {}

    // `key`: what UCX calls the variable in this version, if not that. False: UCX does not know it.
    bool set(const std::string& name, const std::string& value, const std::string& key = {}) {
        const std::string variable = "UCX_" + name;
        if (const auto users = config::of_library(variable)) {
            if (*users != value) {
                NA_LOG_INFO(cls, "ucx+{}: {}={} of the environment is taken, not {}",
                            spec_.protocol, variable, *users, value);
            }
            return true;
        }
        const std::string& setting = key.empty() ? name : key;
        if (std::find(done_.begin(), done_.end(), setting) != done_.end()) {
            return true;
        }
        NA_LOG_DEBUG(cls, "ucx+{}: {}={}", spec_.protocol, variable, value);
        done_.push_back(setting);
        return ucp_config_modify(config_, setting.c_str(), value.c_str()) == UCS_OK;
    }

 private:
    const plugin::OpenSpec& spec_;
    ucp_config_t* const config_;
    std::vector<std::string> done_;
};

// What tcp has begun to send from the memory of a request ends twice, and UCX the process, when the
// peer dies before the rest has gone (uct_tcp_ep_sendv(), 1.13 and later). What it has
// copied does not. In copies as large as what it receives at a time, that is no slower.
void copy_what_is_sent(const Transport& tcp, Wishes& wishes) {
    if (!tcp.gather_key.empty() && !tcp.segment_key.empty() &&
        wishes.set("TCP_MAX_IOV", "0", tcp.gather_key)) {
        wishes.set("TCP_TX_SEG_SIZE", config::of_library("UCX_TCP_RX_SEG_SIZE").value_or("64kb"),
                   tcp.segment_key);
    }
}

// What copies to devices, or maps their memory: UCX knows such memory only where it may use these.
std::string with_devices(const plugin::OpenSpec& spec) {
    std::string transports = spec.protocol;
    for (const std::string_view name : {"cuda_copy", "cuda_ipc", "rocm_copy", "rocm_ipc"}) {
        if (std::any_of(transports_here().begin(), transports_here().end(),
                        [&](const Transport& t) { return t.name == name; })) {
            transports.append(",").append(name);
        }
    }
    return transports;
}

// Puts and gets that UCX makes of messages take all memory for the host's, unless its newer way of
// choosing how to move it is on, which is the default from 1.16 on. Before, a get whose peer dies
// ends the process with it (1.13.1), so that it is the user's to choose.
bool minds_devices() {
    const auto users = config::of_library("UCX_PROTO_ENABLE");
    if (!users) {
        return at_least(1, 16);
    }
    return at_least(1, 13) && !users->empty() &&
           std::string_view("yYtT1").find(users->front()) != std::string::npos;
}

// UCX names ports of InfiniBand devices.
std::string device_name(const std::string& domain) {
    const bool infiniband = access(("/sys/class/infiniband/" + domain).c_str(), F_OK) == 0;
    return infiniband ? domain + ":1" : domain;
}

// 1.10 leaves the loopback alone, for example.
bool uses(const std::string& interface) {
    const auto& all = transports_here();
    return std::any_of(all.begin(), all.end(),
                       [&](const Transport& t) { return t.device == interface; });
}

// Empty: UCX may use all.
std::string devices_for(const plugin::OpenSpec& spec, const util::IpChoice& ip) {
    if (is_local(spec.protocol)) {
        return {};
    }
    if (!ip.domain.empty()) {
        return device_name(ip.domain);
    }
    // What is named, and the loopback where there is nothing else, is not open to others. Who names
    // nothing can reach, and be reached, by all.
    const bool named =
        (!spec.host.empty() && spec.host.front() != ':') || !spec.info.ip_subnet.empty();
    if (ip.address.is_loopback()) {
        return ip.interface;
    }
    if (!named || ip.any) {
        return {};
    }
    // Of tcp that interface only; what else there is has no addresses.
    std::string devices;
    bool tcp = false;
    for (const Transport& t : transports_of(spec.protocol)) {
        tcp = tcp || t.name == "tcp";
        if (t.name != "tcp" && !is_local(t.name)) {
            devices += "," + t.device;
        }
    }
    return tcp ? ip.interface + devices : std::string();
}

}  // namespace

Result<Settings> settle(const plugin::OpenSpec& spec) {
    const auto native = wants_native(spec);
    if (!native) {
        return native.error();
    }
    const bool users = config::of_library("UCX_TLS").has_value();
    if (!users && transports_of(spec.protocol).empty()) {
        return not_there(spec);
    }
    Settings s;
    s.native = *native;
    plugin::OpenSpec where = spec;
    if (is_local(spec.protocol) && spec.host.empty()) {
        where.host = spec.info.address_format == AddressFormat::ipv6 ? "[::1]" : "127.0.0.1";
    } else if (is_local(spec.protocol) && spec.host.front() == ':') {
        where.host = "127.0.0.1" + spec.host;
    }
    auto ip = util::choose_address(where);
    if (!ip) {
        return std::move(ip).error();
    }
    s.ip = std::move(*ip);
    ucp_config_t* config = nullptr;
    if (const ucs_status_t rc = ucp_config_read(nullptr, nullptr, &config); rc != UCS_OK) {
        return failure(rc, "read UCX's configuration");
    }
    s.config.reset(config);
    Wishes wishes(spec, config);
    const bool for_devices = s.native && spec.info.device_memory;
    if (spec.protocol != "all" &&
        !wishes.set("TLS", for_devices ? with_devices(spec) : spec.protocol)) {
        return not_there(spec);
    }
    s.minds_devices = for_devices && minds_devices();
    if (const std::string devices = devices_for(spec, s.ip); !devices.empty()) {
        if (devices == s.ip.interface && !uses(s.ip.interface) &&
            !config::of_library("UCX_NET_DEVICES")) {
            return Error{
                Status::nodev,
                fmt::format("ucx+{}: UCX {} does not use the interface {}: name an address "
                            "of another one",
                            spec.protocol, version_text(), devices)};
        }
        wishes.set("NET_DEVICES", devices);
    }
    for (const Transport& t : transports_of(spec.protocol)) {
        if (!t.errors_key.empty()) {
            // Without it UCX does not use shared memory with endpoints that report errors.
            wishes.set(upper(t.name) + "_ERROR_HANDLING", "y", t.errors_key);
        }
        if (t.name != "tcp") {
            continue;
        }
        copy_what_is_sent(t, wishes);
        if (s.ip.address.v6 &&
            (t.family_key.empty() || !wishes.set("TCP_AF_PRIO", "inet6,inet", t.family_key))) {
            return Error{Status::opnotsupported,
                         fmt::format("ucx+{}: tcp of UCX {} has no IPv6: name an IPv4 address",
                                     spec.protocol, version_text())};
        }
    }
    return s;
}

std::string users_variables() {
    return fmt::format("{}", fmt::join(config::of_libraries("UCX_"), ", "));
}

}  // namespace na::ucx
