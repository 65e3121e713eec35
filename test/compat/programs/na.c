/* SPDX-License-Identifier: BSD-3-Clause */
/* The network abstraction by itself, as programs use it that need no RPCs: two classes in one
 * process that exchange addresses as bytes, messages in buffers of the library's, and memory. */
#include <na.h>
#include <string.h>
#include <unistd.h>

#include "../expect.h"

#define TAG 77

struct end {
    na_class_t* cls;
    na_context_t* context;
    na_addr_t* peer; /* the other end, in this class */
};

static struct end a;
static struct end b;

/* How an operation ended. */
struct ended {
    int count;
    na_return_t ret;
    na_cb_type_t type;
    size_t size;
    na_tag_t tag;
    na_addr_t* source;
};

static void on_end(const struct na_cb_info* info) {
    struct ended* e = (struct ended*)info->arg;

    e->count++;
    e->ret = info->ret;
    e->type = info->type;
    if (info->type == NA_CB_RECV_UNEXPECTED) {
        e->size = info->info.recv_unexpected.actual_buf_size;
        e->tag = info->info.recv_unexpected.tag;
        e->source = info->info.recv_unexpected.source; /* a reference of ours */
    } else if (info->type == NA_CB_RECV_EXPECTED) {
        e->size = info->info.recv_expected.actual_buf_size;
    }
}

static void turn(const struct end* end) {
    unsigned int due = 99;
    unsigned int ran = 99;

    EXPECT(NA_Poll(end->cls, end->context, &due) == NA_SUCCESS);
    EXPECT(due == NA_Context_get_completion_count(end->context));
    EXPECT(NA_Trigger(end->context, due, &ran) == NA_SUCCESS && ran == due);
}

static void wait_for(const struct ended* e, int count) {
    while (e->count < count) {
        turn(&a);
        turn(&b);
    }
    EXPECT(e->count == count);
}

static void open_end(struct end* end, const char* protocol) {
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.max_contexts = 2;
    end->cls =
        NA_Initialize_opt2(protocol, true, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &info);
    EXPECT(end->cls != NULL && NA_Is_listening(end->cls));
    end->context = NA_Context_create(end->cls);
    EXPECT(end->context != NULL);
}

/* ---- addresses ---- */

static void meet(void) {
    na_addr_t* self = NULL;
    na_addr_t* again = NULL;
    char text[256];
    char bytes[256];
    size_t size = 0;

    EXPECT(NA_Addr_self(b.cls, &self) == NA_SUCCESS && NA_Addr_is_self(b.cls, self));
    EXPECT(NA_Addr_to_string(b.cls, NULL, &size, self) == NA_SUCCESS && size <= sizeof text);
    size--;
    EXPECT(NA_Addr_to_string(b.cls, text, &size, self) == NA_OVERFLOW);
    size = sizeof text;
    EXPECT(NA_Addr_to_string(b.cls, text, &size, self) == NA_SUCCESS && size == strlen(text) + 1);
    EXPECT(NA_Addr_lookup(a.cls, text, &a.peer) == NA_SUCCESS);
    EXPECT(!NA_Addr_is_self(a.cls, a.peer));

    /* As bytes, it is the same. */
    size = NA_Addr_get_serialize_size(b.cls, self);
    EXPECT(size > 0 && size <= sizeof bytes);
    EXPECT(NA_Addr_serialize(b.cls, bytes, size - 1, self) == NA_OVERFLOW);
    EXPECT(NA_Addr_serialize(b.cls, bytes, sizeof bytes, self) == NA_SUCCESS);
    EXPECT(NA_Addr_deserialize(a.cls, &again, bytes, size, 0) == NA_SUCCESS);
    EXPECT(NA_Addr_cmp(a.cls, a.peer, again));
    NA_Addr_free(a.cls, again);
    EXPECT(NA_Addr_dup(a.cls, a.peer, &again) == NA_SUCCESS && NA_Addr_cmp(a.cls, a.peer, again));
    EXPECT(NA_Addr_set_remove(a.cls, again) == NA_SUCCESS);
    NA_Addr_free(a.cls, again);
    NA_Addr_free(b.cls, self);
    EXPECT(NA_Addr_cmp(a.cls, NULL, NULL) && !NA_Addr_cmp(a.cls, a.peer, NULL));
}

/* ---- messages ---- */

