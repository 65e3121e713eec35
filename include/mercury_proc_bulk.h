/* SPDX-License-Identifier: BSD-3-Clause */
/* Bulk descriptors as members of RPC structures. C99 and C++. */
#ifndef MERCURY_PROC_BULK_H
#define MERCURY_PROC_BULK_H

#include "mercury_bulk.h"
#include "mercury_proc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *data is an hg_bulk_t. Wire: the size of the descriptor in bytes as uint64_t (0: HG_BULK_NULL),
 * then the descriptor as HG_Bulk_serialize writes it. Encoding: with HG_PROC_BULK_EAGER the
 * contents go with it if they fit what is left of the given buffer, and of 4 KiB (or
 * max_unexpected_size of na_init_info) in the structures of RPCs: larger memory is read when it is
 * pulled; with HG_PROC_SM, access by shared memory. Decoding: makes a descriptor with one
 * reference; on failure *data is HG_BULK_NULL. HG_FREE (HG_Free_input): gives that reference back
 * and sets *data to HG_BULK_NULL; HG_Bulk_ref_incr before that keeps the descriptor.
 * HG_INVALID_ARG: proc or data NULL. HG_OVERFLOW: the announced size is more than was received. Any
 * code of HG_Bulk_serialize, HG_Bulk_deserialize and HG_Bulk_free, and of hg_proc_reserve. */
HG_PUBLIC hg_return_t hg_proc_hg_bulk_t(hg_proc_t proc, void* data);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_BULK_H */
