/* SPDX-License-Identifier: BSD-3-Clause */
/* Version, attributes and return codes of the utility headers (mercury_time.h, mercury_thread.h,
 * mercury_atomic.h...). Source compatible with Mercury's headers of the same names; a program that
 * uses them links with libcinnabar-util, which nothing else of Cinnabar needs. C99 and C++. */
#ifndef MERCURY_UTIL_CONFIG_H
#define MERCURY_UTIL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mercury_compiler_attributes.h"

/* The level of Mercury's utility interface that these headers offer. */
#define HG_UTIL_VERSION_MAJOR 4
#define HG_UTIL_VERSION_MINOR 1
#define HG_UTIL_VERSION_PATCH 0

/* What functions that return int return, unless they say otherwise. */
#define HG_UTIL_SUCCESS (0)
#define HG_UTIL_FAIL (-1)

#if defined(__GNUC__)
#define HG_UTIL_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define HG_UTIL_UNUSED __attribute__((__unused__))
#define HG_UTIL_ALIGNED(x, a) x __attribute__((__aligned__(a)))
#define HG_UTIL_PRINTF(fmt, first) __attribute__((__format__(__printf__, fmt, first)))
#define HG_UTIL_PACKED(x) x __attribute__((__packed__))
#define HG_UTIL_PUBLIC __attribute__((__visibility__("default")))
#define HG_UTIL_PRIVATE __attribute__((__visibility__("hidden")))
#else
#define HG_UTIL_WARN_UNUSED_RESULT
#define HG_UTIL_UNUSED
#define HG_UTIL_ALIGNED(x, a) x
#define HG_UTIL_PRINTF(fmt, first)
#define HG_UTIL_PACKED(x) x
#define HG_UTIL_PUBLIC
#define HG_UTIL_PRIVATE
#endif
/* For what hg_dl_sym() is to find in a library of one's own. */
#define HG_UTIL_PLUGIN HG_ATTR_ABI_EXPORT
#if defined(__GNUC__)
#define HG_UTIL_INLINE __inline__ /* with -std=c90, too */
#else
#define HG_UTIL_INLINE inline
#endif

/* What the system has; these headers need all of it but sys/queue.h. */
#define HG_UTIL_ATOMIC_LONG_WIDTH __SIZEOF_LONG__ /* bytes */
#if defined(__GNUC__)
#define HG_UTIL_HAS_ATTR_CONSTRUCTOR
#define HG_UTIL_HAS_ATTR_CONSTRUCTOR_PRIORITY
#endif
#define HG_UTIL_HAS_CLOCK_GETTIME
#define HG_UTIL_HAS_CLOCK_MONOTONIC_COARSE
#define HG_UTIL_HAS_EVENTFD_T
#define HG_UTIL_HAS_PTHREAD_CONDATTR_SETCLOCK
#define HG_UTIL_HAS_PTHREAD_MUTEX_ADAPTIVE_NP
#define HG_UTIL_HAS_PTHREAD_SPINLOCK_T
#define HG_UTIL_HAS_STDATOMIC_H
#define HG_UTIL_HAS_SYSEPOLL_H
#define HG_UTIL_HAS_SYSEVENTFD_H
#define HG_UTIL_HAS_SYSPARAM_H
/* musl has no sys/queue.h. */
#if !defined(HG_UTIL_NO_SYSQUEUE_H) && defined(__has_include)
#if __has_include(<sys/queue.h>)
#define HG_UTIL_HAS_SYSQUEUE_H
#endif
#endif
#define HG_UTIL_HAS_SYSTIME_H
#define HG_UTIL_HAS_TIME_H

#endif /* MERCURY_UTIL_CONFIG_H */
