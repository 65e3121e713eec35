// SPDX-License-Identifier: BSD-3-Clause
// The three output formats. Tables, CSV columns and JSON text of the protocol list are those of
// Mercury's tool of this name, to the byte, because scripts parse them; details only ever follow or
// widen them.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/hg_info/report.hpp"

namespace info {
namespace {

using Json = nlohmann::ordered_json;
using Out = std::back_insert_iterator<std::string>;

const char* yes_no(bool value) {
    return value ? "yes" : "no";
}

// ---- plain
// -------------------------------------------------------------------------------------------------------

void heading(Out out, std::string_view text) {
    fmt::format_to(out, "\n{}\n{:-<{}}\n", text, "", text.size());
}

void fact(Out out, std::string_view name, std::string_view value) {
    fmt::format_to(out, "  {:<34}{}\n", name, value);
}

void plain_capabilities(Out out, const Capabilities& c) {
    fmt::format_to(out, "{}+{}\n", c.class_name, c.protocol);
    if (!c.why_not.empty()) {
        fact(out, "cannot be opened", c.why_not);
        return;
    }
    const auto bytes = [&](std::string_view name, std::uint64_t value) {
        fact(out, name, fmt::format("{} bytes", value));
    };
    bytes("largest unexpected message", c.max_unexpected);
    bytes("  of them the transport's header", c.headroom_unexpected);
    bytes("largest expected message", c.max_expected);
    bytes("  of them the transport's header", c.headroom_expected);
    bytes("RPC input in one message", c.rpc_input_eager);
    bytes("RPC output in one message", c.rpc_output_eager);
    fact(out, "largest tag", std::to_string(c.max_tag));
    fact(out, "segments per registration", std::to_string(c.max_segments));
    fact(out, "unexpected messages in order", yes_no(c.ordered_unexpected));
    fact(out, "expected messages in order", yes_no(c.ordered_expected));
    fact(out, "native multi-receive", yes_no(c.multi_recv));
    fact(out, "can sleep on a descriptor",
         c.looks ? "yes, looks 100 times a second" : yes_no(c.waitable));
    fact(out, "registers message buffers", yes_no(c.registers_messages));
    fact(out, "device memory", yes_no(c.device_memory));
    fact(out, "puts complete when delivered", yes_no(c.delivery_complete));
    fact(out, "allocator of its own", yes_no(c.own_allocator));
}

void plain_details(Out out, const Details& details) {
    heading(out, "Capabilities");
    for (const Capabilities& c : details.capabilities) {
        plain_capabilities(out, c);
    }
    heading(out, "Plugins");
    for (const PluginState& p : details.plugins) {
        if (!p.problem.empty()) {
            fact(out, p.name, "cannot be used: " + p.problem);
        } else {
            fact(out, p.name, p.library.empty() ? p.origin : p.origin + ", " + p.library);
        }
    }
    heading(out, "Versions");
    for (const Library& l : details.versions) {
        fact(out, l.name, l.version);
    }
    heading(out, "Environment");
    for (const EnvironmentVariable& v : details.environment) {
        fact(out, v.name,
             v.value ? fmt::format("\"{}\"", *v.value)
                     : fmt::format("not set, counts as \"{}\"", v.fallback));
        fmt::format_to(out, "      {}\n", v.help);
    }
}

std::string plain(const Report& report) {
    std::string text;
    const Out out = std::back_inserter(text);
    const std::string line(50, '-');
    fmt::format_to(out, "{}\n{:<10}{:>20}{:>20}\n{}\n", line, "Class", "Protocol", "Device", line);
    for (const Protocol& p : report.protocols) {
        fmt::format_to(out, "{:<10}{:>20}{:>20}\n", p.class_name, p.protocol, p.device);
    }
    if (report.details) {
        plain_details(out, *report.details);
    }
    return text;
}

// ---- CSV
// ---------------------------------------------------------------------------------------------------------

std::string csv(const Report& report) {
    std::string text;
    const Out out = std::back_inserter(text);
    fmt::format_to(out, "class,protocol,device");
    if (report.details) {
        fmt::format_to(
            out,
            ",max_unexpected,max_expected,headroom_unexpected,headroom_expected,rpc_input_eager,"
            "rpc_output_eager,max_tag,max_segments,ordered_unexpected,ordered_expected,multi_recv,"
            "waitable,registers_messages,device_memory,delivery_complete,own_allocator,"
            "looks");
    }
    fmt::format_to(out, "\n");
    for (const Protocol& p : report.protocols) {
        fmt::format_to(out, "{},{},{}", p.class_name, p.protocol, p.device);
        if (report.details) {
            const auto& all = report.details->capabilities;
            const auto c = std::find_if(all.begin(), all.end(), [&](const Capabilities& each) {
                return each.class_name == p.class_name && each.protocol == p.protocol;
            });
            if (c == all.end() || !c->why_not.empty()) {
                fmt::format_to(out, "{:,<17}", "");
            } else {
                fmt::format_to(
                    out, ",{},{},{},{},{},{},{},{},{:d},{:d},{:d},{:d},{:d},{:d},{:d},{:d},{:d}",
                    c->max_unexpected, c->max_expected, c->headroom_unexpected,
                    c->headroom_expected, c->rpc_input_eager, c->rpc_output_eager, c->max_tag,
                    c->max_segments, c->ordered_unexpected, c->ordered_expected, c->multi_recv,
                    c->waitable, c->registers_messages, c->device_memory, c->delivery_complete,
                    c->own_allocator, c->looks);
            }
        }
        fmt::format_to(out, "\n");
    }
    return text;
}

// ---- JSON
// --------------------------------------------------------------------------------------------------------

// nlohmann's own pretty printer puts a blank after ':', which the format has not.
void print(Out out, const Json& value, std::size_t indent) {
    const bool object = value.is_object();
    if ((!object && !value.is_array()) || value.empty()) {
        fmt::format_to(out, "{}", value.dump(-1, ' ', false, Json::error_handler_t::replace));
        return;
    }
    fmt::format_to(out, "{}\n", object ? '{' : '[');
    std::size_t left = value.size();
    for (const auto& [key, item] : value.items()) {
        fmt::format_to(out, "{:{}}", "", indent + 2);
        if (object) {
            fmt::format_to(out, "{}:", Json(key).dump());
        }
        print(out, item, indent + 2);
        fmt::format_to(out, "{}\n", --left > 0 ? "," : "");
    }
    fmt::format_to(out, "{:{}}{}", "", indent, object ? '}' : ']');
}

Json json_of(const Capabilities& c) {
    Json json = {{"class", c.class_name}, {"protocol", c.protocol}};
    if (!c.why_not.empty()) {
        json["problem"] = c.why_not;
        return json;
    }
    json["max_unexpected"] = c.max_unexpected;
    json["max_expected"] = c.max_expected;
    json["headroom_unexpected"] = c.headroom_unexpected;
    json["headroom_expected"] = c.headroom_expected;
    json["rpc_input_eager"] = c.rpc_input_eager;
    json["rpc_output_eager"] = c.rpc_output_eager;
    json["max_tag"] = c.max_tag;
    json["max_segments"] = c.max_segments;
    json["ordered_unexpected"] = c.ordered_unexpected;
    json["ordered_expected"] = c.ordered_expected;
    json["multi_recv"] = c.multi_recv;
    json["waitable"] = c.waitable;
    json["registers_messages"] = c.registers_messages;
    json["device_memory"] = c.device_memory;
    json["delivery_complete"] = c.delivery_complete;
    json["own_allocator"] = c.own_allocator;
    json["looks"] = c.looks;
    return json;
}

Json json_of(const PluginState& p) {
    Json json = {{"name", p.name}, {"origin", p.origin}};
    json["library"] = p.library.empty() ? Json(nullptr) : Json(p.library);
    json["problem"] = p.problem.empty() ? Json(nullptr) : Json(p.problem);
    return json;
}

Json json_of(const EnvironmentVariable& v) {
    return {{"name", v.name},
            {"value", v.value ? Json(*v.value) : Json(nullptr)},
            {"default", v.fallback},
            {"help", v.help}};
}

template <typename Items>
Json list_of(const Items& items) {
    Json list = Json::array();
    for (const auto& item : items) {
        list.push_back(json_of(item));
    }
    return list;
}

std::string json(const Report& report) {
    Json root;
    root["protocols"] = Json::array();
    for (const Protocol& p : report.protocols) {
        root["protocols"].push_back(
            Json{{"class", p.class_name}, {"protocol", p.protocol}, {"device", p.device}});
    }
    if (report.details) {
        const Details& details = *report.details;
        root["capabilities"] = list_of(details.capabilities);
        root["plugins"] = list_of(details.plugins);
        root["versions"] = Json::object();
        for (const Library& l : details.versions) {
            root["versions"][l.name] = l.version;
        }
        root["environment"] = list_of(details.environment);
    }
    std::string text;
    print(std::back_inserter(text), root, 0);
    return text + "\n";
}

}  // namespace

std::string render(const Report& report, Format format) {
    switch (format) {
        case Format::csv:
            return csv(report);
        case Format::json:
            return json(report);
        case Format::plain:
            break;
    }
    return plain(report);
}

}  // namespace info
