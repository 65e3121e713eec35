/* SPDX-License-Identifier: BSD-3-Clause */
/* Bulk data: descriptors of memory, and transfers between local and remote memory. Source
 * compatible with Mercury's mercury_bulk.h; what Cinnabar adds is marked "Cinnabar extension". C99
 * and C++.
 *
 * A descriptor covers one or more segments, addressed as one linear range of bytes in the order
 * given; segments may be empty. An origin creates one over its memory and sends it inside an RPC
 * (hg_proc_hg_bulk_t, or serialised); the target gets a remote descriptor, and moves data between
 * it and a local one.
 *
 * Threads. Every function may be called from any thread at any time; a descriptor that is in use
 * stays until its transfers ended, whoever frees it.
 *
 * Errors. HG_INVALID_ARG when a class, a context, a descriptor or an output pointer is NULL unless
 * a function says otherwise; HG_NOMEM when memory is short. Neither is repeated below. Outputs are
 * written on success only. Every sum of offset and size is checked; one above 2^64 is an error like
 * any other past the end. */
#ifndef MERCURY_BULK_H
#define MERCURY_BULK_H

#include "mercury_types.h"

/* What peers may do with the memory. */
#define HG_BULK_READ_ONLY (1 << 0)  /* pull from it */
#define HG_BULK_WRITE_ONLY (1 << 1) /* push to it */
#define HG_BULK_READWRITE (HG_BULK_READ_ONLY | HG_BULK_WRITE_ONLY)

/* What goes into a serialised descriptor: flags of HG_Bulk_get_serialize_size and
 * HG_Bulk_serialize. */
#define HG_BULK_EAGER (1 << 2) /* the contents, if peers may read them */
#define HG_BULK_SM (1 << 3)    /* access by shared memory, if the class has auto_sm */

/* What HG_Bulk_get_size, HG_Bulk_get_segment_count and HG_Bulk_get_flags say, in one structure; for
 * programs that keep it so. A handle does not point to one. */
struct hg_bulk_desc_info {
    hg_size_t len; /* bytes */
    uint32_t segment_count;
    uint32_t flags;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Describes `count` (not 0) segments of host memory: buf_ptrs[i], of buf_sizes[i] bytes. flags is
 * one of HG_BULK_READ_ONLY, HG_BULK_WRITE_ONLY, HG_BULK_READWRITE. The memory must stay until the
 * descriptor is freed. buf_ptrs NULL: the library allocates the segments, zeroed, and frees them
 * with the descriptor; HG_Bulk_access gives the pointers. Neither array is needed afterwards. The
 * caller has the one reference. HG_INVALID_ARG: count 0, buf_sizes NULL, other flags, a NULL
 * pointer with a size that is not 0, sizes that sum up to 2^64 or more. Any code with which the
 * transport refused the memory. */
HG_PUBLIC hg_return_t HG_Bulk_create(hg_class_t* hg_class, uint32_t count, void** buf_ptrs,
                                     const hg_size_t* buf_sizes, uint8_t flags, hg_bulk_t* handle);

/* The same for memory of the kind that *attrs says. HG_INVALID_ARG: attrs NULL. HG_OPNOTSUPPORTED:
 * the transport cannot use such memory (the class must have been opened with request_mem_device).
 */
HG_PUBLIC hg_return_t HG_Bulk_create_attr(hg_class_t* hg_class, uint32_t count, void** buf_ptrs,
                                          const hg_size_t* buf_sizes, uint8_t flags,
                                          const struct hg_bulk_attr* attrs, hg_bulk_t* handle);

/* Gives one reference back; with the last, access by peers ends. Transfers of this process hold
 * references, and are not waited for. Over na+sm the last call waits for peers that are at work on
 * the memory: microseconds as a rule, two seconds at most. HG_BULK_NULL: HG_SUCCESS. */
HG_PUBLIC hg_return_t HG_Bulk_free(hg_bulk_t handle);

/* One more reference, to keep a decoded descriptor beyond HG_Free_input, say. */
HG_PUBLIC hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle);

/* Adds the address of the descriptor's class and the id of `context` (one of that class), so that
 * they travel with the descriptor and HG_Bulk_bind_transfer finds them. Again with the same
 * context: HG_SUCCESS; with another, or on a remote descriptor: HG_INVALID_ARG. */
HG_PUBLIC hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t* context);

/* The address and the context id of a bound descriptor. The address is the descriptor's: not to be
 * freed. HG_ADDR_NULL and 0 if it is not bound. */
HG_PUBLIC hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle);
HG_PUBLIC uint8_t HG_Bulk_get_context_id(hg_bulk_t handle);

/* The local pieces of memory that make up [offset, offset + size), in order: at most max_count
 * pointers and sizes (each array may be NULL), their number in *actual_count (may be NULL). Empty
 * segments give no piece. flags is what the caller is going to do with them; it is not checked.
 * size or max_count 0: HG_SUCCESS, and no output is written. HG_INVALID_ARG: past the end; remote
 * memory, unless its contents came with the descriptor. */
