/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPC interface: classes, contexts, registration, addresses, handles, forward and respond,
 * progress. Source compatible with Mercury's mercury.h; what Cinnabar adds is marked "Cinnabar
 * extension". C99 and C++.
 *
 * A program opens a class (HG_Init), creates one or more contexts, registers its RPCs, and then
 * calls HG_Progress and HG_Trigger in a loop. An origin looks an address up, creates a handle for
 * an RPC, forwards it with an input structure, and reads the output structure in the callback; a
 * target gets the handle in its RPC callback, reads the input, and responds.
 *
 * Threads. Every function may be called from any thread at any time, except that
 *  - one handle is used by one thread at a time (HG_Ref_incr, HG_Destroy and HG_Cancel may be
 * called by others);
 *  - no function of a class or a context runs while it is finalised or destroyed, except that
 * HG_Context_destroy refuses (HG_BUSY) while threads are in progress or trigger of the context;
 *  - NA_THREAD_MODE_SINGLE_CLS together with NA_UNLOCKED=1 in the environment restricts it to one
 * thread at a time (na_types.h). NA_THREAD_MODE_SINGLE* alone restricts nothing.
 * Callbacks run inside HG_Trigger and HG_Event_trigger only.
 *
 * Errors. Functions that return hg_return_t return HG_INVALID_ARG when a class, a context, a handle
 * or an output pointer is NULL unless they say otherwise; it isn't repeated below, nor is HG_NOMEM.
 * Functions that return a pointer return NULL on error. Outputs are written on success only.
 * HG_Get_last_error gives the cause in words. */
#ifndef MERCURY_H
#define MERCURY_H

#include <stdio.h>

#include "mercury_core.h"
#include "mercury_header.h"
#include "mercury_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version, errors, protocols, logging ---------------------------------------------------- */

/* The version of the interface that the library was built with (as HG_VERSION_*). Each pointer may
 * be NULL. Always HG_SUCCESS. */
HG_PUBLIC hg_return_t HG_Version_get(unsigned int* major_p, unsigned int* minor_p,
                                     unsigned int* patch_p);

/* The spelling of a return code ("HG_SUCCESS"); NULL when there is no such code. Static storage. */
HG_PUBLIC const char* HG_Error_to_string(hg_return_t errnum) HG_WARN_UNUSED_RESULT;

/* Cinnabar extension. What went wrong in the HG call that failed last on this thread: cause and
 * remedy in words. Never NULL, empty if none failed. Valid until the next HG call of this thread.
 */
HG_PUBLIC const char* HG_Get_last_error(void) HG_WARN_UNUSED_RESULT;

/* The protocols that can be opened here, as NA_Get_protocol_info does: all of them (info_string
 * NULL), or those that match "class", "class+protocol" or a full info string. No match: HG_SUCCESS
 * and a NULL list. The caller frees the list. HG_INVALID_ARG: malformed string. HG_PROTONOSUPPORT:
 * no transport knows the protocol. */
HG_PUBLIC hg_return_t HG_Get_na_protocol_info(const char* info_string,
                                              struct na_protocol_info** na_protocol_info_p);

/* Frees such a list; NULL is allowed. */
HG_PUBLIC void HG_Free_na_protocol_info(struct na_protocol_info* na_protocol_info);

/* Logging, process wide, at any time. Levels: "none", "fatal" ("ftl"), "error" ("err"), "warning"
 * ("warn"), "min_debug" ("trace"), "info" ("inf"), "debug" ("dbg"), in capitals as well; "" is
 * "none"; NULL and an unknown one are ignored. Starts from the environment variable HG_LOG_LEVEL,
 * else at "error". */
HG_PUBLIC void HG_Set_log_level(const char* level);

/* Which parts log: comma separated, "~name" switches one off. Starts from HG_LOG_SUBSYS, else
 * "hg_all". */
HG_PUBLIC void HG_Set_log_subsys(const char* subsys);

/* Calls log_func instead of fprintf, possibly from several threads at a time; NULL: fprintf. */
HG_PUBLIC void HG_Set_log_func(int (*log_func)(FILE* stream, const char* format, ...));

/* The stream of "error", "warning" or "debug" messages (fatal goes with error, info and min_debug
 * with debug). It must stay open until it is replaced. NULL: stderr, as at the start. */
