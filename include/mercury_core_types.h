/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, constants and initialisers that every HG header needs: return codes, options of
 * HG_Init_opt2, counters. Source compatible with Mercury's header of this name. C99 and C++. */
#ifndef MERCURY_CORE_TYPES_H
#define MERCURY_CORE_TYPES_H

#include "mercury_config.h"
#include "na_types.h"

typedef uint64_t hg_size_t; /* bytes */
typedef uint64_t hg_id_t;   /* RPC id; all 64 bits travel; 0 is no RPC */

/* What is checksummed (CRC32C). Both ends must choose the same. */
typedef enum hg_checksum_level {
    HG_CHECKSUM_NONE,        /* nothing */
    HG_CHECKSUM_RPC_HEADERS, /* the headers of requests and responses */
    HG_CHECKSUM_RPC_PAYLOAD  /* headers and encoded structures; never bulk data */
} hg_checksum_level_t;

/* Return codes: numeric values are part of the API; the first 24 equal those of na_return_t. */
#define HG_RETURN_VALUES                                                               \
    X(HG_SUCCESS)        /* done */                                                    \
    X(HG_PERMISSION)     /* not permitted */                                           \
    X(HG_NOENTRY)        /* no such entry: unknown RPC, unknown id */                  \
    X(HG_INTERRUPT)      /* interrupted */                                             \
    X(HG_AGAIN)          /* resources short, or the target is overloaded: try again */ \
    X(HG_NOMEM)          /* out of memory */                                           \
    X(HG_ACCESS)         /* access denied */                                           \
    X(HG_FAULT)          /* bad address, or the object cannot do that */               \
    X(HG_BUSY)           /* still in use */                                            \
    X(HG_EXIST)          /* exists already */                                          \
    X(HG_NODEV)          /* no such device */                                          \
    X(HG_INVALID_ARG)    /* invalid argument */                                        \
    X(HG_PROTOCOL_ERROR) /* the peer or the library broke the protocol */              \
    X(HG_OVERFLOW)       /* the result does not fit, or the data ended too early */    \
    X(HG_MSGSIZE)        /* message too long */                                        \
    X(HG_PROTONOSUPPORT) /* protocol not supported */                                  \
    X(HG_OPNOTSUPPORTED) /* operation not supported */                                 \
    X(HG_ADDRINUSE)      /* address in use */                                          \
    X(HG_ADDRNOTAVAIL)   /* address not available */                                   \
    X(HG_HOSTUNREACH)    /* the peer cannot be reached, or died */                     \
    X(HG_TIMEOUT)        /* time is over */                                            \
    X(HG_CANCELED)       /* canceled */                                                \
    X(HG_IO_ERROR)       /* input/output error */                                      \
    X(HG_HOSTFIREWALL)   /* the peer is behind a firewall */                           \
    X(HG_CHECKSUM_ERROR) /* the checksum does not match the data */                    \
    X(HG_NA_ERROR)       /* unspecific error of the transport */                       \
    X(HG_OTHER_ERROR)    /* unspecific error */                                        \
    X(HG_RETURN_MAX)

#define X(a) a,
typedef enum hg_return { HG_RETURN_VALUES } hg_return_t;
#undef X

/* Older names of the same codes. */
#define HG_INVALID_PARAM HG_INVALID_ARG
#define HG_SIZE_ERROR HG_MSGSIZE
#define HG_NOMEM_ERROR HG_NOMEM
#define HG_NO_MATCH HG_NOENTRY

/* Kinds of callbacks, struct hg_cb_info. */
typedef enum hg_cb_type { HG_CB_LOOKUP, HG_CB_FORWARD, HG_CB_RESPOND, HG_CB_BULK } hg_cb_type_t;

/* Which structure of an RPC is meant. */
typedef enum { HG_UNDEF, HG_INPUT, HG_OUTPUT } hg_op_t;

/* What a proc callback is to do: write the structure to the buffer, fill the structure from the
 * buffer, release what decoding allocated for the structure. */
typedef enum hg_proc_op { HG_ENCODE, HG_DECODE, HG_FREE } hg_proc_op_t;

/* Packed version numbers for HG_Init_opt2. Without casts: they are for #if, too. */
#define HG_VERSION(major, minor) (((major) << 16) | (minor))
#define HG_MAJOR(version) ((version) >> 16)
#define HG_MINOR(version) ((version)&0xffff)
#define HG_VERSION_GE(v1, v2) ((v1) >= (v2))
#define HG_VERSION_LT(v1, v2) ((v1) < (v2))

