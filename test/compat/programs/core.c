/* SPDX-License-Identifier: BSD-3-Clause */
/* RPCs of mercury_core.h: bytes that the program lays out itself, put into the library's buffers
 * and read there; answers that come later, one-way RPCs, codes, cancellation. */
#include <mercury_core.h>

#include "two.h"

enum { REVERSE = 11, LATER, NOTE, NEVER, STOP };

static hg_core_context_t* open_core(const char* protocol, uint8_t listen) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_core_class_t* c;
    hg_core_context_t* context;

    info.request_post_init = 4;
    info.request_post_incr = 4;
    c = HG_Core_init_opt2(protocol, listen, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
    EXPECT(c != NULL);
    context = HG_Core_context_create(c);
    EXPECT(context != NULL);
    EXPECT(HG_Core_context_get_class(context) == c);
    return context;
}

static void pump_core(hg_core_context_t* context, unsigned int timeout) {
    unsigned int count = 0;
    unsigned int ran = 0;
    hg_return_t ret;

    do {
        ret = HG_Core_trigger(context, 0, 1, &count);
        ran += count;
    } while (ret == HG_SUCCESS && count != 0);
    EXPECT(ret == HG_TIMEOUT);
    if (ran != 0)
        return;
    ret = HG_Core_progress(context, timeout);
    EXPECT(ret == HG_SUCCESS || ret == HG_TIMEOUT);
}

static void end_core(hg_core_context_t* context) {
    hg_core_class_t* c = HG_Core_context_get_class(context);

    EXPECT(HG_Core_context_destroy(context) == HG_SUCCESS);
    EXPECT(HG_Core_finalize(c) == HG_SUCCESS);
}

/* ---- server ---- */

static hg_core_handle_t kept[3];
static unsigned int kept_count;
static unsigned int answers_left;
static uint32_t noted;

static hg_return_t on_left(const struct hg_core_cb_info* info) {
    EXPECT(info->type == HG_CB_RESPOND && info->ret == HG_SUCCESS && info->arg == &answers_left);
    answers_left++;
    return HG_SUCCESS;
}

static void answer(hg_core_handle_t handle, const void* bytes, hg_size_t size) {
    void* out = NULL;
    hg_size_t room = 0;

    EXPECT(HG_Core_get_output(handle, &out, &room) == HG_SUCCESS && room >= size);
    if (size != 0)
        memcpy(out, bytes, size);
    EXPECT(HG_Core_respond(handle, on_left, &answers_left, 0, size) == HG_SUCCESS);
}

static hg_return_t serve_reverse(hg_core_handle_t handle) {
    const struct hg_core_info* info = HG_Core_get_info(handle);
    const char* what = (const char*)HG_Core_registered_data(info->core_class, info->id);
    char reversed[4096];
    void* in = NULL;
    hg_size_t size = 0;
    size_t length = HG_Core_get_input_payload_size(handle);
    size_t i;

    EXPECT(info->id == REVERSE && strcmp(what, "reverse") == 0);
    EXPECT(HG_Core_get_rpc_data(handle) == (const void*)what);
    EXPECT(HG_Core_get_input(handle, &in, &size) == HG_SUCCESS);
    EXPECT(size >= length && length <= sizeof reversed);
    for (i = 0; i < length; i++)
        reversed[i] = ((const char*)in)[length - 1 - i];
    EXPECT(HG_Core_release_input(handle) == HG_SUCCESS);
    answer(handle, reversed, length);
    return HG_Core_destroy(handle);
}

/* Answered when all have come, the last one first. */
static hg_return_t serve_later(hg_core_handle_t handle) {
    kept[kept_count++] = handle;
    EXPECT(HG_Core_ref_incr(handle) == HG_SUCCESS && HG_Core_ref_get(handle) >= 2);
    EXPECT(HG_Core_destroy(handle) == HG_SUCCESS);
    while (kept_count == 3) {
        unsigned int i;

        for (i = 3; i-- > 0;) {
            answer(kept[i], &i, sizeof i);
            EXPECT(HG_Core_destroy(kept[i]) == HG_SUCCESS);
        }
        kept_count = 0;
    }
    return HG_SUCCESS;
}

