/* SPDX-License-Identifier: BSD-3-Clause */
/* The RPC interface without structures: what is sent are bytes that the program has written into
 * the buffers of a handle. Source compatible with Mercury's mercury_core.h; what differs is said at
 * each function. C99 and C++.
 *
 * A class, its contexts, addresses and handles are those of mercury.h under other types, made by
 * either family of functions and used through the one that made them. Two things differ: a context
 * accepts requests only after HG_Core_context_post, and a handle has no proc (HG_Get_input and its
 * kind are not for it).
 *
 * Threads, callbacks, life times, and errors that are not repeated here: as in mercury.h. Callbacks
 * run inside HG_Core_trigger and HG_Core_event_trigger only. Outputs are written on success only.
 * HG_INVALID_ARG: a class, a context, an address, a handle or an output pointer is NULL, unless a
 * function says otherwise. HG_NOMEM: out of memory. */
#ifndef MERCURY_CORE_H
#define MERCURY_CORE_H

#include "mercury_core_header.h"
#include "mercury_core_types.h"
#include "na.h"

typedef struct hg_core_class hg_core_class_t;     /* one opened protocol: HG_Core_init */
typedef struct hg_core_context hg_core_context_t; /* one progress engine of a class */
typedef struct hg_core_addr* hg_core_addr_t;      /* a peer; reference counted */
typedef struct hg_core_handle* hg_core_handle_t;  /* one RPC; reference counted */
typedef struct hg_core_op_id* hg_core_op_id_t;    /* a lookup under way */
struct hg_core_rpc_info; /* opaque: a registered RPC; see HG_Core_registered* */

/* Where and what a handle is. Valid as long as the handle, except that HG_Core_reset changes it. */
struct hg_core_info {
    hg_core_class_t* core_class;
    hg_core_context_t* context;
    hg_core_addr_t addr; /* origin: the target; target: who asked. Borrowed: HG_Core_addr_dup */
    hg_id_t id;          /* the RPC */
    uint8_t context_id;  /* origin: context of the target; target: context of the origin */
};

struct hg_core_cb_info_lookup {
    hg_core_addr_t addr; /* the callback's: HG_Core_addr_free; HG_CORE_ADDR_NULL on error */
};

struct hg_core_cb_info_forward {
    hg_core_handle_t handle;
};

struct hg_core_cb_info_respond {
    hg_core_handle_t handle;
};

/* What a callback gets; valid during the call only. */
struct hg_core_cb_info {
    union {
        struct hg_core_cb_info_lookup lookup;
        struct hg_core_cb_info_forward forward;
        struct hg_core_cb_info_respond respond;
    } info;            /* the member that `type` names */
    void* arg;         /* as given with the callback */
    hg_cb_type_t type; /* HG_CB_LOOKUP, HG_CB_FORWARD or HG_CB_RESPOND */
    hg_return_t ret;   /* how it ended */
};

/* An RPC arrived at its target; as hg_rpc_cb_t of mercury_types.h. */
typedef hg_return_t (*hg_core_rpc_cb_t)(hg_core_handle_t handle);

/* An operation ended. The returned value is not used. */
typedef hg_return_t (*hg_core_cb_t)(const struct hg_core_cb_info* callback_info);

#define HG_CORE_ADDR_NULL ((hg_core_addr_t)0)
#define HG_CORE_HANDLE_NULL ((hg_core_handle_t)0)
#define HG_CORE_OP_ID_NULL ((hg_core_op_id_t)0)
#define HG_CORE_OP_ID_IGNORE ((hg_core_op_id_t*)1) /* for op_id arguments: not wanted */

/* Flag of HG_Core_forward and HG_Core_respond: more belongs to this message than its payload; the
 * receiver's callbacks of HG_Core_set_more_data_callback fetch it. */
#define HG_CORE_MORE_DATA (1 << 0)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Class ---------------------------------------------------------------------------------- */

/* As HG_Get_na_protocol_info and HG_Free_na_protocol_info. */
HG_PUBLIC hg_return_t HG_Core_get_na_protocol_info(const char* info_string,
                                                   struct na_protocol_info** na_protocol_info_p);
HG_PUBLIC void HG_Core_free_na_protocol_info(struct na_protocol_info* na_protocol_info);

/* Open a class: as HG_Init, HG_Init_opt and HG_Init_opt2. NULL on error. */
HG_PUBLIC hg_core_class_t* HG_Core_init(const char* na_info_string,
                                        uint8_t na_listen) HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_core_class_t* HG_Core_init_opt(const char* na_info_string, uint8_t na_listen,
                                            const struct hg_init_info* hg_init_info)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_core_class_t* HG_Core_init_opt2(
    const char* na_info_string, uint8_t na_listen, unsigned int version,
    const struct hg_init_info* hg_init_info) HG_WARN_UNUSED_RESULT;

