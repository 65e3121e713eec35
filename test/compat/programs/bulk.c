/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that reads and writes its clients' memory: scattered segments, offsets, a descriptor
 * that outlives its request, read-only memory. */
#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_bulk.h>

#include "two.h"

#define hg_proc_hg_return_t hg_proc_int32_t

/* Adds 1 to each of `size` bytes from `offset` on. */
MERCURY_GEN_PROC(work_in_t, ((hg_bulk_t)(memory))((hg_size_t)(offset))((hg_size_t)(size)))
MERCURY_GEN_PROC(work_out_t, ((hg_return_t)(pushed))((uint64_t)(sum)))

/* ---- server ---- */

/* One request: lives from its arrival to the end of the push. */
struct work {
    hg_handle_t handle;
    hg_bulk_t remote;
    hg_bulk_t local;
    hg_size_t offset;
    hg_size_t size;
    work_out_t out;
};

static hg_return_t finished(struct work* w) {
    hg_return_t ret = HG_Respond(w->handle, NULL, NULL, &w->out);

    EXPECT(ret == HG_SUCCESS);
    EXPECT(HG_Bulk_free(w->local) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(w->remote) == HG_SUCCESS);
    EXPECT(HG_Destroy(w->handle) == HG_SUCCESS);
    free(w);
    return ret;
}

static hg_return_t pushed(const struct hg_cb_info* info) {
    struct work* w = (struct work*)info->arg;

    EXPECT(info->type == HG_CB_BULK && info->info.bulk.op == HG_BULK_PUSH);
    w->out.pushed = info->ret;
    return finished(w);
}

static hg_return_t pulled(const struct hg_cb_info* info) {
    struct work* w = (struct work*)info->arg;
    const struct hg_info* hg_info = HG_Get_info(w->handle);
    unsigned char* bytes;
    void* buf = NULL;
    hg_size_t size = 0;
    uint32_t count = 0;
    hg_size_t i;

    EXPECT(info->ret == HG_SUCCESS && info->info.bulk.op == HG_BULK_PULL);
    EXPECT(info->info.bulk.size == w->size && info->info.bulk.local_handle == w->local);
    EXPECT(HG_Bulk_access(w->local, 0, w->size, HG_BULK_READWRITE, 1, &buf, &size, &count) ==
           HG_SUCCESS);
    EXPECT(count == 1 && size == w->size);
    bytes = (unsigned char*)buf;
    for (i = 0; i < size; i++) {
        w->out.sum += bytes[i];
        bytes[i] = (unsigned char)(bytes[i] + 1);
    }
    w->out.pushed = HG_Bulk_transfer(hg_info->context, pushed, w, HG_BULK_PUSH, hg_info->addr,
                                     w->remote, w->offset, w->local, 0, w->size, HG_OP_ID_IGNORE);
    return w->out.pushed == HG_SUCCESS ? HG_SUCCESS : finished(w);
}

static hg_return_t work(hg_handle_t handle) {
    const struct hg_info* hg_info = HG_Get_info(handle);
    struct work* w = (struct work*)calloc(1, sizeof *w);
    hg_op_id_t op = HG_OP_ID_NULL;
    work_in_t in;

    EXPECT(w != NULL);
    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    w->handle = handle;
    w->remote = in.memory;
    w->offset = in.offset;
    w->size = in.size;
    EXPECT(HG_Bulk_ref_incr(in.memory) == HG_SUCCESS); /* beyond HG_Free_input */
    EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
    EXPECT(HG_Bulk_get_size(w->remote) >= w->offset + w->size);
    EXPECT(HG_Bulk_create(hg_info->hg_class, 1, NULL, &w->size, HG_BULK_READWRITE, &w->local) ==
           HG_SUCCESS);
    EXPECT(HG_Bulk_transfer(hg_info->context, pulled, w, HG_BULK_PULL, hg_info->addr, w->remote,
                            w->offset, w->local, 0, w->size, &op) == HG_SUCCESS);
    EXPECT(op != HG_OP_ID_NULL);
    return HG_SUCCESS;
}

