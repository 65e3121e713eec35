/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads, thread-local values, and the processors that threads may run on. Functions return
 * HG_UTIL_FAIL where the system refuses, or a pointer is NULL. C99 and C++. */
#ifndef MERCURY_THREAD_H
#define MERCURY_THREAD_H

#include <pthread.h>
#include <sched.h>

#include "mercury_util_config.h"

typedef pthread_t hg_thread_t;
typedef void* hg_thread_ret_t;
typedef hg_thread_ret_t (*hg_thread_func_t)(void*);
typedef pthread_key_t hg_thread_key_t;
#if defined(__GLIBC__) || defined(_GNU_SOURCE)
typedef cpu_set_t hg_cpu_set_t; /* CPU_SET and its kind of sched.h work on it */
#else
typedef struct cpu_set_t hg_cpu_set_t; /* musl has its members with _GNU_SOURCE only */
#endif

/* How programs write the type of a thread's function. */
#define HG_THREAD_RETURN_TYPE hg_thread_ret_t

#ifdef __cplusplus
extern "C" {
#endif

/* Makes *thread no thread yet. */
HG_UTIL_PUBLIC void hg_thread_init(hg_thread_t* thread);

/* Starts a thread that calls f(data); it has to be joined. */
HG_UTIL_PUBLIC int hg_thread_create(hg_thread_t* thread, hg_thread_func_t f, void* data);

/* Ends the calling thread. */
HG_UTIL_PUBLIC void hg_thread_exit(hg_thread_ret_t ret);

/* Waits for the end of a thread. */
HG_UTIL_PUBLIC int hg_thread_join(hg_thread_t thread);

/* Asks a thread to end at its next cancellation point (pthreads(7)). No function of HG or NA is
 * safe to be canceled in. */
HG_UTIL_PUBLIC int hg_thread_cancel(hg_thread_t thread);

/* Lets others run. */
HG_UTIL_PUBLIC int hg_thread_yield(void);

static HG_UTIL_INLINE hg_thread_t hg_thread_self(void) {
    return pthread_self();
}

/* Not 0: the same thread. */
static HG_UTIL_INLINE int hg_thread_equal(hg_thread_t t1, hg_thread_t t2) {
    return pthread_equal(t1, t2);
}

/* A key under which each thread has a pointer of its own, NULL at first. */
HG_UTIL_PUBLIC int hg_thread_key_create(hg_thread_key_t* key);
HG_UTIL_PUBLIC int hg_thread_key_delete(hg_thread_key_t key);

static HG_UTIL_INLINE void* hg_thread_getspecific(hg_thread_key_t key) {
    return pthread_getspecific(key);
}

static HG_UTIL_INLINE int hg_thread_setspecific(hg_thread_key_t key, const void* value) {
    return pthread_setspecific(key, value) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/* The processors that a thread may run on. */
HG_UTIL_PUBLIC int hg_thread_getaffinity(hg_thread_t thread, hg_cpu_set_t* cpu_mask);
HG_UTIL_PUBLIC int hg_thread_setaffinity(hg_thread_t thread, const hg_cpu_set_t* cpu_mask);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_H */
