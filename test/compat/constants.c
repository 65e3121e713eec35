/* SPDX-License-Identifier: BSD-3-Clause */
/* Values and defaults that programs written for Mercury rely on. Compiled as C99 and as C++11. */
#include <stdio.h>
#include <string.h>

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_macros.h"
#include "mercury_proc_bulk.h"
#include "mercury_proc_string.h"
#include "na.h"

/* Programs choose by the preprocessor, too. */
#define LEVEL HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR)
#if HG_VERSION_LT(LEVEL, HG_VERSION(2, 4)) || !HG_VERSION_GE(LEVEL, HG_VERSION(2, 3)) || \
    HG_MAJOR(LEVEL) != 2 || HG_MINOR(LEVEL) != 4
#error the version of HG says otherwise to the preprocessor
#endif
#define NA_LEVEL NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR)
#if NA_VERSION_LT(NA_LEVEL, NA_VERSION(6, 0)) || !NA_VERSION_GE(NA_LEVEL, NA_VERSION(5, 0)) || \
    NA_MAJOR(NA_LEVEL) != 6 || NA_MINOR(NA_LEVEL) != 0
#error the version of NA says otherwise to the preprocessor
#endif

static int failures = 0;

#define EXPECT(condition)                                                  \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                    \
        }                                                                  \
    } while (0)

static void return_codes(void) {
    /* The order of the list is the interface. */
    static const char* const names[] = {
#define X(a) #a,
        HG_RETURN_VALUES
#undef X
    };
    static const char* const na_names[] = {
#define X(a) #a,
        NA_RETURN_VALUES
#undef X
    };
    int i;

    EXPECT(HG_SUCCESS == 0 && HG_PERMISSION == 1 && HG_NOENTRY == 2 && HG_INTERRUPT == 3);
    EXPECT(HG_AGAIN == 4 && HG_NOMEM == 5 && HG_ACCESS == 6 && HG_FAULT == 7 && HG_BUSY == 8);
    EXPECT(HG_EXIST == 9 && HG_NODEV == 10 && HG_INVALID_ARG == 11 && HG_PROTOCOL_ERROR == 12);
    EXPECT(HG_OVERFLOW == 13 && HG_MSGSIZE == 14 && HG_PROTONOSUPPORT == 15);
    EXPECT(HG_OPNOTSUPPORTED == 16 && HG_ADDRINUSE == 17 && HG_ADDRNOTAVAIL == 18);
    EXPECT(HG_HOSTUNREACH == 19 && HG_TIMEOUT == 20 && HG_CANCELED == 21 && HG_IO_ERROR == 22);
    EXPECT(HG_HOSTFIREWALL == 23 && HG_CHECKSUM_ERROR == 24 && HG_NA_ERROR == 25);
    EXPECT(HG_OTHER_ERROR == 26 && HG_RETURN_MAX == 27);
    EXPECT(HG_INVALID_PARAM == HG_INVALID_ARG && HG_SIZE_ERROR == HG_MSGSIZE);
    EXPECT(HG_NOMEM_ERROR == HG_NOMEM && HG_NO_MATCH == HG_NOENTRY);
    EXPECT((int)NA_RETURN_MAX == (int)HG_CHECKSUM_ERROR);
    for (i = 0; i < (int)NA_RETURN_MAX; i++)
        EXPECT(strcmp(names[i] + 2, na_names[i] + 2) == 0);
}

