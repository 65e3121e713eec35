/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding and decoding of structures: what a proc callback calls for each member. Source
 * compatible with Mercury's mercury_proc.h; what Cinnabar adds is marked "Cinnabar extension". C99
 * and C++.
 *
 * A proc callback names the members once, in order; hg_proc_get_op says whether that encodes,
 * decodes or frees. MERCURY_GEN_PROC (mercury_macros.h) writes such callbacks.
 *
 *     static hg_return_t hg_proc_my_in_t(hg_proc_t proc, void *data) {
 *         my_in_t *in = (my_in_t *)data;
 *         hg_return_t ret = hg_proc_uint32_t(proc, &in->count);
 *         return ret != HG_SUCCESS ? ret : hg_proc_hg_string_t(proc, &in->name);
 *     }
 *
 * Wire format: integers little-endian, nothing between members, no type information.
 *
 * Encoding what does not fit the buffer moves on to a larger one, which doubles as often as needed:
 * callbacks need not care. Decoding past the end of what was received returns HG_OVERFLOW, and
 * changes neither *data nor the position.
 *
 * A callback that fails while decoding leaves nothing allocated, as HG_Get_input runs no HG_FREE
 * pass over a structure that is half decoded. All procs of the library keep to that, and those of
 * MERCURY_GEN_PROC: the string and bulk procs set *data to NULL, and a generated one frees the
 * strings and bulk handles of the members before the one that failed, as deep in structures as they
 * may be, and sets them to NULL. Only what the library's procs have decoded into its structure, and
 * what still lies there: all else is left alone, as it may be the caller's. So a callback that was
 * written by hand may free such a member, if it then sets it to NULL. One that fails itself is not
 * helped: it frees what it has decoded for several members, with free() if it likes.
 *
 * Threads: one thread at a time uses a proc. Functions take no NULL proc unless they say so. */
#ifndef MERCURY_PROC_H
#define MERCURY_PROC_H

#include <string.h>

#include "mercury_types.h"

/* Checksums of encoded data: CRC-16/T10-DIF (2 bytes), CRC-32C (4), CRC-64/XZ (8), none. */
typedef enum hg_proc_hash { HG_CRC16, HG_CRC32, HG_CRC64, HG_NOHASH } hg_proc_hash_t;

/* Flags of a proc, for hg_proc_hg_bulk_t. */
#define HG_PROC_SM (1 << 0)         /* the peer can use shared memory */
#define HG_PROC_BULK_EAGER (1 << 1) /* contents may go with descriptors */

/* One buffer of a proc. The members are for the inline functions below. */
struct hg_proc_buf {
    void* buf;           /* start */
    void* buf_ptr;       /* where the next byte goes or comes from */
    hg_size_t size;      /* bytes of buf */
    hg_size_t size_left; /* bytes from buf_ptr on */
    bool is_mine;        /* the proc releases it */
};

/* As above; a proc is made by hg_proc_create* only, as the library's part follows. */
struct hg_proc {
    struct hg_proc_buf* current_buf; /* proc_buf or extra_buf */
    hg_proc_op_t op;
    uint8_t flags;
    struct hg_proc_buf proc_buf;  /* the buffer that was given */
    struct hg_proc_buf extra_buf; /* the larger one, with all encoded so far; buf NULL: none */
    hg_class_t* hg_class;
    hg_handle_t handle;
    /* The structure that a generated proc (mercury_macros.h) works on, and how much the library's
     * procs have noted that they allocated for it and for those that it lies in. */
    const void* object;
    size_t object_size; /* 0: there is none, and `noted` holds anything */
    size_t noted;
};

#ifndef likely
#if defined(__GNUC__)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#else
#define likely(x) (x)
#define unlikely(x) (x)
#endif
#endif

/* The steps of a proc function, for those who write one for a type of their own. */

/* Makes sure that `size` bytes can be written or read at buf_ptr, else sets `ret` and goes to
 * `label`. */
#define HG_PROC_CHECK_SIZE(proc, size, label, ret)                          \
    do {                                                                    \
        if (unlikely((proc)->current_buf->size_left < (hg_size_t)(size))) { \
            (ret) = hg_proc_reserve((proc), (size));                        \
            if ((ret) != HG_SUCCESS)                                        \
                goto label;                                                 \
        }                                                                   \
    } while (0)

/* Copies `size` bytes to or from the buffer, which must have them. */
#define HG_PROC_TYPE_ENCODE(proc, data, size) \
    memcpy((proc)->current_buf->buf_ptr, (data), (size_t)(size))
