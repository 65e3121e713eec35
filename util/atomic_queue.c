/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of cells, each with the number of the turn that it is ready for. With ring position p: a
 * cell is free for the p-th push when its number is p, and has the p-th entry when it is p + 1; the
 * pop makes it p + size. Whoever moves tail (head) owns the cell; its number, written with release,
 * hands it on. */
#include "mercury_atomic_queue.h"

#include <stdlib.h>

#define LINE 64 /* bytes; producers and consumers do not share one */

struct cell {
    size_t turn;
    void* entry;
};

struct hg_atomic_queue {
    struct cell* cells;
    size_t mask;
    char pad0[LINE];
    size_t tail; /* next push */
    char pad1[LINE];
    size_t head; /* next pop */
    char pad2[LINE];
};

struct hg_atomic_queue* hg_atomic_queue_alloc(unsigned int count) {
    struct hg_atomic_queue* q;
    size_t i;

    if (count < 2 || (count & (count - 1)) != 0)
        return NULL;
    q = calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->cells = calloc(count, sizeof q->cells[0]);
    if (q->cells == NULL) {
        free(q);
        return NULL;
    }
    q->mask = count - 1;
    for (i = 0; i < count; i++)
        q->cells[i].turn = i;
    return q;
}

void hg_atomic_queue_free(struct hg_atomic_queue* q) {
    if (q != NULL) {
        free(q->cells);
        free(q);
    }
}

int hg_atomic_queue_push(struct hg_atomic_queue* q, void* entry) {
    size_t tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED);

    for (;;) {
        struct cell* cell = &q->cells[tail & q->mask];
        const size_t turn = __atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE);

        if (turn == tail) {
            /* One cell stays free: the capacity is count - 1. */
            if ((ptrdiff_t)(tail - __atomic_load_n(&q->head, __ATOMIC_ACQUIRE)) >=
                (ptrdiff_t)q->mask)
                return HG_UTIL_FAIL;
            if (__atomic_compare_exchange_n(&q->tail, &tail, tail + 1, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED)) {
                cell->entry = entry;
                __atomic_store_n(&cell->turn, tail + 1, __ATOMIC_RELEASE);
                return HG_UTIL_SUCCESS;
            }
        } else if ((ptrdiff_t)(turn - tail) < 0) {
            return HG_UTIL_FAIL;
        } else {
            tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED);
        }
    }
}

void* hg_atomic_queue_pop_mc(struct hg_atomic_queue* q) {
    size_t head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);

    for (;;) {
        struct cell* cell = &q->cells[head & q->mask];
        const size_t turn = __atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE);

        if (turn == head + 1) {
            if (__atomic_compare_exchange_n(&q->head, &head, head + 1, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED)) {
                void* entry = cell->entry;

                __atomic_store_n(&cell->turn, head + q->mask + 1, __ATOMIC_RELEASE);
                return entry;
            }
        } else if ((ptrdiff_t)(turn - (head + 1)) < 0) {
            return NULL;
        } else {
            head = __atomic_load_n(&q->head, __ATOMIC_RELAXED);
        }
    }
}

void* hg_atomic_queue_pop_sc(struct hg_atomic_queue* q) {
    const size_t head = q->head;
    struct cell* cell = &q->cells[head & q->mask];
    void* entry;

    if (__atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE) != head + 1)
        return NULL;
    entry = cell->entry;
    __atomic_store_n(&cell->turn, head + q->mask + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&q->head, head + 1, __ATOMIC_RELEASE);
    return entry;
}

unsigned int hg_atomic_queue_count(const struct hg_atomic_queue* q) {
    const size_t head = __atomic_load_n(&q->head, __ATOMIC_ACQUIRE);
    const size_t tail = __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE);

    return (unsigned int)(tail - head);
}

bool hg_atomic_queue_is_empty(const struct hg_atomic_queue* q) {
    return hg_atomic_queue_count(q) == 0;
}