/* Closes a class. NULL: HG_SUCCESS. HG_BUSY: contexts or addresses of it remain; it stays. */
HG_PUBLIC hg_return_t HG_Core_finalize(hg_core_class_t* hg_core_class);

/* As HG_Cleanup. */
HG_PUBLIC void HG_Core_cleanup(void);

/* Says how contexts of this class, those there are included, get what comes with
 * HG_CORE_MORE_DATA from now on.
 *
 * When such a request (op HG_INPUT) or response (HG_OUTPUT) has arrived, `acquire` is called from
 * HG_Core_trigger, instead of the callback that the message is for; it may read the payload
 * (HG_Core_get_input, HG_Core_get_output), and calls `done` with the handle exactly once, then or
 * later, on any thread. With done(handle, HG_SUCCESS) the RPC callback (forward callback) is run
 * next; another code ends the RPC: at a target it is sent to the origin and the RPC callback does
 * not run, at an origin the forward callback gets it; so does a code other than HG_SUCCESS that
 * `acquire` returns, and `done` must not be called then. The sender of such a response hears when
 * `done` was called (respond callback). `done` has to return before the context is destroyed.
 *
 * `release` (may be NULL) is called once for each handle for which `acquire` was called, when its
 * RPC is over: before the handle is used again, or goes.
 *
 * What is said last counts, for handles whose `acquire` was called before, too: their RPCs should
 * be over.
 *
 * acquire NULL: none; such messages are refused, and their origin gets HG_OPNOTSUPPORTED. */
HG_PUBLIC hg_return_t HG_Core_set_more_data_callback(
    struct hg_core_class* hg_core_class,
    hg_return_t (*more_data_acquire_callback)(hg_core_handle_t, hg_op_t,
                                              void (*done_callback)(hg_core_handle_t, hg_return_t)),
    void (*more_data_release_callback)(hg_core_handle_t));

