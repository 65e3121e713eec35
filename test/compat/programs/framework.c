/* SPDX-License-Identifier: BSD-3-Clause */
/* A framework on top, as several are written: it registers procs of its own, which put a header in
 * front of every structure and get the user's proc by pointer at each call; its ids carry the
 * number of a provider, and are registered when they are first called; handles are kept for later
 * calls, with the framework's data attached; calls have a limit in time. */
#include <mercury.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>
#include <pthread.h>
#include <time.h>

#include "two.h"

/* ---- the framework: what travels ---- */

struct args {
    void* user;         /* the user's structure */
    hg_proc_cb_t proc;  /* NULL: the header only */
    uint64_t header[2]; /* in: the caller's RPC; out: code of the handler */
};

static hg_return_t framework_proc(hg_proc_t proc, void* data) {
    struct args* a = (struct args*)data;
    hg_return_t ret = hg_proc_memcpy(proc, a->header, sizeof a->header);

    if (ret != HG_SUCCESS || a->proc == NULL || a->header[1] != HG_SUCCESS)
        return ret;
    return a->proc(proc, a->user);
}

/* ---- RPCs ---- */

struct rpc {
    hg_proc_cb_t in;
    hg_proc_cb_t out;
    int* freed;
};

static void free_rpc(void* data) {
    struct rpc* r = (struct rpc*)data;

    *r->freed += 1;
    free(r);
}

static hg_id_t id_of(const char* name, uint16_t provider) {
    hg_id_t id = 5381;

    while (*name != '\0')
        id = id * 33 + (unsigned char)*name++;
    return (id << 16) | provider;
}

static int rpcs_freed;

static hg_id_t add_rpc(hg_class_t* hg_class, hg_id_t id, hg_proc_cb_t in, hg_proc_cb_t out,
                       hg_rpc_cb_t handler) {
    struct rpc* r;

    EXPECT(HG_Register(hg_class, id, framework_proc, framework_proc, handler) == HG_SUCCESS);
    if (HG_Registered_data(hg_class, id) != NULL)
        return id; /* registered again: the data are kept */
    r = (struct rpc*)calloc(1, sizeof *r);
    EXPECT(r != NULL);
    r->in = in;
    r->out = out;
    r->freed = &rpcs_freed;
    EXPECT(HG_Register_data(hg_class, id, r, free_rpc) == HG_SUCCESS);
    return id;
}

/* ---- handles ---- */

struct handle_data {
    struct rpc rpc;
    int calls;
};

static int handle_data_freed;

static void free_handle_data(void* data) {
    handle_data_freed++;
    free(data);
}

static struct handle_data* attach(hg_handle_t handle) {
    const struct hg_info* info = HG_Get_info(handle);
    const struct rpc* r = (const struct rpc*)HG_Registered_data(info->hg_class, info->id);
    struct handle_data* d = (struct handle_data*)HG_Get_data(handle);

    EXPECT(r != NULL);
    if (d == NULL) {
        d = (struct handle_data*)calloc(1, sizeof *d);
        EXPECT(d != NULL);
        EXPECT(HG_Set_data(handle, d, free_handle_data) == HG_SUCCESS);
    }
    d->rpc = *r;
    return d;
}

/* ---- calls ---- */

struct call {
    hg_handle_t handle;
    struct ended end;
    struct timespec limit;
    int limited;
};

static hg_return_t call_ended(const struct hg_cb_info* info) {
    struct call* c = (struct call*)info->arg;

    EXPECT(info->info.forward.handle == c->handle);
    c->end.count++;
    c->end.ret = info->ret == HG_CANCELED && c->limited ? HG_TIMEOUT : info->ret;
    return HG_SUCCESS;
}

static int past(const struct timespec* t) {
    struct timespec now;

    EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec > t->tv_nsec);
}

