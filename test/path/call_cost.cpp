// SPDX-License-Identifier: BSD-3-Clause
// The same calls through the C API and through the typed API, for a tool that counts instructions
// (call_cost.sh): both sides in this process, one thread, one call at a time over na+sm. Each call
// takes a number and answers it plus one. After a warm-up no call may allocate.
//
//   call_cost c|cxx CALLS      0: fine, 1: not, 77: no sm here
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hg/engine.hpp"
#include "mercury.h"
#include "mercury_proc.h"

// --- interposed: counted, then passed on
// -----------------------------------------------------------------------------
namespace {
std::atomic<std::uint64_t> g_allocations{0};
}
extern "C" {
void* __libc_malloc(std::size_t);
void* malloc(std::size_t n) {
    g_allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_malloc(n);
}
}

namespace {

constexpr int kSkip = 77;
constexpr std::uint64_t kWarmUp = 500;

// Called before each call and behind the last.
class Allocations {
 public:
    void before(std::uint64_t call) noexcept {
        if (call == kWarmUp) {
            warm_ = g_allocations.load();
        }
    }
    bool none() const {
        const std::uint64_t n = g_allocations.load() - warm_;
        std::printf("%llu allocations after the warm-up\n", static_cast<unsigned long long>(n));
        return n == 0;
    }

 private:
    std::uint64_t warm_ = 0;
};

// --- C
// ---------------------------------------------------------------------------------------------------------------

struct Side {
    hg_class_t* cls = nullptr;
    hg_context_t* context = nullptr;
    hg_id_t increment = 0;

    bool open() {
        setenv("NA_UNLOCKED", "1", 1);  // as EngineOptions::single_thread on the other side
        hg_init_info info = HG_INIT_INFO_INITIALIZER;
        info.na_init_info.progress_mode = NA_NO_BLOCK;
        info.na_init_info.thread_mode = NA_THREAD_MODE_SINGLE;
        cls = HG_Init_opt2("na+sm", 1, HG_VERSION(2, 4), &info);
        if (cls == nullptr) {
            return false;
        }
        context = HG_Context_create(cls);
        increment = HG_Register_name(cls, "increment", hg_proc_uint64_t, hg_proc_uint64_t, serve);
        return context != nullptr;
    }
    void close() {
        HG_Context_destroy(context);
        HG_Finalize(cls);
    }
    void turn() {
        HG_Progress(context, 0);
        unsigned n = 0;
        HG_Trigger(context, 0, 64, &n);
    }
    static hg_return_t serve(hg_handle_t handle) {
        std::uint64_t value = 0;
        HG_Get_input(handle, &value);
        HG_Free_input(handle, &value);
        ++value;
        HG_Respond(handle, nullptr, nullptr, &value);
        return HG_Destroy(handle);
    }
};

struct Pending {
    bool done = false;
    std::uint64_t result = 0;
};

hg_return_t on_reply(const hg_cb_info* info) {
    auto* call = static_cast<Pending*>(info->arg);
    if (info->ret == HG_SUCCESS) {
        HG_Get_output(info->info.forward.handle, &call->result);
        HG_Free_output(info->info.forward.handle, &call->result);
    }
    call->done = true;
    return HG_SUCCESS;
}

int run_c(std::uint64_t calls) {
    Side server;
    Side client;
    if (!server.open() || !client.open()) {
        return kSkip;
    }
    hg_addr_t self = nullptr;
    HG_Addr_self(server.cls, &self);
    char text[256] = {};
    hg_size_t size = sizeof text;
    HG_Addr_to_string(server.cls, text, &size, self);
    HG_Addr_free(server.cls, self);
    hg_addr_t address = nullptr;
    HG_Addr_lookup2(client.cls, text, &address);
    hg_handle_t handle = nullptr;
    HG_Create(client.context, address, client.increment, &handle);
    std::uint64_t value = 0;
    bool good = true;
    Allocations allocations;
    for (std::uint64_t i = 0; i < calls && good; ++i) {
        allocations.before(i);
        Pending call;
        good = HG_Forward(handle, on_reply, &call, &value) == HG_SUCCESS;
        while (good && !call.done) {
            server.turn();
            client.turn();
        }
        value = call.result;
    }
    good = allocations.none() && good;
    HG_Destroy(handle);
    HG_Addr_free(client.cls, address);
    client.close();
    server.close();
    return good && value == calls ? 0 : 1;
}

// --- C++
// -------------------------------------------------------------------------------------------------------------

constexpr hg::Rpc<std::uint64_t(std::uint64_t)> increment{"increment"};

hg::Task<> call_all(const hg::Peer& peer, std::uint64_t calls, std::uint64_t& value, bool& done,
                    Allocations& allocations) {
    for (std::uint64_t i = 0; i < calls; ++i) {
        allocations.before(i);
        value = co_await increment(peer, value);
    }
    done = true;
}

int run_cxx(std::uint64_t calls) {
    hg::EngineOptions options;
    options.progress = hg::Progress::caller;
    options.single_thread = true;
    options.busy = true;
    auto server = hg::Engine::open("na+sm", true, options);
    auto client = hg::Engine::open("na+sm", true, options);
    if (!server || !client) {
        return kSkip;
    }
    server->serve(increment, [](std::uint64_t n) { return n + 1; });
    const hg::Peer peer = client->connect(server->uri());
    std::uint64_t value = 0;
    bool done = false;
    Allocations allocations;
    client->spawn(call_all(peer, calls, value, done, allocations));
    while (!done) {
        server->poll();
        client->poll();
    }
    return allocations.none() && value == calls ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s c|cxx CALLS\n", argv[0]);
        return 2;
    }
    const std::uint64_t calls = std::strtoull(argv[2], nullptr, 10);
    const int rc = std::strcmp(argv[1], "c") == 0 ? run_c(calls) : run_cxx(calls);
    if (rc == kSkip) {
        std::puts("SKIPPED: na+sm cannot be opened here");
    }
    return rc;
}
