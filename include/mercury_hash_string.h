/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash of strings for hg_hash_table_new. C99 and C++. */
#ifndef MERCURY_HASH_STRING_H
#define MERCURY_HASH_STRING_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bernstein's hash: h * 33 + c from 5381 on, in 32 bits. The same on every machine. */
static HG_UTIL_INLINE unsigned int hg_hash_string(const char* string) {
    uint32_t hash = 5381;

    for (; *string != '\0'; string++)
        hash = hash * 33U + (uint32_t)(unsigned char)*string;
    return hash;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_HASH_STRING_H */
