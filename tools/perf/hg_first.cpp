// SPDX-License-Identifier: BSD-3-Clause
// hg_first: the first RPC to a server nobody has talked to, connection set-up included. Each loop
// opens everything anew, and is one operation, however many handles call at once.
#include <fmt/format.h>

#include "hg_side.hpp"
#include "targets.hpp"

namespace perf {
namespace {

struct First {
    unsigned left = 0;
    hg_return_t ret = HG_SUCCESS;
};

hg_return_t on_answer(const hg_cb_info* info) {
    auto* first = static_cast<First*>(info->arg);
    if (info->ret != HG_SUCCESS) {
        first->ret = info->ret;
    }
    --first->left;
    return HG_SUCCESS;
}

// Opens, calls on all handles at once, closes. The time from looking the address up to the last
// answer goes to `result`.
void once(const Options& o, const std::vector<std::string>& addresses, Result& result) {
    HgSide side(o, false, {}, nullptr);
    HgLane& lane = side.lane(0);
    std::vector<hg_handle_t> handles(o.handles);
    Bytes none;
    First first{o.handles};
    Patience patience;
    const std::uint64_t start = now_ns();
    for (const std::size_t at : targets_of(o, 0, 0, addresses.size())) {
        check_hg(HG_Addr_lookup2(lane.hg_class, addresses[at].c_str(),
                                 &lane.targets.emplace_back().addr),
                 addresses[at] + " is no address");
    }
    for (std::size_t i = 0; i < handles.size(); ++i) {
        check_hg(HG_Create(lane.context, lane.target(i).addr, lane.rpcs->rate, &handles[i]),
                 "cannot create a handle");
        check_hg(HG_Forward(handles[i], on_answer, &first, &none), "cannot forward");
    }
    while (first.left > 0) {
        lane.turn(o.busy ? 0 : 100);
        patience.look(now_ns(), o.handles - first.left);
    }
    const std::uint64_t took = now_ns() - start;
    for (const hg_handle_t handle : handles) {
        HG_Destroy(handle);
    }
    check_hg(first.ret, "the first RPC failed");
    result.latency.add(took);
    result.elapsed_ns += took;
    ++result.operations;
    side.close();
}

int run(Options o) {
    Server server;
    std::vector<std::string> addresses;
    if (o.launch) {
        addresses = server.launch("hg_perf_server", o.server_arguments());
    } else {
        addresses = read_hostfile(o.hostfile);
    }
    check_cpus(o.cpus);
    check_cpus(o.server_cpus);
    pin(o.cpus, 0);
    Report report(o, Measure::rate);
    report.note(fmt::format("Each loop opens a class, and calls on {} handle{}", o.handles,
                            o.handles == 1 ? "" : "s"));
    Result result;
    const std::uint64_t start = now_ns();
    const std::uint64_t end = start + static_cast<std::uint64_t>(o.seconds * 1e9);
    for (std::uint64_t i = 0; o.loops != 0 ? i < o.loops : now_ns() < end; ++i) {
        once(o, addresses, result);
        report.progress(0, o.loops != 0
                               ? static_cast<double>(i) / static_cast<double>(o.loops)
                               : static_cast<double>(now_ns() - start) / (o.seconds * 1e9));
    }
    report.row(0, result, 1);
    HgSide last(o, false, {}, nullptr);
    last.connect(addresses);
    last.shut_down();
    last.close();
    if (server.running()) {
        server.await();
    }
    report.finish();
    return 0;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
    const perf::Options options =
        perf::parse("hg_first", argc, argv,
                    {.description = "Time of the first RPC to a server, connection set-up included",
                     .sizes = false,
                     // What counts is a process that has not talked to the server yet.
                     .one_class = true,
                     .rpc = true});
    return perf::guarded(options, [&options] { return perf::run(options); });
}
