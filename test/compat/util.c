/* SPDX-License-Identifier: BSD-3-Clause */
/* The utilities, as programs written for Mercury use them. */
#include <string.h>
#include <time.h>

#include "expect.h"
#include "mercury_atomic.h"
#include "mercury_atomic_queue.h"
#include "mercury_dl.h"
#include "mercury_event.h"
#include "mercury_hash_string.h"
#include "mercury_hash_table.h"
#include "mercury_list.h"
#include "mercury_mem.h"
#include "mercury_mem_pool.h"
#include "mercury_poll.h"
#include "mercury_request.h"
#include "mercury_thread.h"
#include "mercury_thread_condition.h"
#include "mercury_thread_pool.h"
#include "mercury_thread_rwlock.h"
#include "mercury_thread_spin.h"
#include "mercury_time.h"
#include "mercury_util.h"

#define THREADS 4
#define ROUNDS 2000

/* ---- atomics and time ---- */

static void atomics(void) {
    hg_atomic_int32_t a = HG_ATOMIC_VAR_INIT(5);
    hg_atomic_int64_t b;

    hg_atomic_init64(&b, 1);
    EXPECT(hg_atomic_incr32(&a) == 6 && hg_atomic_decr32(&a) == 5);
    EXPECT(hg_atomic_or32(&a, 2) == 5 && hg_atomic_get32(&a) == 7);
    EXPECT(hg_atomic_and32(&a, 3) == 7 && hg_atomic_xor32(&a, 1) == 3 && hg_atomic_get32(&a) == 2);
    EXPECT(hg_atomic_cas32(&a, 2, 9) && !hg_atomic_cas32(&a, 2, 10) && hg_atomic_get32(&a) == 9);
    hg_atomic_set64(&b, INT64_C(1) << 40);
    EXPECT(hg_atomic_incr64(&b) == (INT64_C(1) << 40) + 1);
    EXPECT(hg_atomic_cas64(&b, (INT64_C(1) << 40) + 1, 3) && hg_atomic_decr64(&b) == 2);
    hg_atomic_fence();
}