static void messages(void) {
    const size_t most = NA_Msg_get_max_unexpected_size(a.cls);
    const size_t head = NA_Msg_get_unexpected_header_size(a.cls);
    const size_t answer_head = NA_Msg_get_expected_header_size(a.cls);
    struct ended sent = {0, NA_RETURN_MAX, NA_CB_MAX, 0, 0, NULL};
    struct ended received = sent;
    na_op_id_t* send_op = NA_Op_create(a.cls, NA_OP_SINGLE);
    na_op_id_t* recv_op = NA_Op_create(b.cls, NA_OP_SINGLE);
    void* send_data = NULL;
    void* recv_data = NULL;
    char* out = (char*)NA_Msg_buf_alloc(a.cls, most, NA_SEND, &send_data);
    char* in = (char*)NA_Msg_buf_alloc(b.cls, most, NA_RECV, &recv_data);
    int i;

    EXPECT(answer_head == 0);
    EXPECT(send_op != NULL && recv_op != NULL && out != NULL && in != NULL && most > head + 8);
    EXPECT(NA_Msg_init_unexpected(a.cls, out, most) == NA_SUCCESS);
    for (i = 1; i <= 3; i++) { /* the same operations and buffers again and again */
        memcpy(out + head, "question", 8);
        EXPECT(NA_Msg_recv_unexpected(b.cls, b.context, on_end, &received, in, most, recv_data,
                                      recv_op) == NA_SUCCESS);
        EXPECT(NA_Msg_recv_unexpected(b.cls, b.context, on_end, &received, in, most, recv_data,
                                      recv_op) == NA_BUSY);
        EXPECT(NA_Msg_send_unexpected(a.cls, a.context, on_end, &sent, out, head + 8, send_data,
                                      a.peer, 0, TAG, send_op) == NA_SUCCESS);
        wait_for(&sent, i);
        wait_for(&received, i);
        EXPECT(sent.ret == NA_SUCCESS && sent.type == NA_CB_SEND_UNEXPECTED);
        EXPECT(received.ret == NA_SUCCESS && received.type == NA_CB_RECV_UNEXPECTED);
        EXPECT(received.size == head + 8 && received.tag == TAG);
        EXPECT(memcmp(in + head, "question", 8) == 0 && received.source != NULL);
        if (b.peer == NULL)
            b.peer = received.source;
        else
            NA_Addr_free(b.cls, received.source);
    }

    /* The answer, to who asked. */
    EXPECT(NA_Msg_recv_expected(a.cls, a.context, on_end, &sent, out, most, send_data, a.peer, 0,
                                TAG, send_op) == NA_SUCCESS);
    EXPECT(NA_Msg_init_expected(b.cls, in, most) == NA_SUCCESS);
    memcpy(in + answer_head, "answer", 6);
    EXPECT(NA_Msg_send_expected(b.cls, b.context, on_end, &received, in, answer_head + 6, recv_data,
                                b.peer, 0, TAG, recv_op) == NA_SUCCESS);
    wait_for(&sent, 4);
    wait_for(&received, 4);
    EXPECT(sent.type == NA_CB_RECV_EXPECTED && sent.size == answer_head + 6);
    EXPECT(memcmp(out + answer_head, "answer", 6) == 0);

    /* Canceled: what waits ends so, what is over stays as it was. */
    EXPECT(NA_Cancel(a.cls, a.context, send_op) == NA_SUCCESS);
    EXPECT(NA_Msg_recv_unexpected(b.cls, b.context, on_end, &received, in, most, recv_data,
                                  recv_op) == NA_SUCCESS);
    EXPECT(NA_Context_destroy(b.cls, b.context) == NA_BUSY);
    EXPECT(NA_Cancel(b.cls, b.context, recv_op) == NA_SUCCESS);
    wait_for(&received, 5);
    EXPECT(received.ret == NA_CANCELED && sent.count == 4);
    EXPECT(received.type == NA_CB_RECV_UNEXPECTED && received.source == NULL);

    /* Nothing comes. */
    EXPECT(NA_Progress(b.cls, b.context, 10) == NA_TIMEOUT);
    EXPECT(NA_Poll_wait(b.cls, b.context, 0, NULL) == NA_TIMEOUT);
    NA_Msg_buf_free(a.cls, out, send_data);
    NA_Msg_buf_free(b.cls, in, recv_data);
    NA_Op_destroy(a.cls, send_op);
    NA_Op_destroy(b.cls, recv_op);
    NA_Op_destroy(b.cls, NULL);
}

/* ---- memory ---- */

