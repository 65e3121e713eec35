// SPDX-License-Identifier: BSD-3-Clause
// hg_rate: RPCs with arguments of each size, so many in flight.
#include "hg_args.hpp"

int main(int argc, char** argv) {
    const perf::Options options = perf::parse(
        "hg_rate", argc, argv,
        {.description = "RPCs per second, and the time of each, with arguments of growing size",
         .min_size = 1,
         .max_size = 65536,
         .rpc = true});
    return perf::run_tool(
        options,
        {.measure = perf::Measure::rate, .server = "hg_perf_server", .open = perf::open_args});
}
