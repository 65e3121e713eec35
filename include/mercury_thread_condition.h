/* SPDX-License-Identifier: BSD-3-Clause */
/* Condition variables. A wait may end without a signal: look at the condition again. C99 and C++.
 */
#ifndef MERCURY_THREAD_CONDITION_H
#define MERCURY_THREAD_CONDITION_H

#include "mercury_thread_mutex.h"

typedef pthread_cond_t hg_thread_cond_t;

#define HG_THREAD_COND_INITIALIZER PTHREAD_COND_INITIALIZER

#ifdef __cplusplus
extern "C" {
#endif

/* HG_UTIL_FAIL: NULL, or out of resources. */
HG_UTIL_PUBLIC int hg_thread_cond_init(hg_thread_cond_t* cond);
HG_UTIL_PUBLIC int hg_thread_cond_destroy(hg_thread_cond_t* cond);

/* Wake one waiter, or all of them. */
static HG_UTIL_INLINE int hg_thread_cond_signal(hg_thread_cond_t* cond) {
    return pthread_cond_signal(cond) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static HG_UTIL_INLINE int hg_thread_cond_broadcast(hg_thread_cond_t* cond) {
    return pthread_cond_broadcast(cond) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/* Unlock the mutex, wait, lock it again. The second: at most `timeout` ms; HG_UTIL_FAIL: time is
 * over. A change of the time of day does not matter. */
static HG_UTIL_INLINE int hg_thread_cond_wait(hg_thread_cond_t* cond, hg_thread_mutex_t* mutex) {
    return pthread_cond_wait(cond, mutex) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

HG_UTIL_PUBLIC int hg_thread_cond_timedwait(hg_thread_cond_t* cond, hg_thread_mutex_t* mutex,
                                            unsigned int timeout);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_CONDITION_H */
