// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>

namespace perf {
namespace {

constexpr double kLeastSeconds = 1e-3;
constexpr double kMostSeconds = 1e7;

unsigned usual_buffers(const Shape& shape) {
    return shape.buffers ? 8 : 1;
}

}  // namespace

std::string Options::protocol_name() const {
    return comm.empty() ? protocol : (comm == "sm" ? "na" : comm) + "+" + protocol;
}

std::string Options::info_string(bool server, unsigned number) const {
    std::string info = protocol_name();
    if (domain.empty() && hostname.empty() && (port == 0 || !server)) {
        return info;
    }
    info += "://";
    if (!domain.empty()) {
        info += domain + "/";
    }
    info += hostname;
    if (port != 0 && server) {
        info += fmt::format(":{}", static_cast<unsigned>(port) + number * contexts);
    }
    return info;
}

std::vector<std::string> Options::server_arguments() const {
    std::vector<std::string> arguments = {"-p", protocol,
                                          "-C", std::to_string(classes),
                                          "-X", std::to_string(contexts),
                                          "-t", std::to_string(threads)};
    const auto add = [&arguments](const char* name, const std::string& value) {
        if (!value.empty()) {
            arguments.insert(arguments.end(), {name, value});
        }
    };
    const auto flag = [&arguments](const char* name, bool set) {
        if (set) {
            arguments.emplace_back(name);
        }
    };
    add("-c", comm);
    add("-d", domain);
    add("-H", hostname);
    add("-P", port != 0 ? std::to_string(port) : "");
    add("-k", key);
    add("-T", traffic_class);
    add("-Z", message_size != 0 ? std::to_string(message_size) : "");
    add("-u", multi_recv_ops != 0 ? std::to_string(multi_recv_ops) : "");
    add("-i", post_init != 0 ? std::to_string(post_init) : "");
    flag("-b", busy);
    flag("-m", auto_sm);
    flag("-V", verbose);
    flag("-U", no_multi_recv);
    flag("--in-place", in_place);
    flag("--thread-safe", thread_safe);
    for (const int cpu : server_cpus) {
        add("--cpus", std::to_string(cpu));
    }
    return arguments;
}

namespace {

// CLI11 takes "-1" for a large number, and what is not a number at all for one in its range.
const auto kNotNegative = CLI::Validator(
    [](std::string& text) { return text.starts_with('-') ? text + " is negative" : std::string(); },
    "");

CLI::Validator seconds_from(double least) {
    return CLI::Validator(
        [least](std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool good = end != text.c_str() && *end == '\0' && std::isfinite(value) &&
                              value >= least && value <= kMostSeconds;
            return good ? std::string()
                        : fmt::format("{} is not a time between {} and {:.0f} s", text, least,
                                      kMostSeconds);
        },
        "");
}

void add_place(CLI::App& app, Options& o, const Shape& shape) {
    app.add_option("-c,--comm", o.comm,
                   "transport class (na, ofi, ucx); default: whichever offers the protocol");
    app.add_option("-p,--protocol", o.protocol, "protocol (sm, tcp, ...)")->required();
    app.add_option("-d,--domain", o.domain, "device");
    app.add_option("-H,--hostname", o.hostname, "host name, address or interface");
    app.add_option("-P,--port", o.port,
                   "port of the server's first class; each context of each class takes the next")
        ->check(CLI::Range(0, 65535));
    app.add_option("-k,--key", o.key, "authorization key");
    app.add_flag("-K,--key-rank", o.key_per_rank,
                 "the number that the key is, plus the number of the client");
    app.add_option("-T,--tclass", o.traffic_class, "traffic class")
        ->check(CLI::IsMember({"unspec", "best_effort", "low_latency", "bulk_data",
                               "dedicated_access", "scavenger", "network_ctrl"}));
    app.add_option("-f,--hostfile", o.hostfile,
                   shape.server ? "file, pipe or device for the addresses, one on each line"
                                : "file with the addresses of a server, or several, one on each "
                                  "line; handles go to them in turn")
        ->capture_default_str();
    if (shape.rpc) {
        app.add_flag("-m,--memory", o.auto_sm,
                     "shared memory with peers of the same host (auto_sm)");
    }
    if (shape.server) {
        app.add_option("--announce-fd", o.announce_fd,
                       "write the addresses to this descriptor too, and close it");
        app.add_flag("-N,--no-shutdown", o.no_shutdown, "stay when a client is done");
    } else {
        if (!shape.one_class) {
            app.add_flag("-S,--self_send,--self-send", o.self_send, "no server: to oneself");
        }
        app.add_flag("--launch", o.launch,
                     "start the server as well, as a process of its own on this host");
        app.add_option("--server-cpus", o.server_cpus, "with --launch: --cpus of the server")
            ->delimiter(',')
            ->allow_extra_args(false);  // what follows is no processor but the operation
    }
}

void add_way(CLI::App& app, Options& o, const Shape& shape) {
    const auto size = CLI::AsSizeValue(false);
    app.add_flag("-b,--busy", o.busy, "poll, never sleep");
    // Of numbers 0 is the default, as in Mercury.
    if (!shape.one_class) {
        app.add_option("-C,--classes", o.classes, "classes")
            ->check(CLI::Range(0, 64))
            ->capture_default_str();
        app.add_option("-X,--contexts", o.contexts, "contexts of each class")
            ->check(CLI::Range(0, 128))
            ->capture_default_str();
        app.add_option("-t,--threads", o.threads, "threads that drive the contexts")
            ->check(CLI::Range(0, 256))
            ->capture_default_str();
    }
    app.add_option("-Z,--msg-size,--msg_size", o.message_size, "largest message")
        ->transform(size)
        ->check(kNotNegative);
    app.add_option("--cpus", o.cpus,
                   "processors of the threads (with --clients: of the clients), in turn")
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_flag("-v,--verify", o.verify,
                 shape.server ? "accepted: a client says what is to be checked"
                              : "check every byte that arrives, on whichever side");
    app.add_flag("-U,--no-multi-recv", o.no_multi_recv, "one receive per message");
    app.add_option("-u,--mrecv-ops,--multi-recv-ops", o.multi_recv_ops, "multi-receive buffers")
        ->check(kNotNegative);
    app.add_option("-i,--post-init", o.post_init, "receives that are posted at once")
        ->check(kNotNegative);
    app.add_flag("-V,--verbose", o.verbose, "say more");
    app.add_flag("--thread-safe", o.thread_safe,
                 "do not tell the library how few threads there are (thread_mode 0)");
    if (shape.rpc && (shape.server || shape.sizes)) {
        app.add_flag("--in-place", o.in_place,
                     "the server reads arguments where they arrived instead of copying them");
    }
    if (shape.server) {
        return;
    }
    app.add_option("-l,--loop", o.loops,
                   "operations per handle and size; default: as many as fit into --seconds")
        ->check(kNotNegative);
    app.add_option("--seconds", o.seconds, "time per size without -l")
        ->check(seconds_from(kLeastSeconds))
        ->capture_default_str();
    app.add_option("-x,--handle", o.handles, "operations in flight per context")
        ->check(CLI::Range(0, 65535))
        ->capture_default_str();
    if (!shape.one_class) {
        app.add_option("--clients", o.clients, "client processes")
            ->check(CLI::Range(1, 1024))
            ->capture_default_str();
    }
    app.add_flag("-B,--barrier", o.barrier,
                 "accepted: several clients always begin each size together");
    app.add_option("--sample", o.sample,
                   "one of so many operations is timed for the percentiles; a power of two")
        ->check([](const std::string& text) {
            const unsigned long n = std::strtoul(text.c_str(), nullptr, 10);
            return std::has_single_bit(n) && n <= 1U << 20
                       ? std::string()
                       : text + " is not a power of two up to 1048576";
        })
        ->capture_default_str();
    if (shape.sizes) {
        app.add_option("-y,--buf_size_min,--min-size", o.min_size,
                       "smallest size (k, m, g may follow); the default is no larger than -z")
            ->transform(size)
            ->check(kNotNegative)
            ->capture_default_str();
        app.add_option("-z,--buf_size_max,--max-size", o.max_size,
                       "largest size; 0: the default, but with -y 0 only that")
            ->transform(size)
            ->check(kNotNegative)
            ->capture_default_str();
    }
    if (shape.buffers) {
        app.add_option("-w,--buf_count,--buffers", o.buffers, "buffers of that size per handle")
            ->check(CLI::Range(0, 65536))
            ->capture_default_str();
        app.add_flag("-R,--force-register", o.force_register,
                     "register the memory anew for each operation, within its time");
    }
    if (shape.buffers && shape.rpc) {
        app.add_flag("--library-memory", o.library_memory,
                     "memory that the library allocates, on both sides");
    }
}

void add_output(CLI::App& app, Options& o) {
    static const std::map<std::string, Format> formats = {
        {"text", Format::text}, {"csv", Format::csv}, {"json", Format::json}};
    app.add_option("--format", o.format, "text, csv or json")
        ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description({}))
        ->type_name("NAME");
    app.add_option("-o,--output", o.output, "file for the results instead of the standard output");
    app.add_flag("-M,--millionbps,--mbps", o.megabytes,
                 "bandwidth in 10^6 B/s instead of 2^20 B/s");
}

// What Mercury's tools take besides, each on all of them: a script that uses the same options for
// each tool goes on working.
void add_without_effect(CLI::App& app, std::vector<const CLI::Option*>& added) {
    static const struct {
        const char* name;
        const char* names;
        bool value;
    } kinds[] = {
        {"-S", "-S,--self_send,--self-send", false},
        {"-s", "-s,--mpi_static", false},
        {"-l", "-l,--loop", true},
        {"-y", "-y,--buf_size_min", true},
        {"-z", "-z,--buf_size_max", true},
        {"-w", "-w,--buf_count", true},
        {"-x", "-x,--handle", true},
        {"-C", "-C,--classes", true},
        {"-X", "-X,--contexts", true},
        {"-t", "-t,--threads", true},
        {"-m", "-m,--memory", false},
        {"-B", "-B,--barrier,--bidirectional", false},
        {"-R", "-R,--force-register", false},
        {"-M", "-M,--millionbps,--mbps", false},
        {"-N", "-N,--no-shutdown", false},
    };
    for (const auto& kind : kinds) {
        if (app.get_option_no_throw(kind.name) == nullptr) {
            // Without a group it is not in the help.
            added.push_back(
                (kind.value ? app.add_option(kind.names) : app.add_flag(kind.names))->group(""));
        }
    }
}

// What 0 stands for; and who says the largest size only means the smallest to be no larger.
void use_defaults(const CLI::App& app, Options& o, const Shape& shape) {
    const Options defaults;
    const auto of = [](unsigned& value, unsigned usual) { value = value == 0 ? usual : value; };
    of(o.classes, defaults.classes);
    of(o.contexts, defaults.contexts);
    of(o.threads, defaults.threads);
    of(o.handles, defaults.handles);
    of(o.buffers, usual_buffers(shape));
    const CLI::Option* smallest = app.get_option_no_throw("-y");
    const bool said = smallest != nullptr && smallest->count() > 0;
    if (o.max_size == 0 && !(said && o.min_size == 0)) {
        o.max_size = shape.max_size;
    }
    if (!said) {
        o.min_size = std::min(o.min_size, o.max_size);
    }
}

[[noreturn]] void refuse(const CLI::App& app, const std::string& why) {
    std::cerr << app.get_name() << ": " << why << "\n";
    std::exit(1);
}

}  // namespace