/* To a provider of the handle's address; ms 0: without limit. Answers the handler's code, too. */
static hg_return_t forward(hg_handle_t handle, uint16_t provider, void* in, unsigned int ms) {
    const struct hg_info* info = HG_Get_info(handle);
    struct handle_data* d = (struct handle_data*)HG_Get_data(handle);
    const hg_id_t own = info->id;
    const hg_id_t id = (info->id & ~(hg_id_t)0xffff) | provider;
    hg_class_t* hg_class = info->hg_class;
    hg_context_t* context = info->context;
    struct call c;
    struct args a;
    uint8_t known = 0;
    uint8_t silent = 0;
    hg_return_t ret;

    EXPECT(d != NULL);
    EXPECT(HG_Registered(hg_class, id, &known) == HG_SUCCESS);
    EXPECT(HG_Registered_disabled_response(hg_class, own, &silent) == HG_SUCCESS);
    if (!known) {
        EXPECT(add_rpc(hg_class, id, d->rpc.in, d->rpc.out, NULL) == id);
        EXPECT(HG_Registered_disable_response(hg_class, id, silent) == HG_SUCCESS);
    }
    /* The address is the handle's own, the data are kept. */
    EXPECT(HG_Reset(handle, info->addr, id) == HG_SUCCESS);
    EXPECT(HG_Get_data(handle) == d && HG_Get_info(handle)->id == id);
    d->calls++;

    memset(&c, 0, sizeof c);
    c.handle = handle;
    c.limited = ms != 0;
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &c.limit) == 0);
    c.limit.tv_nsec += (long)(ms % 1000) * 1000000;
    c.limit.tv_sec += (time_t)(ms / 1000) + c.limit.tv_nsec / 1000000000;
    c.limit.tv_nsec %= 1000000000;
    memset(&a, 0, sizeof a);
    a.user = in;
    a.proc = d->rpc.in;
    a.header[0] = own;
    ret = HG_Forward(handle, call_ended, &c, &a);
    if (ret != HG_SUCCESS)
        return ret;
    while (c.end.count == 0) {
        pump(context, 10);
        if (c.limited && c.end.count == 0 && past(&c.limit))
            EXPECT(HG_Cancel(handle) == HG_SUCCESS); /* more than once, perhaps */
    }
    EXPECT(c.end.count == 1);
    if (c.end.ret != HG_SUCCESS || silent)
        return c.end.ret;
    /* The header alone; the structure is for whoever made the call. */
    memset(&a, 0, sizeof a);
    EXPECT(HG_Get_output(handle, &a) == HG_SUCCESS);
    ret = (hg_return_t)a.header[1];
    EXPECT(HG_Free_output(handle, &a) == HG_SUCCESS);
    return ret;
}

static void get_output(hg_handle_t handle, void* out) {
    struct handle_data* d = (struct handle_data*)HG_Get_data(handle);
    struct args a = {NULL, NULL, {0, 0}};

    EXPECT(d != NULL);
    a.user = out;
    a.proc = d->rpc.out;
    EXPECT(HG_Get_output(handle, &a) == HG_SUCCESS);
}

static void free_output(hg_handle_t handle, void* out) {
    struct handle_data* d = (struct handle_data*)HG_Get_data(handle);
    struct args a = {NULL, NULL, {0, 0}};

    a.user = out;
    a.proc = d->rpc.out;
    EXPECT(HG_Free_output(handle, &a) == HG_SUCCESS);
}

static hg_return_t respond(hg_handle_t handle, hg_return_t code, void* out) {
    struct handle_data* d = (struct handle_data*)HG_Get_data(handle);
    struct args a = {NULL, NULL, {0, 0}};

    a.user = out;
    a.proc = d->rpc.out;
    a.header[1] = code;
    return HG_Respond(handle, NULL, NULL, &a);
}

/* ---- a service ---- */

MERCURY_GEN_PROC(greet_in_t, ((hg_const_string_t)(name))((uint32_t)(times)))
MERCURY_GEN_PROC(greet_out_t, ((hg_string_t)(text)))

