/* SPDX-License-Identifier: BSD-3-Clause */
/* What test suites of services try: handles without RPC until their first call, sizes of payloads
 * at both ends, addresses looked up and dropped again and again, threads that all progress one
 * context, a target that never answers, descriptors of nothing. */
#include <mercury.h>
#include <mercury_atomic.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_bulk.h>
#include <mercury_proc_string.h>
#include <mercury_request.h>
#include <mercury_thread.h>
#include <mercury_thread_pool.h>

#include "two.h"

#define PATH "/a/path/of/some/length"
#define HANDLES 32
#define THREADS 4

MERCURY_GEN_PROC(open_in_t, ((uint64_t)(cookie))((hg_const_string_t)(path)))
MERCURY_GEN_PROC(open_out_t, ((int32_t)(ret))((int32_t)(event)))
MERCURY_GEN_PROC(look_in_t, ((hg_bulk_t)(memory))((uint64_t)(size)))

/* As encoded: a length, the characters and their NUL, two flags. */
#define OPEN_IN_SIZE (sizeof(uint64_t) + sizeof(uint64_t) + sizeof(PATH) + 2)
#define OPEN_OUT_SIZE (2 * sizeof(int32_t))

struct ids {
    hg_id_t null;
    hg_id_t open;
    hg_id_t open_silent;
    hg_id_t large_in;
    hg_id_t large_out;
    hg_id_t never;
    hg_id_t look;
    hg_id_t stop;
};

/* ---- server: each request is work for a pool, kept with its handle ---- */

static hg_thread_pool_t* pool;

static hg_return_t handle_created(hg_handle_t handle, void* arg) {
    struct hg_thread_work* work = (struct hg_thread_work*)calloc(1, sizeof *work);

    (void)arg;
    return work == NULL ? HG_NOMEM : HG_Set_data(handle, work, free);
}

#define IN_POOL(name)                                                                      \
    static HG_THREAD_RETURN_TYPE name##_in_pool(void* arg) {                               \
        hg_thread_ret_t ret = (hg_thread_ret_t)0;                                          \
        name##_now((hg_handle_t)arg);                                                      \
        return ret;                                                                        \
    }                                                                                      \
    static hg_return_t name(hg_handle_t handle) {                                          \
        struct hg_thread_work* work = (struct hg_thread_work*)HG_Get_data(handle);         \
        EXPECT(work != NULL);                                                              \
        work->func = name##_in_pool;                                                       \
        work->args = handle;                                                               \
        return hg_thread_pool_post(pool, work) == HG_UTIL_SUCCESS ? HG_SUCCESS : HG_FAULT; \
    }

static void null_now(hg_handle_t handle) {
    EXPECT(HG_Get_input_payload_size(handle) == 0);
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    EXPECT(HG_Get_output_payload_size(handle) == 0);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}
IN_POOL(null)

