/* SPDX-License-Identifier: BSD-3-Clause */
/* Our own macros of queue(7), which systems without sys/queue.h get. */
#define HG_UTIL_NO_SYSQUEUE_H
#include <mercury_list.h>
#include <mercury_queue.h>

#include "expect.h"

#ifdef HG_UTIL_HAS_SYSQUEUE_H
#error "the macros of the system are used"
#endif

struct item {
    int n;
    SLIST_ENTRY(item) s;
    LIST_ENTRY(item) l;
    STAILQ_ENTRY(item) q;
    TAILQ_ENTRY(item) t;
};
TAILQ_HEAD(tail_head, item);
STAILQ_HEAD(queue_head, item);

static struct item items[4];

/* The numbers of a list as one number: 123. */
#define SUM(kind, head, field)           \
    do {                                 \
        sum = 0;                         \
        kind##_FOREACH(p, head, field) { \
            sum = sum * 10 + p->n;       \
        }                                \
    } while (0)

static void singly_linked(void) {
    SLIST_HEAD(, item) head = SLIST_HEAD_INITIALIZER(head);
    struct item* p;
    int sum;

    EXPECT(SLIST_EMPTY(&head));
    SLIST_INSERT_HEAD(&head, &items[2], s);
    SLIST_INSERT_HEAD(&head, &items[0], s);
    SLIST_INSERT_AFTER(&items[0], &items[1], s);
    SUM(SLIST, &head, s);
    EXPECT(sum == 123 && SLIST_NEXT(SLIST_FIRST(&head), s) == &items[1]);
    SLIST_REMOVE(&head, &items[1], item, s);
    SLIST_REMOVE_HEAD(&head, s);
    SUM(SLIST, &head, s);
    EXPECT(sum == 3);
    SLIST_INIT(&head);
    EXPECT(SLIST_EMPTY(&head));
}

static void doubly_linked(void) {
    LIST_HEAD(, item) head = LIST_HEAD_INITIALIZER(head);
    struct item* p;
    struct item* next;
    int sum;

    LIST_INSERT_HEAD(&head, &items[1], l);
    LIST_INSERT_BEFORE(&items[1], &items[0], l);
    LIST_INSERT_AFTER(&items[1], &items[3], l);
    LIST_INSERT_AFTER(&items[1], &items[2], l);
    SUM(LIST, &head, l);
    EXPECT(sum == 1234);
    LIST_REMOVE(&items[2], l);
    LIST_REMOVE(&items[0], l);
    LIST_INSERT_HEAD(&head, &items[2], l);
    SUM(LIST, &head, l);
    EXPECT(sum == 324 && LIST_NEXT(LIST_FIRST(&head), l) == &items[1]);
    LIST_FOREACH_SAFE(p, &head, l, next) {
        LIST_REMOVE(p, l);
    }
    EXPECT(LIST_EMPTY(&head));
}

static void singly_linked_queues(void) {
    struct queue_head head = STAILQ_HEAD_INITIALIZER(head);
    struct queue_head more;
    struct item* p;
    int sum;

    STAILQ_INIT(&more);
    STAILQ_INSERT_TAIL(&head, &items[1], q);
    STAILQ_INSERT_HEAD(&head, &items[0], q);
    STAILQ_INSERT_AFTER(&head, &items[1], &items[2], q);
    STAILQ_INSERT_TAIL(&more, &items[3], q);
    STAILQ_CONCAT(&head, &more);
    SUM(STAILQ, &head, q);
    EXPECT(sum == 1234 && STAILQ_EMPTY(&more));
    STAILQ_REMOVE(&head, &items[3], item, q);
    STAILQ_REMOVE(&head, &items[1], item, q);
    STAILQ_INSERT_TAIL(&head, &items[3], q);
    STAILQ_REMOVE_HEAD(&head, q);
    SUM(STAILQ, &head, q);
    EXPECT(sum == 34 && STAILQ_NEXT(STAILQ_FIRST(&head), q) == &items[3]);
    STAILQ_REMOVE_HEAD(&head, q);
    STAILQ_REMOVE_HEAD(&head, q);
    STAILQ_INSERT_TAIL(&head, &items[0], q);
    SUM(STAILQ, &head, q);
    EXPECT(sum == 1);
}

static void doubly_linked_queues(void) {
    struct tail_head head = TAILQ_HEAD_INITIALIZER(head);
    struct tail_head more;
    struct item* p;
    int sum;

    TAILQ_INIT(&more);
    TAILQ_INSERT_HEAD(&head, &items[1], t);
    TAILQ_INSERT_HEAD(&head, &items[0], t);
    TAILQ_INSERT_AFTER(&head, &items[1], &items[2], t);
    TAILQ_INSERT_TAIL(&more, &items[3], t);
    TAILQ_CONCAT(&head, &more, t);
    SUM(TAILQ, &head, t);
    EXPECT(sum == 1234 && TAILQ_EMPTY(&more));
    EXPECT(TAILQ_LAST(&head, tail_head) == &items[3]);
    EXPECT(TAILQ_PREV(&items[3], tail_head, t) == &items[2]);
    EXPECT(TAILQ_PREV(&items[0], tail_head, t) == NULL);
    TAILQ_REMOVE(&head, &items[3], t);
    TAILQ_REMOVE(&head, &items[0], t);
    TAILQ_INSERT_BEFORE(&items[2], &items[3], t);
    SUM(TAILQ, &head, t);
    EXPECT(sum == 243 && TAILQ_LAST(&head, tail_head) == &items[2]);
    EXPECT(TAILQ_NEXT(TAILQ_FIRST(&head), t) == &items[3]);
}

int main(void) {
    int i;

    for (i = 0; i < 4; i++) {
        items[i].n = i + 1;
    }
    singly_linked();
    doubly_linked();
    singly_linked_queues();
    doubly_linked_queues();
    return 0;
}
