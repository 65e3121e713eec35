/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides inside an event loop of their own: they sleep in poll(2) on the context's descriptor,
 * without a limit in time, so that a wake-up that gets lost is a test that hangs. */
#include <mercury.h>
#include <mercury_macros.h>
#include <poll.h>

#include "two.h"

#define CALLS 2000

static hg_return_t next(hg_handle_t handle) {
    int32_t number;

    EXPECT(HG_Get_input(handle, &number) == HG_SUCCESS);
    number++;
    EXPECT(HG_Respond(handle, NULL, NULL, &number) == HG_SUCCESS);
    EXPECT(HG_Free_input(handle, &number) == HG_SUCCESS);
    return HG_Destroy(handle);
}

/* One turn of the loop; the program's own descriptor stands for what else it waits for. */
static void turn(hg_context_t* context, int own) {
    struct pollfd fds[2];
    unsigned int count = 0;

    fds[0].fd = HG_Event_get_wait_fd(context);
    fds[0].events = POLLIN;
    fds[1].fd = own;
    fds[1].events = POLLIN;
    EXPECT(fds[0].fd >= 0);
    if (!HG_Event_ready(context))
        EXPECT(poll(fds, 2, -1) > 0);
    EXPECT(HG_Event_progress(context, &count) == HG_SUCCESS);
    while (count > 0) {
        unsigned int ran = 0;

        EXPECT(HG_Event_trigger(context, count, &ran) == HG_SUCCESS);
        EXPECT(ran <= count);
        if (ran == 0)
            break;
        count -= ran;
    }
}

static hg_context_t* start(const char* protocol, int serving, hg_id_t* next_id, hg_id_t* stop_id) {
    hg_class_t* hg_class = HG_Init(protocol, (uint8_t)serving);
    hg_context_t* context = hg_class == NULL ? NULL : HG_Context_create(hg_class);

    EXPECT(context != NULL);
    *next_id = MERCURY_REGISTER(hg_class, "next", int32_t, int32_t, serving ? next : NULL);
    *stop_id = register_stop(hg_class);
    return context;
}

static void serve(const char* protocol, int to) {
    hg_id_t ids[2];
    hg_context_t* context = start(protocol, 1, &ids[0], &ids[1]);
    int never[2];

    EXPECT(pipe(never) == 0);
    tell_address(HG_Context_get_class(context), to);
    while (!stopping)
        turn(context, never[0]);
    end(context);
}

struct walk {
    hg_handle_t handle;
    int32_t number;
    int over;
};

static hg_return_t stepped(const struct hg_cb_info* info) {
    struct walk* w = (struct walk*)info->arg;
    int32_t got = 0;

    EXPECT(info->ret == HG_SUCCESS);
    EXPECT(HG_Get_output(w->handle, &got) == HG_SUCCESS && got == w->number + 1);
    EXPECT(HG_Free_output(w->handle, &got) == HG_SUCCESS);
    w->number = got;
    if (w->number < CALLS)
        return HG_Forward(w->handle, stepped, w, &w->number); /* from its own callback */
    w->over = 1;
    return HG_SUCCESS;
}

static hg_return_t ended(const struct hg_cb_info* info) {
    EXPECT(info->ret == HG_SUCCESS);
    ((struct walk*)info->arg)->over = 1;
    return HG_SUCCESS;
}

static void call(const char* protocol, const char* server) {
    hg_id_t ids[2];
    hg_context_t* context = start(protocol, 0, &ids[0], &ids[1]);
    hg_class_t* hg_class = HG_Context_get_class(context);
    struct walk w = {HG_HANDLE_NULL, 0, 0};
    hg_addr_t addr = HG_ADDR_NULL;
    int never[2];

    EXPECT(pipe(never) == 0);
    EXPECT(HG_Addr_lookup2(hg_class, server, &addr) == HG_SUCCESS);
    EXPECT(HG_Create(context, addr, ids[0], &w.handle) == HG_SUCCESS);
    EXPECT(HG_Forward(w.handle, stepped, &w, &w.number) == HG_SUCCESS);
    while (!w.over)
        turn(context, never[0]);
    EXPECT(w.number == CALLS);
    w.over = 0;
    EXPECT(HG_Reset(w.handle, HG_ADDR_NULL, ids[1]) == HG_SUCCESS);
    EXPECT(HG_Forward(w.handle, ended, &w, NULL) == HG_SUCCESS);
    while (!w.over)
        turn(context, never[0]);
    EXPECT(HG_Destroy(w.handle) == HG_SUCCESS);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
