/* SPDX-License-Identifier: BSD-3-Clause */
/* Generates structures with their procs, and registers RPCs; brings HG, bulk descriptors, their
 * procs, and Boost.Preprocessor. C99 and C++.
 *
 *     MERCURY_GEN_PROC(open_in_t, ((hg_const_string_t)(path))((int32_t)(mode)))
 *     MERCURY_GEN_PROC(open_out_t, ((int32_t)(fd)))
 *     id = MERCURY_REGISTER(hg_class, "open", open_in_t, open_out_t, open_cb);
 *
 * Each type is one token T for which hg_proc_T exists: those of mercury_proc.h, mercury_proc_bulk.h
 * and mercury_proc_string.h (which the user includes), generated ones, the user's own. Types may be
 * written as macros. */
#ifndef MERCURY_MACROS_H
#define MERCURY_MACROS_H

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"

/* The proc of `void`, an RPC without that structure. */
#define hg_proc_void NULL

/* hg_proc_T; T may be a macro. */
#define HG_GEN_PROC_NAME_(type) hg_proc_##type

/* Registers an RPC by name with the procs of its structure types; `void`: none. See
 * HG_Register_name. */
#define MERCURY_REGISTER(hg_class, func_name, in_struct_type_name, out_struct_type_name, rpc_cb) \
    HG_Register_name((hg_class), (func_name), HG_GEN_PROC_NAME_(in_struct_type_name),            \
                     HG_GEN_PROC_NAME_(out_struct_type_name), (rpc_cb))

#ifdef HG_HAS_BOOST
#include <boost/preprocessor.hpp>

/* The parts of one field, ((type)(name)). */
#define HG_GEN_GET_TYPE(field) BOOST_PP_SEQ_HEAD(field)
#define HG_GEN_GET_NAME(field) BOOST_PP_SEQ_CAT(BOOST_PP_SEQ_TAIL(field))

/* Calls one field's proc on `object`, a pointer to its structure. */
#define HG_GEN_CALL_(object, field) \
    BOOST_PP_CAT(hg_proc_, HG_GEN_GET_TYPE(field))(proc, &(object)->HG_GEN_GET_NAME(field))

/* One member of a structure, and the structure. */
#define HG_GEN_STRUCT_FIELD(r, data, field) HG_GEN_GET_TYPE(field) HG_GEN_GET_NAME(field);
#define HG_GEN_STRUCT(struct_type_name, fields)               \
    typedef struct {                                          \
        BOOST_PP_SEQ_FOR_EACH(HG_GEN_STRUCT_FIELD, _, fields) \
    } struct_type_name;

/* One step of a structure's proc, in a function with `proc`, `ret`, `done`, and the label `fail`.
 */
#define HG_GEN_PROC(r, struct_name, field)  \
    ret = HG_GEN_CALL_(struct_name, field); \
    if (unlikely(ret != HG_SUCCESS))        \
        goto fail;                          \
    done++;

/* Frees the field if it is one of the first `done`. */
#define HG_GEN_UNDO_(r, struct_name, i, field) \
    if (i < done)                              \
        (void)HG_GEN_CALL_(struct_name, field);

/* The proc of a structure. One that fails to decode a member frees the members before it. */
#define HG_GEN_STRUCT_PROC(struct_type_name, fields)                                 \
    static HG_INLINE HG_UNUSED hg_return_t BOOST_PP_CAT(hg_proc_, struct_type_name)( \
        hg_proc_t proc, void* data) {                                                \
        struct_type_name* struct_data = (struct_type_name*)data;                     \
        hg_return_t ret = HG_SUCCESS;                                                \
        int done = 0;                                                                \
                                                                                     \
        BOOST_PP_SEQ_FOR_EACH(HG_GEN_PROC, struct_data, fields)                      \
        return HG_SUCCESS;                                                           \
                                                                                     \
    fail:                                                                            \
        if (proc->op == HG_DECODE) {                                                 \
            proc->op = HG_FREE;                                                      \
            BOOST_PP_SEQ_FOR_EACH_I(HG_GEN_UNDO_, struct_data, fields)               \
            proc->op = HG_DECODE;                                                    \
        }                                                                            \
        return ret;                                                                  \
    }

/* Defines the structure `struct_type_name` with the given fields, and its proc. */
#define MERCURY_GEN_PROC(struct_type_name, fields) \
    HG_GEN_STRUCT(struct_type_name, fields)        \
    HG_GEN_STRUCT_PROC(struct_type_name, fields)

/* Defines the proc only, for a structure that exists. */
#define MERCURY_GEN_STRUCT_PROC(struct_type_name, fields) \
    HG_GEN_STRUCT_PROC(struct_type_name, fields)

#endif /* HG_HAS_BOOST */

#endif /* MERCURY_MACROS_H */