/* Serves on a thread of its own, which is how such frameworks have it. */
static void* greet_on_thread(void* arg) {
    hg_handle_t handle = (hg_handle_t)arg;
    struct handle_data* d = (struct handle_data*)HG_Get_data(handle);
    struct args a = {NULL, NULL, {0, 0}};
    greet_in_t in;
    greet_out_t out;
    size_t size;
    uint32_t i;

    a.user = &in;
    a.proc = d->rpc.in;
    EXPECT(HG_Get_input(handle, &a) == HG_SUCCESS);
    if ((HG_Get_info(handle)->id & 0xffff) != 7) {
        EXPECT(respond(handle, HG_NOENTRY, NULL) == HG_SUCCESS);
    } else if (in.times == 0) {
        /* Nobody answers in time; what comes late disturbs nobody. */
        const struct timespec nap = {0, 200000000};

        (void)nanosleep(&nap, NULL);
        EXPECT(respond(handle, HG_AGAIN, NULL) == HG_SUCCESS);
    } else {
        size = strlen(in.name) + 1;
        out.text = (char*)calloc(in.times, size);
        EXPECT(out.text != NULL);
        for (i = 0; i < in.times; i++)
            strcat(out.text + (size - 1) * i, in.name);
        EXPECT(respond(handle, HG_SUCCESS, &out) == HG_SUCCESS);
        free(out.text);
    }
    a.header[1] = HG_SUCCESS;
    EXPECT(HG_Free_input(handle, &a) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS); /* the thread's */
    return NULL;
}

static pthread_t threads[64];
static int thread_count;

static hg_return_t greet(hg_handle_t handle) {
    struct args a = {NULL, NULL, {0, 0}};

    (void)attach(handle);
    /* The caller's RPC first. */
    EXPECT(HG_Get_input(handle, &a) == HG_SUCCESS);
    EXPECT(a.header[0] != 0);
    EXPECT(HG_Free_input(handle, &a) == HG_SUCCESS);
    EXPECT(HG_Ref_incr(handle) == HG_SUCCESS);
    EXPECT(HG_Ref_get(handle) >= 2);
    EXPECT(thread_count < 64);
    EXPECT(pthread_create(&threads[thread_count++], NULL, greet_on_thread, handle) == 0);
    return HG_Destroy(handle);
}

static int noted;