#define HG_CORE_SM (1 << 0)            /* serialised addresses: include the shared-memory part */
#define HG_MAX_IDLE_TIME (3600 * 1000) /* ms */
#define HG_SIZE_MAX UINT64_MAX

/* Counters of one class since HG_Init, HG_Class_get_counters. */
struct hg_diag_counters {
    uint64_t rpc_req_sent_count;        /* requests sent */
    uint64_t rpc_req_recv_count;        /* requests received */
    uint64_t rpc_resp_sent_count;       /* responses sent */
    uint64_t rpc_resp_recv_count;       /* responses received */
    uint64_t rpc_req_extra_count;       /* requests above the eager size */
    uint64_t rpc_resp_extra_count;      /* responses above the eager size */
    uint64_t rpc_req_recv_active_count; /* received requests whose handle is still alive */
    uint64_t rpc_multi_recv_copy_count; /* requests copied out of a multi-receive buffer */
    uint64_t bulk_count;                /* bulk transfers started */
};

/* Options of HG_Init_opt2. Strings are borrowed for the duration of the call only. This is the
 * layout as of version 2.4. Callers of an older version have an object with fewer fields: no byte
 * past its end is read, and the missing fields get their defaults.
 *
 * - below 2.3, and HG_Init_opt: up to and including `stats`
 * - 2.3: up to and including `release_input_early`
 *
 * na_init_info has NA's 4.0 layout in all of them. */
struct hg_init_info {
    struct na_init_info_4_0 na_init_info; /* options of the transport */

    /* Use this class instead of opening one; the info string is then not opened, and HG_Finalize
     * leaves the class open. NULL: open one. */
    na_class_t* na_class;

    /* Receives that a listening context posts at once (0: 512), and how many it adds when all are
     * taken (0: 512; negative: never add, later requests wait in the transport). Beyond
     * HG_REQUEST_LIMIT (environment; at least request_post_init) they are answered with HG_AGAIN.
     */
    uint32_t request_post_init;
    int32_t request_post_incr;

    uint8_t auto_sm;                    /* reach peers of the same host by shared memory as well */
    const char* sm_info_string;         /* with auto_sm: name of its endpoint; NULL: chosen */
    hg_checksum_level_t checksum_level; /* both ends must agree */
    uint8_t no_bulk_eager;              /* never put bulk data inside descriptors */
    uint8_t no_loopback;                /* RPCs to oneself go through the transport */
    uint8_t stats;                      /* log the counters at HG_Finalize */

    uint8_t no_multi_recv; /* one receive per request even where the transport can do better */
    uint8_t release_input_early; /* reuse the buffer after HG_Get_input, which then works once */

    enum na_traffic_class traffic_class; /* hint to the fabric */
    bool no_overflow;                    /* HG_OVERFLOW instead of the large-message path */

    unsigned int multi_recv_op_max;         /* multi-receive buffers; 0: 4 */
    unsigned int multi_recv_copy_threshold; /* copy requests out below so many; 0: never */
};

/* Every option at its default. */
#ifdef __cplusplus
/* By this name, because users call their variable hg_init_info, which hides the type. */
typedef struct hg_init_info hg_init_info_default_t;
#define HG_INIT_INFO_INITIALIZER                                                                  \
    hg_init_info_default_t {                                                                      \
        NA_INIT_INFO_INITIALIZER_4_0, nullptr, 0, 0, 0, nullptr, HG_CHECKSUM_NONE, 0, 0, 0, 0, 0, \
            NA_TC_UNSPEC, false, 0, 0                                                             \
    }
#else
#define HG_INIT_INFO_INITIALIZER                                         \
    ((struct hg_init_info){.na_init_info = NA_INIT_INFO_INITIALIZER_4_0, \
                           .na_class = NULL,                             \
                           .request_post_init = 0,                       \
                           .request_post_incr = 0,                       \
                           .auto_sm = 0,                                 \
                           .sm_info_string = NULL,                       \
                           .checksum_level = HG_CHECKSUM_NONE,           \
                           .no_bulk_eager = 0,                           \
                           .no_loopback = 0,                             \
                           .stats = 0,                                   \
                           .no_multi_recv = 0,                           \
                           .release_input_early = 0,                     \
                           .traffic_class = NA_TC_UNSPEC,                \
                           .no_overflow = false,                         \
                           .multi_recv_op_max = 0,                       \
                           .multi_recv_copy_threshold = 0})
#endif

#endif /* MERCURY_CORE_TYPES_H */
