/* SPDX-License-Identifier: BSD-3-Clause */
/* Free chunks of a block hang together by their first bytes. */
#include "mercury_mem_pool.h"

#include <stdlib.h>

#include "mercury_mem.h"
#include "mercury_queue.h"
#include "mercury_thread_mutex.h"

#define ALIGNMENT 64U

struct chunk {
    struct chunk* next;
};

struct block {
    char* memory;
    void* handle;
    struct chunk* free;
    STAILQ_ENTRY(block) entry;
};

struct hg_mem_pool {
    hg_thread_mutex_t mutex; /* guards the blocks */
    STAILQ_HEAD(, block) blocks;
    size_t chunk_size; /* as asked for */
    size_t stride;     /* from chunk to chunk */
    size_t chunk_count;
    hg_mem_pool_register_func_t register_func;
    hg_mem_pool_deregister_func_t deregister_func;
    unsigned long flags;
    void* arg;
};

static struct block* add_block(struct hg_mem_pool* pool) {
    const size_t size = pool->stride * pool->chunk_count;
    struct block* block = calloc(1, sizeof *block);
    size_t i;

    if (block == NULL)
        return NULL;
    block->memory = hg_mem_aligned_alloc((size_t)hg_mem_get_page_size(), size);
    if (block->memory == NULL) {
        free(block);
        return NULL;
    }
    if (pool->register_func != NULL &&
        pool->register_func(block->memory, size, pool->flags, &block->handle, pool->arg) !=
            HG_UTIL_SUCCESS) {
        hg_mem_aligned_free(block->memory);
        free(block);
        return NULL;
    }
    for (i = pool->chunk_count; i-- > 0;) { /* the first in memory is used first */
        struct chunk* chunk = (struct chunk*)(void*)(block->memory + i * pool->stride);

        chunk->next = block->free;
        block->free = chunk;
    }
    STAILQ_INSERT_TAIL(&pool->blocks, block, entry);
    return block;
}

/* The block that has an address. */
static struct block* block_of(const struct hg_mem_pool* pool, const void* address) {
    const uintptr_t at = (uintptr_t)address;
    struct block* block;

    STAILQ_FOREACH(block, &pool->blocks, entry) {
        const uintptr_t start = (uintptr_t)block->memory;

        if (at >= start && at - start < pool->stride * pool->chunk_count)
            break;
    }
    return block;
}

struct hg_mem_pool* hg_mem_pool_create(size_t chunk_size, size_t chunk_count, size_t block_count,
                                       hg_mem_pool_register_func_t register_func,
                                       unsigned long flags,
                                       hg_mem_pool_deregister_func_t deregister_func, void* arg) {
    struct hg_mem_pool* pool;

    if (chunk_size == 0 || chunk_count == 0 ||
        chunk_size > SIZE_MAX - ALIGNMENT || chunk_count > SIZE_MAX / (chunk_size + ALIGNMENT))
        return NULL;
    pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    if (hg_thread_mutex_init(&pool->mutex) != HG_UTIL_SUCCESS) {
        free(pool);
        return NULL;
    }
    STAILQ_INIT(&pool->blocks);
    pool->chunk_size = chunk_size;
    pool->stride = (chunk_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    pool->chunk_count = chunk_count;
    pool->register_func = register_func;
    pool->deregister_func = deregister_func;
    pool->flags = flags;
    pool->arg = arg;
    for (; block_count != 0; block_count--) {
        if (add_block(pool) == NULL) {
            hg_mem_pool_destroy(pool);
            return NULL;
        }
    }
    return pool;
}

void hg_mem_pool_destroy(struct hg_mem_pool* pool) {
    struct block* block;

    if (pool == NULL)
        return;
    while ((block = STAILQ_FIRST(&pool->blocks)) != NULL) {
        STAILQ_REMOVE_HEAD(&pool->blocks, entry);
        if (pool->deregister_func != NULL)
            (void)pool->deregister_func(block->handle, pool->arg);
        hg_mem_aligned_free(block->memory);
        free(block);
    }
    (void)hg_thread_mutex_destroy(&pool->mutex);
    free(pool);
}

void* hg_mem_pool_alloc(struct hg_mem_pool* pool, size_t size, void** mr_handle) {
    struct chunk* chunk = NULL;
    struct block* block;

    if (pool == NULL || size == 0 || size > pool->chunk_size)
        return NULL;
    hg_thread_mutex_lock(&pool->mutex);
    STAILQ_FOREACH(block, &pool->blocks, entry) {
        if (block->free != NULL)
            break;
    }
    if (block == NULL)
        block = add_block(pool);
    if (block != NULL) {
        chunk = block->free;
        block->free = chunk->next;
        if (mr_handle != NULL)
            *mr_handle = block->handle;
    }
    hg_thread_mutex_unlock(&pool->mutex);
    return chunk;
}

void hg_mem_pool_free(struct hg_mem_pool* pool, void* mem_ptr, void* mr_handle) {
    struct block* block;

    (void)mr_handle;
    if (pool == NULL || mem_ptr == NULL)
        return;
    hg_thread_mutex_lock(&pool->mutex);
    block = block_of(pool, mem_ptr);
    if (block != NULL && ((uintptr_t)mem_ptr - (uintptr_t)block->memory) % pool->stride == 0) {
        struct chunk* chunk = mem_ptr;

        chunk->next = block->free;
        block->free = chunk;
    }
    hg_thread_mutex_unlock(&pool->mutex);
}

size_t hg_mem_pool_chunk_offset(struct hg_mem_pool* pool, void* mem_ptr, void* mr_handle) {
    size_t offset = 0;
    const struct block* block;

    (void)mr_handle;
    if (pool == NULL)
        return 0;
    hg_thread_mutex_lock(&pool->mutex);
    block = block_of(pool, mem_ptr);
    if (block != NULL)
        offset = (size_t)((uintptr_t)mem_ptr - (uintptr_t)block->memory);
    hg_thread_mutex_unlock(&pool->mutex);
    return offset;
}
