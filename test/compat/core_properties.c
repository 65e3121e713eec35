/* SPDX-License-Identifier: BSD-3-Clause */
/* mercury_core.h, in one process: what classes, contexts, registrations and handles say of
 * themselves, and the older ways to open and to wait. */
#include <mercury_core.h>
#include <string.h>

#include "expect.h"

static int released;

static void release(void* data) {
    released += *(int*)data;
}

static hg_return_t serve(hg_core_handle_t handle) {
    return HG_Core_destroy(handle);
}

static void protocols(void) {
    struct na_protocol_info* list = NULL;
    const struct na_protocol_info* p;
    int sm = 0;

    EXPECT(HG_Core_get_na_protocol_info(NULL, &list) == HG_SUCCESS && list != NULL);
    for (p = list; p != NULL; p = p->next)
        sm += strcmp(p->class_name, "na") == 0 && strcmp(p->protocol_name, "sm") == 0;
    EXPECT(sm == 1);
    HG_Core_free_na_protocol_info(list);
    HG_Core_free_na_protocol_info(NULL);
    EXPECT(HG_Core_get_na_protocol_info("na+sm", NULL) == HG_INVALID_ARG);
}

static void registrations(hg_core_class_t* c) {
    int one = 1;
    int ten = 10;
    uint8_t flag = 7;

    EXPECT(HG_Core_registered(c, 5, &flag) == HG_SUCCESS && flag == 0);
    EXPECT(HG_Core_registered_data(c, 5) == NULL);
    EXPECT(HG_Core_registered_disabled_response(c, 5, &flag) == HG_NOENTRY);
    EXPECT(HG_Core_deregister(c, 5) == HG_NOENTRY);
    EXPECT(HG_Core_register(c, 5, serve) == HG_SUCCESS);
    EXPECT(HG_Core_registered(c, 5, &flag) == HG_SUCCESS && flag == 1);
    EXPECT(HG_Core_registered_disabled_response(c, 5, &flag) == HG_SUCCESS && flag == 0);
    EXPECT(HG_Core_registered_disable_response(c, 5, 1) == HG_SUCCESS);
    EXPECT(HG_Core_registered_disabled_response(c, 5, &flag) == HG_SUCCESS && flag == 1);
    EXPECT(HG_Core_register_data(c, 5, &one, release) == HG_SUCCESS);
    EXPECT(HG_Core_registered_data(c, 5) == &one);
    /* What was there is the program's again. */
    EXPECT(HG_Core_register_data(c, 5, &ten, release) == HG_SUCCESS && released == 0);
    EXPECT(HG_Core_registered_data(c, 5) == &ten);
    EXPECT(HG_Core_deregister(c, 5) == HG_SUCCESS && released == 10);
    EXPECT(HG_Core_registered(c, 5, &flag) == HG_SUCCESS && flag == 0);
    released = 0;
}

static void contexts(hg_core_class_t* c) {
    hg_core_context_t* first = HG_Core_context_create_id(c, 0);
    hg_core_context_t* second = HG_Core_context_create_id(c, 1);
    hg_core_handle_t handle = HG_CORE_HANDLE_NULL;
    hg_core_addr_t self = HG_CORE_ADDR_NULL;
    unsigned int count = 7;
    int data = 3;

    EXPECT(first != NULL && second != NULL);
    EXPECT(HG_Core_context_get_id(first) == 0 && HG_Core_context_get_id(second) == 1);
    EXPECT(HG_Core_context_get_class(second) == c);
    EXPECT(HG_Core_context_get_data(second) == NULL);
    EXPECT(HG_Core_context_set_data(second, &data, release) == HG_SUCCESS);
    EXPECT(HG_Core_context_get_data(second) == &data);
    EXPECT(HG_Core_progress(first, 0) == HG_TIMEOUT);
    EXPECT(HG_Core_trigger(first, 0, 1, &count) == HG_TIMEOUT && count == 0);
    EXPECT(HG_Core_event_get_wait_fd(first) >= 0);
    EXPECT(!HG_Core_event_ready(first));

    EXPECT(HG_Core_register(c, 6, serve) == HG_SUCCESS);
    EXPECT(HG_Core_addr_self(c, &self) == HG_SUCCESS && HG_Core_addr_is_self(self));
    EXPECT(HG_Core_addr_set_remove(self) == HG_SUCCESS);
    EXPECT(HG_Core_create(first, self, 6, &handle) == HG_SUCCESS);
    EXPECT(HG_Core_get_info(handle)->context_id == 0);
    EXPECT(HG_Core_set_target_id(handle, 1) == HG_SUCCESS);
    EXPECT(HG_Core_get_info(handle)->context_id == 1);
    EXPECT(HG_Core_get_data(handle) == NULL);
    EXPECT(HG_Core_set_data(handle, &data, release) == HG_SUCCESS);
    EXPECT(HG_Core_get_data(handle) == &data && released == 0);
    EXPECT(HG_Core_destroy(handle) == HG_SUCCESS && released == 3);
    EXPECT(HG_Core_addr_free(self) == HG_SUCCESS);
    EXPECT(HG_Core_context_destroy(first) == HG_SUCCESS);
    EXPECT(HG_Core_context_destroy(second) == HG_SUCCESS && released == 6);
    released = 0;
}

int main(void) {
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct hg_diag_counters counters;
    hg_core_class_t* listener;
    hg_core_class_t* origin;

    protocols();
    info.na_init_info.max_contexts = 2;
    listener = HG_Core_init_opt("na+sm", HG_TRUE, &info);
    origin = HG_Core_init("na+sm", HG_FALSE);
    EXPECT(listener != NULL && origin != NULL);
    EXPECT(HG_Core_class_is_listening(listener) && !HG_Core_class_is_listening(origin));
    EXPECT(strcmp(HG_Core_class_get_name(listener), "na") == 0);
    EXPECT(strcmp(HG_Core_class_get_protocol(listener), "sm") == 0);
    EXPECT(HG_Core_class_get_input_eager_size(listener) > 0);
    EXPECT(HG_Core_class_get_output_eager_size(listener) > 0);
    memset(&counters, 0xff, sizeof counters);
    EXPECT(HG_Core_class_get_counters(listener, &counters) == HG_SUCCESS);
    EXPECT(counters.rpc_req_sent_count == 0 && counters.bulk_count == 0);
    registrations(listener);
    contexts(listener);
    EXPECT(HG_Core_finalize(origin) == HG_SUCCESS);
    /* Removes what nobody uses, and nothing of a class that is open. */
    HG_Core_cleanup();
    contexts(listener);
    EXPECT(HG_Core_finalize(listener) == HG_SUCCESS);
    return 0;
}