HG_PUBLIC void HG_Set_log_stream(const char* level, FILE* stream);

/* Logs the counters of all classes of this process at level "info". */
HG_PUBLIC void HG_Diag_dump_counters(void);

/* ---- Class ---------------------------------------------------------------------------------- */

/* Opens a class. na_info_string is "[class+]protocol[://address]" ("na+sm", "ofi+tcp://eth0:5000");
 * with na_listen not 0 the class can be the target of RPCs. All options at their defaults. NULL:
 * malformed string, no such protocol, the transport could not open it. */
HG_PUBLIC hg_class_t* HG_Init(const char* na_info_string, uint8_t na_listen) HG_WARN_UNUSED_RESULT;

/* The same with the options of version 2.2: of *hg_init_info (NULL: defaults) only the fields up to
 * and including `stats` are read. */
HG_PUBLIC hg_class_t* HG_Init_opt(const char* na_info_string, uint8_t na_listen,
                                  const struct hg_init_info* hg_init_info) HG_WARN_UNUSED_RESULT;

/* The same with the options of `version`, HG_VERSION(major, minor) that the caller was compiled
 * with: only the fields of that version are read. *hg_init_info may be released afterwards.
 * hg_init_info may be NULL (defaults, any version up to the library's). NULL also when the version
 * is newer than the library, or 0 with options. */
HG_PUBLIC hg_class_t* HG_Init_opt2(const char* na_info_string, uint8_t na_listen,
                                   unsigned int version,
                                   const struct hg_init_info* hg_init_info) HG_WARN_UNUSED_RESULT;

/* Closes a class: registered data and class data are released with their callbacks.
 * NULL: HG_SUCCESS. HG_BUSY: contexts, addresses or bulk handles of it remain; the class stays as
 * it was. In a child of fork() a class of the parent's is left as it is (HG_SUCCESS). */
HG_PUBLIC hg_return_t HG_Finalize(hg_class_t* hg_class);

/* Removes what processes that died left behind on this machine. What belongs to living processes
 * stays. */
HG_PUBLIC void HG_Cleanup(void);

/* The transport ("na") and the protocol ("sm") of a class; valid as long as the class. NULL for
 * NULL. */
HG_PUBLIC const char* HG_Class_get_name(const hg_class_t* hg_class) HG_WARN_UNUSED_RESULT;
HG_PUBLIC const char* HG_Class_get_protocol(const hg_class_t* hg_class) HG_WARN_UNUSED_RESULT;

/* Whether the class can be a target; false for NULL. */
HG_PUBLIC bool HG_Class_is_listening(const hg_class_t* hg_class) HG_WARN_UNUSED_RESULT;

/* Bytes of encoded input (output) structure that travel in one message; 0 for NULL. Offsets set
 * with the functions below are part of them. Larger ones work too, but take the large-message path
 * (see no_overflow). */
HG_PUBLIC hg_size_t HG_Class_get_input_eager_size(const hg_class_t* hg_class) HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_size_t HG_Class_get_output_eager_size(const hg_class_t* hg_class)
    HG_WARN_UNUSED_RESULT;

/* Reserves the first `offset` bytes of each input (output) buffer for the program, which reaches
 * them with HG_Get_input_buf (HG_Get_output_buf). Both ends must set the same, before they create
 * handles. HG_INVALID_ARG: more than the eager size. */
HG_PUBLIC hg_return_t HG_Class_set_input_offset(hg_class_t* hg_class, hg_size_t offset);
HG_PUBLIC hg_return_t HG_Class_set_output_offset(hg_class_t* hg_class, hg_size_t offset);

/* Attaches a pointer to a class. free_callback (may be NULL) gets it at HG_Finalize; a pointer that
 * is replaced is not freed. */
HG_PUBLIC hg_return_t HG_Class_set_data(hg_class_t* hg_class, void* data,
                                        void (*free_callback)(void*));

/* The pointer; NULL if there is none, or for NULL. */
HG_PUBLIC void* HG_Class_get_data(const hg_class_t* hg_class) HG_WARN_UNUSED_RESULT;

/* Copies the counters of a class. */
HG_PUBLIC hg_return_t HG_Class_get_counters(const hg_class_t* hg_class,
                                            struct hg_diag_counters* diag_counters);

