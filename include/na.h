/* SPDX-License-Identifier: BSD-3-Clause */
/* The NA C API: non-blocking messages and remote memory access over a chosen transport. Source
 * compatible with Mercury's na.h. C99 and C++.
 *
 * Life: NA_Initialize -> NA_Context_create -> NA_Op_create / NA_Addr_lookup / NA_Msg_buf_alloc ->
 * posts -> NA_Progress and NA_Trigger until callbacks ran -> the same backwards. Posting: a
 * function that takes a callback and an operation answers NA_SUCCESS, and then the callback runs
 * exactly once (multi-receive: once per message) in NA_Trigger; or an error, and then no callback
 * runs. Threads: any function from any thread, also with the single modes of
 * na_init_info.thread_mode, unless NA_UNLOCKED is set (na_types.h); one
 * operation is posted by one thread at a time. Nothing here may be called from a signal handler.
 * Errors: every function that answers a code also answers NA_INVALID_ARG for a null object (and for
 * arguments that it names as required). NULL results and codes are explained by NA_Get_last_error()
 * and in the log. Integers that travel are little-endian. */
#ifndef NA_H
#define NA_H

#include "na_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- library
 * ----------------------------------------------------------------------------------------------------
 */

/* Level of Mercury's NA interface offered; each pointer may be NULL. */
NA_PUBLIC void NA_Version_get(unsigned int* major, unsigned int* minor, unsigned int* patch);

/* The enumerator's spelling ("NA_SUCCESS"), or NULL for an unknown code. Static. */
NA_PUBLIC const char* NA_Error_to_string(na_return_t errnum) NA_WARN_UNUSED_RESULT;

/* Cinnabar only. Cause and remedy of the last error on this thread, "" if none; valid until the
 * next error. */
NA_PUBLIC const char* NA_Get_last_error(void) NA_WARN_UNUSED_RESULT;

/* Level of the process-wide log: "none", "fatal", "error", "warning", "min_debug", "info", "debug",
 * in capitals as well; "" is "none". Unknown names and NULL change nothing. The default is that of
 * HG_LOG_LEVEL, else "error". */
NA_PUBLIC void NA_Set_log_level(const char* level);

/* Writes the counters of every context of the process to the log, at level "info". */
NA_PUBLIC void NA_Diag_dump_counters(void);

/* Protocols that this machine offers. `info_string` NULL: all; else a class ("na"), a protocol
 * ("sm"), both
 * ("na+sm") or a full info string, whose host part is ignored. The list is the caller's:
 * NA_Free_protocol_info. NA_SUCCESS with a NULL list: no plugin of that class. NA_PROTONOSUPPORT:
 * no plugin offers that protocol. NA_INVALID_ARG: malformed. NA_NOMEM. */
NA_PUBLIC na_return_t NA_Get_protocol_info(const char* info_string,
                                           struct na_protocol_info** na_protocol_info_p);
NA_PUBLIC void NA_Free_protocol_info(struct na_protocol_info* na_protocol_info);

/* Copies options of version 4.0 to the layout of 5.0; traffic_class becomes NA_TC_UNSPEC. */
static NA_INLINE void na_init_info_dup_4_0(struct na_init_info* new_info,
                                           const struct na_init_info_4_0* old_info) {
    new_info->ip_subnet = old_info->ip_subnet;
    new_info->auth_key = old_info->auth_key;
    new_info->max_unexpected_size = old_info->max_unexpected_size;
    new_info->max_expected_size = old_info->max_expected_size;
    new_info->progress_mode = old_info->progress_mode;
    new_info->addr_format = old_info->addr_format;
    new_info->max_contexts = old_info->max_contexts;
    new_info->thread_mode = old_info->thread_mode;
    new_info->request_mem_device = old_info->request_mem_device;
    new_info->traffic_class = NA_TC_UNSPEC;
}

/* ---- class
 * ------------------------------------------------------------------------------------------------------
 */

/* Opens "[class+]protocol[://host]" with default options. `listen`: peers may connect. NULL on
 * failure. */
