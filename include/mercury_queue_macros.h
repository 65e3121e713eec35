/* SPDX-License-Identifier: BSD-3-Clause */
/* The macros of queue(7) for systems without sys/queue.h. mercury_queue.h includes this file there;
 * programs include mercury_queue.h. A name that a program has defined before is left alone. C99 and
 * C++. */
#ifndef MERCURY_QUEUE_MACROS_H
#define MERCURY_QUEUE_MACROS_H

#include <stddef.h>

/* Singly linked lists. */
#ifndef SLIST_HEAD
#define SLIST_HEAD(name, type)  \
    struct name {               \
        struct type* slh_first; \
    }
#define SLIST_HEAD_INITIALIZER(head) \
    { NULL }
#define SLIST_ENTRY(type)      \
    struct {                   \
        struct type* sle_next; \
    }
#define SLIST_FIRST(head) ((head)->slh_first)
#define SLIST_EMPTY(head) ((head)->slh_first == NULL)
#define SLIST_NEXT(element, field) ((element)->field.sle_next)
#define SLIST_INIT(head)          \
    do {                          \
        (head)->slh_first = NULL; \
    } while (0)
#define SLIST_INSERT_HEAD(head, element, field)        \
    do {                                               \
        (element)->field.sle_next = (head)->slh_first; \
        (head)->slh_first = (element);                 \
    } while (0)
#define SLIST_INSERT_AFTER(at, element, field)            \
    do {                                                  \
        (element)->field.sle_next = (at)->field.sle_next; \
        (at)->field.sle_next = (element);                 \
    } while (0)
#define SLIST_REMOVE_HEAD(head, field)                         \
    do {                                                       \
        (head)->slh_first = (head)->slh_first->field.sle_next; \
    } while (0)
#define SLIST_FOREACH(var, head, field) \
    for ((var) = (head)->slh_first; (var); (var) = (var)->field.sle_next)
#define SLIST_REMOVE(head, element, type, field)       \
    do {                                               \
        struct type** queue_at_ = &(head)->slh_first;  \
        while (*queue_at_ != (element))                \
            queue_at_ = &(*queue_at_)->field.sle_next; \
        *queue_at_ = (element)->field.sle_next;        \
    } while (0)
#endif

/* Doubly linked lists. An element can be removed without its head. */
#ifndef LIST_HEAD
#define LIST_HEAD(name, type)  \
    struct name {              \
        struct type* lh_first; \
    }
#define LIST_HEAD_INITIALIZER(head) \
    { NULL }
#define LIST_ENTRY(type)       \
    struct {                   \
        struct type* le_next;  \
        struct type** le_prev; \
    }
#define LIST_FIRST(head) ((head)->lh_first)
#define LIST_EMPTY(head) ((head)->lh_first == NULL)
#define LIST_NEXT(element, field) ((element)->field.le_next)
#define LIST_INIT(head)          \
    do {                         \
        (head)->lh_first = NULL; \
    } while (0)
#define LIST_INSERT_HEAD(head, element, field)                           \
    do {                                                                 \
        (element)->field.le_next = (head)->lh_first;                     \
        if ((head)->lh_first != NULL)                                    \
            (head)->lh_first->field.le_prev = &(element)->field.le_next; \
        (head)->lh_first = (element);                                    \
        (element)->field.le_prev = &(head)->lh_first;                    \
    } while (0)
#define LIST_INSERT_AFTER(at, element, field)                               \
    do {                                                                    \
        (element)->field.le_next = (at)->field.le_next;                     \
        if ((at)->field.le_next != NULL)                                    \
            (at)->field.le_next->field.le_prev = &(element)->field.le_next; \
        (at)->field.le_next = (element);                                    \
        (element)->field.le_prev = &(at)->field.le_next;                    \
    } while (0)
