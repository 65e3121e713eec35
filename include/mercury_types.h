/* SPDX-License-Identifier: BSD-3-Clause */
/* Types of the RPC and bulk API: opaque objects, callbacks and what they get. C99 and C++. */
#ifndef MERCURY_TYPES_H
#define MERCURY_TYPES_H

#include "mercury_core_types.h"

typedef struct hg_class hg_class_t;     /* one opened protocol: HG_Init */
typedef struct hg_context hg_context_t; /* one progress engine of a class: HG_Context_create */
typedef struct hg_addr* hg_addr_t;      /* a peer; reference counted */
typedef struct hg_handle*
    hg_handle_t;                   /* one RPC, at its origin or at its target; reference counted */
typedef struct hg_bulk* hg_bulk_t; /* described memory, local or remote; reference counted */
typedef struct hg_proc* hg_proc_t; /* encoder and decoder */
typedef struct hg_op_id* hg_op_id_t; /* a bulk transfer in flight; good until its callback ran */

/* Where and what a handle is. Valid as long as the handle, except that HG_Reset changes it. */
struct hg_info {
    hg_class_t* hg_class;
    hg_context_t* context;
    hg_addr_t addr; /* origin: the target; target: who asked. Borrowed: HG_Addr_dup to keep it */
    hg_id_t id;     /* the RPC */
    uint8_t context_id; /* origin: context of the target; target: context of the origin */
};

/* Where memory is. Values are those of enum na_mem_type. */
typedef enum hg_mem_type {
    HG_MEM_TYPE_HOST = NA_MEM_TYPE_HOST,
    HG_MEM_TYPE_CUDA = NA_MEM_TYPE_CUDA,
    HG_MEM_TYPE_ROCM = NA_MEM_TYPE_ROCM,
    HG_MEM_TYPE_ZE = NA_MEM_TYPE_ZE,
    HG_MEM_TYPE_MAX = NA_MEM_TYPE_MAX,
    HG_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_UNKNOWN
} hg_mem_type_t;

/* Attributes of memory, HG_Bulk_create_attr. */
struct hg_bulk_attr {
    hg_mem_type_t mem_type;
    uint64_t device; /* number of the device; 0 for host memory */
};

/* Direction of a bulk transfer, seen from the caller. */
typedef enum hg_bulk_op {
    HG_BULK_PUSH, /* local memory to the origin's */
    HG_BULK_PULL  /* the origin's memory to local */
} hg_bulk_op_t;

struct hg_cb_info_lookup {
    hg_addr_t addr; /* the callback's: free with HG_Addr_free; HG_ADDR_NULL on error */
};

struct hg_cb_info_forward {
    hg_handle_t handle;
};

struct hg_cb_info_respond {
    hg_handle_t handle;
};

struct hg_cb_info_bulk {
    hg_bulk_t origin_handle; /* as given; there until the callback returns, whoever freed them */
    hg_bulk_t local_handle;
    hg_bulk_op_t op;
    hg_size_t size; /* bytes asked for */
};

/* What a callback gets; valid during the call only. */
struct hg_cb_info {
    union {
        struct hg_cb_info_lookup lookup;
        struct hg_cb_info_forward forward;
        struct hg_cb_info_respond respond;
        struct hg_cb_info_bulk bulk;
    } info;            /* the member that `type` names */
    void* arg;         /* as given with the callback */
    hg_cb_type_t type; /* kind of operation */
    hg_return_t ret;   /* how it ended */
};

/* All callbacks but hg_proc_cb_t are called by HG_Trigger or HG_Event_trigger only, on the calling
 * thread, with no lock held. They may call any function but HG_Context_destroy, HG_Context_unpost
 * and HG_Finalize of their own objects; HG_Progress and HG_Trigger, too, to wait for something. */

/* An RPC arrived at its target. The callback owns one reference to the handle and gives it back
 * with HG_Destroy, then or later, before or after HG_Respond. Cinnabar extension: a code other than
 * HG_SUCCESS that is returned before HG_Respond was called is sent to the origin, whose forward
 * callback gets it, as HG_Respond_error does: so none is returned by who responds later. */
typedef hg_return_t (*hg_rpc_cb_t)(hg_handle_t handle);

/* An operation ended. The returned value is not used. */
typedef hg_return_t (*hg_cb_t)(const struct hg_cb_info* callback_info);

/* Encodes, decodes or frees the structure at `data` as hg_proc_get_op says. Called inside
 * HG_Forward, HG_Respond, HG_Get_input, HG_Get_output, HG_Free_input and HG_Free_output on the
 * caller's thread. Returns HG_SUCCESS, or the code that those functions are to return. One that
 * fails while decoding leaves nothing allocated: see mercury_proc.h. */
typedef hg_return_t (*hg_proc_cb_t)(hg_proc_t proc, void* data);

#define HG_ADDR_NULL ((hg_addr_t)0)
#define HG_HANDLE_NULL ((hg_handle_t)0)
#define HG_BULK_NULL ((hg_bulk_t)0)
#define HG_PROC_NULL ((hg_proc_t)0)
#define HG_OP_ID_NULL ((hg_op_id_t)0)
#define HG_OP_ID_IGNORE ((hg_op_id_t*)1) /* for op_id arguments: not wanted */

#endif /* MERCURY_TYPES_H */
