/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress and trigger, counted: how many callbacks ran and how many wait, what a progress without
 * anything to do says, callbacks that make progress themselves because they wait for others,
 * signals, and the requests of mercury_request.h, which threads wait for together. */
#include <errno.h>
#include <limits.h>
#include <mercury.h>
#include <mercury_atomic.h>
#include <mercury_macros.h>
#include <mercury_request.h>
#include <mercury_thread.h>
#include <mercury_time.h>
#include <signal.h>

#include "pair.h"

MERCURY_GEN_PROC(depth_t, ((uint32_t)(depth)))

/* ---- counts ---- */

static int looked_up;

static hg_return_t on_lookup(const struct hg_cb_info* info) {
    EXPECT(info->ret == HG_SUCCESS);
    looked_up++;
    return HG_Addr_free((hg_class_t*)info->arg, info->info.lookup.addr);
}

/* So many callbacks wait from now on. */
static void prepare(int count) {
    char name[ADDRESS_MAX];

    looked_up = 0;
    name_of(target.hg_class, name, sizeof name);
    for (; count > 0; count--)
        EXPECT(HG_Addr_lookup1(origin.context, on_lookup, origin.hg_class, name, NULL) ==
               HG_SUCCESS);
}

static void counts(void) {
    hg_context_t* c = origin.context;
    unsigned int n = 99;

    EXPECT(HG_Trigger(c, 0, 1, &n) == HG_TIMEOUT && n == 0);
    EXPECT(HG_Trigger(c, 10, 1, NULL) == HG_TIMEOUT);
    EXPECT(HG_Progress(c, 0) == HG_TIMEOUT);
    n = 99;
    EXPECT(HG_Event_progress(c, &n) == HG_SUCCESS && n == 0);
    n = 99;
    EXPECT(HG_Event_trigger(c, 1, &n) == HG_SUCCESS && n == 0);

    prepare(5);
    n = 99;
    EXPECT(HG_Trigger(c, 0, 0, &n) == HG_SUCCESS && n == 0 && looked_up == 0);
    EXPECT(HG_Progress(c, HG_MAX_IDLE_TIME) == HG_SUCCESS); /* at once, again and again */
    EXPECT(HG_Progress(c, HG_MAX_IDLE_TIME) == HG_SUCCESS);
    EXPECT(HG_Event_ready(c));
    EXPECT(HG_Event_progress(c, &n) == HG_SUCCESS && n == 5);
    EXPECT(HG_Event_progress(c, NULL) == HG_SUCCESS && looked_up == 0);
    EXPECT(HG_Trigger(c, 1000, 1, &n) == HG_SUCCESS && n == 1 && looked_up == 1);
    EXPECT(HG_Event_progress(c, &n) == HG_SUCCESS && n == 4);
    EXPECT(HG_Event_trigger(c, 2, &n) == HG_SUCCESS && n == 2 && looked_up == 3);
    EXPECT(HG_Trigger(c, HG_MAX_IDLE_TIME, UINT_MAX, &n) == HG_SUCCESS && n == 2 && looked_up == 5);
    EXPECT(HG_Trigger(c, 0, UINT_MAX, &n) == HG_TIMEOUT && n == 0);

    prepare(3);
    EXPECT(HG_Event_trigger(c, UINT_MAX, NULL) == HG_SUCCESS && looked_up == 3);
}

/* ---- callbacks that wait ---- */

static hg_id_t down;
static hg_addr_t to_origin; /* in the target's class */
static int deepest;

