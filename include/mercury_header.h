/* SPDX-License-Identifier: BSD-3-Clause */
/* Space that the RPC layer takes between its message header and the encoded structure. C99 and C++.
 */
#ifndef MERCURY_HEADER_H
#define MERCURY_HEADER_H

#include "mercury_core_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a payload header ahead of the encoded structure of `op`. Always 0: Cinnabar has one
 * header per message, which holds the payload's checksum too. HG_Class_get_input_eager_size and
 * HG_Class_get_output_eager_size say what fits into one message. */
static HG_INLINE size_t hg_header_get_size(hg_op_t op) {
    (void)op;
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_HEADER_H */
