/* SPDX-License-Identifier: BSD-3-Clause */
/* A server that listens on all interfaces, and is called by another name than its own: by the
 * loopback's, as from the same machine, or through a port that is handed on. */
#include <mercury.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

#include "pair.h"

MERCURY_GEN_PROC(text_t, ((hg_string_t)(text)))

static unsigned served;

static hg_return_t on_text(hg_handle_t handle) {
    text_t in;

    served++;
    EXPECT(HG_Get_input(handle, &in) == HG_SUCCESS);
    EXPECT(HG_Respond(handle, NULL, NULL, &in) == HG_SUCCESS);
    EXPECT(HG_Free_input(handle, &in) == HG_SUCCESS);
    return HG_Destroy(handle);
}

/* Short arguments, and such that the target fetches. */
static void exchange(struct side* from, hg_addr_t to, hg_id_t id) {
    static const size_t lengths[] = {1, 100, 100000};
    hg_handle_t handle = HG_HANDLE_NULL;
    size_t i;

    EXPECT(HG_Create(from->context, to, id, &handle) == HG_SUCCESS);
    for (i = 0; i < 30; i++) {
        const size_t length = lengths[i % 3];
        text_t in = {(hg_string_t)malloc(length + 1)};
        text_t out;

        memset(in.text, 'a' + (int)(i % 26), length);
        in.text[length] = '\0';
        EXPECT(call(handle, &in) == HG_SUCCESS);
        EXPECT(HG_Get_output(handle, &out) == HG_SUCCESS && strcmp(out.text, in.text) == 0);
        EXPECT(HG_Free_output(handle, &out) == HG_SUCCESS);
        free(in.text);
    }
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

/* By another name than the one that has a session: it may fail, but ends. */
static void try_once(struct side* from, hg_addr_t to, hg_id_t id) {
    char word[] = "word";
    text_t in = {word};
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_return_t ret;

    EXPECT(HG_Create(from->context, to, id, &handle) == HG_SUCCESS);
    ret = call(handle, &in);
    EXPECT(ret == HG_SUCCESS || ret == HG_HOSTUNREACH);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

int main(int argc, char** argv) {
    const char* protocol = protocol_of(argc, argv);
    char text[ADDRESS_MAX];
    char own[ADDRESS_MAX];
    hg_addr_t self = HG_ADDR_NULL;
    hg_addr_t looked_up = HG_ADDR_NULL;
    hg_id_t id;

    snprintf(text, sizeof text, "%s://0.0.0.0:0", protocol);
    open_side(&target, text, NULL);
    open_side(&origin, protocol, NULL);
    name_of(target.hg_class, own, sizeof own);
    EXPECT(strrchr(own, ':') != NULL && strstr(own, "0.0.0.0") == NULL);
    snprintf(text, sizeof text, "%s://127.0.0.1%s", protocol, strrchr(own, ':'));
    EXPECT(HG_Addr_lookup2(origin.hg_class, text, &to_target) == HG_SUCCESS);
    id = MERCURY_REGISTER(origin.hg_class, "text", text_t, text_t, NULL);
    EXPECT(MERCURY_REGISTER(target.hg_class, "text", text_t, text_t, on_text) == id);
    exchange(&origin, to_target, id);
    EXPECT(served == 30);

    /* By its own name meanwhile: afterwards, the former one is as good as before. */
    EXPECT(HG_Addr_lookup2(origin.hg_class, own, &looked_up) == HG_SUCCESS);
    try_once(&origin, looked_up, id);
    EXPECT(HG_Addr_free(origin.hg_class, looked_up) == HG_SUCCESS);
    try_once(&origin, to_target, id);
    exchange(&origin, to_target, id);
    served = 30;

    /* Itself. */
    EXPECT(HG_Addr_self(target.hg_class, &self) == HG_SUCCESS);
    EXPECT(HG_Addr_lookup2(target.hg_class, text, &looked_up) == HG_SUCCESS);
    EXPECT(HG_Addr_cmp(target.hg_class, self, looked_up));
    exchange(&target, looked_up, id);
    EXPECT(served == 60);
    EXPECT(HG_Addr_free(target.hg_class, looked_up) == HG_SUCCESS);
    EXPECT(HG_Addr_free(target.hg_class, self) == HG_SUCCESS);
    close_pair();
    return 0;
}
