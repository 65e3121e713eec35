/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that has one RPC for everything and unpacks it itself: procs made over the received
 * bytes, wherever they are, and pointers into them; the input freed in place of the handle; a log
 * function with streams that are none; handles from a pool; lookups through callbacks. */
#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_log.h>
#include <mercury_proc.h>
#include <mercury_proc_bulk.h>
#include <mercury_proc_string.h>
#include <stdarg.h>

#include "two.h"

#define RPC_ID 0xDA036868

/* ---- the log goes elsewhere: what is given as streams are numbers ---- */

enum { LOG_DEBUG = 0x100, LOG_WARNING = 0x200, LOG_ERROR = 0x400 };

static int errors_logged;

static int log_line(FILE* stream, const char* format, ...) {
    const intptr_t level = (intptr_t)stream;
    char line[512];
    va_list ap;
    int n;

    EXPECT(level == LOG_DEBUG || level == LOG_WARNING || level == LOG_ERROR);
    va_start(ap, format);
    n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    EXPECT(n > 0);
    errors_logged += level == LOG_ERROR;
    return n;
}

static void import_log(void) {
    HG_Set_log_level("warning");
    HG_Set_log_subsys("hg,na");
    HG_Set_log_func(log_line);
    HG_Set_log_stream("debug", (FILE*)(intptr_t)LOG_DEBUG);
    HG_Set_log_stream("warning", (FILE*)(intptr_t)LOG_WARNING);
    HG_Set_log_stream("error", (FILE*)(intptr_t)LOG_ERROR);
}

/* ---- what travels ---- */

struct header {
    uint32_t opcode;
    uint32_t count;
};

struct request {
    struct header header;
    uint32_t* numbers;
    hg_string_t name;
    hg_bulk_t memory;
};

/* A view into the buffer, or space in it. */
static void* view(hg_proc_t proc, hg_size_t size) {
    return hg_proc_save_ptr(proc, size);
}

static hg_return_t proc_header(hg_proc_t proc, struct header* h) {
    void* at = view(proc, sizeof *h);

    EXPECT(at != NULL);
    if (hg_proc_get_op(proc) == HG_ENCODE)
        memcpy(at, h, sizeof *h);
    else
        memcpy(h, at, sizeof *h);
    return HG_SUCCESS;
}

static hg_return_t proc_body(hg_proc_t proc, struct request* r) {
    const hg_size_t size = r->header.count * sizeof *r->numbers;
    hg_return_t ret;
    void* at;

    switch (hg_proc_get_op(proc)) {
        case HG_ENCODE:
            at = view(proc, size);
            EXPECT(at != NULL);
            memcpy(at, r->numbers, size);
            break;
        case HG_DECODE:
            if (size > hg_proc_get_size_left(proc))
                return HG_OVERFLOW;
            r->numbers = (uint32_t*)malloc(size + 1);
            EXPECT(r->numbers != NULL);
            at = view(proc, size);
            EXPECT(at != NULL);
            memcpy(r->numbers, at, size);
            break;
        case HG_FREE:
        default:
            free(r->numbers);
            r->numbers = NULL;
            break;
    }
    ret = hg_proc_hg_string_t(proc, &r->name);
    return ret == HG_SUCCESS ? hg_proc_hg_bulk_t(proc, &r->memory) : ret;
}

static hg_return_t proc_in(hg_proc_t proc, void* data) {
    struct request* r = (struct request*)data;

    EXPECT(hg_proc_get_op(proc) != HG_DECODE); /* see unpack() */
    if (hg_proc_get_op(proc) == HG_ENCODE)
        (void)proc_header(proc, &r->header);
    return proc_body(proc, r);
}

static hg_return_t proc_out(hg_proc_t proc, void* data) {
    return hg_proc_uint64_t(proc, data);
}

/* ---- server ---- */

static int large;