NA_PUBLIC na_class_t* NA_Initialize(const char* info_string, bool listen) NA_WARN_UNUSED_RESULT;

/* The same with options in the layout of version 4.0 (struct na_init_info_4_0 behind the pointer);
 * NULL: defaults. */
NA_PUBLIC na_class_t* NA_Initialize_opt(const char* info_string, bool listen,
                                        const struct na_init_info* na_init_info)
    NA_WARN_UNUSED_RESULT;

/* The same with options in the layout of `version` = NA_VERSION(major, minor) of the caller's
 * headers: from 5.0 on struct na_init_info, before that struct na_init_info_4_0. Options with
 * version 0 are refused. */
NA_PUBLIC na_class_t* NA_Initialize_opt2(const char* info_string, bool listen, unsigned int version,
                                         const struct na_init_info* na_init_info)
    NA_WARN_UNUSED_RESULT;

/* Closes a class. NULL: NA_SUCCESS; likewise a parent's in a child of fork(), which is left as it
 * is, as are its contexts by NA_Context_destroy. NA_BUSY: contexts, addresses or memory handles of
 * it still exist; it stays open. */
NA_PUBLIC na_return_t NA_Finalize(na_class_t* na_class);

/* Removes what dead processes left behind (never what belongs to live ones). */
NA_PUBLIC void NA_Cleanup(void);

/* Whether any of the NA_OPT_* features in `flags` is there. */
NA_PUBLIC bool NA_Has_opt_feature(na_class_t* na_class, unsigned long flags) NA_WARN_UNUSED_RESULT;

