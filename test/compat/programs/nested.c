/* SPDX-License-Identifier: BSD-3-Clause */
/* RPCs inside RPCs: to serve a request, the server calls its client, which calls the server again,
 * until the number that is passed is 0. Both sides serve and call. */
#include <mercury.h>
#include <mercury_macros.h>

#include "two.h"

MERCURY_GEN_PROC(step_t, ((uint32_t)(left))((uint32_t)(sum)))

static hg_id_t step_id;
static hg_id_t stop_id;

/* A request that waits for the answer to its own. */
struct step {
    hg_handle_t above;
    hg_handle_t below;
};

static hg_return_t came_back(const struct hg_cb_info* info) {
    struct step* s = (struct step*)info->arg;
    step_t out;

    EXPECT(info->ret == HG_SUCCESS && info->info.forward.handle == s->below);
    EXPECT(HG_Get_output(s->below, &out) == HG_SUCCESS);
    out.sum++;
    EXPECT(HG_Respond(s->above, NULL, NULL, &out) == HG_SUCCESS);
    EXPECT(HG_Free_output(s->below, &out) == HG_SUCCESS);
    EXPECT(HG_Destroy(s->below) == HG_SUCCESS && HG_Destroy(s->above) == HG_SUCCESS);
    free(s);
    return HG_SUCCESS;
}

static hg_return_t step(hg_handle_t handle) {
    const struct hg_info* info = HG_Get_info(handle);
    struct step* s;
    step_t in;

    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    if (in.left == 0) {
        EXPECT(HG_Respond(handle, NULL, NULL, &in) == HG_SUCCESS);
        EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
        return HG_Destroy(handle);
    }
    s = (struct step*)calloc(1, sizeof *s);
    EXPECT(s != NULL);
    s->above = handle;
    in.left--;
    in.sum += in.left;
    EXPECT(HG_Create(info->context, info->addr, info->id, &s->below) == HG_SUCCESS);
    EXPECT(HG_Forward(s->below, came_back, s, &in) == HG_SUCCESS);
    return HG_Free_input(handle, &in);
}

static hg_context_t* start(const char* protocol) {
    hg_class_t* hg_class = HG_Init(protocol, HG_TRUE);
    hg_context_t* context = hg_class == NULL ? NULL : HG_Context_create(hg_class);

    EXPECT(context != NULL);
    step_id = MERCURY_REGISTER(hg_class, "step", step_t, step_t, step);
    stop_id = register_stop(hg_class);
    return context;
}

static void serve(const char* protocol, int to) {
    hg_context_t* context = start(protocol);

    tell_address(HG_Context_get_class(context), to);
    serve_until_stopped(context);
}

static hg_return_t done(const struct hg_cb_info* info) {
    EXPECT(info->ret == HG_SUCCESS);
    *(int*)info->arg += 1;
    return HG_SUCCESS;
}

#define CALLS 20

static void call(const char* protocol, const char* server) {
    hg_context_t* context = start(protocol);
    hg_class_t* hg_class = HG_Context_get_class(context);
    hg_handle_t handles[CALLS];
    hg_addr_t addr = HG_ADDR_NULL;
    int calls = 0;
    uint32_t i;

    EXPECT(HG_Addr_lookup2(hg_class, server, &addr) == HG_SUCCESS);
    for (i = 0; i < CALLS; i++) {
        step_t in = {i, 0};

        EXPECT(HG_Create(context, addr, step_id, &handles[i]) == HG_SUCCESS);
        EXPECT(HG_Forward(handles[i], done, &calls, &in) == HG_SUCCESS);
    }
    while (calls < CALLS)
        pump(context, 10);
    for (i = 0; i < CALLS; i++) {
        step_t out;

        EXPECT(HG_Get_output(handles[i], &out) == HG_SUCCESS);
        /* 0 + 1 + ... + (i - 1), and 1 for each way back. */
        EXPECT(out.left == 0 && out.sum == (i == 0 ? 0U : i * (i - 1) / 2 + i));
        EXPECT(HG_Free_output(handles[i], &out) == HG_SUCCESS);
        EXPECT(HG_Destroy(handles[i]) == HG_SUCCESS);
    }
    tell_to_stop(context, addr, stop_id);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
