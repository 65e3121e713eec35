// SPDX-License-Identifier: BSD-3-Clause
// hg_info: the protocols that can be opened here, as a table, CSV or JSON, and on request all that
// the library knows of them. Options, output and exit status (0, or 1 for everything that is not a
// list, but for --help) are those of Mercury's tool.
#include <fmt/format.h>
#include <mercury.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

#include "tools/hg_info/report.hpp"

namespace {

struct Options {
    std::string protocol;
    bool protocol_given = false;
    bool silent = false;
    bool details = false;
    info::Format format = info::Format::plain;
};

// Returns the exit status; 0: the list is in `protocols`.
int list_protocols(const Options& options, std::vector<info::Protocol>& protocols) {
    struct na_protocol_info* list = nullptr;
    const hg_return_t code =
        HG_Get_na_protocol_info(options.protocol_given ? options.protocol.c_str() : nullptr, &list);
    if (code != HG_SUCCESS) {
        const std::string cause = HG_Get_last_error();
        const char* name = HG_Error_to_string(code);
        fmt::print(stderr, "HG_Get_protocol_info() failed ({})\n{}{}",
                   name != nullptr ? name : "unknown code", cause, cause.empty() ? "" : "\n");
        return 1;
    }
    for (const struct na_protocol_info* p = list; p != nullptr; p = p->next) {
        protocols.push_back({p->class_name, p->protocol_name, p->device_name});
    }
    HG_Free_na_protocol_info(list);
    if (protocols.empty() && options.protocol_given) {
        fmt::print(stderr, "No protocol found for \"{}\"\n", options.protocol);
        return 1;
    }
    return 0;
}

int run(const Options& options) {
    // JSON has no comments: whoever asks for it parses it.
    if (!options.silent && options.format != info::Format::json) {
        if (options.protocol_given) {
            fmt::print("# Retrieving protocol info for \"{}\"...\n", options.protocol);
        } else {
            fmt::print("# Retrieving protocol info for all protocols...\n");
        }
        std::fflush(stdout);
    }
    info::Report report;
    if (const int status = list_protocols(options, report.protocols); status != 0) {
        return status;
    }
    if (options.details) {
        report.details = info::gather_details(report.protocols);
    }
    fmt::print("{}", info::render(report, options.format));
    return std::fflush(stdout) == 0 ? 0 : 1;
}

// What is wrong on stderr, how it is used on stdout, as Mercury's tool.
int not_expected(const CLI::App& app) {
    for (const std::string& argument : app.remaining()) {
        const std::size_t name = argument.find_first_not_of('-');
        if (argument.starts_with('-') && name != std::string::npos) {
            fmt::print(stderr, "hg_info: unknown option \"{}\"\n", argument.substr(name));
        } else {
            fmt::print(stderr, "hg_info: one protocol, not \"{}\" too\n", argument);
        }
    }
    fmt::print("{}", app.help());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        Options options;
        bool csv = false;
        bool json = false;
        CLI::App app("Lists the protocols that can be opened here.", "hg_info");
        app.set_version_flag("--version", CINNABAR_VERSION);
        CLI::Option* protocol = app.add_option(
            "class+protocol", options.protocol,
            "show only these: a class, a protocol, class+protocol, or a whole info string");
        app.add_flag("-c,--csv", csv, "output in CSV format");
        app.add_flag("-j,--json", json, "output in JSON format");
        app.add_option("--format", options.format, "output format: plain, csv, json")
            ->transform(CLI::CheckedTransformer(
                            std::map<std::string, info::Format>{{"plain", info::Format::plain},
                                                                {"csv", info::Format::csv},
                                                                {"json", info::Format::json}})
                            .description({}))
            ->type_name("NAME");
        app.add_flag("-s,--silent", options.silent, "only the list, for programs that read it");
        app.add_flag("-v,--details,--verbose", options.details,
                     "also: capabilities and limits, plugins and why some cannot be used, "
                     "versions, environment "
                     "(plain, JSON); capabilities as further columns (CSV)");
        try {
            app.parse(argc, argv);
        } catch (const CLI::ExtrasError&) {
            return not_expected(app);
        } catch (const CLI::ParseError& error) {
            return app.exit(error) == 0 ? 0 : 1;
        }
        options.protocol_given = protocol->count() > 0;
        if (secure_getenv("HG_LOG_LEVEL") == nullptr) {
            HG_Set_log_level("none");  // what goes wrong is said below, once
        }
        if (json) {
            options.format = info::Format::json;
        }
        if (csv) {
            options.format = info::Format::csv;
        }
        return run(options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "hg_info: {}\n", error.what());
        return 1;
    }
}
