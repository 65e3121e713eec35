// SPDX-License-Identifier: BSD-3-Clause
// What hg_info knows, gathered before anything is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace info {

struct Protocol {
    std::string class_name;
    std::string protocol;
    std::string device;
};

// What an opened protocol can do; only in details.
struct Capabilities {
    std::string class_name;
    std::string protocol;
    std::string why_not;  // not empty: it could not be opened, and the rest says nothing
    std::uint64_t max_unexpected = 0;  // bytes
    std::uint64_t max_expected = 0;
    std::uint64_t headroom_unexpected = 0;
    std::uint64_t headroom_expected = 0;
    std::uint64_t rpc_input_eager = 0;  // bytes of encoded structure in one message
    std::uint64_t rpc_output_eager = 0;
    std::uint64_t max_segments = 0;
    std::uint64_t max_tag = 0;
    bool ordered_unexpected = false;
    bool ordered_expected = false;
    bool multi_recv = false;
    bool waitable = false;
    bool registers_messages = false;
    bool device_memory = false;
    bool delivery_complete = false;
    bool own_allocator = false;
    bool looks = false;
};

struct Library {
    std::string name;
    std::string version;
};

struct PluginState {
    std::string name;     // class; a module that could not be loaded: its file
    std::string origin;   // "built in", or the module's file
    std::string library;  // name and version of the library beneath; may be empty
    std::string problem;  // empty: usable
};

struct EnvironmentVariable {
    std::string name;
    std::optional<std::string> value;  // as set
    std::string fallback;
    std::string help;
};

struct Details {
    std::vector<Library> versions;
    std::vector<Capabilities> capabilities;
    std::vector<PluginState> plugins;
    std::vector<EnvironmentVariable> environment;
};

struct Report {
    std::vector<Protocol> protocols;
    std::optional<Details> details;
};

// Capabilities of the given protocols (each opened once, however many devices it has), versions,
// plugins, environment.
Details gather_details(const std::vector<Protocol>& protocols);

enum class Format { plain, csv, json };
std::string render(const Report& report, Format format);

}  // namespace info
