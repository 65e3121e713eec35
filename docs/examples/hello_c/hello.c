/* SPDX-License-Identifier: BSD-3-Clause */
#include <mercury_macros.h>
#include <stdlib.h>

MERCURY_GEN_PROC(pair_t, ((int32_t)(a))((int32_t)(b)))

static hg_return_t sum(hg_handle_t handle) { /* runs in the server; a failure goes to the client */
    pair_t in;
    hg_return_t ret = HG_Get_input(handle, &in);
    if (ret == HG_SUCCESS) {
        ret = HG_Respond(handle, NULL, NULL, &(int32_t){in.a + in.b});
        HG_Free_input(handle, &in);
    }
    HG_Destroy(handle);
    return ret;
}

static hg_return_t done(const struct hg_cb_info* info) { /* runs in the client, exactly once */
    int32_t out = 0;
    hg_return_t ret = info->ret ? info->ret : HG_Get_output(info->info.forward.handle, &out);
    printf("%d (%s)\n", out, HG_Error_to_string(ret));
    *(int*)info->arg = 0;
    return ret ? ret : HG_Free_output(info->info.forward.handle, &out);
}

int main(int argc, char** argv) { /* server: hello ADDRESS    client: hello ADDRESS 2 3 */
    hg_class_t* hg = HG_Init(argc == 2 ? argv[1] : "na+sm", argc == 2);
    hg_context_t* context = HG_Context_create(hg);
    hg_id_t id = MERCURY_REGISTER(hg, "sum", pair_t, int32_t, sum);
    hg_addr_t server = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    int running = context != NULL;
    if (argc == 4 &&
        (HG_Addr_lookup2(hg, argv[1], &server) || HG_Create(context, server, id, &handle) ||
         HG_Forward(handle, done, &running, &(pair_t){atoi(argv[2]), atoi(argv[3])}))) {
        running = puts(HG_Get_last_error()) < 0;
    }
    while (running) {
        HG_Progress(context, 100);        /* waits for something to happen, at most 100 ms */
        HG_Trigger(context, 0, 10, NULL); /* calls sum() or done() */
    }
    return HG_Destroy(handle) || HG_Addr_free(hg, server) || HG_Context_destroy(context) ||
           HG_Finalize(hg);
}
