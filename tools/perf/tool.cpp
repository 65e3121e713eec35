// SPDX-License-Identifier: BSD-3-Clause
#include "tool.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>

namespace perf {
namespace {

Limits warm_up(const Options& o, std::uint64_t size) {
    Limits limits;
    limits.loops = o.loops == 0 ? 0 : std::min<std::uint64_t>(o.loops, size <= 8192 ? 100 : 10);
    limits.seconds = o.loops == 0 ? std::max(0.02, o.seconds / 10) : 0;
    return limits;
}

Driving driving_of(const Options& o, unsigned index) {
    Driving driving;
    driving.threads = o.threads;
    driving.busy = o.busy;
    driving.sample = o.sample;
    if (!o.cpus.empty()) {
        // Each client begins at its own processor.
        for (std::size_t i = 0; i < o.cpus.size(); ++i) {
            driving.cpus.push_back(o.cpus[(std::size_t{index} * o.threads + i) % o.cpus.size()]);
        }
    }
    return driving;
}

Result measure(Client& client, const Options& o, const Driving& driving, Team& team, unsigned index,
               Report* report, std::uint64_t size) {
    client.prepare(size);
    Run run(client.lanes(), driving);
    if (!run.measure(warm_up(o, size)).good) {
        throw Failure(fmt::format("an operation of {} B failed: {}", size, run.why()));
    }
    team.meet();
    Result& mine = team.result(index);
    mine = run.measure({o.loops, o.loops == 0 ? o.seconds : 0}, [report, size](double share) {
        if (report != nullptr) {
            report->progress(size, share);
        }
    });
    if (!mine.good) {
        throw Failure(fmt::format("an operation of {} B failed: {}", size, run.why()));
    }
    client.check(size);
    team.meet();
    Result all = mine;
    for (unsigned i = 0; i < team.size(); ++i) {
        if (i != index) {
            all.merge(team.result(i));
        }
    }
    team.meet();  // nobody overwrites its result before it has been read
    return all;
}

int run_client(const Options& o, const Task& task, const std::vector<std::string>& addresses,
               Team& team, unsigned index) {
    return guarded(o, [&] {
        const Driving driving = driving_of(o, index);
        pin(driving.cpus, 0);
        std::unique_ptr<Report> report;
        if (index == 0) {
            report = std::make_unique<Report>(o, task.measure);
        }
        const std::unique_ptr<Client> client = task.open(o, addresses, index);
        if (report) {
            for (const std::string& note : client->notes()) {
                report->note(note);
            }
            report->note(fmt::format("{} client process{}, {} handle{} in flight per context",
                                     o.clients, o.clients == 1 ? "" : "es", o.handles,
                                     o.handles == 1 ? "" : "s"));
        }
        const std::uint64_t max_size = std::min(o.max_size, client->max_size());
        const std::uint64_t min_size = std::max(o.min_size, task.least_size);
        if (min_size > o.max_size) {
            throw Failure(
                fmt::format("nothing to measure up to {} B: choose a larger -z", o.max_size));
        }
        if (min_size > max_size) {
            throw Failure(
                fmt::format("the largest message here has {} B: choose a smaller -y", max_size));
        }
        for (std::uint64_t size = min_size; size <= max_size; size = o.size_after(size)) {
            const Result all = measure(*client, o, driving, team, index, report.get(), size);
            if (report) {
                report->row(size, all, task.transfers);
            }
        }
        if (report) {
            client->finish(*report);
        }
        client->leave();
        team.meet();
        if (index == 0) {
            client->shut_down();
        }
        client->close();
        if (report) {
            report->finish();
        }
        return 0;
    });
}

}  // namespace

int guarded(const Options& options, const std::function<int()>& body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return report_failure(options, "no memory: choose a smaller -z, -w or -x");
    } catch (const std::exception& failure) {
        return report_failure(options, failure.what());
    }
}

int report_failure(const Options& options, const std::string& what) {
    // A progress line may be there.
    fmt::print(stderr, "{}{}: {}\n", isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", options.tool,
               what);
    return 1;
}

void announce(const Options& options, const std::vector<std::string>& addresses) {
    if (!options.hostfile.empty()) {
        fmt::print("# Writing config to {}\n", options.hostfile);
        write_hostfile(options.hostfile, addresses);
    }
    if (options.announce_fd >= 0) {
        const std::string text = fmt::format("{}\n", fmt::join(addresses, "\n"));
        if (write(options.announce_fd, text.data(), text.size()) !=
            static_cast<ssize_t>(text.size())) {
            throw Failure("cannot announce the addresses");
        }
        close(options.announce_fd);
    } else {
        fmt::print("# 1 server process\n# Waiting for client\n");
        std::fflush(stdout);
    }
}

void need_memory(std::initializer_list<std::uint64_t> factors, const std::string& for_what) {
    std::uint64_t bytes = 1;
    for (const std::uint64_t factor : factors) {
        if (__builtin_mul_overflow(bytes, factor, &bytes)) {
            bytes = UINT64_MAX;
        }
    }
    const std::uint64_t kib = available_memory();
    if (kib != 0 && bytes / 1024 > kib / 2) {
        throw Failure(
            fmt::format("{} of {} MiB would take more than half of the memory that is free ({} "
                        "MiB): choose "
                        "a smaller -z, -w or -x",
                        for_what, bytes >> 20, kib >> 10));
    }
}

std::uint64_t available_memory() {
    std::ifstream file("/proc/meminfo");
    std::string name;
    std::uint64_t kib = 0;
    std::string unit;
    while (file >> name >> kib >> unit) {
        if (name == "MemAvailable:") {
            return kib;
        }
    }
    return 0;
}

int run_tool(const Options& o, const Task& task) {
    signal(SIGPIPE, SIG_IGN);
    return guarded(o, [&] {
        check_cpus(o.cpus);
        check_cpus(o.server_cpus);
        Server server;
        std::vector<std::string> addresses;
        if (o.launch) {
            addresses = server.launch(task.server, o.server_arguments());
        } else if (!o.self_send) {
            addresses = read_hostfile(o.hostfile);
        }
        Team team(o.clients);
        const int rc =
            team.run([&](unsigned index) { return run_client(o, task, addresses, team, index); });
        if (rc == 0 && server.running()) {
            server.await();
        }
        return rc;
    });
}

}  // namespace perf
