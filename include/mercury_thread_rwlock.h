/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks that many readers have at a time, or one writer. Not recursive. C99 and C++. */
#ifndef MERCURY_THREAD_RWLOCK_H
#define MERCURY_THREAD_RWLOCK_H

#include <pthread.h> /* programs expect it with this header */

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

/* Room for the system's lock, which strict C99 does not name. */
typedef struct hg_thread_rwlock {
    union {
        long long align;
        unsigned char room[64];
    } lock;
} hg_thread_rwlock_t;

#ifdef __cplusplus
extern "C" {
#endif

/* HG_UTIL_FAIL: NULL, or out of resources (init), or locked (destroy). */
HG_UTIL_PUBLIC int hg_thread_rwlock_init(hg_thread_rwlock_t* rwlock);
HG_UTIL_PUBLIC int hg_thread_rwlock_destroy(hg_thread_rwlock_t* rwlock);

/* For reading. HG_UTIL_FAIL: a writer has it. */
HG_UTIL_PUBLIC void hg_thread_rwlock_rdlock(hg_thread_rwlock_t* rwlock);
HG_UTIL_PUBLIC int hg_thread_rwlock_try_rdlock(hg_thread_rwlock_t* rwlock);
HG_UTIL_PUBLIC void hg_thread_rwlock_release_rdlock(hg_thread_rwlock_t* rwlock);

/* For writing. HG_UTIL_FAIL: somebody has it. */
HG_UTIL_PUBLIC void hg_thread_rwlock_wrlock(hg_thread_rwlock_t* rwlock);
HG_UTIL_PUBLIC int hg_thread_rwlock_try_wrlock(hg_thread_rwlock_t* rwlock);
HG_UTIL_PUBLIC void hg_thread_rwlock_release_wrlock(hg_thread_rwlock_t* rwlock);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_RWLOCK_H */
