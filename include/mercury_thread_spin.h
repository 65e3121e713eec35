/* SPDX-License-Identifier: BSD-3-Clause */
/* Spin locks, for sections of some instructions. Not recursive. C99 and C++. */
#ifndef MERCURY_THREAD_SPIN_H
#define MERCURY_THREAD_SPIN_H

#include <pthread.h> /* programs expect it with this header */

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

typedef volatile int hg_thread_spin_t; /* 1: somebody has it */

#define HG_THREAD_SPIN_INITIALIZER (0)

#ifdef __cplusplus
extern "C" {
#endif

/* HG_UTIL_FAIL: NULL. */
HG_UTIL_PUBLIC int hg_thread_spin_init(hg_thread_spin_t* lock);
HG_UTIL_PUBLIC int hg_thread_spin_destroy(hg_thread_spin_t* lock);

/* Waits for who has it, giving the processor away now and then. For hg_thread_spin_lock. */
HG_UTIL_PUBLIC void hg_thread_spin_wait_(hg_thread_spin_t* lock);

/* HG_UTIL_FAIL: somebody has it. */
static HG_UTIL_INLINE int hg_thread_spin_try_lock(hg_thread_spin_t* lock) {
    return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static HG_UTIL_INLINE void hg_thread_spin_lock(hg_thread_spin_t* lock) {
    while (hg_thread_spin_try_lock(lock) != HG_UTIL_SUCCESS)
        hg_thread_spin_wait_(lock);
}

static HG_UTIL_INLINE void hg_thread_spin_unlock(hg_thread_spin_t* lock) {
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_SPIN_H */