/* `callback` is called with `arg` for each handle that is created from now on, with HG_Create or to
 * receive a request, on whichever thread creates it; it typically calls HG_Set_data. Handles that
 * wait for requests already are not shown to it: set it before the contexts of a listening class. A
 * code other than HG_SUCCESS gives that handle up; HG_Create answers it. NULL: none. */
HG_PUBLIC hg_return_t HG_Class_set_handle_create_callback(
    hg_class_t* hg_class, hg_return_t (*callback)(hg_handle_t, void*), void* arg);

/* ---- Context -------------------------------------------------------------------------------- */

/* Creates a context with the given id, which origins address with HG_Set_target_id. Id 0, which the
 * first one asks for: where there is a context 0 already, any id that is free. Ids are below
 * max_contexts of the class, or 8 where that is less; those from max_contexts on need a port that
 * is free behind that of the class (libfabric, UCX). Requests come to context 0 unless their
 * origins say otherwise. That of a listening class accepts requests at once. NULL: the id is taken,
 * or too large, or there is no port or memory for it (HG_Get_last_error says which). */
HG_PUBLIC hg_context_t* HG_Context_create(hg_class_t* hg_class) HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_context_t* HG_Context_create_id(hg_class_t* hg_class,
                                             uint8_t id) HG_WARN_UNUSED_RESULT;

/* Destroys a context, not from callbacks. In a child of fork() a context of the parent's is left as
 * it is (HG_SUCCESS). It stops accepting requests, cancels what is in flight
 * (RPC and bulk callbacks get HG_CANCELED), runs what callbacks are due, and gives responses, and
 * threads that still have handles, a bounded time (seconds). HG_BUSY: a thread is in
 * HG_Progress, HG_Trigger or their HG_Event_* forms for this context, or this is one of its
 * callbacks; threads that sleep there then return (HG_TIMEOUT). HG_BUSY also: handles of the user
 * remain, or requests of RPCs that are known to be responded to late (HG_Destroy), or a transfer or
 * an operation that the transport has not given back in that time; the context stays and may be
 * progressed, triggered and destroyed again. HG_INVALID_ARG: NULL. */
HG_PUBLIC hg_return_t HG_Context_destroy(hg_context_t* context);

/* Stops accepting requests, ahead of HG_Context_destroy; requests that have arrived stay.
 * HG_SUCCESS also when none are accepted. HG_TIMEOUT: the transport did not give its buffers back
 * in time. */
HG_PUBLIC hg_return_t HG_Context_unpost(hg_context_t* context);

/* The class and the id of a context; NULL and 0 for NULL. */
HG_PUBLIC hg_class_t* HG_Context_get_class(const hg_context_t* context) HG_WARN_UNUSED_RESULT;
HG_PUBLIC uint8_t HG_Context_get_id(const hg_context_t* context) HG_WARN_UNUSED_RESULT;

/* As HG_Class_set_data and HG_Class_get_data; free_callback gets the pointer at HG_Context_destroy.
 */
HG_PUBLIC hg_return_t HG_Context_set_data(hg_context_t* context, void* data,
                                          void (*free_callback)(void*));
HG_PUBLIC void* HG_Context_get_data(const hg_context_t* context) HG_WARN_UNUSED_RESULT;

/* ---- Registration --------------------------------------------------------------------------- */

/* Registers an RPC under the id that follows from its name alone, so that origin and target agree
 * on it. in_proc_cb and out_proc_cb encode its structures (NULL: no structure); rpc_cb runs it
 * (NULL: at an origin only). A name that is registered already gets the new callbacks; RPCs in
 * flight finish with the old ones. 0: failure, among them that another name has the same id, and
 * that the name is empty. */
HG_PUBLIC hg_id_t HG_Register_name(hg_class_t* hg_class, const char* func_name,
                                   hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
                                   hg_rpc_cb_t rpc_cb) HG_WARN_UNUSED_RESULT;

/* Writes the id of a name to *id_p, and to *flag_p whether it is registered (1 or 0). Each pointer
 * may be NULL. */
HG_PUBLIC hg_return_t HG_Registered_name(hg_class_t* hg_class, const char* func_name, hg_id_t* id_p,
                                         uint8_t* flag_p);

/* Registers an RPC under an id of the program's choice. HG_INVALID_ARG: id 0. */
HG_PUBLIC hg_return_t HG_Register(hg_class_t* hg_class, hg_id_t id, hg_proc_cb_t in_proc_cb,
                                  hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);