HG_PUBLIC hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset, hg_size_t size,
                                     uint8_t flags, uint32_t max_count, void** buf_ptrs,
                                     hg_size_t* buf_sizes, uint32_t* actual_count);

/* Bytes, segments and permissions (HG_BULK_READ_ONLY | HG_BULK_WRITE_ONLY) of a descriptor; 0 for
 * HG_BULK_NULL. */
HG_PUBLIC hg_size_t HG_Bulk_get_size(hg_bulk_t handle);
HG_PUBLIC uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle);
HG_PUBLIC uint8_t HG_Bulk_get_flags(hg_bulk_t handle);

/* Bytes that HG_Bulk_serialize writes with the same flags (HG_BULK_EAGER | HG_BULK_SM, or 0); those
 * that do not apply to the descriptor are ignored. 0 for HG_BULK_NULL. */
HG_PUBLIC hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags);

/* Writes a descriptor so that another process can deserialise it. With HG_BULK_EAGER the contents
 * are those of now. A remote descriptor can be serialised too, to pass it on. HG_OVERFLOW: buf_size
 * is too small. */
HG_PUBLIC hg_return_t HG_Bulk_serialize(void* buf, hg_size_t buf_size, unsigned long flags,
                                        hg_bulk_t handle);

/* Makes a remote descriptor of what HG_Bulk_serialize of a peer wrote; buf is not needed
 * afterwards. The caller has the one reference. Every length and flag in it is checked:
 * HG_OVERFLOW: it ends too early. HG_PROTOCOL_ERROR: it contradicts itself, or is no descriptor.
 * HG_PROTONOSUPPORT: of another protocol. */
HG_PUBLIC hg_return_t HG_Bulk_deserialize(hg_class_t* hg_class, hg_bulk_t* handle, const void* buf,
                                          hg_size_t buf_size);

/* Moves `size` bytes between [origin_offset, ...) of the origin's memory and [local_offset, ...) of
 * local memory: HG_BULK_PULL reads the origin's, HG_BULK_PUSH writes it. origin_addr is where the
 * origin's memory is; where it is that of a request (HG_Get_info, or a duplicate of that), the
 * context that the request came from is addressed, else context 0. Segment boundaries need not
 * match. After HG_SUCCESS `callback` (may be NULL) runs exactly once (HG_CB_BULK), always from
 * HG_Trigger; `ret` is HG_SUCCESS (the data is in place), HG_CANCELED, or the first error
 * (HG_HOSTUNREACH: the peer cannot be reached or died). *op_id gets the transfer for
 * HG_Bulk_cancel; op_id may be NULL or HG_OP_ID_IGNORE. size 0 succeeds without traffic. After
 * another code the callback never runs: HG_INVALID_ARG: past the end of either; origin_addr
 * HG_ADDR_NULL; a bound origin; descriptors of another class; a local descriptor that is remote.
 * HG_PERMISSION: PULL needs an origin that may be read and local memory that may be written, PUSH
 * the opposite. Any code of the transport. */
HG_PUBLIC hg_return_t HG_Bulk_transfer(hg_context_t* context, hg_cb_t callback, void* arg,
                                       hg_bulk_op_t op, hg_addr_t origin_addr,
                                       hg_bulk_t origin_handle, hg_size_t origin_offset,
                                       hg_bulk_t local_handle, hg_size_t local_offset,
                                       hg_size_t size, hg_op_id_t* op_id);

/* The same with a bound origin, whose address is in the descriptor. HG_INVALID_ARG: not bound. */
HG_PUBLIC hg_return_t HG_Bulk_bind_transfer(hg_context_t* context, hg_cb_t callback, void* arg,
                                            hg_bulk_op_t op, hg_bulk_t origin_handle,
                                            hg_size_t origin_offset, hg_bulk_t local_handle,
                                            hg_size_t local_offset, hg_size_t size,
                                            hg_op_id_t* op_id);

/* As HG_Bulk_transfer, addressing context origin_id of the origin. */
HG_PUBLIC hg_return_t HG_Bulk_transfer_id(hg_context_t* context, hg_cb_t callback, void* arg,
                                          hg_bulk_op_t op, hg_addr_t origin_addr, uint8_t origin_id,
                                          hg_bulk_t origin_handle, hg_size_t origin_offset,
                                          hg_bulk_t local_handle, hg_size_t local_offset,
                                          hg_size_t size, hg_op_id_t* op_id);

/* Ends a transfer early. Its callback still runs exactly once, with HG_CANCELED or the result that
 * came first; how much was moved is not known. HG_SUCCESS also when it ended already.
 * HG_INVALID_ARG: HG_OP_ID_NULL. */
HG_PUBLIC hg_return_t HG_Bulk_cancel(hg_op_id_t op_id);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_BULK_H */
