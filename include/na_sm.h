/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host a process runs on, as far as shared memory is concerned: processes with equal ids can
 * reach each other over na+sm. Any thread. C99 and C++. */
#ifndef NA_SM_H
#define NA_SM_H

#include "na_types.h"

/* Derived from the running kernel and the network namespace. 31 bits of a hash: that two hosts have
 * the same is unlikely, not impossible; na+sm itself does not rely on it. */
typedef long na_sm_id_t;

#define NA_SM_HOST_ID_LEN 11 /* bytes of an id as text, with its NUL */

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this host. NA_INVALID_ARG: NULL. NA_NOMEM. */
NA_PUBLIC na_return_t NA_SM_Host_id_get(na_sm_id_t* id_p);

/* Writes an id as text, NA_SM_HOST_ID_LEN bytes at most. NA_INVALID_ARG: NULL. NA_OVERFLOW: not an
 * id of NA_SM_Host_id_get, and too long. */
NA_PUBLIC na_return_t NA_SM_Host_id_to_string(na_sm_id_t id, char* string);

/* The inverse. NA_INVALID_ARG: NULL. NA_PROTOCOL_ERROR: not such a text. */
NA_PUBLIC na_return_t NA_SM_String_to_host_id(const char* string, na_sm_id_t* id_p);

/* *dst_p = src; NULL is ignored. */
NA_PUBLIC void NA_SM_Host_id_copy(na_sm_id_t* dst_p, na_sm_id_t src);

/* Whether two ids are the same. */
NA_PUBLIC bool NA_SM_Host_id_cmp(na_sm_id_t id1, na_sm_id_t id2);

#ifdef __cplusplus
}
#endif

#endif /* NA_SM_H */