/* Forgets an RPC; its data is released when the last handle that uses it is gone. Requests that
 * have not been triggered yet are answered HG_NOENTRY (one-way ones are dropped); handlers that run
 * end as they began.
 * HG_NOENTRY: unknown id. */
HG_PUBLIC hg_return_t HG_Deregister(hg_class_t* hg_class, hg_id_t id);

/* Whether an id is registered: 1 or 0 in *flag_p. */
HG_PUBLIC hg_return_t HG_Registered(hg_class_t* hg_class, hg_id_t id, uint8_t* flag_p);

/* The same, and its procs. in_proc_cb_p and out_proc_cb_p may be NULL; they are written if it is
 * registered. */
HG_PUBLIC hg_return_t HG_Registered_proc_cb(hg_class_t* hg_class, hg_id_t id, uint8_t* flag_p,
                                            hg_proc_cb_t* in_proc_cb_p,
                                            hg_proc_cb_t* out_proc_cb_p);

/* Attaches a pointer to an RPC. free_callback (may be NULL) gets it at HG_Deregister or
 * HG_Finalize; a pointer that is replaced is not freed. HG_NOENTRY: unknown id. */
HG_PUBLIC hg_return_t HG_Register_data(hg_class_t* hg_class, hg_id_t id, void* data,
                                       void (*free_callback)(void*));

/* The pointer; NULL if there is none, or no such RPC. */
HG_PUBLIC void* HG_Registered_data(hg_class_t* hg_class, hg_id_t id) HG_WARN_UNUSED_RESULT;

/* Makes an RPC one-way (disable not 0): the target cannot respond, the forward callback runs when
 * the request has left. To be set alike at both ends before the first HG_Forward. HG_NOENTRY:
 * unknown id. */
HG_PUBLIC hg_return_t HG_Registered_disable_response(hg_class_t* hg_class, hg_id_t id,
                                                     uint8_t disable);

/* Whether it is one-way: 1 or 0 in *disabled_p. HG_NOENTRY: unknown id. */
HG_PUBLIC hg_return_t HG_Registered_disabled_response(hg_class_t* hg_class, hg_id_t id,
                                                      uint8_t* disabled_p);

/* ---- Addresses ------------------------------------------------------------------------------ */

/* Resolves a name, as HG_Addr_to_string of the peer gave it, and passes the address to `callback`
 * (HG_CB_LOOKUP), which runs exactly once after HG_SUCCESS, and never after another code. op_id_p
 * may be NULL or HG_OP_ID_IGNORE; otherwise it gets HG_OP_ID_NULL, as a lookup cannot be canceled.
 * HG_INVALID_ARG: callback or name NULL. Other codes as HG_Addr_lookup2. */
HG_PUBLIC hg_return_t HG_Addr_lookup1(hg_context_t* context, hg_cb_t callback, void* arg,
                                      const char* name, hg_op_id_t* op_id_p);

#ifndef HG_Addr_lookup
#define HG_Addr_lookup HG_Addr_lookup1
#endif

/* Resolves a name at once. It does not wait for the network, nor look whether the peer is there:
 * that shows when it is used. The caller frees the address. HG_INVALID_ARG: malformed, or a name of
 * another protocol. */
HG_PUBLIC hg_return_t HG_Addr_lookup2(hg_class_t* hg_class, const char* name, hg_addr_t* addr_p);

/* Gives one reference to an address back. HG_ADDR_NULL: HG_SUCCESS. */
HG_PUBLIC hg_return_t HG_Addr_free(hg_class_t* hg_class, hg_addr_t addr);

/* Hint that the peer has gone: its resources are released with the last reference, and a later
 * lookup of the same name connects anew. */
HG_PUBLIC hg_return_t HG_Addr_set_remove(hg_class_t* hg_class, hg_addr_t addr);

/* The address of the class itself. The caller frees it. */
HG_PUBLIC hg_return_t HG_Addr_self(hg_class_t* hg_class, hg_addr_t* addr_p);

/* One more reference to the same peer; *new_addr_p equals addr or not, and is freed apart from it.
 */
HG_PUBLIC hg_return_t HG_Addr_dup(hg_class_t* hg_class, hg_addr_t addr, hg_addr_t* new_addr_p);