#define LIST_INSERT_BEFORE(at, element, field)           \
    do {                                                 \
        (element)->field.le_prev = (at)->field.le_prev;  \
        (element)->field.le_next = (at);                 \
        *(at)->field.le_prev = (element);                \
        (at)->field.le_prev = &(element)->field.le_next; \
    } while (0)
#define LIST_REMOVE(element, field)                                             \
    do {                                                                        \
        if ((element)->field.le_next != NULL)                                   \
            (element)->field.le_next->field.le_prev = (element)->field.le_prev; \
        *(element)->field.le_prev = (element)->field.le_next;                   \
    } while (0)
#define LIST_FOREACH(var, head, field) \
    for ((var) = (head)->lh_first; (var); (var) = (var)->field.le_next)
#endif

/* Singly linked queues: elements are added at both ends. */
#ifndef STAILQ_HEAD
#define STAILQ_HEAD(name, type)  \
    struct name {                \
        struct type* stqh_first; \
        struct type** stqh_last; \
    }
#define STAILQ_HEAD_INITIALIZER(head) \
    { NULL, &(head).stqh_first }
#define STAILQ_FIRST(head) ((head)->stqh_first)
#define STAILQ_EMPTY(head) ((head)->stqh_first == NULL)
#define STAILQ_NEXT(element, field) ((element)->field.stqe_next)
#define STAILQ_INIT(head)                        \
    do {                                         \
        (head)->stqh_first = NULL;               \
        (head)->stqh_last = &(head)->stqh_first; \
    } while (0)
#define STAILQ_FOREACH(var, head, field) \
    for ((var) = (head)->stqh_first; (var); (var) = (var)->field.stqe_next)
#define STAILQ_ENTRY(type)      \
    struct {                    \
        struct type* stqe_next; \
    }
#define STAILQ_INSERT_HEAD(head, element, field)             \
    do {                                                     \
        (element)->field.stqe_next = (head)->stqh_first;     \
        if ((head)->stqh_first == NULL)                      \
            (head)->stqh_last = &(element)->field.stqe_next; \
        (head)->stqh_first = (element);                      \
    } while (0)
#define STAILQ_INSERT_TAIL(head, element, field)         \
    do {                                                 \
        (element)->field.stqe_next = NULL;               \
        *(head)->stqh_last = (element);                  \
        (head)->stqh_last = &(element)->field.stqe_next; \
    } while (0)
#define STAILQ_INSERT_AFTER(head, at, element, field)        \
    do {                                                     \
        (element)->field.stqe_next = (at)->field.stqe_next;  \
        if ((at)->field.stqe_next == NULL)                   \
            (head)->stqh_last = &(element)->field.stqe_next; \
        (at)->field.stqe_next = (element);                   \
    } while (0)
#define STAILQ_REMOVE_HEAD(head, field)                           \
    do {                                                          \
        (head)->stqh_first = (head)->stqh_first->field.stqe_next; \
        if ((head)->stqh_first == NULL)                           \
            (head)->stqh_last = &(head)->stqh_first;              \
    } while (0)
#define STAILQ_REMOVE(head, element, type, field)       \
    do {                                                \
        struct type** queue_at_ = &(head)->stqh_first;  \
        while (*queue_at_ != (element))                 \
            queue_at_ = &(*queue_at_)->field.stqe_next; \
        *queue_at_ = (element)->field.stqe_next;        \
        if (*queue_at_ == NULL)                         \
            (head)->stqh_last = queue_at_;              \
    } while (0)
#define STAILQ_CONCAT(head, tail)                    \
    do {                                             \
        if ((tail)->stqh_first != NULL) {            \
            *(head)->stqh_last = (tail)->stqh_first; \
            (head)->stqh_last = (tail)->stqh_last;   \
            STAILQ_INIT(tail);                       \
        }                                            \
    } while (0)
#endif

/* Doubly linked queues. */
#ifndef TAILQ_HEAD
#define TAILQ_HEAD(name, type)  \
    struct name {               \
        struct type* tqh_first; \
        struct type** tqh_last; \
    }