static hg_return_t note(hg_handle_t handle) {
    struct handle_data* d = attach(handle);
    struct args a = {NULL, NULL, {0, 0}};
    int32_t number = 0;

    a.user = &number;
    a.proc = d->rpc.in;
    EXPECT(HG_Get_input(handle, &a) == HG_SUCCESS);
    noted += number;
    EXPECT(HG_Free_input(handle, &a) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_class_t* start(const char* protocol, uint8_t listen, hg_context_t** context) {
    struct hg_init_info init = HG_INIT_INFO_INITIALIZER;
    hg_class_t* hg_class;

    init.request_post_init = 256;
    init.request_post_incr = 256;
    init.na_init_info.max_contexts = 0; /* as from a configuration that does not say */
    hg_class = HG_Init_opt(protocol, listen, &init);
    EXPECT(hg_class != NULL);
    *context = HG_Context_create(hg_class);
    EXPECT(*context != NULL);
    HG_Set_log_level("warning");
    HG_Set_log_subsys("hg,na");
    return hg_class;
}

static void serve(const char* protocol, int to) {
    hg_context_t* context = NULL;
    hg_class_t* hg_class = start(protocol, HG_TRUE, &context);
    const hg_id_t greet_id =
        add_rpc(hg_class, id_of("greet", 7), hg_proc_greet_in_t, hg_proc_greet_out_t, greet);
    const hg_id_t wrong_id =
        add_rpc(hg_class, id_of("greet", 8), hg_proc_greet_in_t, hg_proc_greet_out_t, greet);
    const hg_id_t note_id = add_rpc(hg_class, id_of("note", 7), hg_proc_int32_t, NULL, note);
    int i;

    EXPECT(HG_Registered_disable_response(hg_class, note_id, HG_TRUE) == HG_SUCCESS);
    (void)register_stop(hg_class);
    tell_address(hg_class, to);
    while (!stopping)
        pump(context, 100);
    for (i = 0; i < thread_count; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(noted == 1 + 2 + 3);
    EXPECT(HG_Deregister(hg_class, greet_id) == HG_SUCCESS);
    EXPECT(HG_Deregister(hg_class, wrong_id) == HG_SUCCESS);
    EXPECT(HG_Deregister(hg_class, wrong_id) == HG_NOENTRY);
    end(context);
    EXPECT(rpcs_freed == 3);
}

/* ---- client ---- */

#define KEPT 4

static void greet_once(hg_handle_t handle, uint32_t times) {
    greet_in_t in;
    greet_out_t out;

    in.name = "hello ";
    in.times = times;
    EXPECT(forward(handle, 7, &in, 0) == HG_SUCCESS);
    get_output(handle, &out);
    EXPECT(strlen(out.text) == 6 * (size_t)times && strncmp(out.text, "hello ", 6) == 0);
    free_output(handle, &out);
}

static void call(const char* protocol, const char* server) {
    hg_context_t* context = NULL;
    hg_class_t* hg_class = start(protocol, HG_FALSE, &context);
    const hg_id_t greet_id =
        add_rpc(hg_class, id_of("greet", 0), hg_proc_greet_in_t, hg_proc_greet_out_t, NULL);
    const hg_id_t note_id = add_rpc(hg_class, id_of("note", 0), hg_proc_int32_t, NULL, NULL);
    const hg_id_t stop_id = register_stop(hg_class);
    hg_handle_t kept[KEPT];
    hg_addr_t addr = HG_ADDR_NULL;
    struct ended last = {0, HG_RETURN_MAX};
    struct args a = {NULL, NULL, {1, 0}};
    hg_handle_t handle = HG_HANDLE_NULL;
    greet_in_t in = {"too late", 0};
    int32_t i;

    EXPECT(add_rpc(hg_class, greet_id, NULL, NULL, NULL) == greet_id);
    EXPECT(rpcs_freed == 0); /* registered again: the same data */
    EXPECT(HG_Registered_disable_response(hg_class, note_id, HG_TRUE) == HG_SUCCESS);
    EXPECT(HG_Addr_lookup2(hg_class, server, &addr) == HG_SUCCESS);
    for (i = 0; i < KEPT; i++)
        EXPECT(HG_Create(context, HG_ADDR_NULL, 0, &kept[i]) == HG_SUCCESS);
    for (i = 0; i < 20; i++) {
        hg_handle_t h = kept[i % KEPT];

        EXPECT(HG_Reset(h, addr, greet_id) == HG_SUCCESS);
        (void)attach(h);
        greet_once(h, i % 5 == 4 ? 5000 : 3);
    }
    EXPECT(handle_data_freed == 0);

    /* The handler's code, and a provider that is not there. */
    in.times = 1;
    EXPECT(HG_Reset(kept[0], addr, greet_id) == HG_SUCCESS);
    EXPECT(forward(kept[0], 8, &in, 0) == HG_NOENTRY);
    EXPECT(forward(kept[0], 9, &in, 0) == HG_NOENTRY);

    /* Limits in time, and the next call of the same handle. */
    in.times = 0;
    for (i = 0; i < 3; i++) {
        EXPECT(forward(kept[0], 7, &in, 20) == HG_TIMEOUT);
        greet_once(kept[0], 2);
    }
    EXPECT(((struct handle_data*)HG_Get_data(kept[0]))->calls == 5 + 2 + 6);

    EXPECT(HG_Reset(kept[1], addr, note_id) == HG_SUCCESS);
    (void)attach(kept[1]);
    for (i = 1; i <= 3; i++)
        EXPECT(forward(kept[1], 7, &i, 0) == HG_SUCCESS);
    for (i = 0; i < KEPT; i++) {
        EXPECT(HG_Ref_get(kept[i]) == 1);
        EXPECT(HG_Destroy(kept[i]) == HG_SUCCESS);
    }
    EXPECT(handle_data_freed == KEPT);
    tell_to_stop(context, addr, stop_id);

    /* What is still under way ends with the context, its callback included. */
    EXPECT(HG_Create(context, addr, greet_id, &handle) == HG_SUCCESS);
    if (HG_Forward(handle, on_end, &last, &a) != HG_SUCCESS)
        last.count = 1;
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
    EXPECT(last.count == 1 && last.ret != HG_SUCCESS);
    EXPECT(rpcs_freed == 4 + 2); /* greet for providers 0, 7, 8, 9, note for 0, 7 */
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