/* Whether two addresses mean the same peer: HG_TRUE or HG_FALSE. Two HG_ADDR_NULL are the same. */
HG_PUBLIC uint8_t HG_Addr_cmp(hg_class_t* hg_class, hg_addr_t addr1,
                              hg_addr_t addr2) HG_WARN_UNUSED_RESULT;

/* Writes the name of an address, ended by NUL, which HG_Addr_lookup* of another process
 * understands. *buf_size_p is the size of buf on entry and the size of the name with its NUL on
 * return; buf NULL asks for that only. HG_OVERFLOW: it does not fit (*buf_size_p is set
 * nevertheless). */
HG_PUBLIC hg_return_t HG_Addr_to_string(hg_class_t* hg_class, char* buf, hg_size_t* buf_size_p,
                                        hg_addr_t addr);

/* ---- Handles -------------------------------------------------------------------------------- */

/* Creates a handle for RPC `id` to `addr`, with one reference. It may be used for any number of
 * RPCs, one after another. addr may be HG_ADDR_NULL and id 0, to be set with HG_Reset. It holds a
 * reference to the address; the context must outlive it. HG_NOENTRY: id not registered.
 * HG_INVALID_ARG: address of another class. Any code of the handle-create callback. */
HG_PUBLIC hg_return_t HG_Create(hg_context_t* context, hg_addr_t addr, hg_id_t id,
                                hg_handle_t* handle_p);

/* Gives one reference back. The handle goes with the last; the library holds some while an RPC is
 * in flight and while inputs and outputs are not freed, so that it may be called right after
 * HG_Forward or HG_Respond. A target may call it before HG_Respond, too: the handle stays for that,
 * and for nothing else; who still needs the input, or HG_Get_info, keeps the reference. The origin
 * waits until somebody responds. A program that will not calls HG_Respond_error, or HG_Destroy once
 * more, which ends the RPC with HG_OTHER_ERROR at its origin; so end the oldest of more than 1,024
 * requests (or a quarter of HG_REQUEST_LIMIT) of RPCs that were never responded to so late yet, and
 * those when the context is destroyed. Others stay, and count for HG_REQUEST_LIMIT. HG_Respond
 * answers HG_BUSY for a request that has ended so, and its handle serves another one when as many
 * as half of HG_REQUEST_LIMIT (1,024 at least) have ended so after it, no sooner. When a
 * request ends so, data of other handles (HG_Set_data) may be released by the caller's thread.
 * Neither such requests nor one-way calls keep a context: have responding threads ended before it
 * is destroyed. HG_HANDLE_NULL: HG_SUCCESS. HG_INVALID_ARG: no reference was left to give, which is
 * noticed as long as the context lives and the handle was not used again. */
HG_PUBLIC hg_return_t HG_Destroy(hg_handle_t handle);

/* Changes address and RPC of a handle that is not in flight; HG_ADDR_NULL and 0 keep what is set.
 * What was received is released, the target id becomes 0; data of HG_Set_data stay. HG_BUSY: in
 * flight. HG_NOENTRY: id not registered. HG_INVALID_ARG: address of another class, a target's
 * handle. */
HG_PUBLIC hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id);

/* One more reference, given back with HG_Destroy. HG_OVERFLOW: the handle has 32,768 references. */
HG_PUBLIC hg_return_t HG_Ref_incr(hg_handle_t hg_handle);

/* References now, the library's included: one while the response to a request is due or being sent,
 * one in callbacks. -1 for HG_HANDLE_NULL. */
