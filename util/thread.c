/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads and locks: pthreads under other names. */
#include "mercury_thread.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "mercury_thread_condition.h"
#include "mercury_thread_mutex.h"
#include "mercury_thread_rwlock.h"
#include "mercury_thread_spin.h"

static int code(int error) {
    return error == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/* ---- threads ---- */

void hg_thread_init(hg_thread_t* thread) {
    if (thread != NULL)
        memset(thread, 0, sizeof *thread);
}

int hg_thread_create(hg_thread_t* thread, hg_thread_func_t f, void* data) {
    return thread == NULL || f == NULL ? HG_UTIL_FAIL : code(pthread_create(thread, NULL, f, data));
}

void hg_thread_exit(hg_thread_ret_t ret) {
    pthread_exit(ret);
}

int hg_thread_join(hg_thread_t thread) {
    return code(pthread_join(thread, NULL));
}

int hg_thread_cancel(hg_thread_t thread) {
    return code(pthread_cancel(thread));
}

int hg_thread_yield(void) {
    return code(sched_yield());
}

int hg_thread_key_create(hg_thread_key_t* key) {
    return key == NULL ? HG_UTIL_FAIL : code(pthread_key_create(key, NULL));
}

int hg_thread_key_delete(hg_thread_key_t key) {
    return code(pthread_key_delete(key));
}

int hg_thread_getaffinity(hg_thread_t thread, hg_cpu_set_t* cpu_mask) {
    return cpu_mask == NULL ? HG_UTIL_FAIL
                            : code(pthread_getaffinity_np(thread, sizeof *cpu_mask, cpu_mask));
}

int hg_thread_setaffinity(hg_thread_t thread, const hg_cpu_set_t* cpu_mask) {
    return cpu_mask == NULL ? HG_UTIL_FAIL
                            : code(pthread_setaffinity_np(thread, sizeof *cpu_mask, cpu_mask));
}

/* ---- mutexes ---- */

static int mutex_init(hg_thread_mutex_t* mutex, int kind) {
    pthread_mutexattr_t attributes;
    int error;

    if (mutex == NULL || pthread_mutexattr_init(&attributes) != 0)
        return HG_UTIL_FAIL;
    (void)pthread_mutexattr_settype(&attributes, kind);
    error = pthread_mutex_init(mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    return code(error);
}

int hg_thread_mutex_init(hg_thread_mutex_t* mutex) {
    return mutex_init(mutex, PTHREAD_MUTEX_NORMAL);
}

int hg_thread_mutex_init_fast(hg_thread_mutex_t* mutex) {
#if defined(__GLIBC__)
    return mutex_init(mutex, PTHREAD_MUTEX_ADAPTIVE_NP);
#else
    return mutex_init(mutex, PTHREAD_MUTEX_NORMAL);
#endif
}

int hg_thread_mutex_destroy(hg_thread_mutex_t* mutex) {
    return mutex == NULL ? HG_UTIL_FAIL : code(pthread_mutex_destroy(mutex));
}

/* ---- condition variables ---- */

/* The clock of timed waits is chosen where they wait, so that HG_THREAD_COND_INITIALIZER will do;
 * where that cannot be chosen it is the time of day. */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 30)
#define WAIT_CLOCK CLOCK_MONOTONIC
#define WAIT_UNTIL(cond, mutex, until) pthread_cond_clockwait(cond, mutex, WAIT_CLOCK, until)
#else
#define WAIT_CLOCK CLOCK_REALTIME
#define WAIT_UNTIL(cond, mutex, until) pthread_cond_timedwait(cond, mutex, until)
#endif

int hg_thread_cond_init(hg_thread_cond_t* cond) {
    return cond == NULL ? HG_UTIL_FAIL : code(pthread_cond_init(cond, NULL));
}

int hg_thread_cond_destroy(hg_thread_cond_t* cond) {
    return cond == NULL ? HG_UTIL_FAIL : code(pthread_cond_destroy(cond));
}

int hg_thread_cond_timedwait(hg_thread_cond_t* cond, hg_thread_mutex_t* mutex,
                             unsigned int timeout) {
    struct timespec until;

    if (clock_gettime(WAIT_CLOCK, &until) != 0)
        return HG_UTIL_FAIL;
    until.tv_sec += (time_t)(timeout / 1000);
    until.tv_nsec += (long)(timeout % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    return code(WAIT_UNTIL(cond, mutex, &until));
}

/* ---- spin locks ---- */

int hg_thread_spin_init(hg_thread_spin_t* lock) {
    if (lock == NULL)
        return HG_UTIL_FAIL;
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
    return HG_UTIL_SUCCESS;
}

int hg_thread_spin_destroy(hg_thread_spin_t* lock) {
    return lock == NULL ? HG_UTIL_FAIL : HG_UTIL_SUCCESS;
}

void hg_thread_spin_wait_(hg_thread_spin_t* lock) {
    unsigned int looks;

    /* Reads only, so that the line stays shared; who has it may have lost its processor. */
    for (looks = 1; __atomic_load_n(lock, __ATOMIC_RELAXED) != 0; looks++) {
        if (looks % 128 == 0)
            (void)sched_yield();
#if defined(__x86_64__) || defined(__i386__)
        else
            __builtin_ia32_pause();
#endif
    }
}

/* ---- readers and writers ---- */

_Static_assert(sizeof(pthread_rwlock_t) <= sizeof(hg_thread_rwlock_t), "room for the lock");
_Static_assert(_Alignof(pthread_rwlock_t) <= _Alignof(hg_thread_rwlock_t), "and as aligned");

static pthread_rwlock_t* of(hg_thread_rwlock_t* rwlock) {
    return (pthread_rwlock_t*)rwlock;
}

int hg_thread_rwlock_init(hg_thread_rwlock_t* rwlock) {
    return rwlock == NULL ? HG_UTIL_FAIL : code(pthread_rwlock_init(of(rwlock), NULL));
}

int hg_thread_rwlock_destroy(hg_thread_rwlock_t* rwlock) {
    return rwlock == NULL ? HG_UTIL_FAIL : code(pthread_rwlock_destroy(of(rwlock)));
}

void hg_thread_rwlock_rdlock(hg_thread_rwlock_t* rwlock) {
    (void)pthread_rwlock_rdlock(of(rwlock));
}

int hg_thread_rwlock_try_rdlock(hg_thread_rwlock_t* rwlock) {
    return code(pthread_rwlock_tryrdlock(of(rwlock)));
}

void hg_thread_rwlock_release_rdlock(hg_thread_rwlock_t* rwlock) {
    (void)pthread_rwlock_unlock(of(rwlock));
}

void hg_thread_rwlock_wrlock(hg_thread_rwlock_t* rwlock) {
    (void)pthread_rwlock_wrlock(of(rwlock));
}

int hg_thread_rwlock_try_wrlock(hg_thread_rwlock_t* rwlock) {
    return code(pthread_rwlock_trywrlock(of(rwlock)));
}

void hg_thread_rwlock_release_wrlock(hg_thread_rwlock_t* rwlock) {
    (void)pthread_rwlock_unlock(of(rwlock));
}
