/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor that polls readable while it is set. Any thread. C99 and C++. */
#ifndef MERCURY_EVENT_H
#define MERCURY_EVENT_H

#include "mercury_util_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A descriptor that is not set; negative: the system has no more. */
HG_UTIL_PUBLIC int hg_event_create(void);
/* HG_UTIL_FAIL: not open. */
HG_UTIL_PUBLIC int hg_event_destroy(int fd);

/* HG_UTIL_FAIL: not open. */
HG_UTIL_PUBLIC int hg_event_set(int fd);

/* Clears it; *notified: whether it was set. HG_UTIL_FAIL: not open, or NULL. */
HG_UTIL_PUBLIC int hg_event_get(int fd, bool* notified);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_EVENT_H */
