/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, constants and initialisers of the NA C API. Source compatible with Mercury's na_types.h:
 * names, values and field order are Mercury's; the layout of opaque objects is our own. C99 and
 * C++. */
#ifndef NA_TYPES_H
#define NA_TYPES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "na_config.h"

typedef struct na_class na_class_t;     /* one opened protocol: NA_Initialize */
typedef struct na_context na_context_t; /* one progress engine of a class: NA_Context_create */
typedef struct na_addr na_addr_t;       /* a peer; reference counted */
typedef struct na_op_id na_op_id_t;     /* one reusable operation */
typedef struct na_mem_handle na_mem_handle_t; /* described memory, local or remote */

typedef uint32_t na_tag_t;
typedef uint64_t na_offset_t; /* bytes */

/* Names of programs for earlier versions; new code has the types of C. */
typedef size_t na_size_t;
typedef uint8_t na_bool_t;
#define NA_TRUE 1
#define NA_FALSE 0

/* Packed version numbers for NA_Initialize_opt2. Without casts: they are for #if, too. */
#define NA_VERSION(major, minor) (((major) << 16) | (minor))
#define NA_MAJOR(version) ((version) >> 16)
#define NA_MINOR(version) ((version)&0xffff)
#define NA_VERSION_GE(v1, v2) ((v1) >= (v2))
#define NA_VERSION_LT(v1, v2) ((v1) < (v2))

enum na_addr_format { NA_ADDR_UNSPEC, NA_ADDR_IPV4, NA_ADDR_IPV6, NA_ADDR_NATIVE };

/* Flags of NA_Addr_deserialize. */
enum na_addr_flags { NA_ADDR_FIREWALL = 1 << 0 };

enum na_traffic_class {
    NA_TC_UNSPEC,
    NA_TC_BEST_EFFORT,
    NA_TC_LOW_LATENCY,
    NA_TC_BULK_DATA,
    NA_TC_DEDICATED_ACCESS,
    NA_TC_SCAVENGER,
    NA_TC_NETWORK_CTRL
};

enum na_mem_type {
    NA_MEM_TYPE_HOST,
    NA_MEM_TYPE_CUDA,
    NA_MEM_TYPE_ROCM,
    NA_MEM_TYPE_ZE,
    NA_MEM_TYPE_MAX,
    NA_MEM_TYPE_UNKNOWN = NA_MEM_TYPE_MAX
};

/* Options of NA_Initialize_opt2 as of version 5.0. Strings are borrowed for the call only. */
struct na_init_info {
    /* What a transport cannot honour, it refuses; of traffic_class it warns. */
    const char* ip_subnet;               /* "a.b.c.d/bits": restricts the interface choice */
    const char* auth_key;                /* provider-specific credential */
    size_t max_unexpected_size;          /* bytes, header included; 0: the plugin's default */
    size_t max_expected_size;            /* bytes, header included; 0: the plugin's default */
    uint8_t progress_mode;               /* NA_NO_BLOCK | NA_NO_RETRY */
    enum na_addr_format addr_format;     /* preferred address family */
    uint8_t max_contexts;                /* contexts that have their places; 0 counts as 1 */
    uint8_t thread_mode;                 /* NA_THREAD_MODE_* */
    bool request_mem_device;             /* device memory will be registered */
    enum na_traffic_class traffic_class; /* hint to the fabric */
};

/* The same as of version 4.0: no traffic class. */
struct na_init_info_4_0 {
    const char* ip_subnet;
    const char* auth_key;
    size_t max_unexpected_size;
    size_t max_expected_size;
    uint8_t progress_mode;
    enum na_addr_format addr_format;
    uint8_t max_contexts;
    uint8_t thread_mode;
    bool request_mem_device;
};

struct na_segment {
    void* base;
    size_t len; /* bytes */
};

/* One row of NA_Get_protocol_info; freed with NA_Free_protocol_info. */
struct na_protocol_info {
    struct na_protocol_info* next;
    char* class_name;
    char* protocol_name;
    char* device_name;
};

/* Return codes: numeric values are part of the API and equal those of na::Status. */
#define NA_RETURN_VALUES                                                  \
    X(NA_SUCCESS)        /* done */                                       \
    X(NA_PERMISSION)     /* not permitted */                              \
    X(NA_NOENTRY)        /* no such entry */                              \
    X(NA_INTERRUPT)      /* interrupted */                                \
    X(NA_AGAIN)          /* resources short: try again after progress */  \
    X(NA_NOMEM)          /* out of memory */                              \
    X(NA_ACCESS)         /* access denied */                              \
    X(NA_FAULT)          /* bad address */                                \
    X(NA_BUSY)           /* still in use */                               \
    X(NA_EXIST)          /* exists already */                             \
    X(NA_NODEV)          /* no such device */                             \
    X(NA_INVALID_ARG)    /* invalid argument */                           \
    X(NA_PROTOCOL_ERROR) /* the peer or the library broke the protocol */ \
    X(NA_OVERFLOW)       /* the result does not fit */                    \
    X(NA_MSGSIZE)        /* message too long */                           \
    X(NA_PROTONOSUPPORT) /* protocol not supported */                     \
    X(NA_OPNOTSUPPORTED) /* operation not supported */                    \
    X(NA_ADDRINUSE)      /* address in use */                             \
    X(NA_ADDRNOTAVAIL)   /* address not available */                      \
    X(NA_HOSTUNREACH)    /* the peer cannot be reached, or died */        \
    X(NA_TIMEOUT)        /* time is over */                               \
    X(NA_CANCELED)       /* canceled */                                   \
    X(NA_IO_ERROR)       /* input/output error */                         \
    X(NA_HOSTFIREWALL)   /* the peer is behind a firewall */              \
    X(NA_RETURN_MAX)

