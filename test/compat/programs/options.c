/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of classes as services set them: sizes of messages, no second path for what is larger,
 * shared memory beside the network under a name of one's own, a network chosen by its addresses. */
#include <mercury.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

#include "pair.h"

/* ---- sizes of messages ---- */

#define INPUT 20000
#define OUTPUT 30000
#define HEADERS 300 /* at most, of a request or a response, with those of the transport */

static hg_string_t text_of(size_t size) {
    hg_string_t text = (hg_string_t)malloc(size);

    EXPECT(text != NULL && size > 0);
    memset(text, 't', size - 1);
    text[size - 1] = '\0';
    return text;
}

/* Answers with a text of as many bytes as it is told, or of ten if that is too many. */
static hg_return_t on_measure(hg_handle_t handle) {
    hg_string_t in = NULL;
    hg_string_t out;
    size_t size;
    hg_return_t ret;

    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    size = strlen(in) + 10000;
    EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
    out = text_of(size);
    ret = HG_Respond(handle, NULL, NULL, &out);
    free(out);
    if (size > HG_Class_get_output_eager_size(target.hg_class)) {
        EXPECT(ret == HG_OVERFLOW); /* one may respond again */
        out = text_of(10);
        ret = HG_Respond(handle, NULL, NULL, &out);
        free(out);
    }
    EXPECT(ret == HG_SUCCESS);
    return HG_Destroy(handle);
}

static void sizes(const char* protocol) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_id_t id;
    hg_string_t text;

    info.na_init_info.max_unexpected_size = INPUT;
    info.na_init_info.max_expected_size = OUTPUT;
    info.no_overflow = true;
    open_pair(protocol, &info);
    EXPECT(HG_Class_get_input_eager_size(origin.hg_class) <= INPUT);
    EXPECT(HG_Class_get_input_eager_size(origin.hg_class) >= INPUT - HEADERS);
    EXPECT(HG_Class_get_output_eager_size(origin.hg_class) <= OUTPUT);
    EXPECT(HG_Class_get_output_eager_size(origin.hg_class) >= OUTPUT - HEADERS);
    id = MERCURY_REGISTER(target.hg_class, "measure", hg_string_t, hg_string_t, on_measure);
    EXPECT(MERCURY_REGISTER(origin.hg_class, "measure", hg_string_t, hg_string_t, NULL) == id);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);

    text = text_of(INPUT - 2 * HEADERS);
    EXPECT(call(handle, &text) == HG_SUCCESS);
    free(text);
    EXPECT(HG_Get_output(handle, &text) == HG_SUCCESS);
    EXPECT(strlen(text) == INPUT - 2 * HEADERS - 1 + 10000 - 1);
    EXPECT(HG_Free_output(handle, &text) == HG_SUCCESS);

    text = text_of(INPUT + 1);
    EXPECT(HG_Forward(handle, NULL, NULL, &text) == HG_OVERFLOW);
    EXPECT(HG_Ref_get(handle) == 1);
    free(text);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    close_pair();
}

/* The responder notices, too. */
static void large_output(const char* protocol) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_id_t id;
    hg_string_t text = text_of(100);

    info.na_init_info.max_expected_size = 4096;
    info.no_overflow = true;
    open_pair(protocol, &info);
    EXPECT(HG_Class_get_output_eager_size(origin.hg_class) < 10000);
    id = MERCURY_REGISTER(target.hg_class, "measure", hg_string_t, hg_string_t, on_measure);
    EXPECT(MERCURY_REGISTER(origin.hg_class, "measure", hg_string_t, hg_string_t, NULL) == id);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    EXPECT(call(handle, &text) == HG_SUCCESS);
    free(text);
    EXPECT(HG_Get_output(handle, &text) == HG_SUCCESS && strlen(text) == 9);
    EXPECT(HG_Free_output(handle, &text) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    close_pair();
}

/* ---- shared memory beside the network ---- */

static hg_return_t on_nothing(hg_handle_t handle) {
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static void beside(const char* protocol) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct side other;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_id_t id;
    char own[64];
    char expected[128];
    char name[ADDRESS_MAX];

    if (strncmp(protocol, "na+", 3) == 0)
        return; /* it is shared memory */
    info.auto_sm = HG_TRUE;
    snprintf(own, sizeof own, "compat-%d", (int)getpid());
    info.sm_info_string = own;
    open_side(&target, protocol, &info);
    info.sm_info_string = NULL;
    open_side(&origin, protocol, &info);
    name_of(target.hg_class, name, sizeof name);
    snprintf(expected, sizeof expected, "#na+sm://%s#", own);
    EXPECT(strncmp(name, "uid://", 6) == 0 && strstr(name, expected) != NULL);
    EXPECT(strstr(strstr(name, expected), protocol) != NULL);
    EXPECT(strcmp(HG_Class_get_name(target.hg_class), "na") != 0);
    EXPECT(HG_Addr_lookup2(origin.hg_class, name, &to_target) == HG_SUCCESS);
    id = MERCURY_REGISTER(target.hg_class, "nothing", void, void, on_nothing);
    EXPECT(MERCURY_REGISTER(origin.hg_class, "nothing", void, void, NULL) == id);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    EXPECT(call(handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);

    /* A name is given once. */
    info.sm_info_string = own;
    other.hg_class =
        HG_Init_opt2(protocol, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
    EXPECT(other.hg_class == NULL);
    close_pair();
}

/* ---- which network ---- */

static void network(const char* protocol) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char name[ADDRESS_MAX];

    info.na_init_info.ip_subnet = "127.0.0.0/8";
    if (strncmp(protocol, "na+", 3) == 0 || strncmp(protocol, "loop+", 5) == 0) {
        /* No IP addresses: refused, not ignored. */
        EXPECT(HG_Init_opt2(protocol, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR),
                            &info) == NULL);
        return;
    }
    open_pair(protocol, &info);
    name_of(target.hg_class, name, sizeof name);
    if (strncmp(protocol, "ofi+tcp", 7) == 0)
        EXPECT(strstr(name, "://127.0.0.1:") != NULL);
    close_pair();
}

/* ---- no initialiser ---- */

static hg_return_t on_zeroed(hg_handle_t handle) {
    EXPECT(HG_Respond(handle, NULL, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(handle);
}

/* Services that set all bytes of the options to 0, and then the few they know: the rest is as if it
 * were not given. Enough calls for receives to be posted again. */
static void zeroed(const char* protocol) {
    struct hg_init_info info;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_class_t* old;
    hg_id_t id;
    int i;

    memset(&info, 0, sizeof info);
    old = HG_Init_opt(protocol, NA_FALSE, &info);
    EXPECT(old != NULL && HG_Finalize(old) == HG_SUCCESS);
    info.na_init_info.progress_mode = NA_NO_BLOCK;
    open_pair(protocol, &info);
    id = MERCURY_REGISTER(origin.hg_class, "nothing", void, void, NULL);
    EXPECT(MERCURY_REGISTER(target.hg_class, "nothing", void, void, on_zeroed) == id);
    EXPECT(HG_Create(origin.context, to_target, id, &handle) == HG_SUCCESS);
    for (i = 0; i < 600; i++)
        EXPECT(call(handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
    close_pair();
}

int main(int argc, char** argv) {
    const char* protocol = protocol_of(argc, argv);

    zeroed(protocol);
    sizes(protocol);
    large_output(protocol);
    beside(protocol);
    network(protocol);
    return 0;
}
