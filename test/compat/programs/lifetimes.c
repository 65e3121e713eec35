/* SPDX-License-Identifier: BSD-3-Clause */
/* What belongs to whom, and for how long: decoded structures that outlive their handles, what a
 * handle says about itself at each end, data of handles, RPCs, contexts and classes, addresses and
 * their names. */
#include <mercury.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

#include "pair.h"

MERCURY_GEN_PROC(note_t, ((uint32_t)(number))((hg_string_t)(text)))

static int freed;

static void count_free(void* data) {
    EXPECT(data != NULL);
    freed++;
}

/* ---- structures outlive their handles ---- */

struct kept {
    hg_handle_t handle;
    note_t first;
    note_t second;
    int responded;
};

static struct kept at_target;

static hg_return_t on_responded(const struct hg_cb_info* info) {
    struct kept* k = (struct kept*)info->arg;
    const struct hg_info* hg_info = HG_Get_info(info->info.respond.handle);

    EXPECT(info->type == HG_CB_RESPOND && info->ret == HG_SUCCESS);
    EXPECT(info->info.respond.handle == k->handle);
    EXPECT(hg_info->hg_class == target.hg_class && hg_info->context == target.context);
    EXPECT(hg_info->addr != HG_ADDR_NULL);
    k->responded++;
    return HG_SUCCESS;
}

