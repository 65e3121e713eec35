/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes with a header: programs include one and use what Mercury's header of that name brings.
 * Building is the test; one unit for each BRINGS. */
#if BRINGS == 1
#include "mercury_macros.h"

#define WHOLE_NUMBER uint64_t
#define PAIR(type, name) ((type)(name))

/* Types behind macros, here and at the registration; a name in two parts. */
MERCURY_GEN_PROC(brought_t, ((hg_bulk_t)(bulk))PAIR(WHOLE_NUMBER, count)((hg_size_t)(si)(ze)))
#define BROUGHT brought_t

#define REPEAT(z, n, data) BOOST_PP_COMMA_IF(n) data
static const hg_size_t ones[] = {BOOST_PP_REPEAT(3, REPEAT, 1)};

hg_id_t brought(hg_class_t* hg_class, hg_context_t* context, brought_t* b);
hg_id_t brought(hg_class_t* hg_class, hg_context_t* context, brought_t* b) {
    const hg_size_t size = ones[0] + BOOST_PP_ARRAY_SIZE((2, (a, b)));

    b->size = HG_Bulk_get_size(b->bulk);
    if (HG_Bulk_create(hg_class, 1, NULL, &size, HG_BULK_READWRITE, &b->bulk) != HG_SUCCESS ||
        HG_Bulk_bind(b->bulk, context) != HG_SUCCESS)
        return 0;
    return MERCURY_REGISTER(hg_class, "brought", BROUGHT, void, NULL);
}
#elif BRINGS == 9
/* Without Boost, whose place is only partly taken; who includes it later has it whole. */
#define HG_NO_BOOST
#include "mercury_macros.h"

#ifdef BOOST_PREPROCESSOR_HPP
#error Boost was included
#endif
#ifndef HG_HAS_BOOST
#error programs ask for HG_HAS_BOOST before they use the generators
#endif
#define WHOLE_NUMBER uint64_t
#define PAIR(type, name) ((type)(name))
#define FOUR(p)                       \
    PAIR(uint8_t, BOOST_PP_CAT(p, 0)) \
    PAIR(int16_t, BOOST_PP_CAT(p, 1)) \
    PAIR(WHOLE_NUMBER, BOOST_PP_CAT(p, 2)) PAIR(hg_bulk_t, BOOST_PP_CAT(p, 3))
#define SIXTEEN(p) FOUR(p##_0) FOUR(p##_1) FOUR(p##_2) FOUR(p##_3)
#define SIXTY_FOUR(p) SIXTEEN(p##_0) SIXTEEN(p##_1) SIXTEEN(p##_2) SIXTEEN(p##_3)

MERCURY_GEN_PROC(one_t, ((uint32_t)(only)))
/* More of them than Boost's sequences may have. */
MERCURY_GEN_PROC(many_t, SIXTY_FOUR(a) SIXTY_FOUR(b) SIXTY_FOUR(c) SIXTY_FOUR(d)
                             SIXTY_FOUR(e)((one_t)(n)(est)(ed)))
struct given {
    WHOLE_NUMBER count;
};
typedef struct given given_t;
MERCURY_GEN_STRUCT_PROC(given_t, ((WHOLE_NUMBER)(count)))

#if defined(__has_include)
#if __has_include(<boost/preprocessor.hpp>)
#include <boost/preprocessor.hpp>
#endif
#endif

hg_id_t generated(hg_class_t* hg_class, many_t* many);
hg_id_t generated(hg_class_t* hg_class, many_t* many) {
    many->a_0_00 = 1;
    many->e_3_33 = HG_BULK_NULL;
    many->nested.only = 2;
    return MERCURY_REGISTER(hg_class, "generated", many_t, given_t, NULL);
}
#elif BRINGS == 2
#include "mercury_request.h"

struct counted {
    hg_request_t* request;
    hg_atomic_int32_t left;
};

/* As the argument of a callback. */
void* left_of(struct counted* c);
void* left_of(struct counted* c) {
    return &c->left;
}

void one_less(struct counted* c);
void one_less(struct counted* c) {
    if (hg_atomic_decr32((hg_atomic_int32_t*)left_of(c)) == 0)
        hg_request_complete(c->request);
}
#elif BRINGS == 3
#include "mercury_thread_pool.h"

