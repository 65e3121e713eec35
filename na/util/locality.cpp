// SPDX-License-Identifier: BSD-3-Clause
#include "na/util/locality.hpp"

#include <fmt/format.h>

#ifdef CINNABAR_HAS_HWLOC
#include <algorithm>
#include <climits>
#include <filesystem>
#include <memory>
#include <optional>

#include <hwloc.h>

#include "na/util/log.hpp"
#endif

namespace na::util {

std::string pci_name(unsigned domain, unsigned bus, unsigned device, unsigned function) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

#ifndef CINNABAR_HAS_HWLOC

bool knows_locality() noexcept {
    return false;
}

std::vector<unsigned> device_distances(std::span<const std::string> devices) {
    return std::vector<unsigned>(devices.size(), 0);
}

#else

namespace {

constexpr unsigned kNoDevice = UINT_MAX;

// The devices that a name stands for: itself, or those that it bundles.
std::vector<std::string> devices_below(const std::string& name, unsigned levels = 4) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (name.empty()) {
        return {};
    }
    // Some have no class that is known here; at the bus all of them are.
    const fs::path at_bus = fs::path("/sys/bus/pci/devices") / name;
    if (fs::exists(at_bus, error)) {
        return {name};
    }
    for (const char* type : {"infiniband", "cxi", "net"}) {
        if (fs::exists(fs::path("/sys/class") / type / name / "device", error)) {
            return {name};
        }
    }
    std::vector<std::string> out;
    fs::directory_iterator i(fs::path("/sys/class/net") / name, error);
    for (const fs::directory_iterator end; !error && i != end; i.increment(error)) {
        const std::string entry = i->path().filename();
        if (entry.starts_with("lower_") && levels != 0) {
            const auto below = devices_below(entry.substr(6), levels - 1);
            out.insert(out.end(), below.begin(), below.end());
        }
    }
    return out;
}

class Machine {
 public:
    static std::optional<Machine> explore() {
        hwloc_topology_t raw = nullptr;
        if (hwloc_topology_init(&raw) != 0) {
            return std::nullopt;
        }
        Machine m(raw);
        if (hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
            hwloc_topology_load(raw) != 0 || !m.ours_ ||
            hwloc_get_cpubind(raw, m.ours_.get(), HWLOC_CPUBIND_PROCESS) != 0) {
            return std::nullopt;
        }
        return m;
    }

    unsigned distance(const std::string& device) const {
        if (hwloc_obj_t i = hwloc_get_pcidev_by_busidstring(topology_.get(), device.c_str())) {
            return levels_above(i);
        }
        for (hwloc_obj_t i = nullptr; (i = hwloc_get_next_osdev(topology_.get(), i)) != nullptr;) {
            if (i->name != nullptr && device == i->name) {
                return levels_above(i);
            }
        }
        return 0;
    }

 private:
    unsigned levels_above(hwloc_obj_t i) const {
        unsigned levels = 0;
        hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology_.get(), i);
        while (place != nullptr && !hwloc_bitmap_intersects(place->cpuset, ours_.get())) {
            place = place->parent;
            ++levels;
        }
        return levels;
    }

    struct Free {
        void operator()(hwloc_topology_t t) const noexcept { hwloc_topology_destroy(t); }
        void operator()(hwloc_bitmap_t b) const noexcept { hwloc_bitmap_free(b); }
    };
    explicit Machine(hwloc_topology_t t) : topology_(t), ours_(hwloc_bitmap_alloc()) {}
    std::unique_ptr<hwloc_topology, Free> topology_;
    std::unique_ptr<hwloc_bitmap_s, Free> ours_;
};

}  // namespace

bool knows_locality() noexcept {
    return true;
}

std::vector<unsigned> device_distances(std::span<const std::string> devices) {
    std::vector<unsigned> out(devices.size(), 0);
    std::vector<std::vector<std::string> > below;
    std::ptrdiff_t real = 0;
    for (const std::string& name : devices) {
        below.push_back(devices_below(name));
        real += below.back().empty() ? 0 : 1;
    }
    if (real < 2) {
        return out;
    }
    const auto machine = Machine::explore();
    if (!machine) {
        NA_LOG_WARNING(cls,
                       "hwloc cannot explore this machine: network devices are chosen without "
                       "regard to their place");
        return out;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
        unsigned nearest = kNoDevice;
        for (const std::string& device : below[i]) {
            nearest = std::min(nearest, machine->distance(device));
        }
        out[i] = nearest;
    }
    return out;
}

#endif

}  // namespace na::util