/* The transport ("na") and the protocol ("sm"); valid as long as the class. NULL for NULL. */
HG_PUBLIC const char* HG_Core_class_get_name(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC const char* HG_Core_class_get_protocol(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;

/* Whether the class can be a target; false for NULL. */
HG_PUBLIC bool HG_Core_class_is_listening(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;

/* The NA class underneath, and that for peers of the same host (NULL without auto_sm). They are the
 * class's: not to be finalised, and no context of them may be created while it has one of the same
 * id. NULL for NULL. */
HG_PUBLIC na_class_t* HG_Core_class_get_na(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC na_class_t* HG_Core_class_get_na_sm(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;

/* The largest payload of HG_Core_forward (HG_Core_respond), in bytes; 0 for NULL. */
HG_PUBLIC hg_size_t HG_Core_class_get_input_eager_size(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_size_t HG_Core_class_get_output_eager_size(const hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;

/* Attaches a pointer to a class. free_callback (may be NULL) gets it at HG_Core_finalize; a pointer
 * that is replaced is not freed. */
HG_PUBLIC hg_return_t HG_Core_class_set_data(hg_core_class_t* hg_core_class, void* data,
                                             void (*free_callback)(void*));
/* The pointer; NULL if there is none, or for NULL. */
HG_PUBLIC void* HG_Core_class_get_data(const hg_core_class_t* hg_core_class) HG_WARN_UNUSED_RESULT;

/* Copies the counters of a class. */
HG_PUBLIC hg_return_t HG_Core_class_get_counters(const hg_core_class_t* hg_core_class,
                                                 struct hg_diag_counters* diag_counters);

/* ---- Context -------------------------------------------------------------------------------- */

/* As HG_Context_create and HG_Context_create_id, but it accepts no requests until
 * HG_Core_context_post. NULL on error. */
HG_PUBLIC hg_core_context_t* HG_Core_context_create(hg_core_class_t* hg_core_class)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_core_context_t* HG_Core_context_create_id(hg_core_class_t* hg_core_class,
                                                       uint8_t id) HG_WARN_UNUSED_RESULT;

/* Destroys a context; as HG_Context_destroy. HG_BUSY: handles of the user, requests that are
 * not responded to, or callbacks not yet triggered, remain. */
HG_PUBLIC hg_return_t HG_Core_context_destroy(hg_core_context_t* context);

/* The class of a context; the NA contexts underneath (that of the same host NULL without auto_sm),
 * which stay the context's: neither to be destroyed nor progressed. NULL for NULL. */
HG_PUBLIC hg_core_class_t* HG_Core_context_get_class(const hg_core_context_t* context)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC na_context_t* HG_Core_context_get_na(const hg_core_context_t* context)
    HG_WARN_UNUSED_RESULT;
HG_PUBLIC na_context_t* HG_Core_context_get_na_sm(const hg_core_context_t* context)
    HG_WARN_UNUSED_RESULT;

/* The id; 0 for NULL. */
HG_PUBLIC uint8_t HG_Core_context_get_id(const hg_core_context_t* context) HG_WARN_UNUSED_RESULT;

/* As HG_Core_class_set_data and _get_data; free_callback gets the pointer at
 * HG_Core_context_destroy. */
HG_PUBLIC hg_return_t HG_Core_context_set_data(hg_core_context_t* context, void* data,
                                               void (*free_callback)(void*));
HG_PUBLIC void* HG_Core_context_get_data(const hg_core_context_t* context) HG_WARN_UNUSED_RESULT;

/* Callbacks that wait for HG_Core_trigger; 0 for NULL. */
HG_PUBLIC unsigned int HG_Core_context_get_completion_count(const hg_core_context_t* context)
    HG_WARN_UNUSED_RESULT;

/* `callback` is called with `arg` for each handle that this context gets from now on, posted ones
 * included, on whichever thread creates it; it typically calls HG_Core_set_data. A code other than
 * HG_SUCCESS gives that handle up. NULL: none. To be called before HG_Core_context_post and
 * HG_Core_create, by one thread. */
HG_PUBLIC hg_return_t HG_Core_context_set_handle_create_callback(
    hg_core_context_t* context, hg_return_t (*callback)(hg_core_handle_t, void*), void* arg);

/* Accepts requests from now on. HG_SUCCESS also when it does already. HG_OPNOTSUPPORTED: the class
 * does not listen. HG_NOMEM: no receive could be posted. */
HG_PUBLIC hg_return_t HG_Core_context_post(hg_core_context_t* context);

/* Stops accepting requests; as HG_Context_unpost. HG_TIMEOUT: the transport did not give its
 * buffers back in time. */
HG_PUBLIC hg_return_t HG_Core_context_unpost(hg_core_context_t* context);

/* ---- Registration --------------------------------------------------------------------------- */

/* Registers an RPC; rpc_cb runs it (NULL: at an origin only). An id that is registered already gets
 * the new callback. HG_INVALID_ARG: id 0. */
HG_PUBLIC hg_return_t HG_Core_register(hg_core_class_t* hg_core_class, hg_id_t id,
                                       hg_core_rpc_cb_t rpc_cb);

/* The rest: as the functions of mercury.h without Core. HG_NOENTRY: unknown id. */
HG_PUBLIC hg_return_t HG_Core_deregister(hg_core_class_t* hg_core_class, hg_id_t id);
HG_PUBLIC hg_return_t HG_Core_registered(hg_core_class_t* hg_core_class, hg_id_t id,
                                         uint8_t* flag_p);
HG_PUBLIC hg_return_t HG_Core_register_data(hg_core_class_t* hg_core_class, hg_id_t id, void* data,
                                            void (*free_callback)(void*));
HG_PUBLIC void* HG_Core_registered_data(hg_core_class_t* hg_core_class,
                                        hg_id_t id) HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_return_t HG_Core_registered_disable_response(hg_core_class_t* hg_core_class,
                                                          hg_id_t id, uint8_t disable);
HG_PUBLIC hg_return_t HG_Core_registered_disabled_response(hg_core_class_t* hg_core_class,
                                                           hg_id_t id, uint8_t* disabled_p);

/* ---- Addresses ------------------------------------------------------------------------------ */

/* Resolve a name: as HG_Addr_lookup1 (through `callback`, HG_CB_LOOKUP; *op_id gets
 * HG_CORE_OP_ID_NULL) and HG_Addr_lookup2 (at once). */
HG_PUBLIC hg_return_t HG_Core_addr_lookup1(hg_core_context_t* context, hg_core_cb_t callback,
                                           void* arg, const char* name, hg_core_op_id_t* op_id);
HG_PUBLIC hg_return_t HG_Core_addr_lookup2(hg_core_class_t* hg_core_class, const char* name,
                                           hg_core_addr_t* addr_p);

/* Gives one reference back. HG_CORE_ADDR_NULL: HG_SUCCESS. HG_INVALID_ARG: freed already. */
HG_PUBLIC hg_return_t HG_Core_addr_free(hg_core_addr_t addr);

/* Hint that the peer has gone; as HG_Addr_set_remove. */
HG_PUBLIC hg_return_t HG_Core_addr_set_remove(hg_core_addr_t addr);

/* The NA addresses of a peer, borrowed for as long as `addr`: on the network (NULL for one that is
 * known over shared memory only), and by shared memory (NULL without auto_sm, and for peers of
 * another host). NULL for HG_CORE_ADDR_NULL. */
HG_PUBLIC na_addr_t* HG_Core_addr_get_na(hg_core_addr_t addr) HG_WARN_UNUSED_RESULT;
HG_PUBLIC na_addr_t* HG_Core_addr_get_na_sm(hg_core_addr_t addr) HG_WARN_UNUSED_RESULT;

/* The address of the class itself; the caller frees it. */
HG_PUBLIC hg_return_t HG_Core_addr_self(hg_core_class_t* hg_core_class, hg_core_addr_t* addr_p);

/* One more reference to the same peer; *new_addr_p equals addr or not. */
HG_PUBLIC hg_return_t HG_Core_addr_dup(hg_core_addr_t addr, hg_core_addr_t* new_addr_p);

/* Whether two addresses mean the same peer: HG_TRUE or HG_FALSE. Two HG_CORE_ADDR_NULL are the
 * same. */
HG_PUBLIC uint8_t HG_Core_addr_cmp(hg_core_addr_t addr1,
                                   hg_core_addr_t addr2) HG_WARN_UNUSED_RESULT;

/* Whether it is the class's own; false for HG_CORE_ADDR_NULL. */
HG_PUBLIC bool HG_Core_addr_is_self(hg_core_addr_t addr) HG_WARN_UNUSED_RESULT;

/* As HG_Addr_to_string: buf NULL asks for the size. HG_OVERFLOW: it does not fit (*buf_size is set
 * nevertheless). */
HG_PUBLIC hg_return_t HG_Core_addr_to_string(char* buf, hg_size_t* buf_size, hg_core_addr_t addr);

/* Bytes that HG_Core_addr_serialize writes with the same flags; 0 for HG_CORE_ADDR_NULL. */
HG_PUBLIC hg_size_t HG_Core_addr_get_serialize_size(hg_core_addr_t addr,
                                                    unsigned long flags) HG_WARN_UNUSED_RESULT;

/* Writes an address so that another process can deserialise it; with HG_CORE_SM its shared-memory
 * part too, where there is one. HG_OVERFLOW: buf_size is too small. HG_INVALID_ARG: buf NULL. */
HG_PUBLIC hg_return_t HG_Core_addr_serialize(void* buf, hg_size_t buf_size, unsigned long flags,
                                             hg_core_addr_t addr);

/* The inverse; the caller frees the address. flags: 0 or enum na_addr_flags, which change nothing.
 * Untrusted bytes are safe: HG_OVERFLOW: they end too early. HG_PROTOCOL_ERROR: they are no
 * address. HG_INVALID_ARG: buf NULL or buf_size 0. */
HG_PUBLIC hg_return_t HG_Core_addr_deserialize(hg_core_class_t* hg_core_class,
                                               hg_core_addr_t* addr_p, const void* buf,
                                               hg_size_t buf_size, uint64_t flags);

/* ---- Handles -------------------------------------------------------------------------------- */

/* As HG_Create, HG_Destroy, HG_Reset, HG_Ref_incr and HG_Ref_get, errors included. */
HG_PUBLIC hg_return_t HG_Core_create(hg_core_context_t* context, hg_core_addr_t addr, hg_id_t id,
                                     hg_core_handle_t* handle_p);
HG_PUBLIC hg_return_t HG_Core_destroy(hg_core_handle_t handle);
HG_PUBLIC hg_return_t HG_Core_reset(hg_core_handle_t handle, hg_core_addr_t addr, hg_id_t id);
HG_PUBLIC hg_return_t HG_Core_ref_incr(hg_core_handle_t handle);
HG_PUBLIC int32_t HG_Core_ref_get(hg_core_handle_t handle) HG_WARN_UNUSED_RESULT;

/* As HG_Set_data and HG_Get_data. */
HG_PUBLIC hg_return_t HG_Core_set_data(hg_core_handle_t handle, void* data,
                                       void (*free_callback)(void*));
HG_PUBLIC void* HG_Core_get_data(hg_core_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Where and what the handle is; valid as long as the handle. NULL for HG_CORE_HANDLE_NULL. */
HG_PUBLIC const struct hg_core_info* HG_Core_get_info(hg_core_handle_t handle)
    HG_WARN_UNUSED_RESULT;

/* The pointer of HG_Core_register_data of the handle's RPC; NULL if there is none, no RPC is set,
 * or it is no longer registered, or for HG_CORE_HANDLE_NULL. */
HG_PUBLIC const void* HG_Core_get_rpc_data(hg_core_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Which context of the target gets the RPC; 0 after HG_Core_create and HG_Core_reset.
 * HG_INVALID_ARG: a target's handle. */
HG_PUBLIC hg_return_t HG_Core_set_target_id(hg_core_handle_t handle, uint8_t id);

/* Bytes of input (output) of the last RPC, received or sent; 0 for HG_CORE_HANDLE_NULL. */
HG_PUBLIC size_t HG_Core_get_input_payload_size(hg_core_handle_t handle);
HG_PUBLIC size_t HG_Core_get_output_payload_size(hg_core_handle_t handle);

/* The input (output) buffer of the handle and its size in bytes: before HG_Core_forward
 * (HG_Core_respond) to write to; at the target (origin) to read, where the size is that of what was
 * received. The buffer is the handle's. HG_FAULT: nothing was received, or it was released. */
HG_PUBLIC hg_return_t HG_Core_get_input(hg_core_handle_t handle, void** in_buf_p,
                                        hg_size_t* in_buf_size_p);
HG_PUBLIC hg_return_t HG_Core_get_output(hg_core_handle_t handle, void** out_buf_p,
                                         hg_size_t* out_buf_size_p);

/* Target: gives the input buffer back to the context before the handle ends; the input cannot be
 * read any more. HG_INVALID_ARG: an origin's handle. */
HG_PUBLIC hg_return_t HG_Core_release_input(hg_core_handle_t handle);

/* ---- Forward and respond -------------------------------------------------------------------- */

/* Sends the first payload_size bytes of the input buffer. flags: 0 or HG_CORE_MORE_DATA. After
 * HG_SUCCESS `callback` (may be NULL) runs exactly once (HG_CB_FORWARD), with the codes that
 * HG_Forward says. After another code it never runs: HG_MSGSIZE: payload_size is more than the
 * buffer has. HG_INVALID_ARG: no address or no RPC set, a target's handle, an unknown flag.
 * HG_BUSY: in flight. HG_FAULT: RPC no longer registered. HG_OPNOTSUPPORTED: HG_CORE_MORE_DATA, to
 * oneself. */
HG_PUBLIC hg_return_t HG_Core_forward(hg_core_handle_t handle, hg_core_cb_t callback, void* arg,
                                      uint8_t flags, hg_size_t payload_size);

/* Target: sends the first payload_size bytes of the output buffer. After HG_SUCCESS `callback` (may
 * be NULL) runs exactly once (HG_CB_RESPOND), when the response has left (with HG_CORE_MORE_DATA:
 * when the origin has fetched the rest), or failed to. Other codes: HG_MSGSIZE and unknown flags as
 * above; who has no reference any more ends the RPC with a failure, as with HG_Respond.
 * HG_OPNOTSUPPORTED: one-way RPC. HG_BUSY: responded already. HG_INVALID_ARG: an origin's handle.
 */
HG_PUBLIC hg_return_t HG_Core_respond(hg_core_handle_t handle, hg_core_cb_t callback, void* arg,
                                      uint8_t flags, hg_size_t payload_size);

/* Ends an RPC early; as HG_Cancel. */
HG_PUBLIC hg_return_t HG_Core_cancel(hg_core_handle_t handle);

/* ---- Progress ------------------------------------------------------------------------------- */

/* As HG_Progress, HG_Trigger, and the HG_Event_* functions: same codes, times in milliseconds. */
HG_PUBLIC hg_return_t HG_Core_progress(hg_core_context_t* context, unsigned int timeout);
HG_PUBLIC hg_return_t HG_Core_trigger(hg_core_context_t* context, unsigned int timeout,
                                      unsigned int max_count, unsigned int* actual_count_p);
HG_PUBLIC int HG_Core_event_get_wait_fd(const hg_core_context_t* context) HG_WARN_UNUSED_RESULT;
HG_PUBLIC bool HG_Core_event_ready(hg_core_context_t* context) HG_WARN_UNUSED_RESULT;
HG_PUBLIC hg_return_t HG_Core_event_progress(hg_core_context_t* context, unsigned int* count_p);
HG_PUBLIC hg_return_t HG_Core_event_trigger(hg_core_context_t* context, unsigned int max_count,
                                            unsigned int* actual_count_p);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_CORE_H */
