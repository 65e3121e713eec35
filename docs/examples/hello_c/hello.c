/* SPDX-License-Identifier: BSD-3-Clause */
#include <mercury_macros.h>

MERCURY_GEN_PROC(sum_in_t, ((int32_t)(a))((int32_t)(b)))
MERCURY_GEN_PROC(sum_out_t, ((int32_t)(sum)))

static hg_return_t sum(hg_handle_t handle) { /* runs in the server */
    sum_in_t in;
    HG_Get_input(handle, &in);
    HG_Respond(handle, NULL, NULL, &(sum_out_t){.sum = in.a + in.b});
    HG_Free_input(handle, &in);
    return HG_Destroy(handle);
}

static hg_return_t done(const struct hg_cb_info* info) { /* runs in the client, exactly once */
    sum_out_t out;
    if (info->ret == HG_SUCCESS && HG_Get_output(info->info.forward.handle, &out) == HG_SUCCESS) {
        printf("2 + 3 = %d\n", out.sum);
        HG_Free_output(info->info.forward.handle, &out);
    }
    *(int*)info->arg = 0;
    return info->ret;
}

int main(int argc, char** argv) { /* server: ./hello    client: ./hello ADDRESS */
    hg_class_t* hg = HG_Init("na+sm", argc == 1);
    hg_context_t* context = HG_Context_create(hg);
    hg_id_t id = MERCURY_REGISTER(hg, "sum", sum_in_t, sum_out_t, sum);
    hg_addr_t addr = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    char name[128];
    hg_size_t size = sizeof(name);
    int running = 1;
    if (argc == 1) {
        HG_Addr_self(hg, &addr);
        running = HG_Addr_to_string(hg, name, &size, addr) == HG_SUCCESS && puts(name) >= 0;
        fflush(stdout);
    } else {
        HG_Addr_lookup2(hg, argv[1], &addr);
        HG_Create(context, addr, id, &handle); /* fails if the lookup did, and so on */
        running = HG_Forward(handle, done, &running, &(sum_in_t){.a = 2, .b = 3}) == HG_SUCCESS;
    }
    while (running) {
        HG_Progress(context, 100);        /* waits for something to happen, at most 100 ms */
        HG_Trigger(context, 0, 10, NULL); /* calls sum() or done() */
    }
    return HG_Destroy(handle) || HG_Addr_free(hg, addr) || HG_Context_destroy(context) || HG_Finalize(hg);
}
