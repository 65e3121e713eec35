/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for descriptors. Any thread. C99 and C++. */
#ifndef MERCURY_POLL_H
#define MERCURY_POLL_H

#include "mercury_util_config.h"

typedef struct hg_poll_set hg_poll_set_t;

typedef union hg_poll_data {
    void* ptr;
    int fd;
    uint32_t u32;
    uint64_t u64;
} hg_poll_data_t;

/* What to wait for (HG_POLLIN | HG_POLLOUT), or what came; `data` is the program's. */
struct hg_poll_event {
    uint32_t events;
    hg_poll_data_t data;
};

#define HG_POLLIN (1 << 0)
#define HG_POLLOUT (1 << 1)
#define HG_POLLERR (1 << 2)  /* came only */
#define HG_POLLHUP (1 << 3)  /* came only */
#define HG_POLLINTR (1 << 4) /* came only, in the one event of a wait that a signal ended */

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: the system has no more. */
HG_UTIL_PUBLIC hg_poll_set_t* hg_poll_create(void);
/* NULL: HG_UTIL_SUCCESS. Descriptors in it stay open. */
HG_UTIL_PUBLIC int hg_poll_destroy(hg_poll_set_t* poll_set);

/* A descriptor that polls readable while the set has events; -1 for NULL. */
HG_UTIL_PUBLIC int hg_poll_get_fd(const hg_poll_set_t* poll_set);

/* HG_UTIL_FAIL: not open, in the set already (add), not in it (remove), or NULL. */
HG_UTIL_PUBLIC int hg_poll_add(hg_poll_set_t* poll_set, int fd, struct hg_poll_event* event);
HG_UTIL_PUBLIC int hg_poll_remove(hg_poll_set_t* poll_set, int fd);

/* Waits up to `timeout` ms for the first event and takes up to max_events; *actual_events (may be
 * NULL) is 0 when time is over, which is HG_UTIL_SUCCESS, too. A signal ends it with the one event
 * HG_POLLINTR, whose data are zero. HG_UTIL_FAIL: NULL, max_events 0. */
HG_UTIL_PUBLIC int hg_poll_wait(hg_poll_set_t* poll_set, unsigned int timeout,
                                unsigned int max_events, struct hg_poll_event events[],
                                unsigned int* actual_events);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_POLL_H */