static void memory(void) {
    char here[1000];
    char there[1000];
    char bytes[1024];
    na_mem_handle_t* local = NULL;
    na_mem_handle_t* shown = NULL;
    na_mem_handle_t* remote = NULL;
    struct ended e = {0, NA_RETURN_MAX, NA_CB_MAX, 0, 0, NULL};
    na_op_id_t* op = NA_Op_create(a.cls, NA_OP_SINGLE);
    size_t size;

    memset(here, 'h', sizeof here);
    memset(there, 't', sizeof there);
    EXPECT(op != NULL && NA_Mem_handle_get_max_segments(a.cls) >= 1);
    EXPECT(NA_Mem_handle_create(a.cls, here, sizeof here, NA_MEM_READWRITE, &local) == NA_SUCCESS);
    EXPECT(NA_Mem_handle_create(b.cls, there, sizeof there, NA_MEM_READWRITE, &shown) ==
           NA_SUCCESS);
    EXPECT(NA_Mem_handle_create(b.cls, NULL, 1, NA_MEM_READWRITE, &remote) == NA_INVALID_ARG);
    EXPECT(NA_Mem_register(a.cls, local, NA_MEM_TYPE_HOST, 0) == NA_SUCCESS);
    EXPECT(NA_Mem_register(b.cls, shown, NA_MEM_TYPE_HOST, 0) == NA_SUCCESS);
    size = NA_Mem_handle_get_serialize_size(b.cls, shown);
    EXPECT(size > 0 && size <= sizeof bytes);
    EXPECT(NA_Mem_handle_serialize(b.cls, bytes, size - 1, shown) == NA_OVERFLOW);
    EXPECT(NA_Mem_handle_serialize(b.cls, bytes, size, shown) == NA_SUCCESS);
    EXPECT(NA_Mem_handle_deserialize(a.cls, &remote, bytes, size) == NA_SUCCESS);
    EXPECT(NA_Mem_register(a.cls, remote, NA_MEM_TYPE_HOST, 0) == NA_OPNOTSUPPORTED);

    EXPECT(NA_Put(a.cls, a.context, on_end, &e, local, 0, remote, 500, 100, a.peer, 0, op) ==
           NA_SUCCESS);
    wait_for(&e, 1);
    EXPECT(e.ret == NA_SUCCESS && e.type == NA_CB_PUT);
    EXPECT(there[499] == 't' && there[500] == 'h' && there[599] == 'h' && there[600] == 't');
    EXPECT(NA_Get(a.cls, a.context, on_end, &e, local, 10, remote, 0, 20, a.peer, 0, op) ==
           NA_SUCCESS);
    wait_for(&e, 2);
    EXPECT(e.ret == NA_SUCCESS && e.type == NA_CB_GET);
    EXPECT(here[9] == 'h' && here[10] == 't' && here[29] == 't' && here[30] == 'h');
    EXPECT(NA_Finalize(b.cls) == NA_BUSY);
    NA_Mem_handle_free(a.cls, remote);
    EXPECT(NA_Mem_deregister(a.cls, local) == NA_SUCCESS);
    NA_Mem_handle_free(a.cls, local);
    EXPECT(NA_Mem_deregister(b.cls, shown) == NA_SUCCESS);
    NA_Mem_handle_free(b.cls, shown);
    NA_Op_destroy(a.cls, op);
}

static void contexts(void) {
    na_context_t* second = NA_Context_create_id(a.cls, 1);

    EXPECT(second != NULL && NA_Context_create_id(a.cls, 99) == NULL);
    EXPECT(NA_Context_get_completion_count(second) == 0);
    EXPECT(NA_Context_destroy(a.cls, second) == NA_SUCCESS);
    EXPECT(NA_Context_destroy(a.cls, NULL) == NA_SUCCESS && NA_Finalize(NULL) == NA_SUCCESS);
}

int main(int argc, char** argv) {
    const char* protocol = argc > 1 ? argv[1] : "na+sm";
    struct na_protocol_info* known = NULL;

    alarm(120);
    if (NA_Get_protocol_info(protocol, &known) != NA_SUCCESS || known == NULL)
        return 77;
    NA_Free_protocol_info(known);
    open_end(&a, protocol);
    open_end(&b, protocol);
    contexts();
    meet();
    messages();
    memory();
    NA_Addr_free(a.cls, a.peer);
    NA_Addr_free(b.cls, b.peer);
    EXPECT(NA_Context_destroy(a.cls, a.context) == NA_SUCCESS);
    EXPECT(NA_Context_destroy(b.cls, b.context) == NA_SUCCESS);
    EXPECT(NA_Finalize(a.cls) == NA_SUCCESS && NA_Finalize(b.cls) == NA_SUCCESS);
    return 0;
}
