// SPDX-License-Identifier: BSD-3-Clause
// hg_perf_server: the other side of hg_rate, hg_bw and hg_first.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>

#include "hg_service.hpp"
#include "hg_side.hpp"
#include "processes.hpp"

namespace {

perf::HgService* g_service = nullptr;

void on_signal(int) {
    g_service->stop();
}

}  // namespace

int main(int argc, char** argv) {
    const perf::Options options = perf::parse(
        "hg_perf_server", argc, argv,
        {.description = "Server of hg_rate, hg_bw and hg_first", .server = true, .rpc = true});
    return perf::guarded(options, [&options] {
        perf::check_cpus(options.cpus);
        perf::Driving driving;
        driving.threads = options.threads;
        driving.busy = options.busy;
        driving.cpus = options.cpus;
        perf::pin(driving.cpus, 0);
        perf::HgService service(options);
        perf::HgSide side(options, true, perf::HgService::handlers(), &service);
        g_service = &service;
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
        if (options.announce_fd < 0) {
            for (const std::string& note : side.notes()) {
                fmt::print("# {}\n", note);
            }
        }
        perf::announce(options, side.addresses());
        perf::serve(side.lanes(), driving, service.stopped());
        service.clear();
        side.close();
        return 0;
    });
}