static void serve(const char* protocol, int to) {
    hg_class_t* hg_class = HG_Init(protocol, HG_TRUE);
    hg_context_t* context = hg_class == NULL ? NULL : HG_Context_create(hg_class);

    EXPECT(context != NULL);
    EXPECT(MERCURY_REGISTER(hg_class, "work", work_in_t, work_out_t, work) != 0);
    (void)register_stop(hg_class);
    tell_address(hg_class, to);
    serve_until_stopped(context);
}

/* ---- client ---- */

#define PIECES 5

static void one(hg_class_t* hg_class, hg_context_t* context, hg_handle_t handle, size_t piece,
                uint8_t flags) {
    unsigned char* pieces[PIECES];
    void* pointers[PIECES];
    hg_size_t sizes[PIECES];
    work_in_t in;
    work_out_t out;
    uint64_t sum = 0;
    hg_size_t total = 0;
    size_t at = 0;
    int k;
    size_t i;

    for (k = 0; k < PIECES; k++) {
        sizes[k] = k == 2 ? 0 : piece + (size_t)k; /* an empty one, too */
        pieces[k] = (unsigned char*)malloc(sizes[k] + 1);
        EXPECT(pieces[k] != NULL);
        pointers[k] = k == 2 ? NULL : pieces[k];
        for (i = 0; i < sizes[k]; i++)
            pieces[k][i] = (unsigned char)(i * 3 + (size_t)k);
        total += sizes[k];
    }
    memset(&in, 0, sizeof in);
    EXPECT(HG_Bulk_create(hg_class, PIECES, pointers, sizes, flags, &in.memory) == HG_SUCCESS);
    EXPECT(HG_Bulk_get_segment_count(in.memory) == PIECES && HG_Bulk_get_size(in.memory) == total);
    EXPECT(HG_Bulk_get_flags(in.memory) == flags);
    in.offset = 3;
    in.size = total - 5;
    EXPECT(run(context, handle, &in) == HG_SUCCESS);
    EXPECT(HG_Get_output(handle, &out) == HG_SUCCESS);
    for (k = 0; k < PIECES; k++) {
        for (i = 0; i < sizes[k]; i++, at++) {
            const unsigned char before = (unsigned char)(i * 3 + (size_t)k);
            const int touched = at >= in.offset && at < in.offset + in.size;

            sum += touched ? before : 0U;
            EXPECT(pieces[k][i] ==
                   (touched && flags == HG_BULK_READWRITE ? (unsigned char)(before + 1) : before));
        }
        free(pieces[k]);
    }
    EXPECT(out.sum == sum);
    EXPECT(out.pushed == (flags == HG_BULK_READWRITE ? HG_SUCCESS : HG_PERMISSION));
    EXPECT(HG_Free_output(handle, &out) == HG_SUCCESS);
    EXPECT(HG_Bulk_free(in.memory) == HG_SUCCESS);
}

static void call(const char* protocol, const char* server) {
    static const size_t sizes[] = {16, 1000, 70000, 2000000};
    hg_class_t* hg_class = HG_Init(protocol, HG_FALSE);
    hg_context_t* context = hg_class == NULL ? NULL : HG_Context_create(hg_class);
    hg_id_t work_id;
    hg_id_t stop_id;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_handle_t handle = HG_HANDLE_NULL;
    size_t i;

    EXPECT(context != NULL);
    work_id = MERCURY_REGISTER(hg_class, "work", work_in_t, work_out_t, NULL);
    stop_id = register_stop(hg_class);
    EXPECT(HG_Addr_lookup2(hg_class, server, &addr) == HG_SUCCESS);
    EXPECT(HG_Create(context, addr, work_id, &handle) == HG_SUCCESS);
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        one(hg_class, context, handle, sizes[i], HG_BULK_READWRITE);
        one(hg_class, context, handle, sizes[i], HG_BULK_READ_ONLY);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    tell_to_stop(context, addr, stop_id);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
