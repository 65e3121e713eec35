/* SPDX-License-Identifier: BSD-3-Clause */
/* Space that the RPC layer takes in front of what HG_Core_forward and HG_Core_respond send. C99 and
 * C++. */
#ifndef MERCURY_CORE_HEADER_H
#define MERCURY_CORE_HEADER_H

#include "mercury_core_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hg_core_header; /* opaque: docs/wire.md says what travels */

/* Bytes of the header of a request, and of a response. The transport's own header comes before it
 * (NA_Msg_get_unexpected_header_size). HG_Core_class_get_input_eager_size and its kind say what is
 * left in a message. */
static HG_INLINE size_t hg_core_header_request_get_size(void) {
    return 24;
}

static HG_INLINE size_t hg_core_header_response_get_size(void) {
    return 16;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_CORE_HEADER_H */
