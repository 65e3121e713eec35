// SPDX-License-Identifier: BSD-3-Clause
// What the data path costs besides instructions: two processes, one RPC at a time over na+sm, both
// polling. After a warm-up neither side may allocate or take a mutex. The number of system calls is
// for strace to count (syscalls.sh runs this program with two counts of calls and compares).
//
//   rpc_path CALLS [IN_FLIGHT [BYTES]]     0: fine, 1: not, 77: no sm here
//
// With several in flight, whose callbacks forward again, messages leave together where HG_COALESCE
// says so. BYTES: so many more of arguments.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "mercury.h"
#include "mercury_proc.h"

// --- interposed: counted, then passed on
// -----------------------------------------------------------------------------

namespace {
std::atomic<std::uint64_t> g_allocations{0};
std::atomic<std::uint64_t> g_mutexes{0};
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) {
    g_allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
    g_allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
    g_allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
    g_allocations.fetch_add(1, std::memory_order_relaxed);
    return __libc_memalign(alignment, n);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
    using Lock = int (*)(pthread_mutex_t*);
    static std::atomic<Lock> real{nullptr};
    Lock lock = real.load(std::memory_order_relaxed);
    if (lock == nullptr) {
        lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
        real.store(lock, std::memory_order_relaxed);
    }
    g_mutexes.fetch_add(1, std::memory_order_relaxed);
    return lock(mutex);
}
}

namespace {

constexpr unsigned kWarmUp = 2000;
constexpr int kSkip = 77;

// What goes with the number.
std::vector<char> g_load;
hg_return_t proc_loaded(hg_proc_t proc, void* value) {
    const hg_return_t s = hg_proc_uint64_t(proc, value);
    return s != HG_SUCCESS || g_load.empty() ? s
                                             : hg_proc_memcpy(proc, g_load.data(), g_load.size());
}

struct Used {
    std::uint64_t allocations = 0;
    std::uint64_t mutexes = 0;
};
Used used() {
    return {g_allocations.load(), g_mutexes.load()};
}

struct Side {
    hg_class_t* cls = nullptr;
    hg_context_t* context = nullptr;
    hg_id_t echo = 0;
    hg_id_t stop = 0;

    bool open(bool listen) {
        hg_init_info info = HG_INIT_INFO_INITIALIZER;
        info.na_init_info.progress_mode = NA_NO_BLOCK;
        info.na_init_info.thread_mode = NA_THREAD_MODE_SINGLE;
        cls = HG_Init_opt2("na+sm", listen, HG_VERSION(2, 4), &info);
        if (cls == nullptr) {
            return false;
        }
        context = HG_Context_create(cls);
        echo = HG_Register_name(cls, "echo", proc_loaded, hg_proc_uint64_t, on_echo);
        stop = HG_Register_name(cls, "stop", nullptr, nullptr, on_stop);
        return context != nullptr;
    }
    bool close() {
        return HG_Context_destroy(context) == HG_SUCCESS && HG_Finalize(cls) == HG_SUCCESS;
    }
    void turn() {
        HG_Progress(context, 0);
        unsigned n = 0;
        HG_Trigger(context, 0, 16, &n);
    }

    static hg_return_t on_echo(hg_handle_t handle);
    static hg_return_t on_stop(hg_handle_t handle) {
        stopped = true;
        HG_Respond(handle, nullptr, nullptr, nullptr);
        return HG_Destroy(handle);
    }
    static inline bool stopped = false;
    static inline std::uint64_t served = 0;
    static inline Used warm;
    static inline Used last;
};

hg_return_t Side::on_echo(hg_handle_t handle) {
    std::uint64_t value = 0;
    HG_Get_input(handle, &value);
    HG_Free_input(handle, &value);
    ++value;
    HG_Respond(handle, nullptr, nullptr, &value);
    HG_Destroy(handle);
    if (++served == kWarmUp) {
        warm = used();
    }
    last = used();
    return HG_SUCCESS;
}

bool clean(const char* side, const Used& before, const Used& after, unsigned long calls) {
    const std::uint64_t allocations = after.allocations - before.allocations;
    const std::uint64_t mutexes = after.mutexes - before.mutexes;
    std::printf("%s: %llu allocations, %llu mutexes in %lu calls\n", side,
                static_cast<unsigned long long>(allocations),
                static_cast<unsigned long long>(mutexes), calls);
    return allocations == 0 && mutexes == 0;
}

int serve(int address_pipe, unsigned long calls) {
    Side side;
    if (!side.open(true)) {
        return kSkip;
    }
    hg_addr_t self = nullptr;
    HG_Addr_self(side.cls, &self);
    char text[256] = {};
    hg_size_t size = sizeof text;
    HG_Addr_to_string(side.cls, text, &size, self);
    HG_Addr_free(side.cls, self);
    if (write(address_pipe, text, sizeof text) != sizeof text) {
        return 1;
    }
    while (!Side::stopped) {
        side.turn();
    }
    for (int i = 0; i < 1000; ++i) {
        side.turn();
    }
    const bool good = clean("server", Side::warm, Side::last, calls);
    return side.close() && good ? 0 : 1;
}

struct Call {
    bool done = false;
    std::uint64_t result = 0;
    hg_return_t ret = HG_SUCCESS;
};

hg_return_t on_reply(const hg_cb_info* info) {
    auto* call = static_cast<Call*>(info->arg);
    call->ret = info->ret;
    if (info->ret == HG_SUCCESS) {
        HG_Get_output(info->info.forward.handle, &call->result);
        HG_Free_output(info->info.forward.handle, &call->result);
    }
    call->done = true;
    return HG_SUCCESS;
}

hg_return_t on_stopped(const hg_cb_info* info) {
    static_cast<Call*>(info->arg)->done = true;
    return info->ret;
}

// One of several in flight; its callback forwards it again.
struct Again {
    hg_handle_t handle = nullptr;
    std::uint64_t value = 0;
    static inline unsigned long left = 0;
    static inline unsigned in_flight = 0;
    static inline bool good = true;