/* Calls the other side and waits for it, inside its own callback. */
static hg_return_t on_down(hg_handle_t handle) {
    const struct hg_info* info = HG_Get_info(handle);
    const int at_the_target = info->hg_class == target.hg_class;
    hg_handle_t next = HG_HANDLE_NULL;
    depth_t in;

    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS && HG_Free_input(handle, &in) == HG_SUCCESS);
    if (in.depth > 0) {
        in.depth--;
        deepest++;
        EXPECT(HG_Create(info->context, at_the_target ? to_origin : to_target, down, &next) ==
               HG_SUCCESS);
        EXPECT(call(next, &in) == HG_SUCCESS);
        EXPECT(HG_Get_output(next, &in) == HG_SUCCESS && HG_Free_output(next, &in) == HG_SUCCESS);
        EXPECT(HG_Destroy(next) == HG_SUCCESS);
        in.depth++;
    }
    EXPECT(HG_Respond(handle, NULL, NULL, &in) == HG_SUCCESS);
    return HG_Destroy(handle);
}

/* The same in a forward callback. */
static hg_return_t on_up(const struct hg_cb_info* info) {
    hg_handle_t next = HG_HANDLE_NULL;
    depth_t in = {1};

    EXPECT(info->ret == HG_SUCCESS);
    EXPECT(HG_Create(origin.context, to_target, down, &next) == HG_SUCCESS);
    EXPECT(call(next, &in) == HG_SUCCESS);
    EXPECT(HG_Destroy(next) == HG_SUCCESS);
    *(int*)info->arg = 1;
    return HG_SUCCESS;
}

static void waiting(void) {
    hg_handle_t handle = HG_HANDLE_NULL;
    char name[ADDRESS_MAX];
    depth_t in = {8};
    int up = 0;

    down = MERCURY_REGISTER(origin.hg_class, "down", depth_t, depth_t, on_down);
    EXPECT(MERCURY_REGISTER(target.hg_class, "down", depth_t, depth_t, on_down) == down);
    name_of(origin.hg_class, name, sizeof name);
    EXPECT(HG_Addr_lookup2(target.hg_class, name, &to_origin) == HG_SUCCESS);
    EXPECT(HG_Create(origin.context, to_target, down, &handle) == HG_SUCCESS);
    EXPECT(call(handle, &in) == HG_SUCCESS);
    EXPECT(HG_Get_output(handle, &in) == HG_SUCCESS && in.depth == 8 && deepest == 8);
    EXPECT(HG_Free_output(handle, &in) == HG_SUCCESS);
    in.depth = 0;
    EXPECT(HG_Forward(handle, on_up, &up, &in) == HG_SUCCESS);
    while (!up)
        turn();
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    EXPECT(HG_Addr_free(target.hg_class, to_origin) == HG_SUCCESS);
}

/* ---- a call without callback, and one after another in the callback ---- */

static hg_return_t on_nothing(hg_handle_t handle) {
    ++*(int*)HG_Registered_data(target.hg_class, HG_Get_info(handle)->id);
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t again(const struct hg_cb_info* info) {
    int* left = (int*)info->arg;

    EXPECT(info->ret == HG_SUCCESS);
    if (--*left > 0)
        return HG_Forward(info->info.forward.handle, again, left, NULL);
    return HG_Destroy(info->info.forward.handle);
}

static void without_callback(void) {
    const hg_id_t id = MERCURY_REGISTER(target.hg_class, "nothing", void, void, on_nothing);
    hg_handle_t handle = HG_HANDLE_NULL;
    int served = 0;
    int left = 20;

    EXPECT(MERCURY_REGISTER(origin.hg_class, "nothing", void, void, NULL) == id);
    EXPECT(HG_Register_data(target.hg_class, id, &served, NULL) == HG_SUCCESS);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    EXPECT(HG_Forward(handle, NULL, NULL, NULL) == HG_SUCCESS);
    while (HG_Ref_get(handle) != 1)
        turn();
    EXPECT(served == 1);
    EXPECT(HG_Forward(handle, again, &left, NULL) == HG_SUCCESS);
    while (left != 0)
        turn();
    EXPECT(served == 21);
}

/* ---- signals ---- */

static volatile sig_atomic_t signals;

static void on_signal(int number) {
    (void)number;
    signals++;
}

/* A progress that sleeps is neither ended nor prolonged by them. */
static void interrupted(void) {
    const pid_t self = getpid();
    struct sigaction action;
    hg_time_t before;
    hg_time_t after;
    int status = 0;
    pid_t pid;

    memset(&action, 0, sizeof action); /* no SA_RESTART */
    action.sa_handler = on_signal;
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        while (getppid() == self && kill(self, SIGUSR1) == 0)
            (void)hg_time_sleep(hg_time_from_ms(5));
        _exit(0);
    }
    do { /* until it has met some */
        EXPECT(hg_time_get_current(&before) == HG_UTIL_SUCCESS);
        EXPECT(HG_Progress(origin.context, 100) == HG_TIMEOUT);
        EXPECT(hg_time_get_current(&after) == HG_UTIL_SUCCESS);
        EXPECT(hg_time_diff(after, before) >= 0.1);
    } while (signals < 5);
    EXPECT(kill(pid, SIGKILL) == 0);
    while (waitpid(pid, &status, 0) < 0)
        EXPECT(errno == EINTR);
}

