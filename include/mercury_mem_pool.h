/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of memory of one size, from blocks that are registered (with a network, say) as a whole.
 * Any thread. C99 and C++. */
#ifndef MERCURY_MEM_POOL_H
#define MERCURY_MEM_POOL_H

#include "mercury_util_config.h"

struct hg_mem_pool; /* opaque */

/* Registers `len` bytes at buf, with the flags and the argument of hg_mem_pool_create; *handle is
 * what users of the chunks get. HG_UTIL_SUCCESS, or the block is given up. */
typedef int (*hg_mem_pool_register_func_t)(const void* buf, size_t len, unsigned long flags,
                                           void** handle, void* arg);
/* The opposite, before the block goes. What it returns is not used. */
typedef int (*hg_mem_pool_deregister_func_t)(void* handle, void* arg);

#ifdef __cplusplus
extern "C" {
#endif

/* block_count blocks (0: none yet) of chunk_count chunks of chunk_size bytes; further blocks are
 * added when all chunks are in use. The functions may be NULL. They are called by whoever creates,
 * allocates and destroys, with the pool locked: they must not use it. NULL: a size or the count of
 * chunks is 0, or too large, out of memory, or a block could not be registered. */
HG_UTIL_PUBLIC struct hg_mem_pool* hg_mem_pool_create(size_t chunk_size, size_t chunk_count,
                                                      size_t block_count,
                                                      hg_mem_pool_register_func_t register_func,
                                                      unsigned long flags,
                                                      hg_mem_pool_deregister_func_t deregister_func,
                                                      void* arg);

/* All chunks go, whoever has them. NULL is allowed. */
HG_UTIL_PUBLIC void hg_mem_pool_destroy(struct hg_mem_pool* hg_mem_pool);

/* A chunk, aligned to 64 bytes; its content is anything. *mr_handle (may be NULL) gets the handle
 * of its block. NULL: size is 0 or more than a chunk has, out of memory, or as above. */
HG_UTIL_PUBLIC void* hg_mem_pool_alloc(struct hg_mem_pool* hg_mem_pool, size_t size,
                                       void** mr_handle);

/* Gives a chunk back. NULL and what is no chunk of the pool are ignored. mr_handle: as it came with
 * the chunk; not needed. */
HG_UTIL_PUBLIC void hg_mem_pool_free(struct hg_mem_pool* hg_mem_pool, void* mem_ptr,
                                     void* mr_handle);

/* Bytes from the start of the registered memory to mem_ptr, inside a chunk of the pool; 0 if it is
 * not. */
HG_UTIL_PUBLIC size_t hg_mem_pool_chunk_offset(struct hg_mem_pool* hg_mem_pool, void* mem_ptr,
                                               void* mr_handle);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_MEM_POOL_H */
