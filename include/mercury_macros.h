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
#define HG_GEN_STEP_(field)                                                      \
    ret = HG_GEN_CALL_(struct_data, field);                                      \
    if (unlikely(ret != HG_SUCCESS))                                             \
        goto hg_gen_fail_;                                                       \
    hg_gen_ours_ <<= 1;                                                          \
    if (HG_GEN_OURS_(HG_GEN_GET_TYPE(field)) ||                                  \
        (proc->generated == (const void*)&struct_data->HG_GEN_GET_NAME(field) && \
         proc->generated_size == sizeof(struct_data->HG_GEN_GET_NAME(field))))   \
        hg_gen_ours_ |= 1U;                                                      \
    hg_gen_done_++;
#define HG_GEN_STEP_A_(field) HG_GEN_STEP_(field) HG_GEN_STEP_B_
#define HG_GEN_STEP_B_(field) HG_GEN_STEP_(field) HG_GEN_STEP_A_
#define HG_GEN_STEP_A_END
#define HG_GEN_STEP_B_END

/* Types whose procs are the library's, and leave something to free: 1, all others: 0. */
#define HG_GEN_OURS_hg_string_t ~, 1
#define HG_GEN_OURS_hg_const_string_t ~, 1
#define HG_GEN_OURS_hg_string_object_t ~, 1
#define HG_GEN_OURS_hg_bulk_t ~, 1
#define HG_GEN_OURS_(type) HG_GEN_SECOND_(HG_GEN_CAT_(HG_GEN_OURS_, type), 0, ~)
#define HG_GEN_SECOND_(...) HG_GEN_SECOND_I_(__VA_ARGS__)
#define HG_GEN_SECOND_I_(a, b, ...) b

/* Frees the field if it is one of the first that were done, and is ours to free. (A proc that was
 * written by hand may have filled in memory that is its caller's, and frees what it is given.) */
#define HG_GEN_UNDO_(field)                                                                    \
    if (hg_gen_done_-- > 0 && hg_gen_done_ < 64 && ((hg_gen_ours_ >> hg_gen_done_) & 1U) != 0) \
        (void)HG_GEN_CALL_(struct_data, field);
#define HG_GEN_UNDO_A_(field) HG_GEN_UNDO_(field) HG_GEN_UNDO_B_
#define HG_GEN_UNDO_B_(field) HG_GEN_UNDO_(field) HG_GEN_UNDO_A_
#define HG_GEN_UNDO_A_END
#define HG_GEN_UNDO_B_END

/* Frees the field, of a structure that is whole, if its proc is the library's. */
#define HG_GEN_DROP_OURS_(field)              \
    if (HG_GEN_OURS_(HG_GEN_GET_TYPE(field))) \
        (void)HG_GEN_CALL_(struct_data, field);
#define HG_GEN_DROP_OURS_A_(field) HG_GEN_DROP_OURS_(field) HG_GEN_DROP_OURS_B_
#define HG_GEN_DROP_OURS_B_(field) HG_GEN_DROP_OURS_(field) HG_GEN_DROP_OURS_A_
#define HG_GEN_DROP_OURS_A_END
#define HG_GEN_DROP_OURS_B_END

/* The proc of a structure. One that fails to decode a member frees the members before it that are
 * strings, bulk handles, or structures of generated procs (of the last 64). */
#define HG_GEN_STRUCT_PROC(struct_type_name, fields)                                               \
    static HG_INLINE HG_UNUSED hg_return_t HG_GEN_CAT_(hg_proc_, struct_type_name)(hg_proc_t proc, \
                                                                                   void* data) {   \
        struct_type_name* struct_data = (struct_type_name*)data;                                   \
        hg_return_t ret = HG_SUCCESS;                                                              \
        int hg_gen_done_ = 0;                                                                      \
        uint64_t hg_gen_ours_ = 0;                                                                 \
                                                                                                   \
        if (unlikely(proc->undoing)) {                                                             \
            HG_GEN_END_(HG_GEN_DROP_OURS_A_ fields)                                                \
            return HG_SUCCESS;                                                                     \
        }                                                                                          \
        HG_GEN_END_(HG_GEN_STEP_A_ fields)                                                         \
        proc->generated = data;                                                                    \
        proc->generated_size = sizeof(*struct_data);                                               \
        return HG_SUCCESS;                                                                         \
                                                                                                   \
    hg_gen_fail_:                                                                                  \
        if (proc->op == HG_DECODE) {                                                               \
            proc->op = HG_FREE;                                                                    \
            proc->undoing = 1;                                                                     \
            HG_GEN_END_(HG_GEN_UNDO_A_ fields)                                                     \
            proc->undoing = 0;                                                                     \
            proc->op = HG_DECODE;                                                                  \
        }                                                                                          \
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
