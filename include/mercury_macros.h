/* SPDX-License-Identifier: BSD-3-Clause */
/* Generates structures with their procs, and registers RPCs; brings HG, bulk descriptors, their
 * procs, and Boost.Preprocessor if it is installed. C99 and C++.
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

/* Joins two tokens, each of which may be a macro. */
#define HG_GEN_CAT_(a, b) HG_GEN_CAT_I_(a, b)
#define HG_GEN_CAT_I_(a, b) a##b

/* The parts of one field, ((type)(name)). */
#define HG_GEN_GET_TYPE(field) HG_GEN_FIRST_(HG_GEN_COMMA_ field)
#define HG_GEN_GET_NAME(field) HG_GEN_JOIN_(HG_GEN_DROP_ field)
#define HG_GEN_COMMA_(element) element,
#define HG_GEN_FIRST_(parts) HG_GEN_FIRST_I_(parts)
#define HG_GEN_FIRST_I_(first, rest) first
#define HG_GEN_DROP_(element)

/* Loops over fields: a macro is not expanded within itself, but two that end in each other's name
 * take one field each in turn; the last name is made into an empty one. That takes any number of
 * fields. */
#define HG_GEN_END_(...) HG_GEN_END_I_(__VA_ARGS__)
#define HG_GEN_END_I_(...) __VA_ARGS__##END

/* A name may come in parts, (si)(ze); up to eight. */
#define HG_GEN_JOIN_(parts) HG_GEN_JOIN_I_(HG_GEN_END_(HG_GEN_PART_A_ parts), , , , , , , ~)
#define HG_GEN_JOIN_I_(...) HG_GEN_JOIN_II_(__VA_ARGS__)
#define HG_GEN_JOIN_II_(a, b, c, d, e, f, g, h, ...) a##b##c##d##e##f##g##h
#define HG_GEN_PART_A_(part) part, HG_GEN_PART_B_
#define HG_GEN_PART_B_(part) part, HG_GEN_PART_A_
#define HG_GEN_PART_A_END
#define HG_GEN_PART_B_END

/* Calls one field's proc on `object`, a pointer to its structure. */
#define HG_GEN_CALL_(object, field) \
    HG_GEN_CAT_(hg_proc_, HG_GEN_GET_TYPE(field))(proc, &(object)->HG_GEN_GET_NAME(field))

/* One member of a structure, and the structure. */
#define HG_GEN_STRUCT_FIELD(r, data, field) HG_GEN_GET_TYPE(field) HG_GEN_GET_NAME(field);
#define HG_GEN_MEMBER_A_(field) HG_GEN_STRUCT_FIELD(_, _, field) HG_GEN_MEMBER_B_
#define HG_GEN_MEMBER_B_(field) HG_GEN_STRUCT_FIELD(_, _, field) HG_GEN_MEMBER_A_
#define HG_GEN_MEMBER_A_END
#define HG_GEN_MEMBER_B_END
#define HG_GEN_STRUCT(struct_type_name, fields) \
    typedef struct {                            \
        HG_GEN_END_(HG_GEN_MEMBER_A_ fields)    \
    } struct_type_name;

/* One member, in a proc function of one's own with `proc` and `ret`, which ends where it fails. */
#define HG_GEN_PROC(r, struct_name, field)  \
    ret = HG_GEN_CALL_(struct_name, field); \
    if (unlikely(ret != HG_SUCCESS))        \
        return ret;

/* One step of a structure's proc. (Names that no program has: it may be compiled with -Wshadow.) */
#define HG_GEN_STEP_(field)                 \
    hg_gen_object_.before = proc->noted;    \
    ret = HG_GEN_CALL_(struct_data, field); \
    if (unlikely(ret != HG_SUCCESS)) {      \
        hg_proc_undo_(&hg_gen_object_);     \
        return ret;                         \
    }
#define HG_GEN_STEP_A_(field) HG_GEN_STEP_(field) HG_GEN_STEP_B_
#define HG_GEN_STEP_B_(field) HG_GEN_STEP_(field) HG_GEN_STEP_A_
#define HG_GEN_STEP_A_END
#define HG_GEN_STEP_B_END

/* The proc of a structure. One that fails to decode a member frees what the library's procs have
 * allocated in those before it (mercury_proc.h). */
#define HG_GEN_STRUCT_PROC(struct_type_name, fields)                                               \
    static HG_INLINE HG_UNUSED hg_return_t HG_GEN_CAT_(hg_proc_, struct_type_name)(hg_proc_t proc, \
                                                                                   void* data) {   \
        struct_type_name* struct_data = (struct_type_name*)data;                                   \
        hg_return_t ret = HG_SUCCESS;                                                              \
        struct hg_proc_object_ hg_gen_object_;                                                     \
                                                                                                   \
        hg_proc_begin_(&hg_gen_object_, proc, data, sizeof(*struct_data));                         \
        HG_GEN_END_(HG_GEN_STEP_A_ fields)                                                         \
        hg_proc_end_(&hg_gen_object_);                                                             \
        return ret;                                                                                \
    }

/* Defines the structure `struct_type_name` with the given fields, and its proc. */
#define MERCURY_GEN_PROC(struct_type_name, fields) \
    HG_GEN_STRUCT(struct_type_name, fields)        \
    HG_GEN_STRUCT_PROC(struct_type_name, fields)

/* Defines the proc only, for a structure that exists. */
#define MERCURY_GEN_STRUCT_PROC(struct_type_name, fields) \
    HG_GEN_STRUCT_PROC(struct_type_name, fields)

/* Programs for Mercury have Boost.Preprocessor from here, most of them BOOST_PP_CAT alone. Where
 * Boost is not installed, or HG_NO_BOOST is defined, they have that one, in Boost's own words: a
 * Boost that is included later repeats it. */
#if !defined(HG_NO_BOOST) && defined(__has_include)
#if __has_include(<boost/preprocessor.hpp>)
#include <boost/preprocessor.hpp>
#endif
#endif
#ifndef BOOST_PP_CAT
/* clang-format off */
#define BOOST_PP_CAT(a, b) BOOST_PP_CAT_I(a, b)
#define BOOST_PP_CAT_I(a, b) a ## b
/* clang-format on */
#endif

#endif /* MERCURY_MACROS_H */