static hg_return_t serve_note(hg_core_handle_t handle) {
    void* in = NULL;
    hg_size_t size = 0;
    uint32_t n = 0;

    EXPECT(HG_Core_get_input(handle, &in, &size) == HG_SUCCESS && size >= sizeof n);
    memcpy(&n, in, sizeof n);
    noted += n;
    return HG_Core_destroy(handle);
}

/* What came by one-way RPCs is the answer. */
static hg_return_t serve_stop(hg_core_handle_t handle) {
    stopping = 1;
    answer(handle, &noted, sizeof noted);
    return HG_Core_destroy(handle);
}

static void serve(const char* protocol, int to) {
    static char what[] = "reverse";
    hg_core_context_t* context = open_core(protocol, HG_TRUE);
    hg_core_class_t* c = HG_Core_context_get_class(context);
    hg_core_addr_t self = HG_CORE_ADDR_NULL;
    char text[ADDRESS_MAX] = {0};
    hg_size_t size = sizeof text;

    EXPECT(HG_Core_register(c, REVERSE, serve_reverse) == HG_SUCCESS);
    EXPECT(HG_Core_register_data(c, REVERSE, what, NULL) == HG_SUCCESS);
    EXPECT(HG_Core_register(c, LATER, serve_later) == HG_SUCCESS);
    EXPECT(HG_Core_register(c, NOTE, serve_note) == HG_SUCCESS);
    EXPECT(HG_Core_registered_disable_response(c, NOTE, HG_TRUE) == HG_SUCCESS);
    EXPECT(HG_Core_register(c, STOP, serve_stop) == HG_SUCCESS);
    EXPECT(HG_Core_context_post(context) == HG_SUCCESS); /* mercury.h does so by itself */
    EXPECT(HG_Core_addr_self(c, &self) == HG_SUCCESS);
    EXPECT(HG_Core_addr_to_string(text, &size, self) == HG_SUCCESS);
    EXPECT(HG_Core_addr_free(self) == HG_SUCCESS);
    EXPECT(write(to, text, sizeof text) == (ssize_t)sizeof text);
    while (!stopping || HG_Core_context_get_completion_count(context) != 0 || answers_left == 0)
        pump_core(context, 100);
    end_core(context);
    EXPECT(answers_left > 0);
}

/* ---- client ---- */

struct call {
    hg_core_handle_t handle;
    int count;
    hg_return_t ret;
    char out[4096];
    size_t size;
};

static hg_return_t on_answer(const struct hg_core_cb_info* info) {
    struct call* call = (struct call*)info->arg;
    void* out = NULL;
    hg_size_t room = 0;

    EXPECT(info->type == HG_CB_FORWARD && info->info.forward.handle == call->handle);
    call->count++;
    call->ret = info->ret;
    if (info->ret == HG_SUCCESS && HG_Core_get_info(call->handle)->id != NOTE) {
        EXPECT(HG_Core_get_output(call->handle, &out, &room) == HG_SUCCESS);
        call->size = HG_Core_get_output_payload_size(call->handle);
        EXPECT(call->size <= room && call->size <= sizeof call->out);
        memcpy(call->out, out, call->size);
    }
    return HG_SUCCESS;
}

static void start_call(struct call* call, const void* bytes, hg_size_t size) {
    void* in = NULL;
    hg_size_t room = 0;

    call->count = 0;
    call->size = 0;
    EXPECT(HG_Core_get_input(call->handle, &in, &room) == HG_SUCCESS && room >= size);
    if (size != 0)
        memcpy(in, bytes, size);
    EXPECT(HG_Core_forward(call->handle, on_answer, call, 0, size) == HG_SUCCESS);
}

static void await(hg_core_context_t* context, struct call* call) {
    while (call->count == 0)
        pump_core(context, 100);
    EXPECT(call->count == 1);
}

static hg_core_addr_t found;

static hg_return_t on_lookup(const struct hg_core_cb_info* info) {
    EXPECT(info->type == HG_CB_LOOKUP && info->ret == HG_SUCCESS);
    found = info->info.lookup.addr;
    return HG_SUCCESS;
}