static void constants(void) {
    EXPECT(HG_CHECKSUM_NONE == 0 && HG_CHECKSUM_RPC_HEADERS == 1 && HG_CHECKSUM_RPC_PAYLOAD == 2);
    EXPECT(HG_CB_LOOKUP == 0 && HG_CB_FORWARD == 1 && HG_CB_RESPOND == 2 && HG_CB_BULK == 3);
    EXPECT(HG_UNDEF == 0 && HG_INPUT == 1 && HG_OUTPUT == 2);
    EXPECT(HG_ENCODE == 0 && HG_DECODE == 1 && HG_FREE == 2);
    EXPECT(HG_BULK_PUSH == 0 && HG_BULK_PULL == 1);
    EXPECT(HG_BULK_READ_ONLY == 1 && HG_BULK_WRITE_ONLY == 2 && HG_BULK_READWRITE == 3);
    EXPECT(HG_BULK_EAGER == 4 && HG_BULK_SM == 8);
    EXPECT(HG_MEM_TYPE_HOST == 0 && HG_MEM_TYPE_CUDA == 1 && HG_MEM_TYPE_ROCM == 2);
    EXPECT(HG_MEM_TYPE_ZE == 3 && HG_MEM_TYPE_MAX == 4 && HG_MEM_TYPE_UNKNOWN == 4);
    EXPECT(HG_CRC16 == 0 && HG_CRC32 == 1 && HG_CRC64 == 2 && HG_NOHASH == 3);
    EXPECT(HG_PROC_SM == 1 && HG_PROC_BULK_EAGER == 2 && HG_CORE_SM == 1);
    EXPECT(HG_MAX_IDLE_TIME == 3600000 && HG_SIZE_MAX == UINT64_MAX);
    EXPECT(HG_TRUE == 1 && HG_FALSE == 0);
    EXPECT(sizeof(hg_size_t) == 8 && sizeof(hg_id_t) == 8 && sizeof(hg_bool_t) == 1);
    EXPECT(HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR) == 0x20004);
    EXPECT(HG_MAJOR(0x20004) == 2 && HG_MINOR(0x20004) == 4);
    EXPECT(HG_VERSION_GE(HG_VERSION(2, 4), HG_VERSION(2, 3)));
    EXPECT(HG_VERSION_LT(HG_VERSION(2, 4), HG_VERSION(3, 0)));
    EXPECT(HG_ADDR_NULL == NULL && HG_HANDLE_NULL == NULL && HG_BULK_NULL == NULL);
    EXPECT(HG_PROC_NULL == NULL && HG_OP_ID_NULL == NULL);
    EXPECT(HG_OP_ID_IGNORE == (hg_op_id_t*)1);
}

/* Programs name their variables like the types. */
static void initialisers(void) {
    struct hg_init_info hg_init_info = HG_INIT_INFO_INITIALIZER;
    struct na_init_info na_init_info = NA_INIT_INFO_INITIALIZER;
    struct na_init_info_4_0 na_init_info_4_0 = NA_INIT_INFO_INITIALIZER_4_0;

    EXPECT(na_init_info.max_contexts == 1 && na_init_info_4_0.max_contexts == 1);
    EXPECT(hg_init_info.na_init_info.max_contexts == 1 && hg_init_info.na_class == NULL);
    EXPECT(hg_init_info.request_post_init == 0 && hg_init_info.request_post_incr == 0);
    EXPECT(hg_init_info.sm_info_string == NULL && !hg_init_info.no_overflow);
    EXPECT(hg_init_info.checksum_level == HG_CHECKSUM_NONE);
    EXPECT(hg_init_info.traffic_class == NA_TC_UNSPEC);

    hg_init_info = HG_INIT_INFO_INITIALIZER;
    hg_init_info.na_init_info = NA_INIT_INFO_INITIALIZER_4_0;
    hg_init_info.auto_sm = HG_TRUE;
    EXPECT(hg_init_info.auto_sm == 1);
}

/* Older callers pass a prefix of the structure: fields may only be added behind. */
static void layout(void) {
    EXPECT(offsetof(struct hg_init_info, na_init_info) == 0);
    EXPECT(offsetof(struct hg_init_info, stats) < offsetof(struct hg_init_info, no_multi_recv));
    EXPECT(offsetof(struct hg_init_info, no_multi_recv) <
           offsetof(struct hg_init_info, release_input_early));
    EXPECT(offsetof(struct hg_init_info, release_input_early) <
           offsetof(struct hg_init_info, traffic_class));
    EXPECT(offsetof(struct hg_init_info, traffic_class) <
           offsetof(struct hg_init_info, no_overflow));
    EXPECT(offsetof(struct hg_init_info, no_overflow) <
           offsetof(struct hg_init_info, multi_recv_op_max));
    EXPECT(offsetof(struct hg_init_info, multi_recv_op_max) <
           offsetof(struct hg_init_info, multi_recv_copy_threshold));
}

int main(void) {
    return_codes();
    constants();
    initialisers();
    layout();
    EXPECT(hg_header_get_size(HG_INPUT) == 0);
    return failures == 0 ? 0 : 1;
}