HG_PUBLIC int32_t HG_Ref_get(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Where and what the handle is; valid as long as the handle (of a call to oneself: what its handler
 * asks for until the origin uses the handle again). NULL for HG_HANDLE_NULL. */
HG_PUBLIC const struct hg_info* HG_Get_info(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Attaches a pointer to a handle. free_callback (may be NULL) gets it when the handle goes, or (at
 * a target) is reused for the next request. A pointer that is replaced is not freed. HG_Reset keeps
 * it. */
HG_PUBLIC hg_return_t HG_Set_data(hg_handle_t handle, void* data, void (*free_callback)(void*));

/* The pointer; NULL if there is none, or for HG_HANDLE_NULL. */
HG_PUBLIC void* HG_Get_data(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Which context of the target gets the RPC; 0 after HG_Create and HG_Reset. It may have been opened
 * at any time before the call; the RPC ends with HG_HOSTUNREACH where there is none of that id.
 * HG_INVALID_ARG: a target's handle. */
HG_PUBLIC hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id);

/* ---- Structures of a handle ----------------------------------------------------------------- */

/* Bytes of encoded input (output) of the last RPC, received or sent; 0 for HG_HANDLE_NULL. */
HG_PUBLIC hg_size_t HG_Get_input_payload_size(hg_handle_t handle);
HG_PUBLIC hg_size_t HG_Get_output_payload_size(hg_handle_t handle);

/* Target, from the RPC callback on: decodes the input into *in_struct, anew with every call (with
 * release_input_early: the first only). On success the handle gets one more reference, and what was
 * allocated and the reference are given back with HG_Free_input, be it after HG_Respond and
 * HG_Destroy. On failure nothing is left to free.
 * HG_INVALID_ARG: in_struct NULL. HG_FAULT: the RPC has no input, or it was released already.
 * HG_CHECKSUM_ERROR: damaged on the way. HG_OVERFLOW: the payload is shorter than the structure, or
 * there is none (the origin forwarded NULL); HG_Get_input_payload_size tells. HG_PROTOCOL_ERROR:
 * malformed. Any code that the proc returned. */
HG_PUBLIC hg_return_t HG_Get_input(hg_handle_t handle, void* in_struct);

/* Releases what HG_Get_input allocated in *in_struct, and its reference. HG_INVALID_ARG: in_struct
 * NULL, or nothing was got that was not released yet, by HG_Get_input or by HG_Get_input_buf and a
 * proc of the program (nothing happens then: *in_struct is not read, and no reference goes).
 * HG_FAULT: the RPC has no input. */
HG_PUBLIC hg_return_t HG_Free_input(hg_handle_t handle, void* in_struct);

/* The same for the output, at the origin, in the forward callback and after it until the handle is
 * used again. HG_FAULT: the RPC has no output, or it did not succeed. */
HG_PUBLIC hg_return_t HG_Get_output(hg_handle_t handle, void* out_struct);
HG_PUBLIC hg_return_t HG_Free_output(hg_handle_t handle, void* out_struct);

/* Raw access, for programs without procs. The input (output) buffer of the handle from the
 * program's reserved bytes on, and its size in bytes (NULL: not wanted): before HG_Forward
 * (HG_Respond) to write to; at the target (origin) to read, where the size is that of what was
 * received. The buffer is the handle's. */
HG_PUBLIC hg_return_t HG_Get_input_buf(hg_handle_t handle, void** in_buf_p,
                                       hg_size_t* in_buf_size_p);
HG_PUBLIC hg_return_t HG_Get_output_buf(hg_handle_t handle, void** out_buf_p,
                                        hg_size_t* out_buf_size_p);

/* Target: gives the input buffer back to the context before the handle ends; the input cannot be
 * read any more. HG_SUCCESS also if it was given back before. HG_INVALID_ARG: an origin's handle.
 */
HG_PUBLIC hg_return_t HG_Release_input_buf(hg_handle_t handle);

/* The buffer of a structure above the eager size, and its size; NULL and 0 if there is none. The
 * handle's. */
HG_PUBLIC hg_return_t HG_Get_input_extra_buf(hg_handle_t handle, void** in_buf_p,
                                             hg_size_t* in_buf_size_p);
HG_PUBLIC hg_return_t HG_Get_output_extra_buf(hg_handle_t handle, void** out_buf_p,
                                              hg_size_t* out_buf_size_p);

/* ---- Forward and respond -------------------------------------------------------------------- */

/* Encodes *in_struct (NULL: no input) and sends the RPC. in_struct is not needed afterwards. After
 * HG_SUCCESS `callback` (may be NULL) runs exactly once (HG_CB_FORWARD); `ret` is HG_SUCCESS, or
 * the code with which the target ended the RPC (HG_NOENTRY: it does not know it; HG_AGAIN:
 * overloaded), HG_CANCELED, HG_CHECKSUM_ERROR, or what happened on the way (HG_HOSTUNREACH: the
 * peer cannot be reached or died). For a one-way RPC it runs when the request has left. After
 * another code it never runs, and the handle is as it was before: HG_INVALID_ARG: no address or no
 * RPC set. HG_BUSY: in flight. HG_OVERFLOW: above the eager size, and no_overflow is set.
 * HG_MSGSIZE: too large for any path. HG_FAULT: RPC no longer registered. Any code that the proc
 * returned. */
HG_PUBLIC hg_return_t HG_Forward(hg_handle_t handle, hg_cb_t callback, void* arg, void* in_struct);

/* Target: encodes *out_struct (NULL: no output) and sends the response; in the RPC callback or
 * later, on any thread, before or after the program has given its reference back with HG_Destroy.
 * After HG_SUCCESS `callback` (may be NULL) runs exactly once (HG_CB_RESPOND), when the response
 * has left, or failed to. After another code it never runs: HG_OPNOTSUPPORTED: one-way RPC, or sent
 * one-way. HG_BUSY: responded already, or ended (HG_Destroy). HG_OVERFLOW, HG_MSGSIZE and the
 * proc's codes as HG_Forward; who still has a reference may respond again then; else the handle is
 * not to be used any more, and the RPC ends with HG_OTHER_ERROR at its origin. */
HG_PUBLIC hg_return_t HG_Respond(hg_handle_t handle, hg_cb_t callback, void* arg, void* out_struct);

/* Cinnabar extension. Target: ends the RPC with `code` (not HG_SUCCESS), which the origin's forward
 * callback gets in `ret`, and no output. Otherwise as HG_Respond. HG_INVALID_ARG: HG_SUCCESS, or no
 * such code. */
HG_PUBLIC hg_return_t HG_Respond_error(hg_handle_t handle, hg_cb_t callback, void* arg,
                                       hg_return_t code);

/* Origin: ends the RPC early. The forward callback still runs exactly once, with HG_CANCELED or the
 * result that came first; a target that serves it already goes on, and its answer is dropped.
 * HG_SUCCESS also when the handle is not in flight. */
HG_PUBLIC hg_return_t HG_Cancel(hg_handle_t handle);

/* ---- Progress ------------------------------------------------------------------------------- */

/* Advances the context until there is a callback to trigger, at most `timeout` ms (0: looks once).
 * Runs no callback. Several threads may call it at a time. HG_SUCCESS: there is one. HG_TIMEOUT:
 * there is none. HG_BUSY: another thread is destroying the context. Other codes: the transport
 * failed. */
HG_PUBLIC hg_return_t HG_Progress(hg_context_t* context, unsigned int timeout);

/* Runs up to max_count callbacks on this thread. It waits up to `timeout` ms for the first, never
 * for more, and does not progress the context meanwhile. *actual_count_p (may be NULL) gets how
 * many ran, also on HG_TIMEOUT. HG_TIMEOUT: none ran. max_count 0: HG_SUCCESS.
 * HG_BUSY: another thread is destroying the context. */
HG_PUBLIC hg_return_t HG_Trigger(hg_context_t* context, unsigned int timeout,
                                 unsigned int max_count, unsigned int* actual_count_p);

/* For programs with their own event loop:
 *     if (!HG_Event_ready(context)) poll(the descriptor);
 *     HG_Event_progress(context, &count);
 *     if (count > 0) HG_Event_trigger(context, count, &actual);
 */

/* A descriptor that becomes readable when the context needs progress. The context's: not to be
 * closed. -1 for NULL, with NA_NO_BLOCK, or where the transport has none. */
HG_PUBLIC int HG_Event_get_wait_fd(const hg_context_t* context) HG_WARN_UNUSED_RESULT;

/* true: do not block, progress now. false: the descriptor is armed; what comes from now on makes it
 * readable. To be called right before blocking. true for NULL. */
HG_PUBLIC bool HG_Event_ready(hg_context_t* context) HG_WARN_UNUSED_RESULT;

/* HG_Progress without waiting and without HG_TIMEOUT; *count_p (may be NULL) gets how many
 * callbacks there are to trigger. Other codes: the transport failed. */
HG_PUBLIC hg_return_t HG_Event_progress(hg_context_t* context, unsigned int* count_p);

/* HG_Trigger without waiting and without HG_TIMEOUT; *actual_count_p (may be NULL) gets how many
 * ran. */
HG_PUBLIC hg_return_t HG_Event_trigger(hg_context_t* context, unsigned int max_count,
                                       unsigned int* actual_count_p);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_H */