#define HG_PROC_TYPE_DECODE(proc, data, size) \
    memcpy((data), (proc)->current_buf->buf_ptr, (size_t)(size))

/* Advances by `size` bytes, which the buffer must have. */
#define HG_PROC_UPDATE(proc, size)                                                   \
    do {                                                                             \
        (proc)->current_buf->buf_ptr = (char*)(proc)->current_buf->buf_ptr + (size); \
        (proc)->current_buf->size_left -= (hg_size_t)(size);                         \
    } while (0)

/* Nothing: all bytes that HG_PROC_UPDATE passed are in the checksum. */
#define HG_PROC_CHECKSUM_UPDATE(proc, data, size) \
    do {                                          \
    } while (0)

/* All of it, for an object as it lies in memory (host byte order); HG_FREE goes to `label`. */
#define HG_PROC_TYPE(proc, type, data, label, ret) \
    HG_PROC_BYTES(proc, data, sizeof(type), label, ret)
#define HG_PROC_BYTES(proc, data, size, label, ret) \
    do {                                            \
        if ((proc)->op == HG_FREE)                  \
            goto label;                             \
        HG_PROC_CHECK_SIZE(proc, size, label, ret); \
        if ((proc)->op == HG_ENCODE)                \
            HG_PROC_TYPE_ENCODE(proc, data, size);  \
        else                                        \
            HG_PROC_TYPE_DECODE(proc, data, size);  \
        HG_PROC_UPDATE(proc, size);                 \
    } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Life of a proc (RPCs make their own) ---------------------------------------------------- */

/* Creates a proc without a buffer, for hg_proc_reset. HG_INVALID_ARG: hg_class or proc_p NULL, or
 * no such hash. HG_NOMEM. */
HG_PUBLIC hg_return_t hg_proc_create(hg_class_t* hg_class, hg_proc_hash_t hash, hg_proc_t* proc_p);

/* Creates a proc and does hg_proc_reset. */
HG_PUBLIC hg_return_t hg_proc_create_set(hg_class_t* hg_class, void* buf, hg_size_t buf_size,
                                         hg_proc_op_t op, hg_proc_hash_t hash, hg_proc_t* proc_p);

/* Ends a proc, and its extra buffer unless that was given up. The buffer that was given stays.
 * NULL: HG_SUCCESS. */
HG_PUBLIC hg_return_t hg_proc_free(hg_proc_t proc);

/* Starts over: `op` on buf, of which buf_size bytes are room (HG_ENCODE) or were received
 * (HG_DECODE). buf must stay until the proc is reset or freed. The handle stays, flags are 0, the
 * checksum starts anew, the extra buffer is released. HG_INVALID_ARG: proc NULL; buf NULL unless op
 * is HG_FREE; no such op. */
HG_PUBLIC hg_return_t hg_proc_reset(hg_proc_t proc, void* buf, hg_size_t buf_size, hg_proc_op_t op);

static HG_INLINE hg_class_t* hg_proc_get_class(hg_proc_t proc) {
    return proc->hg_class;
}

/* The RPC that this proc works for; HG_HANDLE_NULL if none. */
static HG_INLINE void hg_proc_set_handle(hg_proc_t proc, hg_handle_t handle) {
    proc->handle = handle;
}

static HG_INLINE hg_handle_t hg_proc_get_handle(hg_proc_t proc) {
    return proc->handle;
}

static HG_INLINE hg_proc_op_t hg_proc_get_op(hg_proc_t proc) {
    return proc->op;
}

static HG_INLINE void hg_proc_set_flags(hg_proc_t proc, uint8_t flags) {
    proc->flags = flags;
}

