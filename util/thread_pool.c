/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_thread_pool.h"

#include <stdlib.h>

struct threads {
    struct hg_thread_pool pool; /* first: what programs hold */
    unsigned int count;
    hg_thread_t threads[];
};

static HG_THREAD_RETURN_TYPE worker(void* arg) {
    hg_thread_pool_t* pool = arg;

    hg_thread_mutex_lock(&pool->mutex);
    for (;;) {
        struct hg_thread_work* work = STAILQ_FIRST(&pool->pending_queue);

        if (work != NULL) {
            const hg_thread_func_t func = work->func;
            void* args = work->args;

            STAILQ_REMOVE_HEAD(&pool->pending_queue, entry);
            hg_thread_mutex_unlock(&pool->mutex);
            (void)func(args); /* `work` may be gone or posted again */
            hg_thread_mutex_lock(&pool->mutex);
        } else if (pool->shutdown) {
            break;
        } else {
            pool->sleeping_worker_count++;
            (void)hg_thread_cond_wait(&pool->cond, &pool->mutex);
            pool->sleeping_worker_count--;
        }
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return NULL;
}

int hg_thread_pool_init(unsigned int thread_count, hg_thread_pool_t** pool_p) {
    struct threads* all;
    hg_thread_pool_t* pool;

    if (thread_count == 0 || pool_p == NULL)
        return HG_UTIL_FAIL;
    all = calloc(1, sizeof *all + thread_count * sizeof all->threads[0]);
    if (all == NULL)
        return HG_UTIL_FAIL;
    pool = &all->pool;
    if (hg_thread_mutex_init(&pool->mutex) != HG_UTIL_SUCCESS) {
        free(all);
        return HG_UTIL_FAIL;
    }
    if (hg_thread_cond_init(&pool->cond) != HG_UTIL_SUCCESS) {
        (void)hg_thread_mutex_destroy(&pool->mutex);
        free(all);
        return HG_UTIL_FAIL;
    }
    STAILQ_INIT(&pool->pending_queue);
    for (; all->count < thread_count; all->count++) {
        if (hg_thread_create(&all->threads[all->count], worker, pool) != HG_UTIL_SUCCESS) {
            (void)hg_thread_pool_destroy(pool);
            return HG_UTIL_FAIL;
        }
    }
    *pool_p = pool;
    return HG_UTIL_SUCCESS;
}

int hg_thread_pool_destroy(hg_thread_pool_t* pool) {
    struct threads* all = (struct threads*)pool;
    unsigned int i;

    if (pool == NULL)
        return HG_UTIL_SUCCESS;
    hg_thread_mutex_lock(&pool->mutex);
    pool->shutdown = true;
    (void)hg_thread_cond_broadcast(&pool->cond);
    hg_thread_mutex_unlock(&pool->mutex);
    for (i = 0; i < all->count; i++)
        (void)hg_thread_join(all->threads[i]);
    (void)hg_thread_cond_destroy(&pool->cond);
    (void)hg_thread_mutex_destroy(&pool->mutex);
    free(all);
    return HG_UTIL_SUCCESS;
}

int hg_thread_pool_post(hg_thread_pool_t* pool, struct hg_thread_work* work) {
    int ret = HG_UTIL_FAIL;

    if (pool == NULL || work == NULL || work->func == NULL)
        return HG_UTIL_FAIL;
    hg_thread_mutex_lock(&pool->mutex);
    if (!pool->shutdown) {
        STAILQ_INSERT_TAIL(&pool->pending_queue, work, entry);
        (void)hg_thread_cond_signal(&pool->cond);
        ret = HG_UTIL_SUCCESS;
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return ret;
}
