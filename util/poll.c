/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors: events and sets of them. Linux. */
#include "mercury_poll.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mercury_event.h"

/* ---- events ---- */

int hg_event_create(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
}

int hg_event_destroy(int fd) {
    return close(fd) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

int hg_event_set(int fd) {
    const uint64_t one = 1;
    ssize_t n;

    do {
        n = write(fd, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof one || (n < 0 && errno == EAGAIN) ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

int hg_event_get(int fd, bool* notified) {
    uint64_t count;
    ssize_t n;

    if (notified == NULL)
        return HG_UTIL_FAIL;
    do {
        n = read(fd, &count, sizeof count);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN)
        return HG_UTIL_FAIL;
    *notified = n == (ssize_t)sizeof count;
    return HG_UTIL_SUCCESS;
}

/* ---- sets ---- */

/* As many as one wait takes from the system at a time. */
#define BATCH 64

struct hg_poll_set {
    int fd;
};

hg_poll_set_t* hg_poll_create(void) {
    hg_poll_set_t* set = malloc(sizeof *set);

    if (set != NULL) {
        set->fd = epoll_create1(EPOLL_CLOEXEC);
        if (set->fd < 0) {
            free(set);
            set = NULL;
        }
    }
    return set;
}

int hg_poll_destroy(hg_poll_set_t* poll_set) {
    int ret = HG_UTIL_SUCCESS;

    if (poll_set != NULL) {
        ret = close(poll_set->fd) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
        free(poll_set);
    }
    return ret;
}

int hg_poll_get_fd(const hg_poll_set_t* poll_set) {
    return poll_set == NULL ? -1 : poll_set->fd;
}

int hg_poll_add(hg_poll_set_t* poll_set, int fd, struct hg_poll_event* event) {
    struct epoll_event wanted;

    if (poll_set == NULL || event == NULL)
        return HG_UTIL_FAIL;
    memset(&wanted, 0, sizeof wanted);
    wanted.events = (event->events & HG_POLLIN ? (uint32_t)EPOLLIN : 0U) |
                    (event->events & HG_POLLOUT ? (uint32_t)EPOLLOUT : 0U);
    wanted.data.u64 = event->data.u64;
    return epoll_ctl(poll_set->fd, EPOLL_CTL_ADD, fd, &wanted) == 0 ? HG_UTIL_SUCCESS
                                                                    : HG_UTIL_FAIL;
}

int hg_poll_remove(hg_poll_set_t* poll_set, int fd) {
    return poll_set != NULL && epoll_ctl(poll_set->fd, EPOLL_CTL_DEL, fd, NULL) == 0
               ? HG_UTIL_SUCCESS
               : HG_UTIL_FAIL;
}

int hg_poll_wait(hg_poll_set_t* poll_set, unsigned int timeout, unsigned int max_events,
                 struct hg_poll_event events[], unsigned int* actual_events) {
    struct epoll_event came[BATCH];
    int n;
    int i;

    if (poll_set == NULL || events == NULL || max_events == 0)
        return HG_UTIL_FAIL;
    n = epoll_wait(poll_set->fd, came, max_events < BATCH ? (int)max_events : BATCH,
                   timeout > INT_MAX ? INT_MAX : (int)timeout);
    if (n < 0 && errno == EINTR) {
        memset(&events[0], 0, sizeof events[0]);
        events[0].events = HG_POLLINTR;
        if (actual_events != NULL)
            *actual_events = 1;
        return HG_UTIL_SUCCESS;
    }
    if (n < 0)
        return HG_UTIL_FAIL;
    for (i = 0; i < n; i++) {
        const uint32_t e = came[i].events;

        events[i].events =
            (e & EPOLLIN ? (uint32_t)HG_POLLIN : 0U) | (e & EPOLLOUT ? (uint32_t)HG_POLLOUT : 0U) |
            (e & EPOLLERR ? (uint32_t)HG_POLLERR : 0U) | (e & EPOLLHUP ? (uint32_t)HG_POLLHUP : 0U);
        events[i].data.u64 = came[i].data.u64;
    }
    if (actual_events != NULL)
        *actual_events = (unsigned int)n;
    return HG_UTIL_SUCCESS;
}
