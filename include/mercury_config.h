/* SPDX-License-Identifier: BSD-3-Clause */
/* Version, attributes and feature switches of the HG headers. C99 and C++. */
#ifndef MERCURY_CONFIG_H
#define MERCURY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mercury_compiler_attributes.h"

/* Tells Cinnabar from Mercury at compile time. */
#define HG_CINNABAR 1

/* The level of Mercury's HG interface that these headers offer. */
#define HG_VERSION_MAJOR 2
#define HG_VERSION_MINOR 4
#define HG_VERSION_PATCH 1

/* Names of Mercury's own integer types; new code uses those of stdint.h. */
typedef int8_t hg_int8_t;
typedef uint8_t hg_uint8_t;
typedef int16_t hg_int16_t;
typedef uint16_t hg_uint16_t;
typedef int32_t hg_int32_t;
typedef uint32_t hg_uint32_t;
typedef int64_t hg_int64_t;
typedef uint64_t hg_uint64_t;
typedef uint64_t hg_ptr_t;
typedef uint8_t hg_bool_t;

#define HG_TRUE 1
#define HG_FALSE 0

#if defined(__GNUC__)
#define HG_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define HG_UNUSED __attribute__((__unused__))
#define HG_PACKED(x) x __attribute__((__packed__))
#define HG_PUBLIC __attribute__((__visibility__("default")))
#define HG_PRIVATE __attribute__((__visibility__("hidden")))
#else
#define HG_WARN_UNUSED_RESULT
#define HG_UNUSED
#define HG_PACKED(x) x
#define HG_PUBLIC
#define HG_PRIVATE
#endif
#if defined(__GNUC__) && __GNUC__ >= 7
#define HG_FALLTHROUGH __attribute__((__fallthrough__))
#else
#define HG_FALLTHROUGH
#endif
#if defined(__GNUC__)
#define HG_INLINE __inline__ /* with -std=c90, too */
#else
#define HG_INLINE inline
#endif

/* mercury_macros.h generates structures and their procs (which takes no Boost here). */
#define HG_HAS_BOOST
#define HG_HAS_CHECKSUMS
#define HG_HAS_MULTI_PROGRESS

#endif /* MERCURY_CONFIG_H */
