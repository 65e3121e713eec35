/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_thread_pool.h"

#include <stdlib.h>

struct hg_thread_pool {
    hg_thread_mutex_t mutex; /* guards the next three */
    hg_thread_cond_t wake;
    STAILQ_HEAD(, hg_thread_work) queue;
    bool closing;
    unsigned int count;
    hg_thread_t threads[];
};

static HG_THREAD_RETURN_TYPE worker(void* arg) {
    hg_thread_pool_t* pool = arg;

    hg_thread_mutex_lock(&pool->mutex);
    for (;;) {
        struct hg_thread_work* work = STAILQ_FIRST(&pool->queue);

        if (work != NULL) {
            const hg_thread_func_t func = work->func;
            void* args = work->args;

            STAILQ_REMOVE_HEAD(&pool->queue, entry);
            hg_thread_mutex_unlock(&pool->mutex);
            (void)func(args); /* `work` may be gone or posted again */
            hg_thread_mutex_lock(&pool->mutex);
        } else if (pool->closing) {
            break;
        } else {
            (void)hg_thread_cond_wait(&pool->wake, &pool->mutex);
        }
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return NULL;
}

int hg_thread_pool_init(unsigned int thread_count, hg_thread_pool_t** pool_p) {
    hg_thread_pool_t* pool;

    if (thread_count == 0 || pool_p == NULL)
        return HG_UTIL_FAIL;
    pool = calloc(1, sizeof *pool + thread_count * sizeof pool->threads[0]);
    if (pool == NULL)
        return HG_UTIL_FAIL;
    if (hg_thread_mutex_init(&pool->mutex) != HG_UTIL_SUCCESS) {
        free(pool);
        return HG_UTIL_FAIL;
    }
    if (hg_thread_cond_init(&pool->wake) != HG_UTIL_SUCCESS) {
        (void)hg_thread_mutex_destroy(&pool->mutex);
        free(pool);
        return HG_UTIL_FAIL;
    }
    STAILQ_INIT(&pool->queue);
    for (; pool->count < thread_count; pool->count++) {
        if (hg_thread_create(&pool->threads[pool->count], worker, pool) != HG_UTIL_SUCCESS) {
            (void)hg_thread_pool_destroy(pool);
            return HG_UTIL_FAIL;
        }
    }
    *pool_p = pool;
    return HG_UTIL_SUCCESS;
}

int hg_thread_pool_destroy(hg_thread_pool_t* pool) {
    unsigned int i;

    if (pool == NULL)
        return HG_UTIL_SUCCESS;
    hg_thread_mutex_lock(&pool->mutex);
    pool->closing = true;
    (void)hg_thread_cond_broadcast(&pool->wake);
    hg_thread_mutex_unlock(&pool->mutex);
    for (i = 0; i < pool->count; i++)
        (void)hg_thread_join(pool->threads[i]);
    (void)hg_thread_cond_destroy(&pool->wake);
    (void)hg_thread_mutex_destroy(&pool->mutex);
    free(pool);
    return HG_UTIL_SUCCESS;
}

int hg_thread_pool_post(hg_thread_pool_t* pool, struct hg_thread_work* work) {
    int ret = HG_UTIL_FAIL;

    if (pool == NULL || work == NULL || work->func == NULL)
        return HG_UTIL_FAIL;
    hg_thread_mutex_lock(&pool->mutex);
    if (!pool->closing) {
        STAILQ_INSERT_TAIL(&pool->queue, work, entry);
        (void)hg_thread_cond_signal(&pool->wake);
        ret = HG_UTIL_SUCCESS;
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return ret;
}