struct pool_user {
    struct hg_thread_work work;
    hg_thread_mutex_t mutex;
    hg_thread_cond_t cond;
    hg_thread_t thread;
    STAILQ_ENTRY(pool_user) next;
};

int post(hg_thread_pool_t* pool, struct pool_user* user);
int post(hg_thread_pool_t* pool, struct pool_user* user) {
    hg_thread_mutex_lock(&user->mutex);
    hg_thread_mutex_unlock(&user->mutex);
    return hg_thread_pool_post(pool, &user->work);
}

/* As std::unique_ptr asks of what it owns. */
size_t pool_size(void);
size_t pool_size(void) {
    return sizeof(hg_thread_pool_t);
}
#elif BRINGS == 5
#include "mercury_queue.h"

int queued(uint32_t* count);
int queued(uint32_t* count) {
    return *count != 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}
#elif BRINGS == 6
#include "mercury_log.h"

struct stamped {
    hg_time_t when;
    hg_atomic_int32_t count;
    hg_thread_mutex_t mutex;
    STAILQ_ENTRY(stamped) next;
};

int stamp(struct stamped* s);
int stamp(struct stamped* s) {
    (void)hg_atomic_incr32(&s->count);
    return hg_time_get_current(&s->when);
}

/* Outlets wherever a program has its variables. */
#ifdef __cplusplus
namespace nested {
#endif
HG_LOG_DECL_REGISTER(first);
HG_LOG_SUBSYS_DECL_REGISTER(below, first);
HG_LOG_SUBSYS_DECL_STATE_REGISTER(off, first, HG_LOG_OFF);
HG_LOG_DECL_REGISTER(second);
#ifdef __cplusplus
}
#endif
#elif BRINGS == 7 || BRINGS == 8
#if BRINGS == 7
#include "mercury.h"
#else
#include "na.h"
#endif

HG_ATTR_PACKED(struct packed {
    uint8_t kind;
    uint32_t size;
});

HG_ATTR_PRINTF(1, 2) int say(const char* format, ...);
HG_ATTR_WARN_UNUSED_RESULT HG_ATTR_ABI_HIDDEN int counted(int kind, void* unused);
int counted(int kind, void* unused HG_ATTR_UNUSED) {
    switch (kind) {
        case 0:
            (void)say("%d", kind);
            HG_ATTR_FALLTHROUGH;
        default:
            return (int)sizeof(struct packed);
    }
}
#elif BRINGS == 10
#include "mercury_time.h"

bool later(time_t than);
bool later(time_t than) {
    char stamp[HG_UTIL_STAMP_MAX];

    return strftime(stamp, sizeof stamp, "%T", localtime(&than)) != 0 && time(NULL) > than;
}
#elif BRINGS == 11
#include "mercury_thread_spin.h"

pthread_t this_one(void);
pthread_t this_one(void) {
    return pthread_self();
}
#elif BRINGS == 12
#include "mercury_thread_rwlock.h"

int joined(pthread_t thread);
int joined(pthread_t thread) {
    return pthread_join(thread, NULL);
}
#elif BRINGS == 13
#include "mercury_dl.h"

HG_DL_HANDLE module(const char* name);
HG_DL_HANDLE module(const char* name) {
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
#elif BRINGS == 14
#include "mercury_atomic_queue.h"

struct on_its_line {
    char room[HG_MEM_CACHE_LINE_SIZE];
    hg_atomic_int32_t count;
};

void* next(struct hg_atomic_queue* queue, struct on_its_line* l);
void* next(struct hg_atomic_queue* queue, struct on_its_line* l) {
    void* p = hg_mem_aligned_alloc(HG_MEM_PAGE_SIZE, HG_MEM_PAGE_SIZE);

    hg_mem_aligned_free(p);
    while (hg_atomic_queue_is_empty(queue))
        cpu_spinwait();
    hg_atomic_incr32(&l->count);
    return hg_atomic_queue_pop_mc(queue);
}
#elif BRINGS == 4
#include "mercury_proc_string.h"

hg_return_t proc_text(hg_proc_t proc, void* data);
hg_return_t proc_text(hg_proc_t proc, void* data) {
    hg_string_object_t s;

    memset(&s, 0, sizeof s);
    return hg_proc_get_op(proc) == HG_FREE ? hg_proc_hg_string_t(proc, data)
                                           : hg_proc_hg_string_object_t(proc, &s);
}
#endif
