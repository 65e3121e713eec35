/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor that polls readable while it is set. Any thread. C99 and C++. */
#ifndef MERCURY_EVENT_H
#define MERCURY_EVENT_H

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

/* Takes back one hg_event_set; *notified: whether there was one. It is set as long as others are
 * left. HG_UTIL_FAIL: not open, or NULL. */
HG_UTIL_PUBLIC int hg_event_get(int fd, bool* notified);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_EVENT_H */