    bool forward() {
        if (left == 0 || !good) {
            return false;
        }
        --left;
        ++value;
        good = HG_Forward(handle, on_reply, this, &value) == HG_SUCCESS;
        return good;
    }
    static hg_return_t on_reply(const hg_cb_info* info) {
        auto* self = static_cast<Again*>(info->arg);
        std::uint64_t result = 0;
        good = good && info->ret == HG_SUCCESS &&
               HG_Get_output(self->handle, &result) == HG_SUCCESS &&
               HG_Free_output(self->handle, &result) == HG_SUCCESS && result == self->value + 1;
        if (!self->forward()) {
            --in_flight;
        }
        return HG_SUCCESS;
    }
};

bool run_many(Side& side, hg_addr_t address, unsigned long calls, unsigned in_flight) {
    std::vector<Again> all(in_flight);
    for (Again& one : all) {
        HG_Create(side.context, address, side.echo, &one.handle);
    }
    Used before;
    for (const unsigned long n : {static_cast<unsigned long>(kWarmUp), calls}) {
        before = used();
        Again::left = n;
        for (Again& one : all) {
            Again::in_flight += one.forward() ? 1 : 0;
        }
        while (Again::in_flight != 0 && Again::good) {
            side.turn();
        }
    }
    const bool good = clean("client", before, used(), calls) && Again::good;
    for (Again& one : all) {
        HG_Destroy(one.handle);
    }
    hg_diag_counters counters = {};
    HG_Class_get_counters(side.cls, &counters);
    return good && counters.rpc_resp_recv_count == kWarmUp + calls;
}

int run(const char* server, unsigned long calls, unsigned in_flight) {
    Side side;
    if (!side.open(false)) {
        return kSkip;
    }
    hg_addr_t address = nullptr;
    if (HG_Addr_lookup2(side.cls, server, &address) != HG_SUCCESS) {
        return 1;
    }
    hg_handle_t handle = nullptr;
    HG_Create(side.context, address, side.echo, &handle);
    Used before;
    bool good = true;
    if (in_flight > 1) {
        good = run_many(side, address, calls, in_flight);
    }
    for (std::uint64_t i = 0; in_flight <= 1 && i < kWarmUp + calls; ++i) {
        if (i == kWarmUp) {
            before = used();
        }
        Call call;
        std::uint64_t value = i;
        good = good && HG_Forward(handle, on_reply, &call, &value) == HG_SUCCESS;
        while (good && !call.done) {
            side.turn();
        }
        good = good && call.ret == HG_SUCCESS && call.result == i + 1;
    }
    if (in_flight <= 1) {
        good = clean("client", before, used(), calls) && good;
    }
    HG_Reset(handle, address, side.stop);
    Call last;
    if (HG_Forward(handle, on_stopped, &last, nullptr) == HG_SUCCESS) {
        while (!last.done) {
            side.turn();
        }
    }
    HG_Destroy(handle);
    HG_Addr_free(side.cls, address);
    return side.close() && good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned long calls = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20000;
    const unsigned in_flight =
        argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 1;
    g_load.resize(argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0);
    alarm(60);
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) {
        return 1;
    }
    const pid_t server = fork();
    if (server == 0) {
        const int rc = serve(pipe_fds[1], calls);
        std::fflush(stdout);
        _exit(rc);
    }
    close(pipe_fds[1]);
    char text[256] = {};
    int status = 0;
    if (read(pipe_fds[0], text, sizeof text) != sizeof text) {
        waitpid(server, &status, 0);
        std::puts("SKIPPED: na+sm cannot be opened here");
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    const int mine = run(text, calls, in_flight);
    if (mine != 0) {
        kill(server, SIGKILL);
    }
    waitpid(server, &status, 0);
    return mine != 0 ? mine : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
