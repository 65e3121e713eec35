/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with one thread that makes progress and a pool of threads that serve, and a client whose
 * threads wait with requests: with Mercury's utilities. */
#include <mercury.h>
#include <mercury_atomic.h>
#include <mercury_macros.h>
#include <mercury_request.h>
#include <mercury_thread.h>
#include <mercury_thread_pool.h>

#include "two.h"

MERCURY_GEN_PROC(add_in_t, ((int32_t)(a))((int32_t)(b)))
MERCURY_GEN_PROC(add_out_t, ((int32_t)(sum)))

#define HANDLERS 3
#define CALLERS 4
#define CALLS 200

static hg_thread_pool_t* handlers;
static hg_atomic_int32_t served = HG_ATOMIC_VAR_INIT(0);

/* ---- server ---- */

/* The work of each handle: made with the handle, kept with it. */
static hg_return_t handle_created(hg_handle_t handle, void* arg) {
    struct hg_thread_work* work = (struct hg_thread_work*)calloc(1, sizeof *work);

    if (work == NULL)
        return HG_NOMEM;
    hg_atomic_incr32((hg_atomic_int32_t*)arg);
    return HG_Set_data(handle, work, free);
}

static HG_THREAD_RETURN_TYPE add_in_pool(void* arg) {
    hg_handle_t handle = (hg_handle_t)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;
    add_in_t in;
    add_out_t out;

    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    out.sum = in.a + in.b;
    EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
    EXPECT(HG_Respond(handle, NULL, NULL, &out) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    hg_atomic_incr32(&served);
    return ret;
}

static hg_return_t add(hg_handle_t handle) {
    struct hg_thread_work* work = (struct hg_thread_work*)HG_Get_data(handle);

    EXPECT(work != NULL);
    work->func = add_in_pool;
    work->args = handle;
    return hg_thread_pool_post(handlers, work) == HG_UTIL_SUCCESS ? HG_SUCCESS : HG_OTHER_ERROR;
}

static HG_THREAD_RETURN_TYPE progress_loop(void* arg) {
    hg_context_t* context = (hg_context_t*)arg;
    hg_thread_ret_t tret = (hg_thread_ret_t)0;

    while (!stopping) /* set by this thread */
        pump(context, 100);
    return tret;
}

static void serve(const char* protocol, int to) {
    hg_class_t* hg_class = HG_Init(protocol, HG_TRUE);
    hg_atomic_int32_t created = HG_ATOMIC_VAR_INIT(0);
    hg_context_t* context;
    hg_thread_t progress;

    EXPECT(hg_class != NULL);
    EXPECT(HG_Class_set_handle_create_callback(hg_class, handle_created, (void*)&created) ==
           HG_SUCCESS);
    EXPECT(hg_thread_pool_init(HANDLERS, &handlers) == HG_UTIL_SUCCESS);
    EXPECT(MERCURY_REGISTER(hg_class, "add", add_in_t, add_out_t, add) != 0);
    (void)register_stop(hg_class);
    context = HG_Context_create(hg_class);
    EXPECT(context != NULL && hg_atomic_get32(&created) > 0);
    EXPECT(hg_thread_create(&progress, progress_loop, context) == HG_UTIL_SUCCESS);
    tell_address(hg_class, to);
    EXPECT(hg_thread_join(progress) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_pool_destroy(handlers) == HG_UTIL_SUCCESS);
    EXPECT(hg_atomic_get32(&served) == CALLERS * CALLS);
    end(context);
}

/* ---- client ---- */

static int progress_func(unsigned int timeout, void* arg) {
    return HG_Progress((hg_context_t*)arg, timeout) == HG_SUCCESS ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static int trigger_func(unsigned int timeout, unsigned int* flag, void* arg) {
    unsigned int count = 0;
    const hg_return_t ret = HG_Trigger((hg_context_t*)arg, timeout, 1, &count);

    *flag = ret == HG_SUCCESS && count > 0;
    return ret == HG_SUCCESS || ret == HG_TIMEOUT ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static hg_return_t done(const struct hg_cb_info* info) {
    EXPECT(info->ret == HG_SUCCESS);
    hg_request_complete((hg_request_t*)info->arg);
    return HG_SUCCESS;
}

struct caller {
    hg_context_t* context;
    hg_request_class_t* requests;
    hg_addr_t addr;
    hg_id_t id;
    int number;
};

static void wait_for(hg_request_t* request) {
    unsigned int flag = 0;

    EXPECT(hg_request_wait(request, 60000, &flag) == HG_UTIL_SUCCESS && flag == 1);
}

static HG_THREAD_RETURN_TYPE run_calls(void* arg) {
    struct caller* c = (struct caller*)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;
    hg_request_t* request = hg_request_create(c->requests);
    hg_handle_t handle = HG_HANDLE_NULL;
    int i;

    EXPECT(request != NULL);
    EXPECT(HG_Create(c->context, c->addr, c->id, &handle) == HG_SUCCESS);
    for (i = 0; i < CALLS; i++) {
        add_in_t in = {i, c->number * 1000};
        add_out_t out;

        hg_request_reset(request);
        EXPECT(HG_Forward(handle, done, request, &in) == HG_SUCCESS);
        wait_for(request);
        EXPECT(HG_Get_output(handle, &out) == HG_SUCCESS && out.sum == i + c->number * 1000);
        EXPECT(HG_Free_output(handle, &out) == HG_SUCCESS);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    hg_request_destroy(request);
    return ret;
}

static void call(const char* protocol, const char* server) {
    hg_class_t* hg_class = HG_Init(protocol, HG_FALSE);
    hg_context_t* context = hg_class == NULL ? NULL : HG_Context_create(hg_class);
    struct caller callers[CALLERS];
    hg_thread_t threads[CALLERS];
    hg_request_class_t* requests;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_id_t add_id;
    hg_id_t stop_id;
    int i;

    EXPECT(context != NULL);
    requests = hg_request_init(progress_func, trigger_func, context);
    EXPECT(requests != NULL);
    add_id = MERCURY_REGISTER(hg_class, "add", add_in_t, add_out_t, NULL);
    stop_id = register_stop(hg_class);
    EXPECT(HG_Addr_lookup2(hg_class, server, &addr) == HG_SUCCESS);
    for (i = 0; i < CALLERS; i++) {
        callers[i].context = context;
        callers[i].requests = requests;
        callers[i].addr = addr;
        callers[i].id = add_id;
        callers[i].number = i;
        EXPECT(hg_thread_create(&threads[i], run_calls, &callers[i]) == HG_UTIL_SUCCESS);
    }
    for (i = 0; i < CALLERS; i++)
        EXPECT(hg_thread_join(threads[i]) == HG_UTIL_SUCCESS);

    tell_to_stop(context, addr, stop_id);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
    hg_request_finalize(requests, NULL);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
