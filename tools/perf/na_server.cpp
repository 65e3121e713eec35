// SPDX-License-Identifier: BSD-3-Clause
// na_perf_server: the other side of na_lat and na_bw.
#include <signal.h>

#include "na_service.hpp"
#include "processes.hpp"

namespace {

perf::NaService* g_service = nullptr;

void on_signal(int) {
    g_service->stop();
}

int run(const perf::Options& options) {
    perf::check_cpus(options.cpus);
    perf::Driving driving;
    driving.threads = options.threads;
    driving.busy = options.busy;
    driving.cpus = options.cpus;
    perf::pin(driving.cpus, 0);
    perf::NaSide side(options, true);
    perf::NaService service(options, side.lanes());
    g_service = &service;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    perf::announce(options, side.addresses());
    perf::serve(side.lanes(), driving, service.stopped());
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    service.close();
    side.close();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const perf::Options options =
        perf::parse("na_perf_server", argc, argv,
                    {.description = "Server of na_lat and na_bw", .server = true});
    return perf::guarded(options, [&options] { return run(options); });
}
