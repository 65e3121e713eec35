/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs do that nobody recommends, and that works: one text for server and client, a
 * handler that ends without saying how, variables with the names of what generated code might use;
 * and names of older versions. */
#include <mercury.h>
#include <mercury_list.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>
#include <mercury_queue.h>

#include "pair.h"

/* Before what is generated, which is compiled with -Wshadow here. */
static int done;
static int fail;
MERCURY_GEN_PROC(inner_t, ((uint32_t)(number))((hg_string_t)(text)))
MERCURY_GEN_PROC(outer_t, ((inner_t)(inner))((uint8_t)(last)))

/* ---- one text for both ---- */

static void one_text(const char* protocol) {
    char text[ADDRESS_MAX];
    hg_class_t* server = HG_Init(protocol, HG_TRUE);
    hg_class_t* client;
    hg_class_t* second;

    EXPECT(server != NULL);
    name_of(server, text, sizeof text);
    client = HG_Init(text, HG_FALSE);
    EXPECT(client != NULL);
    second = HG_Init(text, HG_TRUE); /* but nobody else serves there */
    EXPECT(second == NULL);
    EXPECT(HG_Finalize(client) == HG_SUCCESS);
    EXPECT(HG_Finalize(server) == HG_SUCCESS);
}

/* ---- a handler without a value ---- */

static hg_handle_t kept;
static int nonsense;

/* As a function with a value looks to its caller when it ends without one. */
static int on_call(hg_handle_t handle) {
    kept = handle;
    return nonsense;
}

static hg_return_t later(const struct hg_cb_info* info) {
    done++;
    fail += info->ret != HG_SUCCESS;
    return HG_SUCCESS;
}