/* ---- requests ---- */

#define WAITERS 4
#define CALLS 50

static hg_atomic_int32_t waiters_left;

static int make_progress(unsigned int timeout, void* arg) {
    return HG_Progress((hg_context_t*)arg, timeout) == HG_SUCCESS ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static int run_callbacks(unsigned int timeout, unsigned int* flag, void* arg) {
    unsigned int n = 0;
    const hg_return_t ret = HG_Trigger((hg_context_t*)arg, timeout, 1, &n);

    *flag = n;
    return ret == HG_SUCCESS || ret == HG_TIMEOUT ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static hg_return_t on_requested(const struct hg_cb_info* info) {
    EXPECT(info->ret == HG_SUCCESS);
    hg_request_complete((hg_request_t*)info->arg);
    return HG_SUCCESS;
}

static HG_THREAD_RETURN_TYPE serve(void* arg) {
    hg_thread_ret_t ret = (hg_thread_ret_t)0;

    (void)arg;
    while (hg_atomic_get32(&waiters_left) != 0)
        pump(target.context, 20);
    return ret;
}

static HG_THREAD_RETURN_TYPE wait_often(void* arg) {
    hg_thread_ret_t ret = (hg_thread_ret_t)0;
    hg_request_t* request = hg_request_create((hg_request_class_t*)arg);
    hg_handle_t handle = HG_HANDLE_NULL;
    unsigned int done = 0;
    depth_t in = {0};
    int i;

    EXPECT(request != NULL);
    EXPECT(HG_Create(origin.context, to_target, down, &handle) == HG_SUCCESS);
    for (i = 0; i < CALLS; i++) {
        hg_request_reset(request);
        EXPECT(HG_Forward(handle, on_requested, request, &in) == HG_SUCCESS);
        EXPECT(hg_request_wait(request, HG_MAX_IDLE_TIME, &done) == HG_UTIL_SUCCESS && done);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    hg_request_destroy(request);
    hg_atomic_decr32(&waiters_left);
    return ret;
}

static void requests(void) {
    hg_request_class_t* c = hg_request_init(make_progress, run_callbacks, origin.context);
    hg_thread_t threads[WAITERS + 1];
    int i;

    EXPECT(c != NULL);
    hg_atomic_init32(&waiters_left, WAITERS);
    EXPECT(hg_thread_create(&threads[WAITERS], serve, NULL) == HG_UTIL_SUCCESS);
    for (i = 0; i < WAITERS; i++)
        EXPECT(hg_thread_create(&threads[i], wait_often, c) == HG_UTIL_SUCCESS);
    for (i = 0; i <= WAITERS; i++)
        EXPECT(hg_thread_join(threads[i]) == HG_UTIL_SUCCESS);
    hg_request_finalize(c, NULL);
}

int main(int argc, char** argv) {
    open_pair(protocol_of(argc, argv), NULL);
    counts();
    waiting();
    without_callback();
    interrupted();
    requests();
    close_pair();
    return 0;
}
