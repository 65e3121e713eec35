// SPDX-License-Identifier: BSD-3-Clause
// What callgrind counts (instructions.py runs this program with two numbers and takes the
// difference): calls between two classes of one process, one thread, so that no turn is idle and
// the count is the same each time; and progress that finds nothing.
//
//   instructions rpc N        N calls with 8 bytes there and back over na+sm, both sides
//   instructions locked N     the same calls in classes that lock, as C classes do by default
//   instructions progress N   N empty progress calls of a server that 100 peers are connected to
//
// rpc and progress measure classes that take no locks (NA_UNLOCKED).
// 0: done, 1: failed, 77: no sm here
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mercury.h"
#include "mercury_proc.h"

// --- time
// Some work is done every so many microseconds. Under valgrind, and where others use the machine,
// that would be more of it per call than there is; so a turn takes 50 ns here, whatever it takes.

namespace {
std::int64_t g_time_ns = 1'000'000'000;
}

extern "C" int clock_gettime(clockid_t, timespec* t) noexcept {
    g_time_ns += 20;
    t->tv_sec = g_time_ns / 1'000'000'000;
    t->tv_nsec = g_time_ns % 1'000'000'000;
    return 0;
}

namespace {

constexpr std::int64_t kTurnNs = 50;
constexpr int kSkip = 77;
constexpr unsigned kPeers = 100;

hg_return_t on_echo(hg_handle_t handle) {
    std::uint64_t value = 0;
    HG_Get_input(handle, &value);
    HG_Free_input(handle, &value);
    ++value;
    HG_Respond(handle, nullptr, nullptr, &value);
    return HG_Destroy(handle);
}

struct Side {
    hg_class_t* hg_class = nullptr;
    hg_context_t* context = nullptr;
    hg_id_t echo = 0;

    bool open(bool listen) {
        hg_init_info info = HG_INIT_INFO_INITIALIZER;
        info.na_init_info.progress_mode = NA_NO_BLOCK;
        info.na_init_info.thread_mode = NA_THREAD_MODE_SINGLE;
        hg_class = HG_Init_opt2("na+sm", listen, HG_VERSION(2, 4), &info);
        if (hg_class == nullptr) {
            return false;
        }
        context = HG_Context_create(hg_class);
        echo = HG_Register_name(hg_class, "echo", hg_proc_uint64_t, hg_proc_uint64_t, on_echo);
        return context != nullptr && echo != 0;
    }
    bool close() {
        return HG_Context_destroy(context) == HG_SUCCESS && HG_Finalize(hg_class) == HG_SUCCESS;
    }
    void turn() const {
        g_time_ns += kTurnNs;
        HG_Progress(context, 0);
        unsigned n = 0;
        HG_Trigger(context, 0, 16, &n);
    }
};

struct Call {
    bool done = false;
    std::uint64_t result = 0;
};

hg_return_t on_reply(const hg_cb_info* info) {
    auto* call = static_cast<Call*>(info->arg);
    if (info->ret == HG_SUCCESS &&
        HG_Get_output(info->info.forward.handle, &call->result) == HG_SUCCESS) {
        HG_Free_output(info->info.forward.handle, &call->result);
    }
    call->done = true;
    return HG_SUCCESS;
}

// So many calls of `client`; false if one fails.
bool calls(const Side& client, const Side& server, const char* address, std::uint64_t count) {
    hg_addr_t target = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    bool good = HG_Addr_lookup2(client.hg_class, address, &target) == HG_SUCCESS &&
                HG_Create(client.context, target, client.echo, &handle) == HG_SUCCESS;
    for (std::uint64_t i = 0; good && i < count; ++i) {
        Call call;
        std::uint64_t value = i;
        good = HG_Forward(handle, on_reply, &call, &value) == HG_SUCCESS;
        while (good && !call.done) {
            server.turn();
            client.turn();
        }
        good = good && call.result == i + 1;
    }
    HG_Destroy(handle);
    HG_Addr_free(client.hg_class, target);
    return good;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: instructions rpc|locked|progress N\n");
        return 1;
    }
    const bool locked = std::strcmp(argv[1], "locked") == 0;
    const bool rpc = locked || std::strcmp(argv[1], "rpc") == 0;
    setenv("NA_UNLOCKED", locked ? "0" : "1", 1);
    const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
    Side server;
    if (!server.open(true)) {
        std::puts("SKIPPED: na+sm cannot be opened here");
        return kSkip;
    }
    char address[256] = {};
    hg_size_t size = sizeof address;
    hg_addr_t self = HG_ADDR_NULL;
    HG_Addr_self(server.hg_class, &self);
    HG_Addr_to_string(server.hg_class, address, &size, self);
    HG_Addr_free(server.hg_class, self);

    std::vector<Side> clients(rpc ? 1 : kPeers);
    bool good = true;
    for (Side& client : clients) {
        good = good && client.open(false) && calls(client, server, address, rpc ? count : 1);
    }
    for (std::uint64_t i = 0; good && !rpc && i < count; ++i) {
        unsigned n = 0;
        g_time_ns += kTurnNs;
        good = HG_Event_progress(server.context, &n) == HG_SUCCESS;
    }
    for (Side& client : clients) {
        good = good && client.close();
    }
    return good && server.close() ? 0 : 1;
}