static void unpack(hg_handle_t handle, struct request* r) {
    hg_class_t* hg_class = HG_Get_info(handle)->hg_class;
    hg_proc_t proc = HG_PROC_NULL;
    void *bytes = NULL, *unsized = NULL;
    hg_size_t size = 0;

    EXPECT(HG_Get_input_extra_buf(handle, &bytes, &size) == HG_SUCCESS);
    if (bytes == NULL)
        EXPECT(HG_Get_input_buf(handle, &bytes, &size) == HG_SUCCESS);
    else
        large++;
    EXPECT(size >= HG_Get_input_payload_size(handle));
    EXPECT(HG_Get_input_buf(handle, &unsized, NULL) == HG_SUCCESS && unsized != NULL);
    EXPECT(hg_proc_create_set(hg_class, bytes, size, HG_DECODE, HG_CRC32, &proc) == HG_SUCCESS);
    EXPECT(proc_header(proc, &r->header) == HG_SUCCESS);
    EXPECT(proc_body(proc, r) == HG_SUCCESS);
    EXPECT(hg_proc_flush(proc) == HG_SUCCESS);
    EXPECT(hg_proc_free(proc) == HG_SUCCESS);
}

/* One request, from its arrival to the end of the response. */
struct served {
    hg_handle_t handle;
    struct request request;
    hg_bulk_t local;
    uint64_t sum;
};

static hg_return_t answered(const struct hg_cb_info* info) {
    struct served* s = (struct served*)info->arg;

    EXPECT(info->type == HG_CB_RESPOND && info->ret == HG_SUCCESS);
    EXPECT(HG_Bulk_free(s->local) == HG_SUCCESS);
    /* Gives back what unpack() made and the handle, too, which is not destroyed. */
    EXPECT(HG_Free_input(s->handle, &s->request) == HG_SUCCESS);
    free(s);
    return HG_SUCCESS;
}

static hg_return_t fetched(const struct hg_cb_info* info) {
    struct served* s = (struct served*)info->arg;
    void* bytes = NULL;
    uint32_t i;

    EXPECT(info->ret == HG_SUCCESS);
    /* Sizes and their number are known. */
    EXPECT(HG_Bulk_access(s->local, 0, HG_Bulk_get_size(s->local), HG_BULK_READ_ONLY, 1, &bytes,
                          NULL, NULL) == HG_SUCCESS);
    EXPECT(bytes != NULL);
    for (i = 0; i < s->request.header.count; i++)
        s->sum += s->request.numbers[i];
    s->sum += ((unsigned char*)bytes)[0] + strlen(s->request.name);
    return HG_Respond(s->handle, answered, s, &s->sum);
}

static hg_return_t serve_one(hg_handle_t handle) {
    const struct hg_info* info = HG_Get_info(handle);
    struct served* s = (struct served*)calloc(1, sizeof *s);
    hg_size_t size;

    EXPECT(s != NULL);
    EXPECT(HG_Registered_data(info->hg_class, RPC_ID) == info->context);
    s->handle = handle;
    unpack(handle, &s->request);
    size = HG_Bulk_get_size(s->request.memory);
    EXPECT(HG_Bulk_create(info->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &s->local) ==
           HG_SUCCESS);
    return HG_Bulk_transfer(info->context, fetched, s, HG_BULK_PULL, info->addr, s->request.memory,
                            0, s->local, 0, size, HG_OP_ID_IGNORE);
}

static hg_context_t* start(const char* protocol, uint8_t listen) {
    hg_class_t* hg_class;
    hg_context_t* context;

    import_log();
    hg_class = HG_Init(protocol, listen);
    EXPECT(hg_class != NULL);
    EXPECT(HG_Register(hg_class, RPC_ID, proc_in, proc_out, serve_one) == HG_SUCCESS);
    context = HG_Context_create(hg_class);
    EXPECT(context != NULL);
    EXPECT(HG_Register_data(hg_class, RPC_ID, context, NULL) == HG_SUCCESS);
    EXPECT(HG_Context_create_id(hg_class, 99) == NULL); /* said, by way of log_line */
    EXPECT(errors_logged > 0);
    return context;
}

