/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings as members of RPC structures. C99 and C++.
 *
 * Wire: bytes of the string with its NUL as uint64_t (0: NULL, which an empty string is not, and
 * nothing else), then those bytes, then two that say whether the sender's was const, and owned: as
 * many as Mercury's. Decoding allocates with malloc, after checking that so many bytes were
 * received; on failure there is no string (NULL). HG_FREE frees it and sets it to NULL.
 * HG_INVALID_ARG: proc or data NULL. HG_OVERFLOW: longer than what was received. HG_PROTOCOL_ERROR:
 * the last byte isn't NUL, or another one is. HG_NOMEM. Any code of hg_proc_reserve. */
#ifndef MERCURY_PROC_STRING_H
#define MERCURY_PROC_STRING_H

#include "mercury_proc.h"
#include "mercury_string_object.h"

typedef const char* hg_const_string_t;
typedef char* hg_string_t;

#ifdef __cplusplus
extern "C" {
#endif

/* *data is an hg_const_string_t. */
HG_PUBLIC hg_return_t hg_proc_hg_const_string_t(hg_proc_t proc, void* data);

/* *data is an hg_string_t. */
HG_PUBLIC hg_return_t hg_proc_hg_string_t(hg_proc_t proc, void* data);

/* *string is an hg_string_object_t. A decoded one is owned and not const, whatever the sender's
 * was; HG_FREE frees an owned one. */
HG_PUBLIC hg_return_t hg_proc_hg_string_object_t(hg_proc_t proc, void* string);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_STRING_H */
