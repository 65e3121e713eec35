/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: aligned, with huge pages, with room for a header in front, shared by name. Any thread.
 * C99 and C++. */
#ifndef MERCURY_MEM_H
#define MERCURY_MEM_H

#include "mercury_util_config.h"

/* Usual sizes; hg_mem_get_page_size asks the system. */
#define HG_MEM_CACHE_LINE_SIZE 64
#define HG_MEM_PAGE_SIZE 4096

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a page, and of a huge page (0: the machine has none, or it cannot be known). */
HG_UTIL_PUBLIC long hg_mem_get_page_size(void);
HG_UTIL_PUBLIC long hg_mem_get_hugepage_size(void);

/* Memory at a multiple of `alignment`, a power of 2; its content is anything. NULL: it is not, or
 * out of memory. Freed with the second, which allows NULL. */
HG_UTIL_PUBLIC void* hg_mem_aligned_alloc(size_t alignment, size_t size);
HG_UTIL_PUBLIC void hg_mem_aligned_free(void* mem_ptr);

/* Zeroed memory of huge pages; size is a multiple of hg_mem_get_hugepage_size. NULL: the system has
 * none reserved. Freed with the same size; HG_UTIL_FAIL: not such memory. */
HG_UTIL_PUBLIC void* hg_mem_huge_alloc(size_t size);
HG_UTIL_PUBLIC int hg_mem_huge_free(void* mem_ptr, size_t size);

/* As hg_mem_aligned_alloc, with header_size bytes of the program's right in front of the pointer.
 * Where `alignment` is no power of 2 what is aligned is the distance from the start of the memory;
 * 0: nothing is. Freed with the same header size and alignment; NULL is allowed. */
HG_UTIL_PUBLIC void* hg_mem_header_alloc(size_t header_size, size_t alignment, size_t size);
HG_UTIL_PUBLIC void hg_mem_header_free(size_t header_size, size_t alignment, void* mem_ptr);

/* Maps the shared memory object `name` (shm_open(3)); create: makes it where there is none, for
 * this user only, zeroed. NULL: there is none, it is smaller than `size`, or out of memory. */
HG_UTIL_PUBLIC void* hg_mem_shm_map(const char* name, size_t size, bool create);

/* Unmaps it (mem_ptr may be NULL), and removes the name (name may be NULL). HG_UTIL_FAIL: no such
 * name or memory. */
HG_UTIL_PUBLIC int hg_mem_shm_unmap(const char* name, void* mem_ptr, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_MEM_H */