static void open_now(hg_handle_t handle) {
    uint8_t silent = 0;
    open_in_t in;
    open_out_t out;

    EXPECT(HG_Get_input_payload_size(handle) == OPEN_IN_SIZE);
    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    EXPECT(strcmp(in.path, PATH) == 0);
    out.ret = 0;
    out.event = (int32_t)in.cookie;
    EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
    EXPECT(HG_Registered_disabled_response(HG_Get_info(handle)->hg_class, HG_Get_info(handle)->id,
                                           &silent) == HG_SUCCESS);
    if (!silent) {
        EXPECT(HG_Respond(handle, NULL, NULL, &out) == HG_SUCCESS);
        EXPECT(HG_Get_output_payload_size(handle) == OPEN_OUT_SIZE);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}
IN_POOL(open)

static void large_in_now(hg_handle_t handle) {
    hg_string_t text;

    EXPECT(HG_Get_input(handle, &text) == HG_SUCCESS);
    EXPECT(HG_Get_input_payload_size(handle) == sizeof(uint64_t) + strlen(text) + 3);
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    EXPECT(HG_Free_input(handle, &text) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}
IN_POOL(large_in)

static void large_out_now(hg_handle_t handle) {
    size_t size = HG_Class_get_output_eager_size(HG_Get_info(handle)->hg_class) * 2;
    hg_string_t text = (hg_string_t)malloc(size + 1);

    EXPECT(text != NULL);
    memset(text, 'h', size);
    text[size] = '\0';
    EXPECT(HG_Respond(handle, NULL, NULL, &text) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    free(text);
}
IN_POOL(large_out)

/* Gives up the reference of the response, too, as programs do for which nobody waits any more. */
static void never_now(hg_handle_t handle) {
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    (void)HG_Destroy(handle);
}
IN_POOL(never)

struct look {
    hg_handle_t handle;
    look_in_t in;
    hg_bulk_t local;
    uint64_t seen;
};

static hg_return_t looked(const struct hg_cb_info* info) {
    struct look* l = (struct look*)info->arg;
    void* at = NULL;
    uint64_t i;

    EXPECT(info->ret == HG_SUCCESS && info->info.bulk.size == l->in.size);
    EXPECT(HG_Bulk_access(l->local, 0, HG_Bulk_get_size(l->local), HG_BULK_READ_ONLY, 1, &at, NULL,
                          NULL) == HG_SUCCESS);
    for (i = 0; i < l->in.size; i++)
        l->seen += ((unsigned char*)at)[i] == (unsigned char)i;
    EXPECT(HG_Bulk_free(l->local) == HG_SUCCESS);
    EXPECT(HG_Respond(l->handle, NULL, NULL, &l->seen) == HG_SUCCESS);
    EXPECT(HG_Free_input(l->handle, &l->in) == HG_SUCCESS);
    EXPECT(HG_Destroy(l->handle) == HG_SUCCESS);
    free(l);
    return HG_SUCCESS;
}

static void look_now(hg_handle_t handle) {
    const struct hg_info* info = HG_Get_info(handle);
    struct look* l = (struct look*)calloc(1, sizeof *l);
    hg_op_id_t op = HG_OP_ID_NULL;
    hg_size_t size;

    EXPECT(l != NULL);
    l->handle = handle;
    EXPECT(HG_Get_input(handle, &l->in) == HG_SUCCESS);
    size = HG_Bulk_get_size(l->in.memory);
    EXPECT(HG_Bulk_create(info->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &l->local) ==
           HG_SUCCESS);
    EXPECT(HG_Bulk_transfer_id(info->context, looked, l, HG_BULK_PULL, info->addr, info->context_id,
                               l->in.memory, 0, l->local, 0, l->in.size, &op) == HG_SUCCESS);
}
IN_POOL(look)

static struct ids enroll(hg_class_t* hg_class) {
    struct ids ids;

    ids.null = MERCURY_REGISTER(hg_class, "null", void, void, null);
    ids.open = MERCURY_REGISTER(hg_class, "open", open_in_t, open_out_t, open);
    ids.open_silent = MERCURY_REGISTER(hg_class, "open_silent", open_in_t, open_out_t, open);
    ids.large_in = MERCURY_REGISTER(hg_class, "large_in", hg_string_t, void, large_in);
    ids.large_out = MERCURY_REGISTER(hg_class, "large_out", void, hg_string_t, large_out);
    ids.never = MERCURY_REGISTER(hg_class, "never", void, void, never);
    ids.look = MERCURY_REGISTER(hg_class, "look", look_in_t, uint64_t, look);
    ids.stop = register_stop(hg_class);
    EXPECT(HG_Registered_disable_response(hg_class, ids.open_silent, HG_TRUE) == HG_SUCCESS);
    return ids;
}

static hg_context_t* start(const char* protocol, uint8_t listen) {
    hg_class_t* hg_class = HG_Init(protocol, listen);

    EXPECT(hg_class != NULL);
    EXPECT(HG_Class_set_handle_create_callback(hg_class, handle_created, NULL) == HG_SUCCESS);
    return HG_Context_create(hg_class);
}

static void serve(const char* protocol, int to) {
    hg_context_t* context = start(protocol, HG_TRUE);

    EXPECT(context != NULL);
    (void)enroll(HG_Context_get_class(context));
    EXPECT(hg_thread_pool_init(THREADS, &pool) == HG_UTIL_SUCCESS);
    tell_address(HG_Context_get_class(context), to);
    while (!stopping)
        pump(context, 100);
    EXPECT(hg_thread_pool_destroy(pool) == HG_UTIL_SUCCESS);
    end(context);
}

/* ---- client ---- */

struct client {
    hg_class_t* hg_class;
    hg_context_t* context;
    struct ids ids;
    hg_addr_t addr;
    const char* server;
    hg_handle_t handles[HANDLES];
};

static hg_return_t call_open(struct client* c, hg_handle_t handle, hg_id_t id) {
    open_in_t in = {77, PATH};
    open_out_t out;
    hg_return_t ret = HG_Reset(handle, c->addr, id);

    if (ret != HG_SUCCESS)
        return ret;
    EXPECT(HG_Get_data(handle) != NULL); /* of its creation */
    ret = run(c->context, handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    EXPECT(HG_Get_input_payload_size(handle) == OPEN_IN_SIZE);
    if (id == c->ids.open) {
        EXPECT(HG_Get_output_payload_size(handle) == OPEN_OUT_SIZE);
        EXPECT(HG_Get_output(handle, &out) == HG_SUCCESS && out.event == 77);
        EXPECT(HG_Free_output(handle, &out) == HG_SUCCESS);
    }
    return ret;
}

static void call_plain(struct client* c) {
    hg_handle_t handle = c->handles[0];
    const hg_id_t gone = MERCURY_REGISTER(c->hg_class, "gone", void, void, NULL);
    const hg_id_t unknown = MERCURY_REGISTER(c->hg_class, "unknown", void, void, NULL);
    struct ended e = {0, HG_RETURN_MAX};
    hg_string_t text;
    int i;

    EXPECT(HG_Deregister(c->hg_class, gone) == HG_SUCCESS);
    EXPECT(HG_Reset(handle, c->addr, gone) == HG_NOENTRY);

    EXPECT(HG_Reset(handle, c->addr, c->ids.null) == HG_SUCCESS);
    EXPECT(run(c->context, handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Get_input_payload_size(handle) == 0 && HG_Get_output_payload_size(handle) == 0);
    EXPECT(call_open(c, handle, c->ids.open) == HG_SUCCESS);

    EXPECT(HG_Addr_set_remove(c->hg_class, c->addr) == HG_SUCCESS);
    EXPECT(HG_Addr_free(c->hg_class, c->addr) == HG_SUCCESS);
    for (i = 0; i < 32; i++) {
        EXPECT(HG_Addr_lookup2(c->hg_class, c->server, &c->addr) == HG_SUCCESS);
        EXPECT(call_open(c, handle, c->ids.open) == HG_SUCCESS);
        EXPECT(HG_Addr_set_remove(c->hg_class, c->addr) == HG_SUCCESS);
        EXPECT(HG_Addr_free(c->hg_class, c->addr) == HG_SUCCESS);
    }
    EXPECT(HG_Addr_lookup2(c->hg_class, c->server, &c->addr) == HG_SUCCESS);

    EXPECT(call_open(c, handle, c->ids.open_silent) == HG_SUCCESS);
    EXPECT(HG_Reset(handle, c->addr, unknown) == HG_SUCCESS);
    EXPECT(run(c->context, handle, NULL) == HG_NOENTRY);

    text = (hg_string_t)malloc(HG_Class_get_input_eager_size(c->hg_class) * 2);
    EXPECT(text != NULL);
    memset(text, 'a', HG_Class_get_input_eager_size(c->hg_class) * 2);
    text[HG_Class_get_input_eager_size(c->hg_class) * 2 - 1] = '\0';
    EXPECT(HG_Reset(handle, c->addr, c->ids.large_in) == HG_SUCCESS);
    EXPECT(run(c->context, handle, &text) == HG_SUCCESS);
    free(text);

    EXPECT(HG_Reset(handle, c->addr, c->ids.large_out) == HG_SUCCESS);
    EXPECT(run(c->context, handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Get_output(handle, &text) == HG_SUCCESS);
    EXPECT(HG_Get_output_payload_size(handle) == sizeof(uint64_t) + strlen(text) + 3);
    EXPECT(HG_Free_output(handle, &text) == HG_SUCCESS);

    /* Canceled before anything could come back. */
    EXPECT(HG_Reset(handle, c->addr, c->ids.never) == HG_SUCCESS);
    EXPECT(HG_Forward(handle, on_end, &e, NULL) == HG_SUCCESS);
    EXPECT(HG_Cancel(handle) == HG_SUCCESS);
    while (e.count == 0)
        pump(c->context, 100);
    EXPECT(e.ret == HG_CANCELED);
    EXPECT(run(c->context, handle, NULL) == HG_OTHER_ERROR); /* ended for it */
    EXPECT(call_open(c, handle, c->ids.open) == HG_SUCCESS);
}

static void call_many(struct client* c) {
    open_in_t in = {5, PATH};
    struct ended e = {0, HG_SUCCESS};
    size_t i;

    for (i = 0; i < HANDLES; i++) {
        EXPECT(HG_Reset(c->handles[i], c->addr, c->ids.open) == HG_SUCCESS);
        EXPECT(HG_Set_target_id(c->handles[i], 0) == HG_SUCCESS);
        EXPECT(HG_Forward(c->handles[i], on_end, &e, &in) == HG_SUCCESS);
    }
    while (e.count < HANDLES)
        pump(c->context, 100);
    EXPECT(e.ret == HG_SUCCESS);
}

/* What is called by one thread may end in another's HG_Trigger. */
struct threaded {
    struct client* client;
    hg_handle_t handle;
    hg_thread_t thread;
};

static hg_return_t threaded_end(const struct hg_cb_info* info) {
    open_out_t out;

    EXPECT(info->ret == HG_SUCCESS);
    EXPECT(HG_Get_output(info->info.forward.handle, &out) == HG_SUCCESS && out.event == 9);
    EXPECT(HG_Free_output(info->info.forward.handle, &out) == HG_SUCCESS);
    EXPECT(HG_Destroy(info->info.forward.handle) == HG_SUCCESS);
    hg_atomic_set32((hg_atomic_int32_t*)info->arg, 1);
    return HG_SUCCESS;
}

static HG_THREAD_RETURN_TYPE run_threaded(void* arg) {
    struct client* c = ((struct threaded*)arg)->client;
    hg_thread_ret_t tret = (hg_thread_ret_t)0;
    open_in_t in = {9, PATH};
    hg_addr_t addr = HG_ADDR_NULL;
    int i;

    for (i = 0; i < 100; i++) {
        hg_atomic_int32_t done = HG_ATOMIC_VAR_INIT(0);
        hg_handle_t handle = HG_HANDLE_NULL;

        if (i % 4 == 0) {
            EXPECT(HG_Addr_lookup2(c->hg_class, c->server, &addr) == HG_SUCCESS);
            EXPECT(HG_Addr_set_remove(c->hg_class, addr) == HG_SUCCESS);
            EXPECT(HG_Addr_free(c->hg_class, addr) == HG_SUCCESS);
        }
        EXPECT(HG_Create(c->context, c->addr, c->ids.open, &handle) == HG_SUCCESS);
        EXPECT(HG_Forward(handle, threaded_end, (void*)&done, &in) == HG_SUCCESS);
        while (!hg_atomic_get32(&done))
            pump(c->context, 0);
    }
    return tret;
}

static void call_threaded(struct client* c) {
    struct threaded threads[THREADS];
    int i;

    for (i = 0; i < THREADS; i++) {
        threads[i].client = c;
        EXPECT(hg_thread_create(&threads[i].thread, run_threaded, &threads[i]) == HG_UTIL_SUCCESS);
    }
    for (i = 0; i < THREADS; i++)
        EXPECT(hg_thread_join(threads[i].thread) == HG_UTIL_SUCCESS);
}

static void call_look(struct client* c, uint32_t count, size_t size, uint64_t looked_at) {
    void* pointers[16];
    hg_size_t sizes[16];
    look_in_t in;
    uint64_t seen = 0;
    size_t k;
    uint32_t i;

    for (i = 0; i < count; i++) {
        sizes[i] = size;
        pointers[i] = size == 0 ? NULL : malloc(size);
        for (k = 0; k < size; k++)
            ((unsigned char*)pointers[i])[k] = (unsigned char)(i * size + k);
    }
    EXPECT(HG_Bulk_create(c->hg_class, count, pointers, sizes, HG_BULK_READ_ONLY, &in.memory) ==
           HG_SUCCESS);
    in.size = looked_at;
    EXPECT(HG_Reset(c->handles[1], c->addr, c->ids.look) == HG_SUCCESS);
    EXPECT(run(c->context, c->handles[1], &in) == HG_SUCCESS);
    EXPECT(HG_Get_output(c->handles[1], &seen) == HG_SUCCESS && seen == looked_at);
    EXPECT(HG_Free_output(c->handles[1], &seen) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(in.memory) == HG_SUCCESS);
    for (i = 0; i < count; i++)
        free(pointers[i]);
}

static void call(const char* protocol, const char* server) {
    struct client c;
    size_t i;

    memset(&c, 0, sizeof c);
    c.server = server;
    c.context = start(protocol, HG_FALSE);
    EXPECT(c.context != NULL);
    c.hg_class = HG_Context_get_class(c.context);
    c.ids = enroll(c.hg_class);
    EXPECT(HG_Addr_lookup2(c.hg_class, server, &c.addr) == HG_SUCCESS);
    for (i = 0; i < HANDLES; i++)
        EXPECT(HG_Create(c.context, c.addr, 0, &c.handles[i]) == HG_SUCCESS);
    call_plain(&c);
    call_many(&c);
    call_threaded(&c);
    call_look(&c, 2, 0, 0);
    call_look(&c, 1, 4096, 0);
    call_look(&c, 2, 8, 16);
    call_look(&c, 16, 65536, 16 * 65536);
    tell_to_stop(c.context, c.addr, c.ids.stop);
    for (i = 0; i < HANDLES; i++)
        EXPECT(HG_Destroy(c.handles[i]) == HG_SUCCESS);
    EXPECT(HG_Addr_free(c.hg_class, c.addr) == HG_SUCCESS);
    end(c.context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
