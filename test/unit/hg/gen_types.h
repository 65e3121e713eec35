/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures generated as a user does, in C and in C++; the two must agree on the wire. */
#ifndef GEN_TYPES_H
#define GEN_TYPES_H

#include "mercury_macros.h"
#include "mercury_proc_bulk.h"
#include "mercury_proc_string.h"

typedef struct {
    int32_t x;
    int32_t y;
} point_t;
MERCURY_GEN_STRUCT_PROC(point_t, ((int32_t)(x))((int32_t)(y)))

MERCURY_GEN_PROC(inner_t, ((uint8_t)(kind))((hg_string_t)(label))((point_t)(at)))
MERCURY_GEN_PROC(outer_t, ((hg_id_t)(id))((hg_const_string_t)(name))((inner_t)(first))(
                              (hg_bulk_t)(data))((inner_t)(second))((hg_bool_t)(last)))
MERCURY_GEN_PROC(single_t, ((hg_size_t)(size)))

#ifdef __cplusplus
extern "C" {
#endif

/* gen_c.c: the procs as C compiled them, and registrations made from C. */
hg_return_t c_proc_outer(hg_proc_t proc, void* data);
hg_return_t c_proc_point_by_steps(hg_proc_t proc, void* data);
hg_id_t c_register(hg_class_t* hg_class, hg_rpc_cb_t callback);
hg_id_t c_register_void(hg_class_t* hg_class);

#ifdef __cplusplus
}
#endif

#endif /* GEN_TYPES_H */