Options parse(const char* tool, int argc, char** argv, const Shape& shape) {
    Options o;
    o.tool = tool;
    o.min_size = shape.min_size;
    o.max_size = shape.max_size;
    o.buffers = usual_buffers(shape);
    CLI::App app{shape.description, tool};
    app.get_formatter()->column_width(36);
    app.footer("Of a number of classes, contexts, threads, handles or buffers, 0 is the default.");
    add_place(app, o, shape);
    add_way(app, o, shape);
    if (!shape.operations.empty()) {
        o.operation = shape.operations.front();
        app.add_option("operation", o.operation, "what is done")
            ->check(CLI::IsMember(shape.operations))
            ->capture_default_str();
    }
    if (!shape.server) {
        add_output(app, o);
    }
    std::vector<const CLI::Option*> without_effect;
    add_without_effect(app, without_effect);
    if (o.tool == "hg_rate") {
        app.add_flag("--echo", o.echo, "the answer brings the arguments back");
        app.add_option(
               "--idle", o.idle_seconds,
               "afterwards, measure for so many seconds the processor time of both sides while "
               "nothing happens")
            ->check(seconds_from(0));
        app.add_option("--idle-peers", o.idle_peers,
                       "that many further peers are connected and do nothing")
            ->check(kNotNegative);
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        std::exit(app.exit(e) == 0 ? 0 : 1);
    }
    use_defaults(app, o, shape);
    if (o.min_size > o.max_size) {
        refuse(app, fmt::format("the smallest size, {}, is above the largest, {}", o.min_size,
                                o.max_size));
    }
    if (o.self_send && (o.launch || o.clients > 1)) {
        refuse(app, "-S is for one process: no --launch, no --clients");
    }
    if (o.port != 0 && static_cast<unsigned>(o.port) + o.classes * o.contexts - 1 > 65535) {
        refuse(app, fmt::format("-P {}: there are no ports for {} contexts from there on", o.port,
                                o.classes * o.contexts));
    }
    if (!o.server_cpus.empty() && !o.launch) {
        refuse(app,
               "--server-cpus is for the server that --launch starts; another has its own "
               "--cpus");
    }
    if (o.operation == "args" && o.library_memory) {
        refuse(app, "arguments are no registered memory: no --library-memory with args");
    }
    if (o.force_register && o.library_memory) {
        refuse(app,
               "the library registers the memory that it allocates: no -R with --library-memory");
    }
    if (o.operation == "args") {
        o.force_register = false;
        without_effect.push_back(app.get_option("-w"));
        without_effect.push_back(app.get_option("-R"));
    }
    for (const CLI::Option* option : without_effect) {
        if (option->count() > 0) {
            fmt::print(stderr, "{}: {} has no effect here\n", tool,
                       "-" + option->get_snames().front());
        }
    }
    return o;
}

}  // namespace perf
