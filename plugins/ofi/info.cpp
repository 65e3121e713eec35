// SPDX-License-Identifier: BSD-3-Clause
#include "plugins/ofi/info.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "na/session/local.hpp"
#include "na/util/locality.hpp"
#include "na/util/log.hpp"

namespace na::ofi {
namespace {

constexpr std::uint64_t kCaps =
    FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
// What is not here:
//   - FI_MR_MMU_NOTIFY: nobody tells us when pages come under the user's memory, or change;
//   - FI_MR_COLLECTIVE: of operations that are not used.
// FI_MR_RMA_EVENT is about registrations with counters, and so about none of ours; FI_MR_HMEM is
// added for who asks for device memory.
constexpr int kMemoryModes = FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                             FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_RMA_EVENT;

// Each provider has room for so many operations. They reserve, and clear, buffers for as many as
// are asked for: tens of MiB with the defaults of some.
constexpr std::size_t kAny = 256;

bool in_this_libfabric(const Provider& p) noexcept {
    const std::uint32_t v = fi_version();
    return (FI_MAJOR(v) << 8 | FI_MINOR(v)) >= p.since;
}

Info make_hints(const Provider& p) {
    Info hints(fi_allocinfo());
    if (hints == nullptr ||
        (hints->fabric_attr->prov_name = strndup(p.fabric.data(), p.fabric.size())) == nullptr) {
        throw std::bad_alloc();
    }
    hints->caps = kCaps | (p.multi_recv ? FI_MULTI_RECV : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = kMemoryModes;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    // More than it has would be refused, and how much that is depends on version and environment:
    // then all of it, of which ask() takes what is wanted.
    hints->tx_attr->size = p.depth > kAny ? 0 : p.depth;
    hints->rx_attr->size = kAny;
    return hints;
}

// Of several devices the nearest to this process's processors; of those as near as each other, the
// one that libfabric names first. (Where peers are reached by IP the address decides.)
const fi_info& nearest(const std::vector<const fi_info*>& answers) {
    std::vector<std::string> devices;
    for (const fi_info* i : answers) {
        const fi_bus_attr* bus = i->nic == nullptr ? nullptr : i->nic->bus_attr;
        const bool pci = bus != nullptr && bus->bus_type == FI_BUS_PCI;
        devices.push_back(pci ? util::pci_name(bus->attr.pci.domain_id, bus->attr.pci.bus_id,
                                               bus->attr.pci.device_id, bus->attr.pci.function_id)
                          : i->domain_attr->name == nullptr ? ""
                                                            : i->domain_attr->name);
    }
    const std::vector<unsigned> distances = util::device_distances(devices);
    const auto least = std::min_element(distances.begin(), distances.end());
    return *answers[static_cast<std::size_t>(least - distances.begin())];
}

// Answers of exactly this provider, others taken out. `from`: where the endpoint is to be.
Info ask(const Provider& p, const fi_info& hints, int& rc, const NativeHost& from = {}) {
    fi_info* list = nullptr;
    const bool at_port = from.port != 0 && p.host == HostForm::device_port;
    const std::string port = std::to_string(from.port);
    rc = fi_getinfo(kApi, at_port && !from.device.empty() ? from.device.c_str() : nullptr,
                    at_port ? port.c_str() : nullptr, at_port ? FI_SOURCE : 0, &hints, &list);
    if (rc != 0) {
        return nullptr;
    }
    const Info owner(list);
    std::vector<const fi_info*> answers;
    for (const fi_info* i = list; i != nullptr; i = i->next) {
        if (i->fabric_attr->prov_name == p.fabric) {
            answers.push_back(i);
        }
    }
    if (answers.empty()) {
        rc = -FI_ENODATA;
        return nullptr;
    }
    Info found(fi_dupinfo(p.naming == Naming::native ? &nearest(answers) : answers.front()));
    if (found == nullptr) {
        throw std::bad_alloc();
    }
    found->tx_attr->size = std::min(found->tx_attr->size, p.depth);
    return found;
}

std::uint32_t traffic_class(TrafficClass c) noexcept {
    switch (c) {
        case TrafficClass::unspec:
            return FI_TC_UNSPEC;
        case TrafficClass::best_effort:
            return FI_TC_BEST_EFFORT;
        case TrafficClass::low_latency:
            return FI_TC_LOW_LATENCY;
        case TrafficClass::dedicated_access:
            return FI_TC_DEDICATED_ACCESS;
        case TrafficClass::bulk_data:
            return FI_TC_BULK_DATA;
        case TrafficClass::scavenger:
            return FI_TC_SCAVENGER;
        case TrafficClass::network_ctrl:
            return FI_TC_NETWORK_CTRL;
    }
    return FI_TC_UNSPEC;
}

void set_key(fi_info& hints, const std::string& key) {
    std::free(hints.domain_attr->auth_key);
    hints.domain_attr->auth_key = nullptr;
    hints.domain_attr->auth_key_size = 0;
    if (key.empty()) {
        return;
    }
    auto* copy = static_cast<std::uint8_t*>(std::malloc(key.size()));
    if (copy == nullptr) {
        throw std::bad_alloc();
    }
    std::memcpy(copy, key.data(), key.size());
    hints.domain_attr->auth_key = copy;
    hints.domain_attr->auth_key_size = key.size();
}

// Asks with everything that is wished for, then without what can be done without.
Info ask_best(Choice& c, fi_info& hints, const InitInfo& wanted, int& rc) {
    const Provider& p = *c.provider;
    const std::uint32_t tclass = traffic_class(wanted.traffic_class);
    for (const bool with_class : {true, false}) {
        hints.tx_attr->tclass = with_class ? tclass : 0;
        for (const bool ordered : {true, false}) {
            hints.tx_attr->msg_order = hints.rx_attr->msg_order = ordered ? FI_ORDER_SAS : 0;
            for (const bool complete : {true, false}) {
                if (complete && !p.delivery_complete) {
                    continue;
                }
                hints.tx_attr->op_flags = complete ? FI_DELIVERY_COMPLETE : 0;
                if (Info info = ask(p, hints, rc, c.from)) {
                    // Asked for where it is wanted, not for every operation.
                    info->tx_attr->op_flags = 0;
                    c.delivery_complete = complete;
                    c.ordered = ordered;
                    c.traffic_class = with_class && tclass != 0;
                    return info;
                }
            }
        }
        if (tclass == 0) {
            break;
        }
    }
    return nullptr;
}

// Whether a provider that is here, but did not answer, has too little room in /dev/shm, and then
// the whole story; empty: that is not it.
std::string no_room(const Provider& p) {
    struct statvfs disk;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (p.segment == 0 || processors < 1 || statvfs("/dev/shm", &disk) != 0) {
        return {};
    }
    const std::uint64_t wanted = p.segment * static_cast<std::uint64_t>(processors);
    const std::uint64_t free = std::uint64_t{disk.f_bsize} * disk.f_bavail;
    constexpr std::uint64_t kMiB = 1 << 20;
    return free >= wanted
               ? std::string()
               : fmt::format(
                     "/dev/shm has {} MiB free of {}, and provider {} wants {} ({} for each "
                     "processor): remove what nobody needs there, or make it larger (mount -o "
                     "remount,size=SIZE /dev/shm; docker run --shm-size=SIZE)",
                     free / kMiB, std::uint64_t{disk.f_frsize} * disk.f_blocks / kMiB, p.fabric,
                     wanted / kMiB, p.segment / kMiB);
}

Error not_there(const plugin::OpenSpec& spec, int rc) {
    std::string tried;
    for (const Provider& p : providers()) {
        if (p.protocol == spec.protocol) {
            if (const std::string why = in_this_libfabric(p) ? no_room(p) : ""; !why.empty()) {
                return Error{Status::nomem, fmt::format("ofi+{}: {}", spec.protocol, why)};
            }
            tried += fmt::format("{}{}{}", tried.empty() ? "" : ", ", p.fabric,
                                 in_this_libfabric(p) ? "" : " (of a newer libfabric)");
        }
    }
    const std::uint32_t v = fi_version();
    return Error{
        Status::protonosupport,
        fmt::format(
            "ofi+{}: libfabric {}.{} here has no provider for it (tried {}: {}); available: {}",
            spec.protocol, FI_MAJOR(v), FI_MINOR(v), tried, fi_strerror(-rc),
            session::names_of("ofi", list_protocols()))};
}

// "ofi+a, ofi+b": those that are reached by host and port.
std::string protocols_with_ip() {
    std::vector<plugin::ProtocolInfo> list = list_protocols();
    std::erase_if(list, [](const plugin::ProtocolInfo& i) {
        const auto all = providers();
        return std::none_of(all.begin(), all.end(), [&](const Provider& p) {
            return p.protocol == i.protocol && p.naming == Naming::ip;
        });
    });
    return session::names_of("ofi", list);
}

// The domains of a provider, for messages.
std::string domains_of(const Provider& p) {
    std::string names;
    fi_info* list = nullptr;
    if (fi_getinfo(kApi, nullptr, nullptr, 0, make_hints(p).get(), &list) != 0) {
        return "no device";
    }
    const Info owner(list);
    for (const fi_info* i = list; i != nullptr; i = i->next) {
        const char* name = i->domain_attr->name;
        if (i->fabric_attr->prov_name == p.fabric && name != nullptr &&
            (", " + names + ",").find(fmt::format(", {},", name)) == std::string::npos) {
            names += (names.empty() ? "" : ", ") + std::string(name);
        }
    }
    return names.empty() ? "no device" : names;
}

Result<Choice> choose_one(const Provider& p, const plugin::OpenSpec& spec, int& rc) {
    Choice c;
    c.provider = &p;
    Info hints = make_hints(p);
    if (spec.info.single_class) {
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
    }
    if (p.naming == Naming::ip) {
        auto ip = util::choose_address(spec);
        if (!ip) {
            // Who names a device that is not here may have no provider for it either, which is what
            // to say then.
            if (ask(p, *make_hints(p), rc) == nullptr) {
                return Error{Status::nodev, {}};
            }
            return std::move(ip).error();
        }
        c.ip = std::move(*ip);
        sockaddr_storage storage{};
        const socklen_t size = c.ip.bind_address().fill(storage, 0);
        hints->addr_format = c.ip.address.v6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
        if (!ok(set_source(*hints, {reinterpret_cast<const char*>(&storage), size}))) {
            throw std::bad_alloc();
        }
    } else if (const AddressFormat format = spec.info.address_format;
               format == AddressFormat::ipv4 || format == AddressFormat::ipv6) {
        return Error{
            Status::opnotsupported,
            fmt::format("ofi+{} has no IP addresses, and na_init_info.addr_format asks for "
                        "IPv{}: leave it unspecified, or take one that has: {}",
                        spec.protocol, format == AddressFormat::ipv4 ? 4 : 6, protocols_with_ip())};
    } else if (p.naming == Naming::text) {
        // "host:77" is the form of transports over the network: neither says anything in shared
        // memory.
        const bool placed = spec.host.find(':') != std::string::npos;
        c.name = placed ? std::string() : spec.host;
        if (placed) {
            NA_LOG_INFO(cls, "ofi+{}: \"{}\" says nothing to shared memory, a name is made up",
                        spec.protocol, spec.host);
        }
        if (!c.name.empty() && !session::is_name(c.name)) {
            return Error{
                Status::invalid_arg,
                fmt::format("ofi+{}://{}: a name has up to 64 letters, digits, '-', '_', '.'",
                            spec.protocol, spec.host)};
        }
        hints->addr_format = FI_ADDR_STR;
    } else {
        auto from = parse_native_host(p, spec.host);
        if (!from) {
            return std::move(from).error();
        }
        c.from = std::move(*from);
        if (!c.from.device.empty() && p.host == HostForm::ignored) {
            NA_LOG_INFO(cls, "ofi+{}: provider {} chooses its device, \"{}\" says nothing to it",
                        spec.protocol, p.fabric, spec.host);
        }
        if (c.from.port != 0 && p.host != HostForm::device_port) {
            NA_LOG_INFO(cls, "ofi+{}: provider {} has no ports to choose, {} says nothing to it",
                        spec.protocol, p.fabric, c.from.port);
        }
    }
    // Where the provider has no device memory the core refuses the class.
    const auto ask_for_all = [&](const char* device) {
        c.info.reset();
        std::free(hints->domain_attr->name);
        hints->domain_attr->name = nullptr;
        if (device != nullptr && (hints->domain_attr->name = strdup(device)) == nullptr) {
            throw std::bad_alloc();
        }
        if (spec.info.device_memory) {
            hints->caps |= FI_HMEM;
            hints->domain_attr->mr_mode |= FI_MR_HMEM;
            c.info = ask_best(c, *hints, spec.info, rc);
            c.device_memory = c.info != nullptr && (c.info->caps & FI_HMEM) != 0;
        }
        if (c.info == nullptr) {
            hints->caps &= ~FI_HMEM;
            hints->domain_attr->mr_mode &= ~FI_MR_HMEM;
            c.info = ask_best(c, *hints, spec.info, rc);
        }
    };
    if (!spec.info.auth_key.empty()) {
        const auto key = auth_key_bytes(p, spec.info.auth_key);
        if (!key) {
            return key.error();
        }
        set_key(*hints, *key);
    }
    const std::vector<std::string> devices = domain_names(p, c.from);
    const auto ask_for_each = [&] {
        if (devices.empty()) {
            ask_for_all(nullptr);
        }
        for (const std::string& device : devices) {
            if (c.info == nullptr) {
                ask_for_all(device.c_str());
            }
        }
    };
    ask_for_each();
    if (!spec.info.auth_key.empty()) {
        c.keyed = c.info != nullptr && c.info->domain_attr->auth_key_size != 0;
        if (!c.keyed) {
            set_key(*hints, {});
            c.info.reset();
            ask_for_each();
        }
        if (!c.keyed && c.info != nullptr) {
            // The key is the cause. Without it everybody would be admitted.
            return Error{
                Status::opnotsupported,
                fmt::format(
                    "ofi+{}: provider {} takes no such auth_key, and would admit "
                    "everybody: leave auth_key out, or use a fabric that has keys (ofi+cxi)",
                    spec.protocol, p.fabric)};
        }
    }
    if (c.info == nullptr) {
        int bare = 0;
        if (ask(p, *make_hints(p), bare) == nullptr) {
            return Error{Status::nodev, {}};  // the next row may do
        }
        // The provider is there: what was asked for beyond is the cause.
        return Error{
            Status::opnotsupported,
            fmt::format("ofi+{}: provider {} does not offer \"{}\" ({}); it has {}", spec.protocol,
                        p.fabric, spec.host, fi_strerror(-rc), domains_of(p))};
    }
    return c;
}

}  // namespace

Status set_source(fi_info& info, std::string_view bytes) noexcept {
    void* copy = std::malloc(bytes.size());
    if (copy == nullptr) {
        return Status::nomem;
    }
    std::memcpy(copy, bytes.data(), bytes.size());
    std::free(info.src_addr);
    info.src_addr = copy;
    info.src_addrlen = bytes.size();
    return Status::success;
}

Result<Choice> choose(const plugin::OpenSpec& spec) {
    int rc = -FI_ENODATA;
    for (const Provider& p : providers()) {
        if (p.protocol != spec.protocol || !in_this_libfabric(p)) {
            continue;
        }
        auto choice = choose_one(p, spec, rc);
        if (choice || choice.status() != Status::nodev || !choice.error().message.empty()) {
            return choice;
        }
    }
    return not_there(spec, rc);
}

std::vector<plugin::ProtocolInfo> list_protocols() {
    std::vector<plugin::ProtocolInfo> list;
    for (const Provider& p : providers()) {
        const bool listed =
            std::any_of(list.begin(), list.end(),
                        [&](const plugin::ProtocolInfo& i) { return i.protocol == p.protocol; });
        if (listed || !p.by_default || !in_this_libfabric(p)) {
            continue;
        }
        const Info hints = make_hints(p);
        fi_info* answer = nullptr;
        if (fi_getinfo(kApi, nullptr, nullptr, 0, hints.get(), &answer) != 0) {
            continue;
        }
        const Info owner(answer);
        for (const fi_info* i = answer; i != nullptr; i = i->next) {
            if (i->fabric_attr->prov_name != p.fabric) {
                continue;
            }
            const char* device = i->domain_attr->name;
            session::add_once(list, {std::string(p.protocol), device == nullptr ? "" : device});
        }
    }
    return list;
}

bool known_protocol(std::string_view protocol) noexcept {
    const auto all = providers();
    return std::any_of(all.begin(), all.end(),
                       [&](const Provider& p) { return p.protocol == usual_name(protocol); });
}

std::string_view provider_of(std::string_view protocol) {
    for (const Provider& p : providers()) {
        int rc = 0;
        if (p.protocol == protocol && in_this_libfabric(p) &&
            ask(p, *make_hints(p), rc) != nullptr) {
            return p.fabric;
        }
    }
    return {};
}

}  // namespace na::ofi
