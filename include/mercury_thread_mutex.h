/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes. Not recursive. C99 and C++. */
#ifndef MERCURY_THREAD_MUTEX_H
#define MERCURY_THREAD_MUTEX_H

#include <pthread.h>

#include "mercury_thread_annotation.h"
#include "mercury_util_config.h"

typedef pthread_mutex_t hg_thread_mutex_t;

#define HG_THREAD_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER

#ifdef __cplusplus
extern "C" {
#endif

/* HG_UTIL_FAIL: NULL, or out of resources (init), or locked (destroy). The fast one spins a little
 * before it sleeps, where the system offers that. */
HG_UTIL_PUBLIC int hg_thread_mutex_init(hg_thread_mutex_t* mutex);
HG_UTIL_PUBLIC int hg_thread_mutex_init_fast(hg_thread_mutex_t* mutex);
HG_UTIL_PUBLIC int hg_thread_mutex_destroy(hg_thread_mutex_t* mutex);

static HG_UTIL_INLINE void hg_thread_mutex_lock(hg_thread_mutex_t* mutex) {
    (void)pthread_mutex_lock(mutex);
}

/* HG_UTIL_FAIL: somebody has it. */
static HG_UTIL_INLINE int hg_thread_mutex_try_lock(hg_thread_mutex_t* mutex) {
    return pthread_mutex_trylock(mutex) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/* By the thread that locked it. */
static HG_UTIL_INLINE void hg_thread_mutex_unlock(hg_thread_mutex_t* mutex) {
    (void)pthread_mutex_unlock(mutex);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_MUTEX_H */