static void time_stamp(void) {
    char expected[128];
    const char* stamp;
    time_t t;

    do {
        t = time(NULL);
        stamp = hg_time_stamp();
    } while (time(NULL) != t); /* all within one second */
    EXPECT(strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S %Z", localtime(&t)) != 0);
    EXPECT(strcmp(stamp, expected) == 0);
}

static void times(void) {
    hg_time_t start;
    hg_time_t end;
    hg_time_t half = hg_time_from_double(1.5);

    EXPECT(half.tv_sec == 1 && half.tv_nsec == 500000000 && hg_time_to_ms(half) == 1500);
    half = hg_time_add(half, hg_time_from_ms(600));
    EXPECT(half.tv_sec == 2 && half.tv_nsec == 100000000);
    half = hg_time_subtract(half, hg_time_from_ms(200));
    EXPECT(half.tv_sec == 1 && half.tv_nsec == 900000000);
    EXPECT(hg_time_to_double(half) > 1.89 && hg_time_to_double(half) < 1.91);
    EXPECT(hg_time_get_current(&start) == HG_UTIL_SUCCESS);
    EXPECT(hg_time_sleep(hg_time_from_ms(5)) == HG_UTIL_SUCCESS);
    EXPECT(hg_time_get_current(&end) == HG_UTIL_SUCCESS);
    EXPECT(hg_time_less(start, end) && !hg_time_less(end, start));
    EXPECT(hg_time_diff(end, start) >= 0.005);
    EXPECT(hg_time_get_current_ms(&end) == HG_UTIL_SUCCESS);
    time_stamp();
    EXPECT(hg_time_get_current(NULL) == HG_UTIL_FAIL);
}

/* ---- threads and locks ---- */

struct shared {
    hg_thread_mutex_t mutex;
    hg_thread_spin_t spin;
    hg_thread_rwlock_t rwlock;
    hg_thread_cond_t cond;
    long by_mutex;
    long by_spin;
    long by_rwlock;
    bool go;
};

static HG_THREAD_RETURN_TYPE count_up(void* arg) {
    struct shared* s = (struct shared*)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;
    int i;

    hg_thread_mutex_lock(&s->mutex);
    while (!s->go)
        EXPECT(hg_thread_cond_wait(&s->cond, &s->mutex) == HG_UTIL_SUCCESS);
    hg_thread_mutex_unlock(&s->mutex);
    for (i = 0; i < ROUNDS; i++) {
        hg_thread_mutex_lock(&s->mutex);
        s->by_mutex++;
        hg_thread_mutex_unlock(&s->mutex);
        hg_thread_spin_lock(&s->spin);
        s->by_spin++;
        hg_thread_spin_unlock(&s->spin);
        hg_thread_rwlock_wrlock(&s->rwlock);
        s->by_rwlock++;
        hg_thread_rwlock_release_wrlock(&s->rwlock);
    }
    hg_thread_exit(ret);
    return ret;
}

static void locks(void) {
    struct shared s;
    hg_thread_t threads[THREADS];
    hg_thread_cond_t still = HG_THREAD_COND_INITIALIZER;
    hg_thread_key_t key;
    hg_cpu_set_t cpus;
    hg_time_t start;
    hg_time_t end;
    int i;

    memset(&s, 0, sizeof s);
    EXPECT(hg_thread_mutex_init_fast(&s.mutex) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_spin_init(&s.spin) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_rwlock_init(&s.rwlock) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_cond_init(&s.cond) == HG_UTIL_SUCCESS);
    for (i = 0; i < THREADS; i++) {
        hg_thread_init(&threads[i]);
        EXPECT(hg_thread_create(&threads[i], count_up, &s) == HG_UTIL_SUCCESS);
    }
    hg_thread_mutex_lock(&s.mutex);
    EXPECT(hg_thread_mutex_try_lock(&s.mutex) == HG_UTIL_FAIL);
    s.go = true;
    EXPECT(hg_thread_cond_broadcast(&s.cond) == HG_UTIL_SUCCESS);
    hg_thread_mutex_unlock(&s.mutex);
    for (i = 0; i < THREADS; i++)
        EXPECT(hg_thread_join(threads[i]) == HG_UTIL_SUCCESS);
    EXPECT(s.by_mutex == THREADS * ROUNDS && s.by_spin == THREADS * ROUNDS &&
           s.by_rwlock == THREADS * ROUNDS);
    EXPECT(hg_thread_spin_try_lock(&s.spin) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_spin_try_lock(&s.spin) == HG_UTIL_FAIL);
    hg_thread_spin_unlock(&s.spin);
    hg_thread_rwlock_rdlock(&s.rwlock);
    EXPECT(hg_thread_rwlock_try_rdlock(&s.rwlock) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_rwlock_try_wrlock(&s.rwlock) == HG_UTIL_FAIL);
    hg_thread_rwlock_release_rdlock(&s.rwlock);
    hg_thread_rwlock_release_rdlock(&s.rwlock);

    /* A condition that was initialised statically waits on the same clock. */
    EXPECT(hg_time_get_current(&start) == HG_UTIL_SUCCESS);
    hg_thread_mutex_lock(&s.mutex);
    EXPECT(hg_thread_cond_timedwait(&still, &s.mutex, 20) == HG_UTIL_FAIL);
    hg_thread_mutex_unlock(&s.mutex);
    EXPECT(hg_time_get_current(&end) == HG_UTIL_SUCCESS);
    EXPECT(hg_time_diff(end, start) >= 0.019);

    EXPECT(hg_thread_equal(hg_thread_self(), hg_thread_self()) != 0);
    EXPECT(hg_thread_key_create(&key) == HG_UTIL_SUCCESS && hg_thread_getspecific(key) == NULL);
    EXPECT(hg_thread_setspecific(key, &s) == HG_UTIL_SUCCESS && hg_thread_getspecific(key) == &s);
    EXPECT(hg_thread_key_delete(key) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_getaffinity(hg_thread_self(), &cpus) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_setaffinity(hg_thread_self(), &cpus) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_yield() == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_mutex_destroy(&s.mutex) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_spin_destroy(&s.spin) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_rwlock_destroy(&s.rwlock) == HG_UTIL_SUCCESS);
    EXPECT(hg_thread_cond_destroy(&s.cond) == HG_UTIL_SUCCESS);
}

/* ---- pool ---- */

struct job {
    struct hg_thread_work work;
    hg_atomic_int32_t* done;
};

static HG_THREAD_RETURN_TYPE run_job(void* arg) {
    struct job* job = (struct job*)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;

    hg_atomic_incr32(job->done);
    free(job); /* the pool does not look at it any more */
    return ret;
}

static void pool(void) {
    hg_thread_pool_t* threads = NULL;
    hg_atomic_int32_t done = HG_ATOMIC_VAR_INIT(0);
    int i;

    EXPECT(hg_thread_pool_init(0, &threads) == HG_UTIL_FAIL);
    EXPECT(hg_thread_pool_init(THREADS, &threads) == HG_UTIL_SUCCESS);
    for (i = 0; i < ROUNDS; i++) {
        struct job* job = (struct job*)calloc(1, sizeof *job);

        EXPECT(job != NULL);
        job->work.func = run_job;
        job->work.args = job;
        job->done = &done;
        EXPECT(hg_thread_pool_post(threads, &job->work) == HG_UTIL_SUCCESS);
    }
    EXPECT(hg_thread_pool_destroy(threads) == HG_UTIL_SUCCESS);
    EXPECT(hg_atomic_get32(&done) == ROUNDS); /* what was posted has run */
}

/* ---- requests ---- */

#define REQUESTS 32

/* Completes one request per turn, as a network would. */
struct network {
    hg_thread_mutex_t mutex;
    int ready;
    int run;
    hg_request_t* requests[REQUESTS];
};

static int progress(unsigned int timeout, void* arg) {
    struct network* n = (struct network*)arg;

    (void)timeout;
    hg_thread_mutex_lock(&n->mutex);
    if (n->ready < REQUESTS)
        n->ready++;
    hg_thread_mutex_unlock(&n->mutex);
    return HG_UTIL_FAIL; /* as many programs say when nothing came in time */
}

static int trigger(unsigned int timeout, unsigned int* flag, void* arg) {
    struct network* n = (struct network*)arg;
    hg_request_t* request = NULL;

    (void)timeout;
    hg_thread_mutex_lock(&n->mutex);
    if (n->run < n->ready)
        request = n->requests[n->run++];
    hg_thread_mutex_unlock(&n->mutex);
    *flag = request != NULL;
    if (request != NULL)
        hg_request_complete(request);
    return HG_UTIL_SUCCESS;
}

struct waiter {
    hg_request_t* request;
    unsigned int flag;
};

static HG_THREAD_RETURN_TYPE wait_for(void* arg) {
    struct waiter* w = (struct waiter*)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;

    EXPECT(hg_request_wait(w->request, 30000, &w->flag) == HG_UTIL_SUCCESS);
    return ret;
}

static int never(unsigned int timeout, void* arg) {
    (void)arg;
    return hg_time_sleep(hg_time_from_ms(timeout));
}

static int nothing(unsigned int timeout, unsigned int* flag, void* arg) {
    (void)timeout;
    (void)arg;
    *flag = 0;
    return HG_UTIL_SUCCESS;
}

static void requests(void) {
    struct network n;
    hg_request_class_t* cls;
    hg_request_t* request;
    struct waiter waiters[THREADS];
    hg_thread_t threads[THREADS];
    unsigned int flag = 7;
    void* arg = NULL;
    int i;

    memset(&n, 0, sizeof n);
    EXPECT(hg_thread_mutex_init(&n.mutex) == HG_UTIL_SUCCESS);
    cls = hg_request_init(progress, trigger, &n);
    EXPECT(cls != NULL);
    for (i = 0; i < REQUESTS; i++) {
        n.requests[i] = hg_request_create(cls);
        EXPECT(n.requests[i] != NULL);
    }
    hg_request_set_data(n.requests[0], &n);
    EXPECT(hg_request_get_data(n.requests[0]) == &n);
    /* Several threads, the last first. */
    for (i = 0; i < THREADS; i++) {
        waiters[i].request = n.requests[REQUESTS - 1 - i];
        waiters[i].flag = 0;
        EXPECT(hg_thread_create(&threads[i], wait_for, &waiters[i]) == HG_UTIL_SUCCESS);
    }
    for (i = 0; i < THREADS; i++) {
        EXPECT(hg_thread_join(threads[i]) == HG_UTIL_SUCCESS);
        EXPECT(waiters[i].flag == 1);
    }
    EXPECT(hg_request_waitall(REQUESTS, n.requests, 30000, &flag) == HG_UTIL_SUCCESS && flag == 1);
    hg_request_reset(n.requests[0]);
    EXPECT(hg_request_wait(n.requests[0], 0, &flag) == HG_UTIL_SUCCESS && flag == 0);
    for (i = 0; i < REQUESTS; i++)
        hg_request_destroy(n.requests[i]);
    hg_request_finalize(cls, &arg);
    EXPECT(arg == &n);
    EXPECT(hg_thread_mutex_destroy(&n.mutex) == HG_UTIL_SUCCESS);

    cls = hg_request_init(never, nothing, NULL);
    EXPECT(cls != NULL);
    request = hg_request_create(cls);
    EXPECT(hg_request_wait(request, 30, &flag) == HG_UTIL_SUCCESS && flag == 0);
    hg_request_destroy(request);
    hg_request_finalize(cls, NULL);
}

/* ---- containers ---- */

static unsigned int hash_of(hg_hash_table_key_t key) {
    return hg_hash_string((const char*)key);
}

static int same(hg_hash_table_key_t a, hg_hash_table_key_t b) {
    return strcmp((const char*)a, (const char*)b) == 0;
}

static int freed;

static void count_free(void* p) {
    free(p);
    freed++;
}

static void hash_table(void) {
    hg_hash_table_t* table = hg_hash_table_new(hash_of, same);
    hg_hash_table_iter_t iter;
    char name[16];
    int seen = 0;
    int i;

    EXPECT(hg_hash_string("") == 5381 && hg_hash_string("a") == 177670);
    EXPECT(table != NULL);
    hg_hash_table_register_free_functions(table, count_free, count_free);
    for (i = 0; i < 1000; i++) {
        char* key = (char*)malloc(sizeof name);
        int* value = (int*)malloc(sizeof *value);

        EXPECT(key != NULL && value != NULL);
        snprintf(key, sizeof name, "key %d", i);
        *value = i;
        EXPECT(hg_hash_table_insert(table, key, value) == 1);
    }
    EXPECT(hg_hash_table_num_entries(table) == 1000);
    for (i = 0; i < 1000; i++) {
        int* value;

        snprintf(name, sizeof name, "key %d", i);
        value = (int*)hg_hash_table_lookup(table, name);
        EXPECT(value != HG_HASH_TABLE_NULL && *value == i);
    }
    EXPECT(hg_hash_table_lookup(table, (void*)"key 1000") == HG_HASH_TABLE_NULL);
    EXPECT(hg_hash_table_remove(table, (void*)"key 1000") == 0 && freed == 0);
    EXPECT(hg_hash_table_remove(table, (void*)"key 7") == 1 && freed == 2);
    hg_hash_table_iterate(table, &iter);
    while (hg_hash_table_iter_has_more(&iter)) {
        int* value = (int*)hg_hash_table_iter_next(&iter);

        EXPECT(value != HG_HASH_TABLE_NULL && *value != 7);
        seen++;
    }
    EXPECT(seen == 999 && hg_hash_table_iter_next(&iter) == HG_HASH_TABLE_NULL);
    hg_hash_table_free(table);
    EXPECT(freed == 2000);
}

/* Inserted again, and removed by whoever iterates. */
static void hash_table_changes(void) {
    static const char* const names[] = {"a", "b", "c", "d", "e"};
    static int values[5] = {0, 1, 2, 3, 4};
    hg_hash_table_t* table = hg_hash_table_new(hash_of, same);
    hg_hash_table_iter_t iter;
    int other = 0;
    int seen = 0;
    int i;

    EXPECT(table != NULL);
    for (i = 0; i < 5; i++)
        EXPECT(hg_hash_table_insert(table, (void*)names[i], &other) == 1);
    for (i = 0; i < 5; i++) /* replaces the value */
        EXPECT(hg_hash_table_insert(table, (void*)names[i], &values[i]) == 1);
    EXPECT(hg_hash_table_num_entries(table) == 5);
    EXPECT(hg_hash_table_lookup(table, (void*)names[3]) == &values[3]);
    hg_hash_table_iterate(table, &iter);
    while (hg_hash_table_iter_has_more(&iter)) {
        const int* value = (const int*)hg_hash_table_iter_next(&iter);

        EXPECT(hg_hash_table_remove(table, (void*)names[*value]) == 1);
        seen++;
    }
    EXPECT(seen == 5 && hg_hash_table_num_entries(table) == 0);
    EXPECT(hg_hash_table_insert(table, (void*)names[0], &values[0]) == 1);
    hg_hash_table_free(table); /* without functions it frees neither keys nor values */
}

struct element {
    int number;
    HG_QUEUE_ENTRY(element) in_queue;
    HG_LIST_ENTRY(element) in_list;
};

static void lists(void) {
    HG_QUEUE_HEAD(element) queue = HG_QUEUE_HEAD_INITIALIZER(queue);
    HG_LIST_HEAD(element) list = HG_LIST_HEAD_INITIALIZER(list);
    struct element e[3];
    struct element* p;
    int i;

    for (i = 0; i < 3; i++) {
        e[i].number = i;
        HG_QUEUE_PUSH_TAIL(&queue, &e[i], in_queue);
        HG_LIST_INSERT_HEAD(&list, &e[i], in_list);
    }
    i = 0;
    HG_QUEUE_FOREACH(p, &queue, in_queue) EXPECT(p->number == i++);
    HG_LIST_FOREACH(p, &list, in_list) EXPECT(p->number == --i);
    HG_QUEUE_POP_HEAD(&queue, in_queue);
    EXPECT(HG_QUEUE_FIRST(&queue) == &e[1]);
    HG_QUEUE_REMOVE(&queue, &e[2], element, in_queue);
    EXPECT(HG_QUEUE_NEXT(&e[1], in_queue) == NULL);
    HG_QUEUE_POP_HEAD(&queue, in_queue);
    EXPECT(HG_QUEUE_IS_EMPTY(&queue));
    HG_QUEUE_POP_HEAD(&queue, in_queue); /* as programs do that look at the element afterwards */
    EXPECT(HG_QUEUE_IS_EMPTY(&queue));
    HG_QUEUE_PUSH_TAIL(&queue, &e[0], in_queue);
    EXPECT(HG_QUEUE_FIRST(&queue) == &e[0]);
    for (i = 0; i < 3; i++)
        HG_LIST_REMOVE(&e[i], in_list);
    EXPECT(HG_LIST_IS_EMPTY(&list));
}

struct line {
    struct hg_atomic_queue* queue;
    hg_atomic_int32_t taken;
    hg_atomic_int64_t sum;
};

static HG_THREAD_RETURN_TYPE produce(void* arg) {
    struct line* l = (struct line*)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;
    intptr_t i;

    for (i = 1; i <= ROUNDS; i++)
        while (hg_atomic_queue_push(l->queue, (void*)i) != HG_UTIL_SUCCESS)
            hg_thread_yield();
    return ret;
}

static HG_THREAD_RETURN_TYPE consume(void* arg) {
    struct line* l = (struct line*)arg;
    hg_thread_ret_t ret = (hg_thread_ret_t)0;

    while (hg_atomic_get32(&l->taken) < THREADS * ROUNDS) {
        void* entry = hg_atomic_queue_pop_mc(l->queue);

        if (entry == NULL) {
            hg_thread_yield();
        } else {
            int64_t sum = hg_atomic_get64(&l->sum);

            while (!hg_atomic_cas64(&l->sum, sum, sum + (int64_t)(intptr_t)entry))
                sum = hg_atomic_get64(&l->sum);
            hg_atomic_incr32(&l->taken);
        }
    }
    return ret;
}

static void atomic_queue(void) {
    struct line l;
    hg_thread_t threads[2 * THREADS];
    int x;
    int i;

    EXPECT(hg_atomic_queue_alloc(0) == NULL && hg_atomic_queue_alloc(12) == NULL);
    l.queue = hg_atomic_queue_alloc(8);
    EXPECT(l.queue != NULL && hg_atomic_queue_is_empty(l.queue));
    for (i = 0; i < 7; i++)
        EXPECT(hg_atomic_queue_push(l.queue, &x) == HG_UTIL_SUCCESS);
    EXPECT(hg_atomic_queue_push(l.queue, &x) == HG_UTIL_FAIL);
    EXPECT(hg_atomic_queue_count(l.queue) == 7);
    for (i = 0; i < 7; i++)
        EXPECT((i % 2 ? hg_atomic_queue_pop_mc(l.queue) : hg_atomic_queue_pop_sc(l.queue)) == &x);
    EXPECT(hg_atomic_queue_pop_sc(l.queue) == NULL && hg_atomic_queue_pop_mc(l.queue) == NULL);

    hg_atomic_init32(&l.taken, 0);
    hg_atomic_init64(&l.sum, 0);
    for (i = 0; i < 2 * THREADS; i++)
        EXPECT(hg_thread_create(&threads[i], i % 2 ? produce : consume, &l) == HG_UTIL_SUCCESS);
    for (i = 0; i < 2 * THREADS; i++)
        EXPECT(hg_thread_join(threads[i]) == HG_UTIL_SUCCESS);
    EXPECT(hg_atomic_get64(&l.sum) == (int64_t)THREADS * ROUNDS * (ROUNDS + 1) / 2);
    hg_atomic_queue_free(l.queue);
}

/* ---- descriptors and memory ---- */

static void descriptors(void) {
    hg_poll_set_t* set = hg_poll_create();
    int fd = hg_event_create();
    struct hg_poll_event event;
    unsigned int n = 7;
    bool notified = true;

    EXPECT(set != NULL && fd >= 0 && hg_poll_get_fd(set) >= 0);
    event.events = HG_POLLIN;
    event.data.u64 = 99;
    EXPECT(hg_poll_add(set, fd, &event) == HG_UTIL_SUCCESS);
    EXPECT(hg_poll_add(set, fd, &event) == HG_UTIL_FAIL);
    EXPECT(hg_poll_wait(set, 0, 1, &event, &n) == HG_UTIL_SUCCESS && n == 0);
    EXPECT(hg_event_get(fd, &notified) == HG_UTIL_SUCCESS && !notified);
    EXPECT(hg_event_set(fd) == HG_UTIL_SUCCESS);
    EXPECT(hg_poll_wait(set, 1000, 1, &event, &n) == HG_UTIL_SUCCESS && n == 1);
    EXPECT(event.events == HG_POLLIN && event.data.u64 == 99);
    EXPECT(hg_event_set(fd) == HG_UTIL_SUCCESS); /* each is got by itself */
    EXPECT(hg_event_get(fd, &notified) == HG_UTIL_SUCCESS && notified);
    EXPECT(hg_poll_wait(set, 0, 1, &event, &n) == HG_UTIL_SUCCESS && n == 1);
    EXPECT(hg_event_get(fd, &notified) == HG_UTIL_SUCCESS && notified);
    EXPECT(hg_event_get(fd, &notified) == HG_UTIL_SUCCESS && !notified);
    EXPECT(hg_poll_wait(set, 0, 1, &event, &n) == HG_UTIL_SUCCESS && n == 0);
    EXPECT(hg_poll_remove(set, fd) == HG_UTIL_SUCCESS);
    EXPECT(hg_poll_remove(set, fd) == HG_UTIL_FAIL);
    EXPECT(hg_event_destroy(fd) == HG_UTIL_SUCCESS && hg_poll_destroy(set) == HG_UTIL_SUCCESS);
}

static void memory(void) {
    static const size_t alignments[] = {0, 1, 4, 8, 24, 64};
    size_t i;
    char name[64];
    char* p;
    char* q;

    EXPECT(hg_mem_get_page_size() > 0);
    p = (char*)hg_mem_aligned_alloc(4096, 100);
    EXPECT(p != NULL && (uintptr_t)p % 4096 == 0);
    hg_mem_aligned_free(p);
    p = (char*)hg_mem_header_alloc(24, 64, 100);
    EXPECT(p != NULL && (uintptr_t)p % 64 == 0);
    memset(p - 24, 1, 124);
    hg_mem_header_free(24, 64, p);
    for (i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        p = (char*)hg_mem_header_alloc(4, alignments[i], 32);
        EXPECT(p != NULL);
        memset(p - 4, 1, 36);
        hg_mem_header_free(4, alignments[i], p);
    }
    EXPECT(hg_mem_header_alloc(SIZE_MAX - 3, 8, 1) == NULL);
    EXPECT(hg_mem_header_alloc(16, 0, SIZE_MAX - 8) == NULL);
    p = (char*)hg_mem_aligned_alloc(2, 32);
    EXPECT(p != NULL && hg_mem_aligned_alloc(24, 48) == NULL);
    hg_mem_aligned_free(p);
    EXPECT(hg_mem_get_hugepage_size() >= 0);
    EXPECT(HG_MEM_PAGE_SIZE % HG_MEM_CACHE_LINE_SIZE == 0);
    snprintf(name, sizeof name, "/cinnabar-compat-%p", (void*)&name);
    EXPECT(hg_mem_shm_map(name, 4096, false) == NULL);
    p = (char*)hg_mem_shm_map(name, 4096, true);
    EXPECT(p != NULL && p[5] == 0);
    q = (char*)hg_mem_shm_map(name, 4096, true); /* who makes it may find it there */
    EXPECT(q != NULL && hg_mem_shm_map(name, 8192, true) == NULL);
    q[5] = 'y';
    EXPECT(p[5] == 'y' && hg_mem_shm_unmap(NULL, q, 4096) == HG_UTIL_SUCCESS);
    q = (char*)hg_mem_shm_map(name, 4096, false);
    EXPECT(q != NULL && hg_mem_shm_map(name, 8192, false) == NULL);
    p[5] = 'x';
    EXPECT(q[5] == 'x');
    EXPECT(hg_mem_shm_unmap(NULL, q, 4096) == HG_UTIL_SUCCESS);
    EXPECT(hg_mem_shm_unmap(name, p, 4096) == HG_UTIL_SUCCESS);
    EXPECT(hg_mem_shm_unmap(name, NULL, 0) == HG_UTIL_FAIL);
}

struct registry {
    int blocks;
    const char* last;
};

static int enroll(const void* buf, size_t len, unsigned long flags, void** handle, void* arg) {
    struct registry* r = (struct registry*)arg;

    EXPECT(len >= 4 * 100 && flags == 3);
    if (r->blocks == 3)
        return HG_UTIL_FAIL;
    r->blocks++;
    r->last = (const char*)buf;
    *handle = (void*)(uintptr_t)buf;
    return HG_UTIL_SUCCESS;
}

static int dismiss(void* handle, void* arg) {
    EXPECT(handle != NULL);
    ((struct registry*)arg)->blocks--;
    return HG_UTIL_SUCCESS;
}

static void empty_pool(void) {
    struct hg_mem_pool* p = hg_mem_pool_create(64, 4, 0, NULL, 0, NULL, NULL);
    void* chunk;

    EXPECT(p != NULL);
    chunk = hg_mem_pool_alloc(p, 64, NULL);
    EXPECT(chunk != NULL);
    hg_mem_pool_free(p, chunk, NULL);
    hg_mem_pool_destroy(p);
}

static void memory_pool(void) {
    struct registry r = {0, NULL};
    struct hg_mem_pool* p = hg_mem_pool_create(100, 4, 2, enroll, 3, dismiss, &r);
    char* chunks[12];
    void* handle = NULL;
    int i;

    EXPECT(p != NULL && r.blocks == 2);
    EXPECT(hg_mem_pool_alloc(p, 101, &handle) == NULL);
    for (i = 0; i < 12; i++) {
        chunks[i] = (char*)hg_mem_pool_alloc(p, 100, &handle);
        EXPECT(chunks[i] != NULL && (uintptr_t)chunks[i] % 64 == 0);
        EXPECT((char*)handle + hg_mem_pool_chunk_offset(p, chunks[i] + 5, handle) == chunks[i] + 5);
        memset(chunks[i], i, 100);
    }
    EXPECT(r.blocks == 3 && hg_mem_pool_alloc(p, 1, NULL) == NULL); /* no further block */
    for (i = 0; i < 12; i++)
        EXPECT(chunks[i][0] == i && chunks[i][99] == i);
    hg_mem_pool_free(p, chunks[5] + 1, handle); /* no chunk */
    hg_mem_pool_free(p, chunks[5], handle);
    EXPECT((char*)hg_mem_pool_alloc(p, 1, &handle) == chunks[5]);
    hg_mem_pool_destroy(p);
    EXPECT(r.blocks == 0);
    EXPECT(hg_mem_pool_create(100, 4, 4, enroll, 3, dismiss, &r) == NULL && r.blocks == 0);
    p = hg_mem_pool_create(1, 1, 1, NULL, 0, NULL, NULL);
    EXPECT(p != NULL && hg_mem_pool_alloc(p, 1, &handle) != NULL && handle == NULL);
    hg_mem_pool_destroy(p);
}

static void modules(void) {
    char path[4096];
    HG_DL_HANDLE self = hg_dl_open(NULL);

    EXPECT(self != NULL && hg_dl_sym(self, "malloc") != NULL);
    EXPECT(hg_dl_sym(self, "no such symbol") == NULL && hg_dl_error() != NULL);
    EXPECT(hg_dl_get_path(hg_dl_sym(self, "malloc"), path, sizeof path) == HG_UTIL_SUCCESS);
    EXPECT(strlen(path) > 0);
    EXPECT(hg_dl_get_path(hg_dl_sym(self, "malloc"), path, 3) == HG_UTIL_FAIL);
    EXPECT(hg_dl_close(self) == HG_UTIL_SUCCESS);
    EXPECT(hg_dl_open("/no/such/module") == NULL && hg_dl_error() != NULL);
}

int main(void) {
    unsigned int major = 0;

    HG_Util_version_get(&major, NULL, NULL);
    EXPECT(major == HG_UTIL_VERSION_MAJOR);
    HG_Util_set_log_level("error");
    atomics();
    times();
    locks();
    pool();
    requests();
    hash_table();
    hash_table_changes();
    lists();
    atomic_queue();
    descriptors();
    memory();
    memory_pool();
    empty_pool();
    modules();
    return 0;
}
