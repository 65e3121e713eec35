// SPDX-License-Identifier: BSD-3-Clause
// What happens when memory runs out, at every allocation of the library: a server and a client of
// one process open, call, move memory, cancel and close, and one allocation fails, or all from one
// on while both close. The program goes on, every call ends once, everything closes, and nothing is
// left behind.
//
//   shortage PROTOCOL STRIDE    every STRIDE-th allocation fails, one in each run of the scene
//
// C functions only, and malloc(): see failing_malloc.hpp.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <dirent.h>
#include <execinfo.h>

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "shortage/failing_malloc.hpp"
#include "support/until.hpp"
#include "support/watchdog.hpp"

namespace {

constexpr hg_size_t kSmall = 16;
constexpr hg_size_t kLarge = 200'000;  // beyond every transport's eager size
constexpr std::size_t kMemory = 300'000;
constexpr int kContexts = 2;
// Tables that grow once, and what libraries below keep. A block of a large payload is more.
constexpr long kLeftBehind = 64 * 1024;

// --- what is sent

struct Bytes {
    std::uint64_t size;
    char* at;
};

hg_return_t proc_bytes(hg_proc_t proc, void* data) {
    auto* b = static_cast<Bytes*>(data);
    const hg_return_t ret = hg_proc_uint64_t(proc, &b->size);
    if (ret != HG_SUCCESS) {
        return ret;
    }
    if (hg_proc_get_op(proc) == HG_FREE) {
        std::free(b->at);
        b->at = nullptr;
        return HG_SUCCESS;
    }
    if (hg_proc_get_op(proc) == HG_DECODE) {
        if (b->size > hg_proc_get_size_left(proc)) {
            return HG_OVERFLOW;
        }
        b->at = static_cast<char*>(std::malloc(b->size));
    }
    return hg_proc_bytes(proc, b->at, b->size);
}

struct Move {
    hg_bulk_t memory;
    std::uint64_t push;
};

hg_return_t proc_move(hg_proc_t proc, void* data) {
    auto* m = static_cast<Move*>(data);
    const hg_return_t ret = hg_proc_hg_bulk_t(proc, &m->memory);
    return ret == HG_SUCCESS ? hg_proc_uint64_t(proc, &m->push) : ret;
}

// --- one side

struct Side {
    hg_class_t* cls = nullptr;
    hg_context_t* contexts[kContexts] = {};
    hg_id_t echo = 0;
    hg_id_t move = 0;
    hg_id_t hold = 0;
    hg_handle_t held = HG_HANDLE_NULL;
    char memory[kMemory] = {};
};
Side server;
Side client;

// The scene's protocol, whether a step failed, and the step for messages.
const char* info = nullptr;
bool all_well = true;
const char* step = "";
std::uint64_t failing = 0;

[[noreturn]] void broken(const char* what) {
    shortage::succeed();
    std::fprintf(stderr, "FAILED: %s, allocation %llu fails, step \"%s\": %s\n", info,
                 static_cast<unsigned long long>(failing), step, what);
    shortage::show_failure();
    std::exit(1);
}

// False: the step failed, which it may.
bool good(bool condition) {
    all_well = all_well && condition;
    return condition;
}
bool good(hg_return_t ret) {
    return good(ret == HG_SUCCESS);
}

void pump() {
    for (Side* side : {&server, &client}) {
        for (hg_context_t* context : side->contexts) {
            if (context != nullptr) {
                (void)HG_Progress(context, 0);
                unsigned n = 0;
                while (HG_Trigger(context, 0, 16, &n) == HG_SUCCESS && n != 0) {
                }
            }
        }
    }
}

// --- the server's functions

hg_return_t on_echo(hg_handle_t h) {
    Bytes b{};
    if (HG_Get_input(h, &b) == HG_SUCCESS) {
        (void)HG_Respond(h, nullptr, nullptr, &b);
        (void)HG_Free_input(h, &b);
    } else {
        (void)HG_Respond_error(h, nullptr, nullptr, HG_NOMEM);
    }
    (void)HG_Destroy(h);
    return HG_SUCCESS;
}

hg_return_t on_hold(hg_handle_t h) {
    server.held = h;
    return HG_SUCCESS;
}

struct Moving {
    hg_handle_t handle;
    hg_bulk_t local;
    Move input;
};

void end_move(Moving* m, hg_return_t ret) {
    std::uint64_t code = ret;
    if (ret != HG_SUCCESS || HG_Respond(m->handle, nullptr, nullptr, &code) != HG_SUCCESS) {
        (void)HG_Respond_error(m->handle, nullptr, nullptr, HG_NOMEM);
    }
    (void)HG_Bulk_free(m->local);
    (void)HG_Free_input(m->handle, &m->input);
    (void)HG_Destroy(m->handle);
    std::free(m);
}

hg_return_t on_move(hg_handle_t h) {
    auto* m = static_cast<Moving*>(std::calloc(1, sizeof(Moving)));
    m->handle = h;
    if (HG_Get_input(h, &m->input) != HG_SUCCESS) {
        (void)HG_Respond_error(h, nullptr, nullptr, HG_NOMEM);
        (void)HG_Destroy(h);
        std::free(m);
        return HG_SUCCESS;
    }
    void* base = server.memory;
    hg_size_t size = sizeof server.memory;
    const struct hg_info* about = HG_Get_info(h);
    hg_return_t ret =
        HG_Bulk_create(about->hg_class, 1, &base, &size, HG_BULK_READWRITE, &m->local);
    if (ret == HG_SUCCESS) {
        ret = HG_Bulk_transfer(
            about->context,
            [](const hg_cb_info* end) {
                end_move(static_cast<Moving*>(end->arg), end->ret);
                return HG_SUCCESS;
            },
            m, m->input.push != 0 ? HG_BULK_PUSH : HG_BULK_PULL, about->addr, m->input.memory, 0,
            m->local, 0, size, HG_OP_ID_IGNORE);
    }
    if (ret != HG_SUCCESS) {
        end_move(m, ret);
    }
    return HG_SUCCESS;
}

// --- opening and closing

bool open(Side& side, bool listen) {
    hg_init_info settings = HG_INIT_INFO_INITIALIZER;
    settings.na_init_info.max_contexts = kContexts;
    side.cls = HG_Init_opt2(info, listen ? 1 : 0, HG_VERSION(2, 4), &settings);
    if (!good(side.cls != nullptr)) {
        return false;
    }
    side.echo = HG_Register_name(side.cls, "echo", proc_bytes, proc_bytes, on_echo);
    side.move = HG_Register_name(side.cls, "move", proc_move, hg_proc_uint64_t, on_move);
    side.hold = HG_Register_name(side.cls, "hold", nullptr, nullptr, on_hold);
    if (!good(side.echo != 0 && side.move != 0 && side.hold != 0)) {
        return false;
    }
    for (int i = 0; i < kContexts; ++i) {
        side.contexts[i] = HG_Context_create_id(side.cls, static_cast<std::uint8_t>(i));
        if (!good(side.contexts[i] != nullptr)) {
            return false;
        }
    }
    return true;
}

// Where memory is short for the text of a refusal the code is HG_NOMEM, once; everything closes.
void close(Side& side) {
    for (hg_context_t*& context : side.contexts) {
        if (context == nullptr) {
            continue;
        }
        hg_return_t ret = HG_SUCCESS;
        if (!support::until(
                [&] {
                    ret = HG_Context_destroy(context);
                    return ret == HG_SUCCESS;
                },
                pump)) {
            broken(HG_Error_to_string(ret));
        }
        context = nullptr;
    }
    if (side.cls != nullptr) {
        hg_return_t ret = HG_Finalize(side.cls);
        if (ret == HG_NOMEM) {
            ret = HG_Finalize(side.cls);
        }
        if (ret != HG_SUCCESS) {
            broken("HG_Finalize is refused");
        }
    }
    side.cls = nullptr;
}

// --- calls

struct Call {
    unsigned ends = 0;
    hg_return_t ret = HG_SUCCESS;
    void* output = nullptr;  // decoded where it is set
};

hg_return_t on_end(const hg_cb_info* end) {
    auto* call = static_cast<Call*>(end->arg);
    ++call->ends;
    call->ret = end->ret;
    if (end->ret == HG_SUCCESS && call->output != nullptr) {
        call->ret = HG_Get_output(end->info.forward.handle, call->output);
    }
    return HG_SUCCESS;
}

void await(Call& call) {
    if (!support::until([&] { return call.ends != 0; }, pump)) {
        broken("a call does not end");
    }
    if (call.ends != 1) {
        broken("a call ends more than once");
    }
}

// Answers whether it succeeded.
bool run(hg_addr_t to, int context, hg_id_t id, void* input, void* output) {
    hg_handle_t h = HG_HANDLE_NULL;
    if (!good(HG_Create(client.contexts[0], to, id, &h))) {
        return false;
    }
    (void)HG_Set_target_id(h, static_cast<std::uint8_t>(context));
    Call call;
    call.output = output;
    bool well = good(HG_Forward(h, on_end, &call, input));
    if (well) {
        await(call);
        well = good(call.ret);
        if (well && output != nullptr) {
            (void)HG_Free_output(h, output);
        }
    }
    (void)HG_Destroy(h);
    return well;
}

void echo(hg_addr_t to, int context, hg_size_t size) {
    Bytes in{size, static_cast<char*>(std::malloc(size))};
    std::memset(in.at, 'x', size);
    Bytes out{};
    if (run(to, context, client.echo, &in, &out) && out.size != size) {
        broken("an echo of another size");
    }
    std::free(in.at);
}

void move(hg_addr_t to, bool push) {
    // Two segments, so that the list of them is allocated.
    void* bases[2] = {client.memory, client.memory + kMemory / 2};
    hg_size_t sizes[2] = {kMemory / 2, kMemory - kMemory / 2};
    std::memset(client.memory, push ? 'c' : 's', sizeof client.memory);
    std::memset(server.memory, push ? 's' : 'c', sizeof server.memory);
    Move in{HG_BULK_NULL, push ? 1U : 0U};
    if (!good(HG_Bulk_create(client.cls, 2, bases, sizes, HG_BULK_READWRITE, &in.memory))) {
        return;
    }
    std::uint64_t code = 0;
    if (run(to, 0, client.move, &in, &code) &&
        std::memcmp(client.memory, server.memory, sizeof client.memory) != 0) {
        broken("wrong bytes after a transfer that succeeded");
    }
    if (HG_Bulk_free(in.memory) != HG_SUCCESS) {
        broken("HG_Bulk_free is refused");
    }
}

void cancel(hg_addr_t to) {
    hg_handle_t h = HG_HANDLE_NULL;
    if (!good(HG_Create(client.contexts[1], to, client.hold, &h))) {
        return;
    }
    Call call;
    if (good(HG_Forward(h, on_end, &call, nullptr))) {
        (void)support::until([&] { return server.held != HG_HANDLE_NULL || call.ends != 0; }, pump);
        (void)HG_Cancel(h);
        await(call);
    }
    (void)HG_Destroy(h);
    if (server.held != HG_HANDLE_NULL) {
        (void)HG_Respond(server.held, nullptr, nullptr, nullptr);
        (void)HG_Destroy(server.held);
        server.held = HG_HANDLE_NULL;
    }
}

void talk() {
    hg_addr_t self = HG_ADDR_NULL;
    hg_addr_t to = HG_ADDR_NULL;
    char name[512] = "";
    hg_size_t size = sizeof name;
    step = "address";
    if (good(HG_Addr_self(server.cls, &self)) &&
        good(HG_Addr_to_string(server.cls, name, &size, self)) &&
        good(HG_Addr_lookup2(client.cls, name, &to))) {
        step = "small call";
        echo(to, 0, kSmall);
        step = "call to another context";
        echo(to, 1, kSmall);
        step = "large call";
        echo(to, 0, kLarge);
        step = "pull";
        move(to, false);
        step = "push";
        move(to, true);
        step = "cancel";
        cancel(to);
        step = "deregister";
        (void)HG_Deregister(client.cls, client.echo);
    }
    step = "free addresses";
    (void)HG_Addr_free(client.cls, to);
    (void)HG_Addr_free(server.cls, self);
}

enum class When { ever, closing };

// One scene in which allocation `number` fails (all from it on, of those made while both sides
// close). Answers how many there were.
std::uint64_t scene(std::uint64_t number, When when) {
    failing = number;
    all_well = true;
    support::watchdog(60, "a scene");
    if (when == When::ever) {
        shortage::fail(number, false);
    }
    step = "open";
    if (open(server, true) && open(client, false)) {
        talk();
    }
    step = "close";
    if (when == When::closing) {
        shortage::fail(number, true);
    }
    close(client);
    close(server);
    support::watchdog(0, {});
    return shortage::succeed();
}

int descriptors() {
    DIR* list = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(list) != nullptr) {
        ++n;
    }
    closedir(list);
    return n;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s PROTOCOL STRIDE\n", argv[0]);
        return 2;
    }
    info = argv[1];
    const auto stride = static_cast<std::uint64_t>(std::atoi(argv[2]));
    std::set_terminate([] {
        shortage::succeed();
        std::fprintf(stderr, "FAILED: std::terminate: %s, allocation %llu fails, step \"%s\"\n",
                     info, static_cast<unsigned long long>(failing), step);
        void* frames[64];
        backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
        std::fprintf(stderr, "the allocation:\n");
        shortage::show_failure();
        std::_Exit(1);
    });
    void* warm[4];
    (void)backtrace(warm, 4);  // loads a library

    HG_Set_log_level("none");
    (void)scene(0, When::ever);
    if (!all_well) {
        std::printf("%s cannot be opened here\n", info);
        return 77;
    }
    shortage::find_libraries();
    const std::uint64_t total = scene(0, When::ever);
    if (!all_well) {
        broken("the scene fails although memory is there");
    }
    const int open_before = descriptors();
    const long used_before = shortage::in_use();
    std::uint64_t failed = 0;
    std::uint64_t noticed = 0;
    for (std::uint64_t k = 1; k <= total; k += stride) {
        (void)scene(k, When::ever);
        failed += shortage::failures();
        noticed += all_well ? 0U : 1U;
    }
    for (std::uint64_t k : {1U, 2U}) {
        (void)scene(k, When::closing);
    }
    // The last scene is whole again, so that what it leaves is what every scene leaves.
    (void)scene(0, When::ever);
    if (!all_well) {
        broken("the scene fails although memory is there again");
    }
    if (const int open_now = descriptors(); open_now > open_before) {
        std::fprintf(stderr, "FAILED: %d descriptors are open, %d were\n", open_now, open_before);
        return 1;
    }
    const long used = shortage::in_use();
    [[maybe_unused]] const bool leaks = used - used_before > kLeftBehind;
    std::printf(
        "%s: %llu allocations, of which %llu failed, one in each scene; %llu scenes noticed;"
        " %ld bytes more in use\n",
        info, static_cast<unsigned long long>(total), static_cast<unsigned long long>(failed),
        static_cast<unsigned long long>(noticed), used - used_before);
    return 0;
}
