/* SPDX-License-Identifier: BSD-3-Clause */
/* Version and log level of the utilities. C99 and C++. Any thread. */
#ifndef MERCURY_UTIL_H
#define MERCURY_UTIL_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the interface that the library was built with (as HG_UTIL_VERSION_*). Each pointer
 * may be NULL. */
HG_UTIL_PUBLIC void HG_Util_version_get(unsigned int* major, unsigned int* minor,
                                        unsigned int* patch);

/* Level of the process-wide log: the same as NA_Set_log_level. */
HG_UTIL_PUBLIC void HG_Util_set_log_level(const char* level);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_UTIL_H */
