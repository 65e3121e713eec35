/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes by the names of Mercury's headers, for programs that use them. C99 and C++. */
#ifndef MERCURY_COMPILER_ATTRIBUTES_H
#define MERCURY_COMPILER_ATTRIBUTES_H

#if defined(__GNUC__)
#define HG_ATTR_ABI_IMPORT __attribute__((__visibility__("default")))
#define HG_ATTR_ABI_EXPORT __attribute__((__visibility__("default")))
#define HG_ATTR_ABI_HIDDEN __attribute__((__visibility__("hidden")))
#define HG_ATTR_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define HG_ATTR_UNUSED __attribute__((__unused__))
#define HG_ATTR_ALIGNED(x, a) x __attribute__((__aligned__(a)))
#define HG_ATTR_PACKED(x) x __attribute__((__packed__))
#define HG_ATTR_PRINTF(fmt, first) __attribute__((__format__(__printf__, fmt, first)))
#define HG_ATTR_CONSTRUCTOR __attribute__((__constructor__))
#define HG_ATTR_CONSTRUCTOR_PRIORITY(x) __attribute__((__constructor__(x)))
#define HG_ATTR_DESTRUCTOR __attribute__((__destructor__))
#if __GNUC__ >= 7 || defined(__clang__)
#define HG_ATTR_FALLTHROUGH __attribute__((__fallthrough__))
#else
#define HG_ATTR_FALLTHROUGH ((void)0)
#endif
#else
#define HG_ATTR_ABI_IMPORT
#define HG_ATTR_ABI_EXPORT
#define HG_ATTR_ABI_HIDDEN
#define HG_ATTR_WARN_UNUSED_RESULT
#define HG_ATTR_UNUSED
#define HG_ATTR_ALIGNED(x, a) x
#define HG_ATTR_PACKED(x) x
#define HG_ATTR_PRINTF(fmt, first)
#define HG_ATTR_FALLTHROUGH ((void)0)
#endif

#endif /* MERCURY_COMPILER_ATTRIBUTES_H */