static void call(const char* protocol, const char* server) {
    hg_core_context_t* context = open_core(protocol, HG_FALSE);
    hg_core_class_t* c = HG_Core_context_get_class(context);
    hg_core_addr_t addr = HG_CORE_ADDR_NULL;
    struct call calls[3];
    struct call one;
    uint32_t n;
    unsigned int i;

    for (i = REVERSE; i <= STOP; i++)
        EXPECT(HG_Core_register(c, i, NULL) == HG_SUCCESS);
    EXPECT(HG_Core_registered_disable_response(c, NOTE, HG_TRUE) == HG_SUCCESS);
    EXPECT(HG_Core_addr_lookup1(context, on_lookup, NULL, server, HG_CORE_OP_ID_IGNORE) ==
           HG_SUCCESS);
    while (found == HG_CORE_ADDR_NULL)
        pump_core(context, 100);
    EXPECT(HG_Core_addr_lookup2(c, server, &addr) == HG_SUCCESS);
    EXPECT(HG_Core_addr_cmp(addr, found));
    EXPECT(HG_Core_addr_free(found) == HG_SUCCESS);

    memset(&one, 0, sizeof one);
    EXPECT(HG_Core_create(context, addr, REVERSE, &one.handle) == HG_SUCCESS);
    for (i = 0; i < 50; i++) { /* the same handle, again and again */
        start_call(&one, "forwards", 8);
        await(context, &one);
        EXPECT(one.ret == HG_SUCCESS && one.size == 8 && memcmp(one.out, "sdrawrof", 8) == 0);
        start_call(&one, NULL, 0);
        await(context, &one);
        EXPECT(one.ret == HG_SUCCESS && one.size == 0);
    }

    for (i = 0; i < 3; i++) {
        memset(&calls[i], 0, sizeof calls[i]);
        EXPECT(HG_Core_create(context, addr, LATER, &calls[i].handle) == HG_SUCCESS);
        start_call(&calls[i], NULL, 0);
    }
    for (i = 0; i < 3; i++) {
        unsigned int place;

        await(context, &calls[i]);
        EXPECT(calls[i].ret == HG_SUCCESS && calls[i].size == sizeof place);
        memcpy(&place, calls[i].out, sizeof place);
        EXPECT(place == i);
        EXPECT(HG_Core_destroy(calls[i].handle) == HG_SUCCESS);
    }

    EXPECT(HG_Core_reset(one.handle, HG_CORE_ADDR_NULL, NOTE) == HG_SUCCESS);
    for (n = 1; n <= 10; n++) {
        start_call(&one, &n, sizeof n);
        await(context, &one);
        EXPECT(one.ret == HG_SUCCESS && one.size == 0);
    }
    /* Nobody serves it there. */
    EXPECT(HG_Core_reset(one.handle, HG_CORE_ADDR_NULL, NEVER) == HG_SUCCESS);
    start_call(&one, "x", 1);
    await(context, &one);
    EXPECT(one.ret == HG_NOENTRY);
    /* One that waits, and does not come: two more are needed. */
    EXPECT(HG_Core_reset(one.handle, addr, LATER) == HG_SUCCESS);
    start_call(&one, NULL, 0);
    EXPECT(HG_Core_cancel(one.handle) == HG_SUCCESS);
    await(context, &one);
    EXPECT(one.ret == HG_CANCELED);
    for (i = 0; i < 2; i++) {
        EXPECT(HG_Core_reset(one.handle, addr, LATER) == HG_SUCCESS);
        start_call(&one, NULL, 0);
        if (i == 0) {
            EXPECT(HG_Core_cancel(one.handle) == HG_SUCCESS);
        }
        await(context, &one);
        EXPECT(one.ret == (i == 0 ? HG_CANCELED : HG_SUCCESS));
    }

    EXPECT(HG_Core_reset(one.handle, HG_CORE_ADDR_NULL, STOP) == HG_SUCCESS);
    start_call(&one, NULL, 0);
    await(context, &one);
    EXPECT(one.ret == HG_SUCCESS && one.size == sizeof n);
    memcpy(&n, one.out, sizeof n);
    EXPECT(n == 55);
    EXPECT(HG_Core_destroy(one.handle) == HG_SUCCESS);
    EXPECT(HG_Core_addr_free(addr) == HG_SUCCESS);
    end_core(context);
}

int main(int argc, char** argv) {
    return run_two(argc, argv, serve, call);
}