static HG_INLINE uint8_t hg_proc_get_flags(hg_proc_t proc) {
    return proc->flags;
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Bytes of the given and of the extra buffer together. */
static HG_INLINE hg_size_t hg_proc_get_size(hg_proc_t proc) {
    return proc->proc_buf.size + proc->extra_buf.size;
}

/* Bytes encoded or decoded so far; all of them are in one buffer, the extra one if there is one. */
static HG_INLINE hg_size_t hg_proc_get_size_used(hg_proc_t proc) {
    return proc->current_buf->size - proc->current_buf->size_left;
}

/* Bytes that fit before the buffer has to grow, or that are left to decode. */
static HG_INLINE hg_size_t hg_proc_get_size_left(hg_proc_t proc) {
    return proc->current_buf->size_left;
}

/* Encoding: grows the buffer to buf_size bytes or more in one step, where the size is known ahead.
 * Decoding never grows. HG_FREE: HG_SUCCESS. HG_INVALID_ARG: less than the buffer has. HG_OVERFLOW:
 * decoding, or encoding with no_overflow. HG_MSGSIZE: more than any path carries. HG_NOMEM. */
HG_PUBLIC hg_return_t hg_proc_set_size(hg_proc_t proc, hg_size_t buf_size);

/* Cinnabar extension. Encoding: makes room for `size` more bytes. Decoding: HG_OVERFLOW if fewer
 * are left. HG_FREE: HG_SUCCESS. Other codes as hg_proc_set_size. */
HG_PUBLIC hg_return_t hg_proc_reserve(hg_proc_t proc, hg_size_t size);

/* Passes `data_size` bytes by and returns where they are, to be written (HG_ENCODE: all of them,
 * they hold anything) or read (HG_DECODE) in place; no alignment is promised. NULL for HG_FREE, and
 * where there is no room (as hg_proc_reserve). Where fewer bytes than that were received, and it is
 * up to 16 MiB, they are zeros of the proc's, valid until it is reset: whatever the callback
 * returns, HG_Get_input (HG_Get_output, hg_proc_flush) then returns HG_OVERFLOW, after a callback
 * that succeeded was called with HG_FREE; more than that: NULL. They are not in the checksum, and
 * what was written may get lost when the buffer grows, until hg_proc_restore_ptr is called with the
 * same pointer and size. */
HG_PUBLIC void* hg_proc_save_ptr(hg_proc_t proc, hg_size_t data_size);

/* The bytes at `data`, from hg_proc_save_ptr of the same pass, are complete: adds them to the
 * checksum, and if the buffer has grown since, copies them to it. HG_FREE: HG_SUCCESS.
 * HG_INVALID_ARG: not such a pointer, past its end. */
HG_PUBLIC hg_return_t hg_proc_restore_ptr(hg_proc_t proc, void* data, hg_size_t data_size);

/* The larger buffer with all that was encoded, if the given one was too small; NULL if it was not.
 * Its bytes in use are hg_proc_get_size_used, its room is hg_proc_get_extra_size. */
static HG_INLINE void* hg_proc_get_extra_buf(hg_proc_t proc) {
    return proc->extra_buf.buf;
}

static HG_INLINE hg_size_t hg_proc_get_extra_size(hg_proc_t proc) {
    return proc->extra_buf.size;
}

/* Not 0: the extra buffer becomes the caller's, who ends it with free(); 0: the proc's again.
 * HG_INVALID_ARG: there is none. HG_OPNOTSUPPORTED: it is not from malloc, as in an RPC. */
HG_PUBLIC hg_return_t hg_proc_set_extra_buf_is_mine(hg_proc_t proc, uint8_t mine);

/* ---- Checksum -------------------------------------------------------------------------------- */

/* Ends a pass: the checksum covers all bytes passed so far. HG_SUCCESS also without checksum.
 * HG_OVERFLOW: hg_proc_save_ptr was asked for bytes that were not received. */
HG_PUBLIC hg_return_t hg_proc_flush(hg_proc_t proc);

/* Writes the checksum of the bytes passed so far to `hash`, little-endian.
 * HG_INVALID_ARG: HG_NOHASH. HG_OVERFLOW: hash_size is less than the checksum has. */
HG_PUBLIC hg_return_t hg_proc_checksum_get(hg_proc_t proc, void* hash, hg_size_t hash_size);

/* Compares it with one that hg_proc_checksum_get wrote. HG_CHECKSUM_ERROR: they differ. Others as
 * there. */
HG_PUBLIC hg_return_t hg_proc_checksum_verify(hg_proc_t proc, const void* hash,
                                              hg_size_t hash_size);

/* Adds bytes that are not in the buffer. */
HG_PUBLIC void hg_proc_checksum_update(hg_proc_t proc, void* data, hg_size_t data_size);

/* ---- Basic types ----------------------------------------------------------------------------- */
/* HG_FREE does nothing. HG_OVERFLOW: decoding past the end. */

/* `data_size` bytes as they are; data may be NULL if there are none. */
static HG_INLINE hg_return_t hg_proc_bytes(hg_proc_t proc, void* data, hg_size_t data_size) {
    hg_return_t ret = HG_SUCCESS;

    if (data_size != 0)
        HG_PROC_BYTES(proc, data, data_size, done, ret);
done:
    return ret;
}

/* An integer of `size` bytes, a constant. For the functions below. */
static HG_INLINE hg_return_t hg_proc_integer_(hg_proc_t proc, void* data, hg_size_t size) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    unsigned char wire[8];
    hg_return_t ret;
    hg_size_t i;

    for (i = 0; i < size; i++)
        wire[i] = ((unsigned char*)data)[size - 1 - i];
    ret = hg_proc_bytes(proc, wire, size);
    if (ret == HG_SUCCESS && proc->op == HG_DECODE)
        for (i = 0; i < size; i++)
            ((unsigned char*)data)[size - 1 - i] = wire[i];
    return ret;
#else
    return hg_proc_bytes(proc, data, size);
#endif
}

