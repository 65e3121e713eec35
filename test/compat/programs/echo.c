/* SPDX-License-Identifier: BSD-3-Clause */
/* An echo service: generated procs, nested structures, one written by hand, a one-way RPC, handles
 * that are used again. */
#include <mercury.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

#include "two.h"

/* Bytes with their length, as services write them by hand. */
typedef struct {
    uint32_t size;
    void* bytes;
} blob_t;

static hg_return_t hg_proc_blob_t(hg_proc_t proc, void* data) {
    blob_t* blob = (blob_t*)data;
    hg_return_t ret = hg_proc_uint32_t(proc, &blob->size);

    if (ret != HG_SUCCESS)
        return ret;
    switch (hg_proc_get_op(proc)) {
        case HG_DECODE:
            if (blob->size > hg_proc_get_size_left(proc))
                return HG_OVERFLOW;
            blob->bytes = malloc(blob->size + 1U);
            if (blob->bytes == NULL)
                return HG_NOMEM;
            ret = hg_proc_raw(proc, blob->bytes, blob->size);
            if (ret != HG_SUCCESS) {
                free(blob->bytes);
                blob->bytes = NULL;
            }
            return ret;
        case HG_ENCODE:
            return hg_proc_raw(proc, blob->bytes, blob->size);
        case HG_FREE:
        default:
            free(blob->bytes);
            blob->bytes = NULL;
            return HG_SUCCESS;
    }
}

MERCURY_GEN_PROC(point_t, ((int32_t)(x))((int32_t)(y)))
MERCURY_GEN_PROC(echo_in_t,
                 ((hg_const_string_t)(text))((point_t)(at))((uint64_t)(id))((blob_t)(data)))
MERCURY_GEN_PROC(echo_out_t,
                 ((hg_string_t)(text))((point_t)(at))((hg_bool_t)(seen))((blob_t)(data)))

struct service {
    int notes;
};

/* ---- server ---- */

static struct service* service_of(hg_handle_t handle) {
    return (struct service*)HG_Class_get_data(HG_Get_info(handle)->hg_class);
}

static hg_return_t echo(hg_handle_t handle) {
    echo_in_t in;
    echo_out_t out;

    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    EXPECT(HG_Registered_data(HG_Get_info(handle)->hg_class, HG_Get_info(handle)->id) != NULL);
    out.text = (char*)malloc(strlen(in.text) + 8);
    EXPECT(out.text != NULL);
    sprintf(out.text, "echo: %s", in.text);
    out.at.x = in.at.y;
    out.at.y = in.at.x;
    out.seen = in.id == UINT64_C(0x123456789abcdef0) ? HG_TRUE : HG_FALSE;
    out.data = in.data;
    EXPECT(HG_Respond(handle, NULL, NULL, &out) == HG_SUCCESS);
    free(out.text);
    EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t note(hg_handle_t handle) {
    point_t at;

    EXPECT(HG_Get_input(handle, &at) == HG_SUCCESS);
    service_of(handle)->notes += at.x;
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_OPNOTSUPPORTED);
    EXPECT(HG_Free_input(handle, &at) == HG_SUCCESS);
    return HG_Destroy(handle);
}

/* Answers how many notes came. */
static hg_return_t count(hg_handle_t handle) {
    int32_t notes = service_of(handle)->notes;

    EXPECT(HG_Respond(handle, NULL, NULL, &notes) == HG_SUCCESS);
    return HG_Destroy(handle);
}

struct ids {
    hg_id_t echo;
    hg_id_t note;
    hg_id_t count;
    hg_id_t stop;
};

static struct ids enroll(hg_class_t* hg_class, int serving) {
    static char data[] = "of echo";
    struct ids ids;

    ids.echo = MERCURY_REGISTER(hg_class, "echo", echo_in_t, echo_out_t, serving ? echo : NULL);
    ids.note = MERCURY_REGISTER(hg_class, "note", point_t, void, serving ? note : NULL);
    ids.count = MERCURY_REGISTER(hg_class, "count", void, int32_t, serving ? count : NULL);
    ids.stop = register_stop(hg_class);
    EXPECT(ids.echo != 0 && ids.note != 0 && ids.count != 0);
    EXPECT(HG_Register_data(hg_class, ids.echo, data, NULL) == HG_SUCCESS);
    EXPECT(HG_Registered_disable_response(hg_class, ids.note, HG_TRUE) == HG_SUCCESS);
    return ids;
}