/* All callbacks there are, until there are none. */
static void trigger_all(hg_context_t* context) {
    unsigned int count = 0;
    hg_return_t ret;

    do {
        ret = HG_Trigger(context, 0, UINT32_MAX, &count);
    } while (ret == HG_SUCCESS && count > 0);
    EXPECT(ret == HG_TIMEOUT);
}

static void progress(hg_context_t* context) {
    hg_return_t ret;

    trigger_all(context);
    ret = HG_Progress(context, 1);
    EXPECT(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    trigger_all(context);
}

static void serve(const char* protocol, int to) {
    hg_context_t* context = start(protocol, HG_TRUE);

    (void)register_stop(HG_Context_get_class(context));
    tell_address(HG_Context_get_class(context), to);
    while (!stopping)
        progress(context);
    EXPECT(large > 0);
    end(context);
}

/* ---- client ---- */

static hg_return_t looked_up(const struct hg_cb_info* info) {
    EXPECT(info->type == HG_CB_LOOKUP && info->ret == HG_SUCCESS);
    *(hg_addr_t*)info->arg = info->info.lookup.addr;
    return HG_SUCCESS;
}

#define POOL 8

static void call(const char* protocol, const char* server) {
    static const uint32_t counts[] = {0, 1, 100, 2000, 100000};
    hg_context_t* context = start(protocol, HG_FALSE);
    hg_class_t* hg_class = HG_Context_get_class(context);
    const hg_id_t stop_id = register_stop(hg_class);
    hg_handle_t pool[POOL];
    hg_addr_t addr = HG_ADDR_NULL;
    uint32_t k;
    size_t i;

    for (i = 0; i < POOL; i++)
        EXPECT(HG_Create(context, NULL, RPC_ID, &pool[i]) == HG_SUCCESS);
    EXPECT(HG_Addr_lookup(context, looked_up, &addr, server, HG_OP_ID_IGNORE) == HG_SUCCESS);
    EXPECT(addr == HG_ADDR_NULL);
    while (addr == HG_ADDR_NULL)
        progress(context);
    for (i = 0; i < 3 * sizeof counts / sizeof counts[0]; i++) {
        struct request r;
        struct ended e = {0, HG_RETURN_MAX};
        unsigned char memory[300];
        void* at = memory;
        hg_size_t size = sizeof memory;
        uint64_t sum = 0;
        uint64_t expected = 3 + 6;

        memset(memory, 3, sizeof memory);
        memset(&r, 0, sizeof r);
        r.header.opcode = 1;
        r.header.count = counts[i % 5];
        r.numbers = (uint32_t*)malloc(sizeof *r.numbers * (r.header.count + 1));
        EXPECT(r.numbers != NULL);
        for (k = 0; k < r.header.count; k++)
            expected += r.numbers[k] = k;
        r.name = (char*)malloc(7);
        EXPECT(r.name != NULL);
        strcpy(r.name, "a name");
        EXPECT(HG_Bulk_create(hg_class, 1, &at, &size, HG_BULK_READ_ONLY, &r.memory) == HG_SUCCESS);
        EXPECT(HG_Reset(pool[i % POOL], addr, 0) == HG_SUCCESS); /* the RPC is kept */
        EXPECT(HG_Forward(pool[i % POOL], on_end, &e, &r) == HG_SUCCESS);
        while (e.count == 0)
            progress(context);
        EXPECT(e.ret == HG_SUCCESS);
        EXPECT(HG_Get_output(pool[i % POOL], &sum) == HG_SUCCESS && sum == expected);
        EXPECT(HG_Free_output(pool[i % POOL], &sum) == HG_SUCCESS);
        EXPECT(HG_Bulk_free(r.memory) == HG_SUCCESS);
        free(r.name);
        free(r.numbers);
    }
    for (i = 0; i < POOL; i++)
        EXPECT(HG_Destroy(pool[i]) == HG_SUCCESS);
    tell_to_stop(context, addr, stop_id);
    EXPECT(HG_Addr_free(hg_class, addr) == HG_SUCCESS);
    end(context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