static void no_value(void) {
    static const int values[] = {0, -1, 255, 12345};
    const hg_id_t id = MERCURY_REGISTER(origin.hg_class, "careless", outer_t, outer_t, NULL);
    hg_handle_t handle = HG_HANDLE_NULL;
    outer_t in = {{7, (hg_string_t) "text"}, 1};
    outer_t out;
    size_t i;

    EXPECT(HG_Register_name(target.hg_class, "careless", hg_proc_outer_t, hg_proc_outer_t,
                            (hg_rpc_cb_t)(void (*)(void))on_call) == id);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    for (i = 0; i < sizeof values / sizeof values[0]; i++) {
        nonsense = values[i];
        kept = HG_HANDLE_NULL;
        done = 0;
        EXPECT(HG_Forward(handle, later, NULL, &in) == HG_SUCCESS);
        while (kept == HG_HANDLE_NULL)
            turn();
        turn(); /* whatever comes of the value is on its way */
        EXPECT(HG_Get_input(kept, &out) == HG_SUCCESS && out.inner.number == 7);
        EXPECT(HG_Respond(kept, NULL, NULL, &out) == HG_SUCCESS);
        EXPECT(HG_Free_input(kept, &out) == HG_SUCCESS && HG_Destroy(kept) == HG_SUCCESS);
        while (done == 0)
            turn();
        EXPECT(done == 1 && fail == 0);
        EXPECT(HG_Get_output(handle, &out) == HG_SUCCESS && strcmp(out.inner.text, "text") == 0);
        EXPECT(HG_Free_output(handle, &out) == HG_SUCCESS);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

/* ---- heads of lists ---- */

struct entry {
    HG_LIST_ENTRY(entry) in_list;
    HG_QUEUE_ENTRY(entry) in_queue;
};
HG_LIST_HEAD_DECL(list_head, entry);
HG_QUEUE_HEAD_DECL(queue_head, entry);

static void heads(void) {
    HG_LIST_HEAD_INIT(list_head, list);
    HG_QUEUE_HEAD_INIT(queue_head, queue);
    struct entry entry;

    EXPECT(HG_LIST_IS_EMPTY(&list) && HG_QUEUE_IS_EMPTY(&queue));
    HG_LIST_INSERT_HEAD(&list, &entry, in_list);
    HG_QUEUE_PUSH_TAIL(&queue, &entry, in_queue);
    EXPECT(HG_LIST_FIRST(&list) == &entry && HG_QUEUE_FIRST(&queue) == &entry);
}

/* ---- a proc in steps ---- */

static hg_return_t proc_steps(hg_proc_t proc, void* data) {
    inner_t* inner = (inner_t*)data;
    hg_return_t ret = HG_SUCCESS;

    HG_GEN_PROC(_, inner, (uint32_t)(number))
    HG_GEN_PROC(_, inner, (hg_string_t)(text))
    return ret;
}

static void steps(void) {
    char room[64];
    hg_proc_t proc = HG_PROC_NULL;
    inner_t in = {9, (hg_string_t) "nine"};
    inner_t out;

    EXPECT(hg_proc_create_set(origin.hg_class, room, sizeof room, HG_ENCODE, HG_NOHASH, &proc) ==
           HG_SUCCESS);
    EXPECT(proc_steps(proc, &in) == HG_SUCCESS);
    EXPECT(hg_proc_reset(proc, room, sizeof room, HG_DECODE) == HG_SUCCESS);
    EXPECT(proc_steps(proc, &out) == HG_SUCCESS && out.number == 9);
    EXPECT(strcmp(out.text, "nine") == 0);
    EXPECT(hg_proc_reset(proc, NULL, 0, HG_FREE) == HG_SUCCESS);
    EXPECT(proc_steps(proc, &out) == HG_SUCCESS);
    EXPECT(hg_proc_reset(proc, room, 2, HG_DECODE) == HG_SUCCESS);
    EXPECT(proc_steps(proc, &out) == HG_OVERFLOW);
    EXPECT(hg_proc_free(proc) == HG_SUCCESS);
}

/* ---- a proc that trusts its message ---- */

struct numbers {
    uint32_t count;
    uint32_t* at;
    const char* received; /* where they came from */
};

static int allocated;

/* As frameworks on top of Mercury write theirs: no look at what hg_proc_save_ptr gives. */
static hg_return_t proc_numbers(hg_proc_t proc, void* data) {
    struct numbers* n = (struct numbers*)data;
    hg_return_t ret = hg_proc_uint32_t(proc, &n->count);
    size_t size;
    void* at;

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_proc_get_op(proc) == HG_FREE) {
        EXPECT(memcmp(n->received, n->at, n->count * sizeof *n->at) == 0);
        free(n->at);
        n->at = NULL;
        allocated--;
        return HG_SUCCESS;
    }
    size = n->count * sizeof *n->at;
    at = hg_proc_save_ptr(proc, size);
    if (hg_proc_get_op(proc) == HG_DECODE) {
        n->at = (uint32_t*)malloc(size);
        allocated++;
        memcpy(n->at, at, size);
        n->received = (const char*)at;
    } else {
        memcpy(at, n->at, size);
    }
    return hg_proc_restore_ptr(proc, at, size);
}

static hg_return_t got;

static hg_return_t on_numbers(hg_handle_t handle) {
    struct numbers n = {0, NULL, NULL};

    got = HG_Get_input(handle, &n);
    if (got == HG_SUCCESS) {
        EXPECT(n.count == 3 && n.at[2] == 30);
        EXPECT(HG_Free_input(handle, &n) == HG_SUCCESS);
    }
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static void trusting(void) {
    static const uint32_t counts[] = {3, 4, 1000000};
    uint32_t values[] = {10, 20, 30};
    struct numbers n = {3, values, NULL};
    hg_handle_t handle = HG_HANDLE_NULL;
    size_t i;
    const hg_id_t whole = HG_Register_name(origin.hg_class, "numbers", proc_numbers, NULL, NULL);

    EXPECT(HG_Register_name(target.hg_class, "numbers", proc_numbers, NULL, on_numbers) == whole);
    EXPECT(HG_Create(origin.context, to_target, whole, &handle) == HG_SUCCESS);
    for (i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t announced = counts[i];

        if (i > 0) /* the count alone */
            EXPECT(HG_Register(origin.hg_class, whole, hg_proc_uint32_t, NULL, NULL) == HG_SUCCESS);
        got = HG_OTHER_ERROR;
        done = 0;
        EXPECT(HG_Forward(handle, later, NULL, i == 0 ? (void*)&n : (void*)&announced) ==
               HG_SUCCESS);
        while (done == 0)
            turn();
        EXPECT(done == 1 && fail == 0);
        EXPECT(got == (i == 0 ? HG_SUCCESS : HG_OVERFLOW));
        EXPECT(allocated == 0);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

int main(int argc, char** argv) {
    const char* protocol = protocol_of(argc, argv);

    one_text(protocol);
    open_pair(protocol, NULL);
    no_value();
    heads();
    steps();
    trusting();
    close_pair();
    return 0;
}
