/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes of one program: the child serves and says its address, the parent calls. A program
 * that hangs is ended by its alarm; one whose protocol is not there is skipped (77). */
#ifndef COMPAT_TWO_H
#define COMPAT_TWO_H

#include <mercury.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../expect.h"

#define ADDRESS_MAX 256

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
