/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes of one program: the child serves and says its address, the parent calls, and tells
 * it to stop at last. A program that hangs is ended by its alarm; one whose protocol is not there
 * is skipped (77). And what all of them need: progress, a call that is waited for, the end. */
#ifndef COMPAT_TWO_H
#define COMPAT_TWO_H

#include <mercury.h>
#include <mercury_macros.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../expect.h"

#define ADDRESS_MAX 256

/* ---- progress ---- */

/* Runs what is due, or waits for something at most `timeout` ms: not for more than was asked for by
 * who waits for what has just run. */
static inline void pump(hg_context_t* context, unsigned int timeout) {
    unsigned int count = 0;
    unsigned int ran = 0;
    hg_return_t ret;

    do {
        ret = HG_Trigger(context, 0, 1, &count);
        ran += count;
    } while (ret == HG_SUCCESS && count != 0);
    EXPECT(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    if (ran != 0)
        return;
    ret = HG_Progress(context, timeout);
    EXPECT(ret == HG_SUCCESS || ret == HG_TIMEOUT);
}

/* How a call ended; argument of on_end. */
struct ended {
    int count;
    hg_return_t ret;
};

static inline hg_return_t on_end(const struct hg_cb_info* info) {
    struct ended* e = (struct ended*)info->arg;

    EXPECT(info->type == HG_CB_FORWARD);
    e->count++;
    e->ret = info->ret;
    return HG_SUCCESS;
}

/* Forwards and waits; the code of the callback. */
static inline hg_return_t run(hg_context_t* context, hg_handle_t handle, void* in) {
    struct ended e = {0, HG_OTHER_ERROR};

    EXPECT(HG_Forward(handle, on_end, &e, in) == HG_SUCCESS);
    while (e.count == 0)
        pump(context, 100);
    EXPECT(e.count == 1);
    return e.ret;
}

/* ---- the end ---- */

static int stopping; /* the answer to "stop" has left */

static inline hg_return_t stop_left(const struct hg_cb_info* info) {
    EXPECT(info->type == HG_CB_RESPOND && info->ret == HG_SUCCESS);
    stopping = 1;
    return HG_SUCCESS;
}

static inline hg_return_t on_stop(hg_handle_t handle) {
    EXPECT(HG_Respond(handle, stop_left, NULL, NULL) == HG_SUCCESS);
    return HG_Destroy(handle);
}

static inline hg_id_t register_stop(hg_class_t* hg_class) {
    const hg_id_t id = MERCURY_REGISTER(hg_class, "stop", void, void, on_stop);

    EXPECT(id != 0);
    return id;
}

static inline void tell_to_stop(hg_context_t* context, hg_addr_t addr, hg_id_t stop_id) {
    hg_handle_t handle = HG_HANDLE_NULL;

    EXPECT(HG_Create(context, addr, stop_id, &handle) == HG_SUCCESS);
    EXPECT(run(context, handle, NULL) == HG_SUCCESS);
    EXPECT(HG_Destroy(handle) == HG_SUCCESS);
}

static inline void end(hg_context_t* context) {
    hg_class_t* hg_class = HG_Context_get_class(context);

    EXPECT(HG_Context_destroy(context) == HG_SUCCESS);
    EXPECT(HG_Finalize(hg_class) == HG_SUCCESS);
}

static inline void serve_until_stopped(hg_context_t* context) {
    while (!stopping)
        pump(context, 100);
    end(context);
}

/* ---- two processes ---- */

/* Tells the parent the address of a class. */
static inline void tell_address(hg_class_t* hg_class, int to) {
    char text[ADDRESS_MAX] = {0};
    hg_size_t size = sizeof text;
    hg_addr_t self = HG_ADDR_NULL;

    EXPECT(HG_Addr_self(hg_class, &self) == HG_SUCCESS);
    EXPECT(HG_Addr_to_string(hg_class, text, &size, self) == HG_SUCCESS);
    EXPECT(HG_Addr_free(hg_class, self) == HG_SUCCESS);
    EXPECT(write(to, text, sizeof text) == (ssize_t)sizeof text);
}

static inline int run_two(int argc, char** argv, void (*serve)(const char* protocol, int to),
                          void (*call)(const char* protocol, const char* server)) {
    const char* protocol = argc > 1 ? argv[1] : "na+sm";
    char address[ADDRESS_MAX];
    size_t got = 0;
    int ends[2];
    int status = 0;
    pid_t pid;

    alarm(120);
    EXPECT(pipe(ends) == 0);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        struct na_protocol_info* known = NULL;

        alarm(120);
        (void)close(ends[0]);
        if (HG_Get_na_protocol_info(protocol, &known) != HG_SUCCESS || known == NULL)
            exit(77);
        HG_Free_na_protocol_info(known);
        serve(protocol, ends[1]);
        exit(0);
    }
    (void)close(ends[1]);
    while (got < sizeof address) {
        const ssize_t n = read(ends[0], address + got, sizeof address - got);

        if (n <= 0)
            break;
        got += (size_t)n;
    }
    if (got == sizeof address)
        call(protocol, address);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0)
        EXPECT(got == sizeof address);
    return WEXITSTATUS(status);
}

#endif /* COMPAT_TWO_H */