static hg_return_t on_keep(hg_handle_t handle) {
    struct kept* k = &at_target;
    const int32_t references = HG_Ref_get(handle);

    k->handle = handle;
    EXPECT(HG_Get_input(handle, &k->first) == HG_SUCCESS);
    EXPECT(HG_Ref_get(handle) == references + 1);
    EXPECT(HG_Get_input(handle, &k->second) == HG_SUCCESS); /* another copy */
    EXPECT(HG_Ref_get(handle) == references + 2);
    EXPECT(k->first.text != k->second.text && strcmp(k->first.text, k->second.text) == 0);
    EXPECT(HG_Ref_incr(handle) == HG_SUCCESS && HG_Destroy(handle) == HG_SUCCESS);
    EXPECT(HG_Respond(handle, on_responded, k, &k->first) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static struct kept at_origin;

static hg_return_t on_answer(const struct hg_cb_info* info) {
    struct kept* k = (struct kept*)info->arg;

    EXPECT(info->type == HG_CB_FORWARD && info->ret == HG_SUCCESS);
    k->handle = info->info.forward.handle;
    EXPECT(HG_Get_output(k->handle, &k->first) == HG_SUCCESS);
    EXPECT(HG_Get_output(k->handle, &k->second) == HG_SUCCESS);
    EXPECT(HG_Destroy(k->handle) == HG_SUCCESS);
    k->responded++;
    return HG_SUCCESS;
}

static void structures(size_t size) {
    const hg_id_t id = MERCURY_REGISTER(target.hg_class, "keep", note_t, note_t, on_keep);
    hg_handle_t handle = HG_HANDLE_NULL;
    note_t in;

    EXPECT(MERCURY_REGISTER(origin.hg_class, "keep", note_t, note_t, NULL) == id);
    memset(&at_target, 0, sizeof at_target);
    memset(&at_origin, 0, sizeof at_origin);
    in.number = 7;
    in.text = (char*)malloc(size + 1);
    EXPECT(in.text != NULL);
    memset(in.text, 'n', size);
    in.text[size] = '\0';
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    EXPECT(HG_Forward(handle, on_answer, &at_origin, &in) == HG_SUCCESS);
    while (at_origin.responded == 0 || at_target.responded == 0)
        turn();
    turn();
    /* All that the handles were used for is over, and both were destroyed. */
    EXPECT(strcmp(at_target.first.text, in.text) == 0);
    EXPECT(strcmp(at_target.second.text, in.text) == 0);
    EXPECT(HG_Free_input(at_target.handle, &at_target.first) == HG_SUCCESS);
    EXPECT(at_target.first.text == NULL && HG_Get_info(at_target.handle)->id == id);
    EXPECT(HG_Free_input(at_target.handle, &at_target.second) == HG_SUCCESS);
    EXPECT(strcmp(at_origin.first.text, in.text) == 0);
    EXPECT(HG_Free_output(at_origin.handle, &at_origin.first) == HG_SUCCESS);
    EXPECT(strcmp(at_origin.second.text, in.text) == 0);
    EXPECT(HG_Free_output(at_origin.handle, &at_origin.second) == HG_SUCCESS);
    free(in.text);
}

/* ---- what a handle says ---- */

static hg_return_t on_look(hg_handle_t handle) {
    const struct hg_info* info = HG_Get_info(handle);
    uint8_t flag = HG_FALSE;

    EXPECT(info->hg_class == target.hg_class && info->context == target.context);
    EXPECT(info->addr != HG_ADDR_NULL && info->context_id == 0);
    EXPECT(HG_Registered(info->hg_class, info->id, &flag) == HG_SUCCESS && flag == HG_TRUE);
    EXPECT(HG_Registered_data(info->hg_class, info->id) == &at_target);
    EXPECT(HG_Get_info(handle) == info);
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static void information(void) {
    const hg_id_t id = MERCURY_REGISTER(target.hg_class, "look", void, void, on_look);
    const hg_id_t other = MERCURY_REGISTER(origin.hg_class, "other", void, void, NULL);
    const struct hg_info* info;
    hg_handle_t handle = HG_HANDLE_NULL;

    EXPECT(MERCURY_REGISTER(origin.hg_class, "look", void, void, NULL) == id);
    EXPECT(HG_Register_data(target.hg_class, id, &at_target, NULL) == HG_SUCCESS);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    info = HG_Get_info(handle);
    EXPECT(info->hg_class == origin.hg_class && info->context == origin.context);
    EXPECT(info->addr == to_target && info->id == id && info->context_id == 0);
    EXPECT(call(handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Set_target_id(handle, 3) == HG_SUCCESS && HG_Get_info(handle)->context_id == 3);
    EXPECT(HG_Reset(handle, HG_ADDR_NULL, 0) == HG_SUCCESS); /* as it was, but for the context */
    info = HG_Get_info(handle);
    EXPECT(info->addr == to_target && info->id == id && info->context_id == 0);
    EXPECT(call(handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Reset(handle, HG_ADDR_NULL, other) == HG_SUCCESS);
    EXPECT(HG_Get_info(handle)->id == other && HG_Get_info(handle)->addr == to_target);
    EXPECT(HG_Reset(handle, to_target, id) == HG_SUCCESS);
    EXPECT(call(handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Ref_get(handle) == 1 && HG_Cancel(handle) == HG_SUCCESS); /* of nothing */
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    EXPECT(HG_Deregister(origin.hg_class, other) == HG_SUCCESS);
}

/* ---- data ---- */

static void data_of_rpcs(void) {
    hg_class_t* c = origin.hg_class;
    const hg_id_t id = MERCURY_REGISTER(c, "with data", void, void, NULL);
    int a;
    int b;

    freed = 0;
    EXPECT(HG_Registered_data(c, id) == NULL);
    EXPECT(HG_Register_data(c, id, &a, count_free) == HG_SUCCESS);
    EXPECT(HG_Register_data(c, id, &b, count_free) == HG_SUCCESS);
    EXPECT(HG_Registered_data(c, id) == &b && freed == 0); /* what is replaced is not freed */
    EXPECT(MERCURY_REGISTER(c, "with data", void, void, NULL) == id);
    EXPECT(HG_Registered_data(c, id) == &b && freed == 0);
    EXPECT(HG_Deregister(c, id) == HG_SUCCESS && freed == 1);
    EXPECT(HG_Registered_data(c, id) == NULL);
    EXPECT(HG_Register_data(c, id, &a, count_free) == HG_NOENTRY);
    EXPECT(MERCURY_REGISTER(c, "with data", void, void, NULL) == id);
    EXPECT(HG_Registered_data(c, id) == NULL); /* nothing is left of the one before */
    EXPECT(HG_Register_data(c, id, &a, NULL) == HG_SUCCESS);
    EXPECT(HG_Register_data(c, id, NULL, NULL) == HG_SUCCESS);
    EXPECT(HG_Registered_data(c, id) == NULL);
    EXPECT(HG_Deregister(c, id) == HG_SUCCESS && freed == 1);
}

static void data_of_objects(const char* protocol) {
    hg_class_t* c = HG_Init(protocol, HG_FALSE);
    hg_context_t* context;
    hg_handle_t handle = HG_HANDLE_NULL;
    int a;
    int b;

    EXPECT(c != NULL);
    context = HG_Context_create(c);
    EXPECT(context != NULL);
    freed = 0;
    EXPECT(HG_Create(context, HG_ADDR_NULL, 0, &handle) == HG_SUCCESS);
    EXPECT(HG_Get_data(handle) == NULL);
    EXPECT(HG_Set_data(handle, &a, count_free) == HG_SUCCESS);
    EXPECT(HG_Set_data(handle, &b, count_free) == HG_SUCCESS);
    EXPECT(HG_Get_data(handle) == &b && freed == 0);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS && freed == 1);
    EXPECT(HG_Create(context, HG_ADDR_NULL, 0, &handle) == HG_SUCCESS);
    EXPECT(HG_Get_data(handle) == NULL); /* perhaps the same object, with nothing of before */
    EXPECT(HG_Set_data(handle, &a, count_free) == HG_SUCCESS);
    EXPECT(HG_Set_data(handle, &a, NULL) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS && freed == 1);

    EXPECT(HG_Context_get_data(context) == NULL && HG_Class_get_data(c) == NULL);
    EXPECT(HG_Context_set_data(context, &a, count_free) == HG_SUCCESS);
    EXPECT(HG_Context_set_data(context, &b, count_free) == HG_SUCCESS);
    EXPECT(HG_Class_set_data(c, &a, count_free) == HG_SUCCESS);
    EXPECT(HG_Class_set_data(c, &b, count_free) == HG_SUCCESS);
    EXPECT(HG_Context_get_data(context) == &b && HG_Class_get_data(c) == &b && freed == 1);
    EXPECT(HG_Finalize(c) == HG_BUSY && HG_Class_get_data(c) == &b && freed == 1);
    EXPECT(HG_Context_destroy(context) == HG_SUCCESS && freed == 2);
    EXPECT(HG_Finalize(c) == HG_SUCCESS && freed == 3);
}

/* ---- handles that are made from now on ---- */

static int created;

static hg_return_t on_create(hg_handle_t handle, void* arg) {
    EXPECT(arg == &created && HG_Get_info(handle)->context == origin.context);
    created++;
    return HG_Set_data(handle, &created, NULL);
}

static void created_later(void) {
    hg_handle_t handle = HG_HANDLE_NULL;

    /* The context has been there for long. */
    EXPECT(HG_Class_set_handle_create_callback(origin.hg_class, on_create, &created) == HG_SUCCESS);
    EXPECT(HG_Create(origin.context, to_target, 0, &handle) == HG_SUCCESS);
    EXPECT(created == 1 && HG_Get_data(handle) == &created);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    EXPECT(HG_Class_set_handle_create_callback(origin.hg_class, NULL, NULL) == HG_SUCCESS);
    EXPECT(HG_Create(origin.context, to_target, 0, &handle) == HG_SUCCESS);
    EXPECT(created == 1 && HG_Get_data(handle) == NULL);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

/* ---- addresses ---- */

struct found {
    int count;
    hg_addr_t addr;
};

static hg_return_t on_found(const struct hg_cb_info* info) {
    struct found* f = (struct found*)info->arg;

    EXPECT(info->type == HG_CB_LOOKUP && info->ret == HG_SUCCESS);
    f->count++;
    f->addr = info->info.lookup.addr;
    return HG_SUCCESS;
}

static void addresses(void) {
    hg_class_t* c = origin.hg_class;
    char name[ADDRESS_MAX];
    char exact[ADDRESS_MAX];
    hg_size_t size = 0;
    hg_size_t room;
    hg_addr_t one = HG_ADDR_NULL;
    hg_addr_t two = HG_ADDR_NULL;
    struct found found = {0, HG_ADDR_NULL};

    /* Names: asked for, exactly as large, larger, too small. */
    EXPECT(HG_Addr_to_string(c, NULL, &size, to_target) == HG_SUCCESS && size > 1);
    room = size;
    EXPECT(HG_Addr_to_string(c, exact, &room, to_target) == HG_SUCCESS && room == size);
    EXPECT(strlen(exact) + 1 == size);
    room = sizeof name;
    EXPECT(HG_Addr_to_string(c, name, &room, to_target) == HG_SUCCESS && room == size);
    EXPECT(strcmp(name, exact) == 0);
    room = size - 1;
    EXPECT(HG_Addr_to_string(c, name, &room, to_target) == HG_OVERFLOW);
    EXPECT(HG_Addr_to_string(c, name, NULL, to_target) == HG_INVALID_ARG);
    EXPECT(HG_Addr_to_string(c, name, &room, HG_ADDR_NULL) == HG_INVALID_ARG);

    /* References: each is given back by itself. */
    EXPECT(HG_Addr_self(c, &one) == HG_SUCCESS && HG_Addr_self(c, &two) == HG_SUCCESS);
    EXPECT(HG_Addr_cmp(c, one, two) == HG_TRUE && HG_Addr_cmp(c, one, to_target) == HG_FALSE);
    EXPECT(HG_Addr_cmp(c, one, HG_ADDR_NULL) == HG_FALSE);
    EXPECT(HG_Addr_cmp(c, HG_ADDR_NULL, HG_ADDR_NULL) == HG_TRUE);
    EXPECT(HG_Addr_free(c, two) == HG_SUCCESS);
    EXPECT(HG_Addr_dup(c, one, &two) == HG_SUCCESS && HG_Addr_free(c, one) == HG_SUCCESS);
    room = sizeof name;
    EXPECT(HG_Addr_to_string(c, name, &room, two) == HG_SUCCESS && strcmp(name, exact) != 0);
    EXPECT(HG_Addr_free(c, two) == HG_SUCCESS && HG_Addr_free(c, HG_ADDR_NULL) == HG_SUCCESS);

    /* An address that was given up is found again. */
    EXPECT(HG_Addr_lookup2(c, exact, &one) == HG_SUCCESS);
    EXPECT(HG_Addr_cmp(c, one, to_target) == HG_TRUE);
    EXPECT(HG_Addr_set_remove(c, one) == HG_SUCCESS && HG_Addr_free(c, one) == HG_SUCCESS);
    EXPECT(HG_Addr_lookup2(c, exact, &one) == HG_SUCCESS && HG_Addr_free(c, one) == HG_SUCCESS);

    /* By callback: what cannot be looked up is said at once, and nothing comes later. */
    EXPECT(HG_Addr_lookup1(origin.context, on_found, &found, exact, HG_OP_ID_IGNORE) == HG_SUCCESS);
    EXPECT(HG_Addr_lookup1(origin.context, on_found, &found, "no such name", HG_OP_ID_IGNORE) !=
           HG_SUCCESS);
    EXPECT(HG_Addr_lookup1(origin.context, NULL, &found, exact, NULL) == HG_INVALID_ARG);
    EXPECT(HG_Addr_lookup1(origin.context, on_found, &found, NULL, NULL) == HG_INVALID_ARG);
    EXPECT(found.count == 0);
    turn();
    turn();
    EXPECT(found.count == 1 && HG_Addr_cmp(c, found.addr, to_target) == HG_TRUE);
    EXPECT(HG_Addr_free(c, found.addr) == HG_SUCCESS);
}

/* ---- classes ---- */

/* Options that are all zero, a class that does not listen and has a name all the same, one context
 * after another. */
static void classes(const char* protocol) {
    struct hg_init_info info;
    struct hg_diag_counters counters;
    char name[ADDRESS_MAX];
    char other[ADDRESS_MAX];
    hg_class_t* c;
    hg_context_t* context;
    hg_addr_t self = HG_ADDR_NULL;
    int i;

    memset(&info, 0, sizeof info);
    c = HG_Init_opt2(protocol, HG_FALSE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
    EXPECT(c != NULL && !HG_Class_is_listening(c));
    EXPECT(strncmp(protocol, HG_Class_get_name(c), strlen(HG_Class_get_name(c))) == 0);
    EXPECT(strcmp(strchr(protocol, '+') + 1, HG_Class_get_protocol(c)) == 0);
    for (i = 0; i < 3; i++) {
        context = HG_Context_create(c);
        EXPECT(context != NULL && HG_Context_get_class(context) == c);
        EXPECT(HG_Context_get_id(context) == 0);
        EXPECT(HG_Context_unpost(context) == HG_SUCCESS); /* of nothing */
        EXPECT(HG_Context_destroy(context) == HG_SUCCESS);
    }
    name_of(c, name, sizeof name);
    name_of(origin.hg_class, other, sizeof other);
    EXPECT(strcmp(name, other) != 0);
    EXPECT(HG_Addr_lookup2(c, name, &self) == HG_SUCCESS); /* oneself, by name */
    EXPECT(HG_Finalize(c) == HG_BUSY);
    EXPECT(HG_Addr_free(c, self) == HG_SUCCESS);
    memset(&counters, 0xff, sizeof counters);
    EXPECT(HG_Class_get_counters(c, &counters) == HG_SUCCESS);
    EXPECT(counters.rpc_req_sent_count == 0 && counters.rpc_multi_recv_copy_count == 0);
    EXPECT(HG_Finalize(c) == HG_SUCCESS);
}

int main(int argc, char** argv) {
    const char* protocol = protocol_of(argc, argv);

    open_pair(protocol, NULL);
    structures(20);
    structures(200000);
    information();
    data_of_rpcs();
    data_of_objects(protocol);
    created_later();
    addresses();
    classes(protocol);
    close_pair();
    return 0;
}
