// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "processes.hpp"

namespace perf {

struct Report::Body {
    Body() = default;
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

    nlohmann::ordered_json json;
};

Report::Report(const Options& options, Measure measure)
    : options_(options), measure_(measure), out_(stdout), terminal_(isatty(STDERR_FILENO) != 0) {
    if (!options.output.empty()) {
        out_ = std::fopen(options.output.c_str(), "w");
        if (out_ == nullptr) {
            cannot_write();
        }
    }
    body_ = std::make_unique<Body>();
    utsname system{};
    uname(&system);
    body_->json = {{"tool", options.tool},
                   {"protocol", options.protocol_name()},
                   {"operation", options.operation},
                   {"busy", options.busy},
                   {"echo", options.echo},
                   {"in_place", options.in_place},
                   {"thread_safe", options.thread_safe},
                   {"library_memory", options.library_memory},
                   {"force_register", options.force_register},
                   {"self_send", options.self_send},
                   {"message_size", options.message_size},
                   {"idle_peers", options.idle_peers},
                   {"handles", options.handles},
                   {"clients", options.clients},
                   {"classes", options.classes},
                   {"contexts", options.contexts},
                   {"threads", options.threads},
                   {"buffers", options.buffers},
                   {"verify", options.verify},
                   {"cpus", options.cpus},
                   {"server_cpus", options.server_cpus},
                   {"version", CINNABAR_VERSION},
                   {"kernel", system.release},
                   {"notes", nlohmann::ordered_json::array()},
                   {"rows", nlohmann::ordered_json::array()}};
}

Report::~Report() {
    if (out_ != stdout && out_ != nullptr) {
        std::fclose(out_);
    }
}

void Report::cannot_write() const {
    throw Failure(fmt::format("cannot write the results to {}: {}",
                              options_.output.empty() ? "the standard output" : options_.output,
                              std::strerror(errno)));
}

void Report::write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), out_) != text.size() || std::fflush(out_) != 0) {
        cannot_write();
    }
}

double Report::bandwidth(std::uint64_t size, double ns) const noexcept {
    return ns <= 0 ? 0
                   : static_cast<double>(size) / ns * 1e9 / (options_.megabytes ? 1e6 : 1048576.0);
}

void Report::note(const std::string& text) {
    body_->json["notes"].push_back(text);
    if (options_.format == Format::text) {
        write(fmt::format("# {}\n", text));
    }
}

void Report::title(std::uint64_t transfers) {
    titled_ = true;
    const char* main = "Rate (ops/s)";
    const char* time = "Time (us)";
    if (measure_ == Measure::bandwidth) {
        main = options_.megabytes ? "Bandwidth (MB/s)" : "Bandwidth (MiB/s)";
    } else if (measure_ == Measure::one_way) {
        main = "Latency (us)";
        time = "Round trip (us)";
    }
    if (options_.format == Format::csv) {
        const char* const of = transfers == 1 ? "" : "rpc_";
        write(fmt::format(
            "size,operations,transfers,\"{0}\",\"{1}\",median_us,median_of,{2}p50_us,{2}p99_us,"
            "{2}p99_9_us{3}\n",
            main, time, of,
            options_.force_register ? fmt::format(",{0}register_us,{0}deregister_us", of) : ""));
        return;
    }
    if (transfers != 1) {
        write(
            fmt::format("# Time and median are of one transfer; what is said to be of an RPC, of "
                        "one with its {}, from posting to the callback\n",
                        transfers));
    }
    const char* const of = transfers == 1 ? "" : "RPC ";
    write(fmt::format(
        "# {:<10}{:>20}{:>18}{:>12}{:>11}{:>11}{:>11}{}\n", "Size", main, time, "median",
        fmt::format("{}p50", of), fmt::format("{}p99", of), fmt::format("{}p99.9", of),
        options_.force_register
            ? fmt::format("{:>14}{:>14}", fmt::format("{}reg.", of), fmt::format("{}dereg.", of))
            : ""));
}