#define X(a) a,
typedef enum na_return { NA_RETURN_VALUES } na_return_t;
#undef X

/* Kinds of callbacks. */
#define NA_CB_TYPES                \
    X(NA_CB_SEND_UNEXPECTED)       \
    X(NA_CB_RECV_UNEXPECTED)       \
    X(NA_CB_MULTI_RECV_UNEXPECTED) \
    X(NA_CB_SEND_EXPECTED)         \
    X(NA_CB_RECV_EXPECTED)         \
    X(NA_CB_PUT)                   \
    X(NA_CB_GET)                   \
    X(NA_CB_MAX)

#define X(a) a,
typedef enum na_cb_type { NA_CB_TYPES } na_cb_type_t;
#undef X

/* `source` carries one reference that the receiver releases with NA_Addr_free; NULL on error. */
struct na_cb_info_recv_unexpected {
    size_t actual_buf_size; /* bytes received */
    na_addr_t* source;
    na_tag_t tag;
};

struct na_cb_info_multi_recv_unexpected {
    size_t actual_buf_size; /* bytes received */
    na_addr_t* source;
    na_tag_t tag;
    void* actual_buf; /* inside the posted buffer */
    bool last;        /* the buffer is used up: post it again */
};

struct na_cb_info_recv_expected {
    size_t actual_buf_size; /* bytes received */
};

/* What a callback gets; valid during the call only. */
struct na_cb_info {
    union {
        struct na_cb_info_recv_unexpected recv_unexpected;
        struct na_cb_info_multi_recv_unexpected multi_recv_unexpected;
        struct na_cb_info_recv_expected recv_expected;
    } info;
    void* arg;         /* as given to the post */
    na_cb_type_t type; /* kind of operation */
    na_return_t ret;   /* how it ended */
};

/* Called by NA_Trigger only, on the calling thread, with no lock held. It may post again on the
 * same operation and call any NA function but NA_Context_destroy and NA_Finalize of its own
 * objects. */
typedef void (*na_cb_t)(const struct na_cb_info* callback_info);

/* Optional features, NA_Has_opt_feature. */
#define NA_OPT_MULTI_RECV (1 << 0)
#define NA_OPT_FIREWALL_ADDR (1 << 1)

#define NA_MAX_IDLE_TIME (3600 * 1000) /* ms */
#define NA_CONTEXT_ID_MAX UINT8_MAX

/* Flags of NA_Msg_buf_alloc. */
#define NA_SEND (1 << 0)
#define NA_RECV (1 << 1)
#define NA_MULTI_RECV (1 << 2)
#define NA_ALLOC_MAX (1 << 3)

/* Flags of NA_Op_create. */
#define NA_OP_SINGLE (0x00)
#define NA_OP_MULTI (0x01)

#define NA_TAG_MAX UINT_MAX

/* What peers may do with registered memory. */
#define NA_MEM_READ_ONLY 0x01
#define NA_MEM_WRITE_ONLY 0x02
#define NA_MEM_READWRITE (NA_MEM_READ_ONLY | NA_MEM_WRITE_ONLY)

/* progress_mode */
#define NA_NO_BLOCK 0x01 /* never sleep: no descriptor, NA_Poll_try_wait always false */
#define NA_NO_RETRY 0x02 /* answer NA_AGAIN instead of queueing when resources are short */

/* thread_mode: a promise of the program. It changes no behaviour by itself: every class locks, so
 * that a program whose promise does not hold, as Mercury tolerates, loses nothing. With
 * NA_UNLOCKED=1 in the environment a class opened with NA_THREAD_MODE_SINGLE_CLS takes no locks;
 * two threads inside such a class at the same time are then undefined behaviour, which a debug
 * build reports and ends the process for. */
#define NA_THREAD_MODE_SINGLE_CLS (0x01) /* one thread at a time uses the class */
#define NA_THREAD_MODE_SINGLE_CTX (0x02) /* one thread at a time uses each context */
#define NA_THREAD_MODE_SINGLE (NA_THREAD_MODE_SINGLE_CLS | NA_THREAD_MODE_SINGLE_CTX)

/* Every option at its default. */
#ifdef __cplusplus
/* By these names, because users call their variable na_init_info, which hides the type. */
typedef struct na_init_info na_init_info_default_t;
typedef struct na_init_info_4_0 na_init_info_4_0_default_t;
#define NA_INIT_INFO_INITIALIZER                                             \
    na_init_info_default_t {                                                 \
        nullptr, nullptr, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false, NA_TC_UNSPEC \
    }
#define NA_INIT_INFO_INITIALIZER_4_0                           \
    na_init_info_4_0_default_t {                               \
        nullptr, nullptr, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false \
    }
#else
#define NA_INIT_INFO_INITIALIZER                          \
    ((struct na_init_info){.ip_subnet = NULL,             \
                           .auth_key = NULL,              \
                           .max_unexpected_size = 0,      \
                           .max_expected_size = 0,        \
                           .progress_mode = 0,            \
                           .addr_format = NA_ADDR_UNSPEC, \
                           .max_contexts = 1,             \
                           .thread_mode = 0,              \
                           .request_mem_device = false,   \
                           .traffic_class = NA_TC_UNSPEC})
#define NA_INIT_INFO_INITIALIZER_4_0                          \
    ((struct na_init_info_4_0){.ip_subnet = NULL,             \
                               .auth_key = NULL,              \
                               .max_unexpected_size = 0,      \
                               .max_expected_size = 0,        \
                               .progress_mode = 0,            \
                               .addr_format = NA_ADDR_UNSPEC, \
                               .max_contexts = 1,             \
                               .thread_mode = 0,              \
                               .request_mem_device = false})
#endif

#endif /* NA_TYPES_H */