#define TAILQ_HEAD_INITIALIZER(head) \
    { NULL, &(head).tqh_first }
#define TAILQ_FIRST(head) ((head)->tqh_first)
#define TAILQ_EMPTY(head) ((head)->tqh_first == NULL)
#define TAILQ_NEXT(element, field) ((element)->field.tqe_next)
#define TAILQ_INIT(head)                       \
    do {                                       \
        (head)->tqh_first = NULL;              \
        (head)->tqh_last = &(head)->tqh_first; \
    } while (0)
#define TAILQ_FOREACH(var, head, field) \
    for ((var) = (head)->tqh_first; (var); (var) = (var)->field.tqe_next)
#define TAILQ_ENTRY(type)       \
    struct {                    \
        struct type* tqe_next;  \
        struct type** tqe_prev; \
    }
#define TAILQ_INSERT_HEAD(head, element, field)                             \
    do {                                                                    \
        (element)->field.tqe_next = (head)->tqh_first;                      \
        if ((head)->tqh_first != NULL)                                      \
            (head)->tqh_first->field.tqe_prev = &(element)->field.tqe_next; \
        else                                                                \
            (head)->tqh_last = &(element)->field.tqe_next;                  \
        (head)->tqh_first = (element);                                      \
        (element)->field.tqe_prev = &(head)->tqh_first;                     \
    } while (0)
#define TAILQ_INSERT_TAIL(head, element, field)        \
    do {                                               \
        (element)->field.tqe_next = NULL;              \
        (element)->field.tqe_prev = (head)->tqh_last;  \
        *(head)->tqh_last = (element);                 \
        (head)->tqh_last = &(element)->field.tqe_next; \
    } while (0)
#define TAILQ_INSERT_AFTER(head, at, element, field)                           \
    do {                                                                       \
        (element)->field.tqe_next = (at)->field.tqe_next;                      \
        if ((at)->field.tqe_next != NULL)                                      \
            (at)->field.tqe_next->field.tqe_prev = &(element)->field.tqe_next; \
        else                                                                   \
            (head)->tqh_last = &(element)->field.tqe_next;                     \
        (at)->field.tqe_next = (element);                                      \
        (element)->field.tqe_prev = &(at)->field.tqe_next;                     \
    } while (0)
#define TAILQ_INSERT_BEFORE(at, element, field)            \
    do {                                                   \
        (element)->field.tqe_prev = (at)->field.tqe_prev;  \
        (element)->field.tqe_next = (at);                  \
        *(at)->field.tqe_prev = (element);                 \
        (at)->field.tqe_prev = &(element)->field.tqe_next; \
    } while (0)
#define TAILQ_REMOVE(head, element, field)                                         \
    do {                                                                           \
        if ((element)->field.tqe_next != NULL)                                     \
            (element)->field.tqe_next->field.tqe_prev = (element)->field.tqe_prev; \
        else                                                                       \
            (head)->tqh_last = (element)->field.tqe_prev;                          \
        *(element)->field.tqe_prev = (element)->field.tqe_next;                    \
    } while (0)
#define TAILQ_LAST(head, name) (*(((struct name*)((head)->tqh_last))->tqh_last))
#define TAILQ_PREV(element, name, field) (*(((struct name*)((element)->field.tqe_prev))->tqh_last))
#define TAILQ_CONCAT(head, tail, field)                           \
    do {                                                          \
        if ((tail)->tqh_first != NULL) {                          \
            *(head)->tqh_last = (tail)->tqh_first;                \
            (tail)->tqh_first->field.tqe_prev = (head)->tqh_last; \
            (head)->tqh_last = (tail)->tqh_last;                  \
            TAILQ_INIT(tail);                                     \
        }                                                         \
    } while (0)
#endif

#endif /* MERCURY_QUEUE_MACROS_H */