void Report::row(std::uint64_t size, const Result& result, std::uint64_t transfers) {
    progress(size, -1);
    const double per = static_cast<double>(transfers);
    const double mean = result.mean_ns() / per;
    const double median = result.median_ns() / per;
    const char* const median_of = result.has_blocks() ? "blocks" : "samples";
    without_blocks_ = without_blocks_ || !result.has_blocks();
    // Percentiles are of whole operations: from posting to the callback.
    const double p50 = result.latency.percentile(0.5) / 1e3;
    const double p99 = result.latency.percentile(0.99) / 1e3;
    const double p999 = result.latency.percentile(0.999) / 1e3;
    double main = mean > 0 ? 1e9 / mean : 0;
    if (measure_ == Measure::bandwidth) {
        main = bandwidth(size, mean);
    } else if (measure_ == Measure::one_way) {
        main = mean / 2e3;
    }
    body_->json["rows"].push_back(
        {{"size", size},
         {"operations", result.operations},
         {"transfers", transfers},
         {"seconds", static_cast<double>(result.elapsed_ns) / 1e9},
         {"rate", mean > 0 ? 1e9 / mean : 0},
         {"mib_per_s", mean > 0 ? static_cast<double>(size) / mean * 1e9 / 1048576.0 : 0},
         {"mean_us", mean / 1e3},
         {"median_us", median / 1e3},
         {"median_of", median_of},
         {"blocks", result.blocks},
         {"undisturbed_us", result.undisturbed_ns() / per / 1e3},
         {"percentiles_of", transfers == 1 ? "operation" : "RPC with all its transfers"},
         {"p50_us", p50},
         {"p99_us", p99},
         {"p99_9_us", p999}});
    // Of the operations, too.
    const double operations = static_cast<double>(std::max<std::uint64_t>(result.operations, 1));
    const double reg = static_cast<double>(result.registering_ns) / operations / 1e3;
    const double dereg = static_cast<double>(result.deregistering_ns) / operations / 1e3;
    if (options_.force_register) {
        body_->json["rows"].back().update({{"register_us", reg}, {"deregister_us", dereg}});
    }
    if (options_.format == Format::json) {
        return;
    }
    if (!titled_) {
        title(transfers);
    }
    if (options_.format == Format::csv) {
        write(fmt::format(
            "{},{},{},{:.3f},{:.4f},{:.4f},{},{:.4f},{:.4f},{:.4f}{}\n", size, result.operations,
            transfers, main, mean / 1e3, median / 1e3, median_of, p50, p99, p999,
            options_.force_register ? fmt::format(",{:.4f},{:.4f}", reg, dereg) : ""));
    } else {
        write(fmt::format(
            "{:<12}{:>20.{}f}{:>18.3f}{:>12.3f}{:>11.3f}{:>11.3f}{:>11.3f}{}\n", size, main,
            measure_ == Measure::rate ? 0 : 2, mean / 1e3, median / 1e3, p50, p99, p999,
            options_.force_register ? fmt::format("{:>14.3f}{:>14.3f}", reg, dereg) : ""));
    }
}

void Report::figure(const std::string& name, double value, const std::string& unit) {
    body_->json["figures"][name] = {{"value", value}, {"unit", unit}};
    if (options_.format != Format::json) {  // in CSV a comment: it is no row of that table
        write(fmt::format("# {}: {:.4g} {}\n", name, value, unit));
    }
}

void Report::progress(std::uint64_t size, double share) {
    if (!terminal_) {
        return;
    }
    if (share < 0) {
        fmt::print(stderr, "\r\x1b[K");
    } else {
        fmt::print(stderr, "\r{} {} B: {:3.0f}%", options_.tool, size, std::min(share, 1.0) * 100);
    }
    std::fflush(stderr);
}

void Report::finish() {
    if (options_.format == Format::json) {
        write(body_->json.dump(2) + "\n");
    } else if (options_.format == Format::text && without_blocks_) {
        write("# Too short for blocks: a median is that of the operations that were timed\n");
    }
    // Some file systems say only then that there was no room.
    if (out_ != stdout && std::fclose(std::exchange(out_, nullptr)) != 0) {
        cannot_write();
    }
}

}  // namespace perf
