/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded queue of pointers for any number of threads at either end, without locks. C99 and C++.
 */
#ifndef MERCURY_ATOMIC_QUEUE_H
#define MERCURY_ATOMIC_QUEUE_H

#include "mercury_atomic.h"
#include "mercury_mem.h"
#include "mercury_util_config.h"

/* For loops that wait for another processor. */
#ifndef cpu_spinwait
#if defined(__x86_64__) || defined(__i386__)
#define cpu_spinwait() __builtin_ia32_pause()
#elif defined(__aarch64__) || defined(__arm__)
#define cpu_spinwait() __asm__ __volatile__("yield" ::: "memory")
#else
#define cpu_spinwait() __asm__ __volatile__("" ::: "memory")
#endif
#endif

struct hg_atomic_queue; /* opaque */

#ifdef __cplusplus
extern "C" {
#endif

/* Room for count - 1 entries; count is a power of 2, at least 2. NULL: it is not, or out of memory.
 */
HG_UTIL_PUBLIC struct hg_atomic_queue* hg_atomic_queue_alloc(unsigned int count);
/* When nobody uses it any more. NULL is allowed. */
HG_UTIL_PUBLIC void hg_atomic_queue_free(struct hg_atomic_queue* hg_atomic_queue);

/* HG_UTIL_FAIL: full. */
HG_UTIL_PUBLIC int hg_atomic_queue_push(struct hg_atomic_queue* hg_atomic_queue, void* entry);

/* The oldest entry; NULL: empty. Of many consumers, or of the only one there is. */
HG_UTIL_PUBLIC void* hg_atomic_queue_pop_mc(struct hg_atomic_queue* hg_atomic_queue);
HG_UTIL_PUBLIC void* hg_atomic_queue_pop_sc(struct hg_atomic_queue* hg_atomic_queue);

/* At this moment. */
HG_UTIL_PUBLIC bool hg_atomic_queue_is_empty(const struct hg_atomic_queue* hg_atomic_queue);
HG_UTIL_PUBLIC unsigned int hg_atomic_queue_count(const struct hg_atomic_queue* hg_atomic_queue);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_ATOMIC_QUEUE_H */
