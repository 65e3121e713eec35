/* SPDX-License-Identifier: BSD-3-Clause */
/* Version, attributes and feature switches of the NA headers. C99 and C++. */
#ifndef NA_CONFIG_H
#define NA_CONFIG_H

#include "mercury_compiler_attributes.h"

/* Tells Cinnabar from Mercury at compile time. */
#define NA_CINNABAR 1

/* The level of Mercury's NA interface that these headers offer. */
#define NA_VERSION_MAJOR 6
#define NA_VERSION_MINOR 0
#define NA_VERSION_PATCH 0

#if defined(__GNUC__)
#define NA_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define NA_UNUSED __attribute__((__unused__))
#define NA_ALIGNED(x, a) x __attribute__((__aligned__(a)))
#define NA_PRINTF(fmt, first) __attribute__((__format__(__printf__, fmt, first)))
#define NA_PACKED(x) x __attribute__((__packed__))
#define NA_PUBLIC __attribute__((__visibility__("default")))
#define NA_PRIVATE __attribute__((__visibility__("hidden")))
#else
#define NA_WARN_UNUSED_RESULT
#define NA_UNUSED
#define NA_ALIGNED(x, a) x
#define NA_PRINTF(fmt, first)
#define NA_PACKED(x) x
#define NA_PUBLIC
#define NA_PRIVATE
#endif
#if defined(__GNUC__) && __GNUC__ >= 7
#define NA_FALLTHROUGH __attribute__((__fallthrough__))
#else
#define NA_FALLTHROUGH
#endif
#if defined(__GNUC__)
#define NA_INLINE __inline__ /* with -std=c90, too */
#else
#define NA_INLINE inline
#endif
/* Mercury's transports use these two. Its plugin interface is another one: a plugin that was built
 * for it could not be loaded, so that it is refused when it is compiled or configured. */
#if defined(__GNUC__)
#define NA_PLUGIN \
    _Pragma("GCC error \"Cinnabar has another plugin interface: see docs/migration.md, Plugins\"")
#else
#define NA_PLUGIN Cinnabar_has_another_plugin_interface
#endif
#define NA_PLUGIN_VISIBILITY NA_PLUGIN

/* What these headers know how to name, as Mercury's do. Transports are modules that are found when
 * a class is opened: whether one is installed is asked at run time (NA_Get_protocol_info, hg_info).
 */
#define NA_HAS_HWLOC /* the nearest device is chosen where the library was built with hwloc */
#define NA_HAS_SM
#define NA_HAS_OFI
#define NA_HAS_UCX
#define NA_HAS_DYNAMIC_PLUGINS
#define NA_HAS_MULTI_PROGRESS

#endif /* NA_CONFIG_H */
