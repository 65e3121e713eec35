/* SPDX-License-Identifier: BSD-3-Clause */
/* A fixed number of threads that run work in the order in which it was posted. Any thread. C99 and
 * C++. */
#ifndef MERCURY_THREAD_POOL_H
#define MERCURY_THREAD_POOL_H

#include "mercury_queue.h"
#include "mercury_thread.h"
#include "mercury_thread_condition.h"

typedef struct hg_thread_pool hg_thread_pool_t;

/* What to run: func(args). The memory is the caller's, and to stay as it is until func is called,
 * which may post or free it. */
struct hg_thread_work {
    hg_thread_func_t func;
    void* args;
    STAILQ_ENTRY(hg_thread_work) entry; /* the pool's */
};

/* Complete for programs that ask for its size (std::unique_ptr does). Only hg_thread_pool_init
 * makes one, and what is in it changes while the mutex is held only. */
struct hg_thread_pool {
    unsigned int sleeping_worker_count;
    STAILQ_HEAD(, hg_thread_work) pending_queue;
    bool shutdown;
    hg_thread_mutex_t mutex;
    hg_thread_cond_t cond;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Starts thread_count threads. HG_UTIL_FAIL: NULL, no threads wanted, or the system has no more. */
HG_UTIL_PUBLIC int hg_thread_pool_init(unsigned int thread_count, hg_thread_pool_t** pool);

/* Runs what was posted, then ends the threads. Not from one of them. NULL: HG_UTIL_SUCCESS. */
HG_UTIL_PUBLIC int hg_thread_pool_destroy(hg_thread_pool_t* pool);

/* HG_UTIL_FAIL: NULL, no function, or the pool is being destroyed. */
HG_UTIL_PUBLIC int hg_thread_pool_post(hg_thread_pool_t* pool, struct hg_thread_work* work);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_THREAD_POOL_H */
