/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive lists and queues: the macros of queue(7) (LIST_*, SLIST_*, STAILQ_*, TAILQ_*), their
 * _SAFE loops where the system lacks them, and the HG_QUEUE_* names of older programs. No locks.
 * C99 and C++. */
#ifndef MERCURY_QUEUE_H
#define MERCURY_QUEUE_H

#include <stddef.h>

#include "mercury_util_config.h"
#ifdef HG_UTIL_HAS_SYSQUEUE_H
#include <sys/queue.h>
#else
#include "mercury_queue_macros.h"
#endif

/* Loops whose body may remove (and free) `var`; `next` is another variable of its type. */
#ifndef LIST_FOREACH_SAFE
#define LIST_FOREACH_SAFE(var, head, field, next) \
    for ((var) = LIST_FIRST(head); (var) && ((next) = LIST_NEXT((var), field), 1); (var) = (next))
#endif
#ifndef STAILQ_FOREACH_SAFE
#define STAILQ_FOREACH_SAFE(var, head, field, next)                                    \
    for ((var) = STAILQ_FIRST(head); (var) && ((next) = STAILQ_NEXT((var), field), 1); \
         (var) = (next))
#endif
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, next) \
    for ((var) = TAILQ_FIRST(head); (var) && ((next) = TAILQ_NEXT((var), field), 1); (var) = (next))
#endif

/* First in, first out: STAILQ_* under older names. A head is a variable of type
 * HG_QUEUE_HEAD(type), an element has a member of type HG_QUEUE_ENTRY(type). */
#define HG_QUEUE_HEAD_DECL(head_name, type) STAILQ_HEAD(head_name, type)
#define HG_QUEUE_HEAD(type) STAILQ_HEAD(, type)
#define HG_QUEUE_HEAD_INITIALIZER(head) STAILQ_HEAD_INITIALIZER(head)
/* A variable, of a type that HG_QUEUE_HEAD_DECL has named. */
#define HG_QUEUE_HEAD_INIT(head_name, variable) \
    struct head_name variable = HG_QUEUE_HEAD_INITIALIZER(variable)
#define HG_QUEUE_ENTRY(type) STAILQ_ENTRY(type)
#define HG_QUEUE_INIT(head) STAILQ_INIT(head)
#define HG_QUEUE_IS_EMPTY(head) STAILQ_EMPTY(head)
#define HG_QUEUE_FIRST(head) STAILQ_FIRST(head)
#define HG_QUEUE_NEXT(element, field) STAILQ_NEXT(element, field)
#define HG_QUEUE_PUSH_TAIL(head, element, field) STAILQ_INSERT_TAIL(head, element, field)
/* Of an empty one, too, which stays as it is. */
#define HG_QUEUE_POP_HEAD(head, field)       \
    do {                                     \
        if (!STAILQ_EMPTY(head))             \
            STAILQ_REMOVE_HEAD(head, field); \
    } while (0)
#define HG_QUEUE_FOREACH(var, head, field) STAILQ_FOREACH(var, head, field)
#define HG_QUEUE_REMOVE(head, element, type, field) STAILQ_REMOVE(head, element, type, field)

#endif /* MERCURY_QUEUE_H */