static HG_INLINE hg_return_t hg_proc_int8_t(hg_proc_t proc, void* data) {
    return hg_proc_bytes(proc, data, sizeof(int8_t));
}

static HG_INLINE hg_return_t hg_proc_uint8_t(hg_proc_t proc, void* data) {
    return hg_proc_bytes(proc, data, sizeof(uint8_t));
}

static HG_INLINE hg_return_t hg_proc_int16_t(hg_proc_t proc, void* data) {
    return hg_proc_integer_(proc, data, sizeof(int16_t));
}

static HG_INLINE hg_return_t hg_proc_uint16_t(hg_proc_t proc, void* data) {
    return hg_proc_integer_(proc, data, sizeof(uint16_t));
}

static HG_INLINE hg_return_t hg_proc_int32_t(hg_proc_t proc, void* data) {
    return hg_proc_integer_(proc, data, sizeof(int32_t));
}

static HG_INLINE hg_return_t hg_proc_uint32_t(hg_proc_t proc, void* data) {
    return hg_proc_integer_(proc, data, sizeof(uint32_t));
}

static HG_INLINE hg_return_t hg_proc_int64_t(hg_proc_t proc, void* data) {
    return hg_proc_integer_(proc, data, sizeof(int64_t));
}

static HG_INLINE hg_return_t hg_proc_uint64_t(hg_proc_t proc, void* data) {
    return hg_proc_integer_(proc, data, sizeof(uint64_t));
}

/* Names of the same for Mercury's own types. hg_id_t has all of its 64 bits. */
#define hg_proc_hg_size_t hg_proc_uint64_t
#define hg_proc_hg_id_t hg_proc_uint64_t
#define hg_proc_hg_int8_t hg_proc_int8_t
#define hg_proc_hg_uint8_t hg_proc_uint8_t
#define hg_proc_hg_int16_t hg_proc_int16_t
#define hg_proc_hg_uint16_t hg_proc_uint16_t
#define hg_proc_hg_int32_t hg_proc_int32_t
#define hg_proc_hg_uint32_t hg_proc_uint32_t
#define hg_proc_hg_int64_t hg_proc_int64_t
#define hg_proc_hg_uint64_t hg_proc_uint64_t
#define hg_proc_hg_bool_t hg_proc_uint8_t
#define hg_proc_hg_ptr_t hg_proc_uint64_t
#define hg_proc_raw hg_proc_bytes
#define hg_proc_memcpy hg_proc_raw

/* ---- For the procs of mercury_macros.h ------------------------------------------------------- */

/* Ends a structure that failed: frees what was noted for its members before the last one that was
 * begun, and what lies within it still. */
struct hg_proc_object_;
HG_PUBLIC void hg_proc_undo_(struct hg_proc_object_* object);

/* One structure that a generated proc works on, from begin to end or undo. */
struct hg_proc_object_ {
    hg_proc_t proc; /* NULL: it has ended */
    const void* outer;
    size_t outer_size;
    size_t noted;  /* before it */
    size_t before; /* before the member that was begun last */
#ifdef __cplusplus
    /* What a member's proc throws is a failure, too. */
    ~hg_proc_object_() {
        if (unlikely(proc != NULL))
            hg_proc_undo_(this);
    }
#endif
};

static HG_INLINE void hg_proc_begin_(struct hg_proc_object_* object, hg_proc_t proc,
                                     const void* data, size_t size) {
    if (proc->object_size == 0)
        proc->noted = 0;
    object->proc = proc;
    object->outer = proc->object;
    object->outer_size = proc->object_size;
    object->noted = proc->noted;
    object->before = proc->noted;
    proc->object = data;
    proc->object_size = size;
}

/* It is whole. Only who has it as a member may still have to free what was noted. */
static HG_INLINE void hg_proc_end_(struct hg_proc_object_* object) {
    hg_proc_t proc = object->proc;

    if ((uintptr_t)proc->object - (uintptr_t)object->outer >= object->outer_size)
        proc->noted = object->noted;
    proc->object = object->outer;
    proc->object_size = object->outer_size;
    object->proc = NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_PROC_H */