static void serve(const char* protocol, int to) {
    struct service s = {0};
    hg_class_t* hg_class = HG_Init(protocol, HG_TRUE);
    hg_context_t* context = hg_class == NULL ? NULL : HG_Context_create(hg_class);

    EXPECT(context != NULL);
    EXPECT(HG_Class_set_data(hg_class, &s, NULL) == HG_SUCCESS);
    (void)enroll(hg_class, 1);
    tell_address(hg_class, to);
    serve_until_stopped(context);
}

/* ---- client ---- */

static void echo_once(hg_context_t* context, hg_handle_t handle, uint32_t size, int i) {
    echo_in_t in;
    echo_out_t out;
    uint32_t k;

    memset(&in, 0, sizeof in);
    in.text = i % 2 ? "hello" : "";
    in.at.x = i;
    in.at.y = -i;
    in.id = UINT64_C(0x123456789abcdef0);
    in.data.size = size;
    in.data.bytes = malloc(size + 1U);
    EXPECT(in.data.bytes != NULL);
    for (k = 0; k < size; k++)
        ((unsigned char*)in.data.bytes)[k] = (unsigned char)(k * 7U + (uint32_t)i);
    EXPECT(run(context, handle, &in) == HG_SUCCESS);
    EXPECT(HG_Get_output(handle, &out) == HG_SUCCESS);
    EXPECT(strncmp(out.text, "echo: ", 6) == 0 && strcmp(out.text + 6, in.text) == 0);
    EXPECT(out.at.x == -i && out.at.y == i && out.seen == HG_TRUE);
    EXPECT(out.data.size == size && memcmp(out.data.bytes, in.data.bytes, size) == 0);
    EXPECT(HG_Free_output(handle, &out) == HG_SUCCESS);
    free(in.data.bytes);
}

static void call(const char* protocol, const char* server) {
    static const uint32_t sizes[] = {0, 1, 100, 3000, 5000, 100000, 3000000};
    struct hg_init_info init = HG_INIT_INFO_INITIALIZER;
    hg_class_t* hg_class;
    hg_context_t* context;
    struct ids ids;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    point_t at = {3, 0};
    int32_t notes = 0;
    hg_id_t unknown;
    int i;

    init.request_post_init = 16;
    hg_class =
        HG_Init_opt2(protocol, HG_FALSE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &init);
    EXPECT(hg_class != NULL);
    context = HG_Context_create(hg_class);
    EXPECT(context != NULL);
    ids = enroll(hg_class, 0);
    EXPECT(HG_Addr_lookup2(hg_class, server, &addr) == HG_SUCCESS);
    EXPECT(HG_Create(context, addr, ids.echo, &handle) == HG_SUCCESS);
    for (i = 0; i < 200; i++)
        echo_once(context, handle, sizes[i % 4], i);
    for (i = 0; i < 7; i++)
        echo_once(context, handle, sizes[i], i); /* above the eager size, too */
    EXPECT(HG_Ref_get(handle) == 1);

    EXPECT(HG_Reset(handle, HG_ADDR_NULL, ids.note) == HG_SUCCESS);
    for (i = 0; i < 5; i++)
        EXPECT(run(context, handle, &at) == HG_SUCCESS);

    /* What the server does not know is answered, not waited for. */
    unknown = MERCURY_REGISTER(hg_class, "unknown", void, void, NULL);
    EXPECT(HG_Reset(handle, HG_ADDR_NULL, unknown) == HG_SUCCESS);
    EXPECT(run(context, handle, NULL) == HG_NOENTRY);

    EXPECT(HG_Reset(handle, addr, ids.count) == HG_SUCCESS);
    EXPECT(run(context, handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Get_output(handle, &notes) == HG_SUCCESS && notes == 15);
    EXPECT(HG_Free_output(handle, &notes) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    tell_to_stop(context, addr, ids.stop);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