/* "na", "ofi", ...; NULL for NULL. Lives as long as the class. */
NA_PUBLIC const char* NA_Get_class_name(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;
/* "sm", ...; NULL for NULL. Lives as long as the class. */
NA_PUBLIC const char* NA_Get_class_protocol(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;
NA_PUBLIC bool NA_Is_listening(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;

/* ---- contexts and operations
 * ------------------------------------------------------------------------------------ */

/* A progress engine with the given id; id 0, where there is a context 0 already: with any id that
 * is free. Ids are below na_init_info.max_contexts, or 8 where that is less. NULL on failure: id
 * taken or too large, no port for one that was not asked for by max_contexts, out of descriptors.
 */
NA_PUBLIC na_context_t* NA_Context_create(na_class_t* na_class) NA_WARN_UNUSED_RESULT;
NA_PUBLIC na_context_t* NA_Context_create_id(na_class_t* na_class,
                                             uint8_t id) NA_WARN_UNUSED_RESULT;

/* NULL context: NA_SUCCESS. NA_BUSY: completions wait for NA_Trigger, or operations are posted, or
 * a thread is in NA_Progress, NA_Poll* or NA_Trigger of the context, or this is one of its
 * callbacks; the context stays open, and threads that sleep there return (NA_TIMEOUT). Those
 * functions answer NA_BUSY while another thread destroys the context. */
NA_PUBLIC na_return_t NA_Context_destroy(na_class_t* na_class, na_context_t* context);

/* Completed operations whose callback has not run. */
NA_PUBLIC unsigned int NA_Context_get_completion_count(const na_context_t* context)
    NA_WARN_UNUSED_RESULT;

/* An operation for any number of uses, one at a time. NA_OP_MULTI: for
 * NA_Msg_multi_recv_unexpected. NULL: out of memory. */
NA_PUBLIC na_op_id_t* NA_Op_create(na_class_t* na_class, unsigned long flags) NA_WARN_UNUSED_RESULT;
/* NULL is allowed. One that has not completed costs a warning: a receive that waits for a message
 * is taken back, and its callback does not run; anything else is kept (leaked), as the transport
 * may still write to it. */
NA_PUBLIC void NA_Op_destroy(na_class_t* na_class, na_op_id_t* op_id);

/* ---- addresses
 * --------------------------------------------------------------------------------------------------
 */

/* The peer named by "[class+]protocol://address", with one reference for the caller. No traffic, no
 * wait: an unreachable peer shows when something is sent. The same name gives the same object.
 * NA_INVALID_ARG: malformed, or of another class. NA_NOMEM: also more than NA_MAX_ADDRESSES
 * addresses. */
NA_PUBLIC na_return_t NA_Addr_lookup(na_class_t* na_class, const char* name, na_addr_t** addr_p);
/* Drops a reference; NULL is ignored. */
NA_PUBLIC void NA_Addr_free(na_class_t* na_class, na_addr_t* addr);
/* Hint that the peer is gone for good. */
NA_PUBLIC na_return_t NA_Addr_set_remove(na_class_t* na_class, na_addr_t* addr);
/* This class's own address / one more reference to the same object. */
NA_PUBLIC na_return_t NA_Addr_self(na_class_t* na_class, na_addr_t** addr_p);
NA_PUBLIC na_return_t NA_Addr_dup(na_class_t* na_class, na_addr_t* addr, na_addr_t** new_addr_p);
/* Both NULL: true. One NULL: false. */
NA_PUBLIC bool NA_Addr_cmp(na_class_t* na_class, na_addr_t* addr1,
                           na_addr_t* addr2) NA_WARN_UNUSED_RESULT;
NA_PUBLIC bool NA_Addr_is_self(na_class_t* na_class, na_addr_t* addr) NA_WARN_UNUSED_RESULT;
/* Text for NA_Addr_lookup in another process. `buf` NULL: only *buf_size is set, to the size with
 * the final NUL. NA_OVERFLOW: it does not fit, nothing is written but *buf_size = the size needed.
 */
NA_PUBLIC na_return_t NA_Addr_to_string(na_class_t* na_class, char* buf, size_t* buf_size,
                                        na_addr_t* addr);
/* Bytes for NA_Addr_deserialize in another process of the same class. Size in bytes, 0 on NULL.
 * NA_OVERFLOW: `buf` is too short. Deserialising untrusted bytes is safe: NA_OVERFLOW,
 * NA_PROTOCOL_ERROR or NA_INVALID_ARG. */
NA_PUBLIC size_t NA_Addr_get_serialize_size(na_class_t* na_class,
                                            na_addr_t* addr) NA_WARN_UNUSED_RESULT;
NA_PUBLIC na_return_t NA_Addr_serialize(na_class_t* na_class, void* buf, size_t buf_size,
                                        na_addr_t* addr);
NA_PUBLIC na_return_t NA_Addr_deserialize(na_class_t* na_class, na_addr_t** addr_p, const void* buf,
                                          size_t buf_size, uint64_t flags);

/* ---- messages
 * ---------------------------------------------------------------------------------------------------
 */

/* Largest message, header included, and the header: bytes at the start of a buffer that are the
 * plugin's. That of expected messages is 0 (where the transport has one they are copied once more).
 */
NA_PUBLIC size_t NA_Msg_get_max_unexpected_size(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;
NA_PUBLIC size_t NA_Msg_get_max_expected_size(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;
NA_PUBLIC size_t NA_Msg_get_unexpected_header_size(const na_class_t* na_class)
    NA_WARN_UNUSED_RESULT;
NA_PUBLIC size_t NA_Msg_get_expected_header_size(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;
NA_PUBLIC na_tag_t NA_Msg_get_max_tag(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;

/* A zeroed, page-aligned message buffer of `buf_size` bytes (NA_ALLOC_MAX in flags: at least the
 * largest message); *plugin_data_p goes with it into every post and into NA_Msg_buf_free. NULL:
 * size 0, or out of memory. */
NA_PUBLIC void* NA_Msg_buf_alloc(na_class_t* na_class, size_t buf_size, unsigned long flags,
                                 void** plugin_data_p) NA_WARN_UNUSED_RESULT;
NA_PUBLIC void NA_Msg_buf_free(na_class_t* na_class, void* buf, void* plugin_data);

/* Once per buffer before its first send. NA_OVERFLOW: the buffer is shorter than the header. */
NA_PUBLIC na_return_t NA_Msg_init_unexpected(na_class_t* na_class, void* buf, size_t buf_size);
NA_PUBLIC na_return_t NA_Msg_init_expected(na_class_t* na_class, void* buf, size_t buf_size);

/* Sends. Completion means that the buffer may be reused, not that the message was delivered.
 * `dest_id`: context id at the peer. NA_BUSY: the operation is in use. NA_OVERFLOW: larger than the
 * lane's maximum. NA_HOSTUNREACH: known to be unreachable, now or in the callback. NA_AGAIN:
 * resources short, with NA_NO_RETRY only. NA_INVALID_ARG. */
NA_PUBLIC na_return_t NA_Msg_send_unexpected(na_class_t* na_class, na_context_t* context,
                                             na_cb_t callback, void* arg, const void* buf,
                                             size_t buf_size, void* plugin_data,
                                             na_addr_t* dest_addr, uint8_t dest_id, na_tag_t tag,
                                             na_op_id_t* op_id);
NA_PUBLIC na_return_t NA_Msg_send_expected(na_class_t* na_class, na_context_t* context,
                                           na_cb_t callback, void* arg, const void* buf,
                                           size_t buf_size, void* plugin_data, na_addr_t* dest_addr,
                                           uint8_t dest_id, na_tag_t tag, na_op_id_t* op_id);

/* Receives any unexpected message. The callback's source address is one reference that the receiver
 * frees. NA_MSGSIZE in the callback: the message was longer than the buffer and is lost. */
NA_PUBLIC na_return_t NA_Msg_recv_unexpected(na_class_t* na_class, na_context_t* context,
                                             na_cb_t callback, void* arg, void* buf,
                                             size_t buf_size, void* plugin_data, na_op_id_t* op_id);

/* Receives many unexpected messages into one buffer, of at least the largest message, until less
 * than that is left
 * (`last` in the callback). The operation comes from NA_Op_create with NA_OP_MULTI.
 * NA_OPNOTSUPPORTED. */
NA_PUBLIC na_return_t NA_Msg_multi_recv_unexpected(na_class_t* na_class, na_context_t* context,
                                                   na_cb_t callback, void* arg, void* buf,
                                                   size_t buf_size, void* plugin_data,
                                                   na_op_id_t* op_id);

/* Receives the message with this tag from this source. Post it before the message can arrive: one
 * that comes earlier is kept only within limits. NA_HOSTUNREACH in the callback: the source died.
 * NA_MSGSIZE: as above. */
NA_PUBLIC na_return_t NA_Msg_recv_expected(na_class_t* na_class, na_context_t* context,
                                           na_cb_t callback, void* arg, void* buf, size_t buf_size,
                                           void* plugin_data, na_addr_t* source_addr,
                                           uint8_t source_id, na_tag_t tag, na_op_id_t* op_id);

/* ---- memory and RMA
 * --------------------------------------------------------------------------------------------- */

/* Describes memory, which stays the caller's and valid until the handle is freed. `flags`:
 * NA_MEM_*, what peers may do. Several segments, none empty, at most
 * NA_Mem_handle_get_max_segments. NA_INVALID_ARG, NA_NOMEM. */
NA_PUBLIC na_return_t NA_Mem_handle_create(na_class_t* na_class, void* buf, size_t buf_size,
                                           unsigned long flags, na_mem_handle_t** mem_handle_p);
NA_PUBLIC na_return_t NA_Mem_handle_create_segments(na_class_t* na_class,
                                                    struct na_segment* segments,
                                                    size_t segment_count, unsigned long flags,
                                                    na_mem_handle_t** mem_handle_p);
/* Also deregisters. No operation may be using the handle. NULL is ignored. */
NA_PUBLIC void NA_Mem_handle_free(na_class_t* na_class, na_mem_handle_t* mem_handle);
NA_PUBLIC size_t NA_Mem_handle_get_max_segments(const na_class_t* na_class) NA_WARN_UNUSED_RESULT;
/* Makes the memory reachable. NA_OPNOTSUPPORTED: a remote handle, or device memory that the plugin
 * cannot reach. A handle that is used without this is registered as host memory on first use. */
NA_PUBLIC na_return_t NA_Mem_register(na_class_t* na_class, na_mem_handle_t* mem_handle,
                                      enum na_mem_type mem_type, uint64_t device);
/* No peer accesses the memory after this. Over na+sm it waits for peers that are at work on the
 * memory: microseconds as a rule, two seconds at most. */
NA_PUBLIC na_return_t NA_Mem_deregister(na_class_t* na_class, na_mem_handle_t* mem_handle);
/* Bytes for NA_Mem_handle_deserialize at a peer. NA_OVERFLOW: too short. Untrusted bytes are safe
 * to deserialise. */
NA_PUBLIC size_t NA_Mem_handle_get_serialize_size(na_class_t* na_class, na_mem_handle_t* mem_handle)
    NA_WARN_UNUSED_RESULT;
NA_PUBLIC na_return_t NA_Mem_handle_serialize(na_class_t* na_class, void* buf, size_t buf_size,
                                              na_mem_handle_t* mem_handle);
NA_PUBLIC na_return_t NA_Mem_handle_deserialize(na_class_t* na_class,
                                                na_mem_handle_t** mem_handle_p, const void* buf,
                                                size_t buf_size);

/* Writes local memory to the peer / reads the peer's into local memory. Offsets and size in bytes
 * over the segments as one range. NA_PERMISSION: a handle does not allow it. NA_OVERFLOW: past the
 * end of a handle. NA_BUSY, NA_HOSTUNREACH and NA_AGAIN as for sends. Size 0 completes at once. */
NA_PUBLIC na_return_t NA_Put(na_class_t* na_class, na_context_t* context, na_cb_t callback,
                             void* arg, na_mem_handle_t* local_mem_handle, na_offset_t local_offset,
                             na_mem_handle_t* remote_mem_handle, na_offset_t remote_offset,
                             size_t data_size, na_addr_t* remote_addr, uint8_t remote_id,
                             na_op_id_t* op_id);
NA_PUBLIC na_return_t NA_Get(na_class_t* na_class, na_context_t* context, na_cb_t callback,
                             void* arg, na_mem_handle_t* local_mem_handle, na_offset_t local_offset,
                             na_mem_handle_t* remote_mem_handle, na_offset_t remote_offset,
                             size_t data_size, na_addr_t* remote_addr, uint8_t remote_id,
                             na_op_id_t* op_id);

/* ---- progress
 * ---------------------------------------------------------------------------------------------------
 */

/* Descriptor that polls readable when NA_Poll has work; the context's. -1: none (NA_NO_BLOCK). */
NA_PUBLIC int NA_Poll_get_fd(na_class_t* na_class, na_context_t* context) NA_WARN_UNUSED_RESULT;
/* True: the caller may block on that descriptor now. To be asked right before each time. */
NA_PUBLIC bool NA_Poll_try_wait(na_class_t* na_class, na_context_t* context) NA_WARN_UNUSED_RESULT;
/* Progress without blocking. *count_p (may be NULL): completions that wait for NA_Trigger. */
NA_PUBLIC na_return_t NA_Poll(na_class_t* na_class, na_context_t* context, unsigned int* count_p);
/* Progress until there are completions, or NA_TIMEOUT after `timeout_ms` milliseconds. */
NA_PUBLIC na_return_t NA_Poll_wait(na_class_t* na_class, na_context_t* context,
                                   unsigned int timeout_ms, unsigned int* count_p);
NA_PUBLIC na_return_t NA_Progress(na_class_t* na_class, na_context_t* context,
                                  unsigned int timeout_ms);
/* Runs up to `max_count` callbacks in order of completion, on this thread. NA_SUCCESS even if there
 * was none. */
NA_PUBLIC na_return_t NA_Trigger(na_context_t* context, unsigned int max_count,
                                 unsigned int* actual_count);
/* Asks an operation to end. NA_SUCCESS: its callback runs once, with NA_CANCELED or with the result
 * that won; an operation that has completed already is left alone. */
NA_PUBLIC na_return_t NA_Cancel(na_class_t* na_class, na_context_t* context, na_op_id_t* op_id);

#ifdef __cplusplus
}
#endif

#endif /* NA_H */
