// SPDX-License-Identifier: BSD-3-Clause
// Of several cards that nobody has chosen from, the one nearest to the process's processors. The
// machine at hand has none: hwloc is told of one (HWLOC_XMLFILE) in which two devices of the PCI
// bus belong to a processor each.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "modes.hpp"
#include "na/util/locality.hpp"
#include "spies.hpp"
#include "support/options.hpp"
#include "support/two_process.hpp"

namespace {

// Names of devices, sorted. The kernel has to know them: only their places are made up.
std::vector<std::string> pci_devices() {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/bus/pci/devices", error)) {
        names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

// Processors that this process may use.
std::vector<int> processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    PARTY_REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
    std::vector<int> all;
    for (int i = 0; i < 32; ++i) {
        if (CPU_ISSET(i, &set)) {
            all.push_back(i);
        }
    }
    return all;
}

void bind_to(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(processor), &set);
    PARTY_REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

std::string sets(unsigned processors) {
    return fmt::format(
        R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="0x1" complete_nodeset="0x1")",
        processors);
}

// A package of one processor and one device.
std::string package(int index, int processor, const std::string& device) {
    const std::string all = sets(1U << processor);
    const int id = 10 * index;
    std::string out;
    out += fmt::format("<object type=\"Package\" os_index=\"{}\" {} gp_index=\"{}\">\n", index, all,
                       id);
    out += fmt::format("<object type=\"PU\" os_index=\"{}\" {} gp_index=\"{}\"/>\n", processor, all,
                       id + 1);
    out += fmt::format(
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[00-00]\">\n",
        id + 2);
    out += fmt::format(
        "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"{}\" "
        "pci_type=\"0200 [8086:1572] [0000:0000] 00\" pci_link_speed=\"0.000000\"/>\n",
        id + 3, device);
    return out + "</object>\n</object>\n";
}

// A line for each element: hwloc's own parser takes no other form.
std::string machine(const std::array<int, 2>& processors, const std::vector<std::string>& devices) {
    const unsigned both = 1U << processors[0] | 1U << processors[1];
    std::string out =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n";
    out += fmt::format(
        "<object type=\"Machine\" os_index=\"0\" {} allowed_cpuset=\"{:#x}\" "
        "allowed_nodeset=\"0x1\" gp_index=\"1\">\n",
        sets(both), both);
    out += fmt::format(
        "<object type=\"NUMANode\" os_index=\"0\" {} gp_index=\"2\" "
        "local_memory=\"1073741824\"/>\n",
        sets(both));
    for (std::size_t i = 0; i < processors.size(); ++i) {
        out += package(static_cast<int>(i) + 1, processors[i], devices[i]);
    }
    return out + "</object>\n</topology>\n";
}

modes::Card card(std::string fabric, const std::string& place) {
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    PARTY_REQUIRE(std::sscanf(place.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) ==
                  4);
    return {std::move(fabric), static_cast<std::uint16_t>(domain), static_cast<std::uint8_t>(bus),
            static_cast<std::uint8_t>(device), static_cast<std::uint8_t>(function)};
}

}  // namespace

TEST_CASE("of several cards the nearest is taken", "[ofi][nearest]") {
    const std::vector<std::string> devices = pci_devices();
    const std::vector<int> all = processors();
    if (!na::util::knows_locality()) {
        support::skip("built without hwloc");
        return;
    }
    if (devices.size() < 2 || all.size() < 2) {
        support::skip("this machine has not two devices of the PCI bus and two processors");
        return;
    }
    const std::array<int, 2> two{all[0], all[1]};
    const bool other = GENERATE(false, true);
    INFO("at processor " << two[other]);
    // In a child: environment and place are the process's.
    support::Party party(support::Party::As::process, [&](support::Link& link) {
        const int fd = memfd_create("machine", 0);
        const std::string text = machine(two, devices);
        PARTY_REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
        PARTY_REQUIRE(setenv("HWLOC_XMLFILE", fmt::format("/proc/self/fd/{}", fd).c_str(), 1) == 0);
        PARTY_REQUIRE(setenv("HWLOC_THISSYSTEM", "1", 1) == 0);
        bind_to(two[other]);
        const modes::Cards cards("opx", {card("first", devices[0]), card("second", devices[1])});
        const auto domain = na::Domain::listen("ofi+opx");
        PARTY_REQUIRE(!domain);
        link.put(cards.tried.empty() ? domain.error().message : cards.tried.front());
    });
    const std::string tried = party.link().take_text();
    CHECK(party.join().empty());
    CHECK(tried == (other ? "second" : "first"));
}
