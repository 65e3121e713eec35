/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings that know whether they own their memory. C99 and C++.
 * Threads: one thread at a time uses an object. Functions return HG_INVALID_ARG when given a NULL
 * object. */
#ifndef MERCURY_STRING_OBJECT_H
#define MERCURY_STRING_OBJECT_H

#include "mercury_core_types.h"

typedef struct hg_string_object {
    char* data;    /* ended by NUL, or NULL for no string */
    bool is_const; /* not to be written to */
    bool is_owned; /* from malloc; hg_string_object_free frees it */
} hg_string_object_t;

#ifdef __cplusplus
extern "C" {
#endif

/* No string. */
HG_PUBLIC hg_return_t hg_string_object_init(hg_string_object_t* string);

/* The string s, which may be NULL; is_owned not 0 hands it (from malloc) over to the object. What
 * the object held before is not freed. */
HG_PUBLIC hg_return_t hg_string_object_init_char(hg_string_object_t* string, char* s,
                                                 uint8_t is_owned);
HG_PUBLIC hg_return_t hg_string_object_init_const_char(hg_string_object_t* string, const char* s,
                                                       uint8_t is_owned);

/* Frees the string if the object owns it; the object then holds no string. */
HG_PUBLIC hg_return_t hg_string_object_free(hg_string_object_t* string);

/* Makes *new_string an owned copy. HG_NOMEM. */
HG_PUBLIC hg_return_t hg_string_object_dup(hg_string_object_t string,
                                           hg_string_object_t* new_string);

/* Puts s, not owned, in the object and returns the string that was there, which is the caller's
 * from now on if the object owned it. NULL for a NULL object. */
HG_PUBLIC char* hg_string_object_swap(hg_string_object_t* string, char* s);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_STRING_OBJECT_H */
