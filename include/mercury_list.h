/* SPDX-License-Identifier: BSD-3-Clause */
/* Doubly linked intrusive lists: LIST_* of queue(7) under the names of older programs. No locks.
 * C99 and C++. */
#ifndef MERCURY_LIST_H
#define MERCURY_LIST_H

#include "mercury_queue.h"

/* A head is a variable of type HG_LIST_HEAD(type), an element has a member of type
 * HG_LIST_ENTRY(type). */
#define HG_LIST_HEAD_DECL(head_name, type) LIST_HEAD(head_name, type)
#define HG_LIST_HEAD(type) LIST_HEAD(, type)
#define HG_LIST_HEAD_INITIALIZER(head) LIST_HEAD_INITIALIZER(head)
/* A variable, of a type that HG_LIST_HEAD_DECL has named. */
#define HG_LIST_HEAD_INIT(head_name, variable) \
    struct head_name variable = HG_LIST_HEAD_INITIALIZER(variable)
#define HG_LIST_ENTRY(type) LIST_ENTRY(type)
#define HG_LIST_INIT(head) LIST_INIT(head)
#define HG_LIST_IS_EMPTY(head) LIST_EMPTY(head)
#define HG_LIST_FIRST(head) LIST_FIRST(head)
#define HG_LIST_NEXT(element, field) LIST_NEXT(element, field)
#define HG_LIST_INSERT_HEAD(head, element, field) LIST_INSERT_HEAD(head, element, field)
#define HG_LIST_INSERT_AFTER(at, element, field) LIST_INSERT_AFTER(at, element, field)
#define HG_LIST_INSERT_BEFORE(at, element, field) LIST_INSERT_BEFORE(at, element, field)
#define HG_LIST_REMOVE(element, field) LIST_REMOVE(element, field)
#define HG_LIST_FOREACH(var, head, field) LIST_FOREACH(var, head, field)

#endif /* MERCURY_LIST_H */
