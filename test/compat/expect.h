/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the C programs here: what is not so is said, and ends the program. Like the programs,
 * C99 and nothing but the public headers. */
#ifndef COMPAT_EXPECT_H
#define COMPAT_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                  \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("FAILED: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            fflush(stdout);                                                \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

#endif /* COMPAT_EXPECT_H */
