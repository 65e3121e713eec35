/* SPDX-License-Identifier: BSD-3-Clause */
/* The utilities come and go with a library that a program loads and unloads, while the library
 * below them stays: nothing of them may be called any more. Arguments: the two libraries. */
#include <dlfcn.h>

#include "expect.h"

int main(int argc, char** argv) {
    union {
        void* found;
        void (*set_log_level)(const char* level);
    } na;
    void* util;

    EXPECT(argc == 3);
    na.found = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    EXPECT(na.found != NULL);
    na.found = dlsym(na.found, "NA_Set_log_level");
    EXPECT(na.found != NULL);
    util = dlopen(argv[2], RTLD_NOW);
    EXPECT(util != NULL);
    na.set_log_level("error");
    EXPECT(dlclose(util) == 0);
    na.set_log_level("warning");
    return 0;
}
