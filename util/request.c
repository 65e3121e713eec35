/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the threads that wait makes progress, the others sleep until it comes back: it may have
 * completed their requests. */
#include "mercury_request.h"

#include <stdlib.h>

#include "mercury_atomic.h"
#include "mercury_thread_condition.h"
#include "mercury_time.h"

/* Longest turn of the thread that makes progress, in ms: another thread may complete what it waits
 * for without waking it. */
#define TURN 500

struct hg_request_class {
    hg_request_progress_func_t progress;
    hg_request_trigger_func_t trigger;
    void* arg;
    hg_thread_mutex_t mutex; /* guards progressing */
    hg_thread_cond_t wake;   /* a request is complete, or nobody makes progress */
    bool progressing;
};

struct hg_request {
    hg_request_class_t* request_class;
    void* data;
    hg_atomic_int32_t completed;
};

hg_request_class_t* hg_request_init(hg_request_progress_func_t progress,
                                    hg_request_trigger_func_t trigger, void* arg) {
    hg_request_class_t* c;

    if (progress == NULL || trigger == NULL)
        return NULL;
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    if (hg_thread_mutex_init(&c->mutex) != HG_UTIL_SUCCESS) {
        free(c);
        return NULL;
    }
    if (hg_thread_cond_init(&c->wake) != HG_UTIL_SUCCESS) {
        (void)hg_thread_mutex_destroy(&c->mutex);
        free(c);
        return NULL;
    }
    c->progress = progress;
    c->trigger = trigger;
    c->arg = arg;
    return c;
}

void hg_request_finalize(hg_request_class_t* request_class, void** arg) {
    if (request_class == NULL)
        return;
    if (arg != NULL)
        *arg = request_class->arg;
    (void)hg_thread_cond_destroy(&request_class->wake);
    (void)hg_thread_mutex_destroy(&request_class->mutex);
    free(request_class);
}

hg_request_t* hg_request_create(hg_request_class_t* request_class) {
    hg_request_t* request = request_class == NULL ? NULL : calloc(1, sizeof *request);

    if (request != NULL) {
        request->request_class = request_class;
        hg_atomic_init32(&request->completed, 0);
    }
    return request;
}

void hg_request_destroy(hg_request_t* request) {
    free(request);
}

void hg_request_reset(hg_request_t* request) {
    hg_atomic_set32(&request->completed, 0);
}

void hg_request_complete(hg_request_t* request) {
    hg_request_class_t* c = request->request_class;

    /* Under the lock, so that nobody looks, misses it, and sleeps; the request may be gone as soon
     * as it is set. */
    hg_thread_mutex_lock(&c->mutex);
    hg_atomic_set32(&request->completed, 1);
    (void)hg_thread_cond_broadcast(&c->wake);
    hg_thread_mutex_unlock(&c->mutex);
}

void hg_request_set_data(hg_request_t* request, void* data) {
    request->data = data;
}

void* hg_request_get_data(hg_request_t* request) {
    return request->data;
}

static bool complete(const hg_request_t* request) {
    return hg_atomic_get32(&request->completed) != 0;
}

static void run_callbacks(hg_request_class_t* c) {
    unsigned int flag;

    do {
        flag = 0;
    } while (c->trigger(0, &flag, c->arg) == HG_UTIL_SUCCESS && flag != 0);
}

/* Milliseconds that are left, rounded up, so that a wait does not end early. */
static unsigned int left_until(hg_time_t end) {
    hg_time_t now;
    hg_time_t left;

    if (hg_time_get_current(&now) != HG_UTIL_SUCCESS || !hg_time_less(now, end))
        return 0;
    left = hg_time_subtract(end, now);
    return hg_time_to_ms(left) + (left.tv_nsec % 1000000L != 0 ? 1U : 0U);
}

/* Makes progress for up to `turn` ms, or sleeps while another thread does. */
static void take_turn(hg_request_t* request, unsigned int turn) {
    hg_request_class_t* c = request->request_class;

    hg_thread_mutex_lock(&c->mutex);
    if (c->progressing) {
        if (!complete(request))
            (void)hg_thread_cond_timedwait(&c->wake, &c->mutex, turn);
        hg_thread_mutex_unlock(&c->mutex);
        return;
    }
    c->progressing = true;
    hg_thread_mutex_unlock(&c->mutex);
    (void)c->progress(turn, c->arg);
    hg_thread_mutex_lock(&c->mutex);
    c->progressing = false;
    (void)hg_thread_cond_broadcast(&c->wake);
    hg_thread_mutex_unlock(&c->mutex);
}

int hg_request_wait(hg_request_t* request, unsigned int timeout, unsigned int* flag) {
    hg_time_t end;
    bool done;

    if (request == NULL || hg_time_get_current(&end) != HG_UTIL_SUCCESS)
        return HG_UTIL_FAIL;
    end = hg_time_add(end, hg_time_from_ms(timeout));
    for (done = complete(request); !done; done = complete(request)) {
        unsigned int left;

        run_callbacks(request->request_class);
        if (complete(request))
            continue;
        left = left_until(end);
        if (left == 0) {
            if (timeout == 0) {
                take_turn(request, 0);
                run_callbacks(request->request_class);
                done = complete(request);
            }
            break;
        }
        take_turn(request, left < TURN ? left : TURN);
    }
    if (flag != NULL)
        *flag = done ? 1 : 0;
    return HG_UTIL_SUCCESS;
}

int hg_request_waitall(int count, hg_request_t* request[], unsigned int timeout,
                       unsigned int* flag) {
    unsigned int all = 1;
    hg_time_t end;
    int i;

    if (count < 0 || (count > 0 && request == NULL) || hg_time_get_current(&end) != HG_UTIL_SUCCESS)
        return HG_UTIL_FAIL;
    end = hg_time_add(end, hg_time_from_ms(timeout));
    for (i = 0; i < count; i++) {
        unsigned int one = 0;

        if (hg_request_wait(request[i], left_until(end), &one) != HG_UTIL_SUCCESS)
            return HG_UTIL_FAIL;
        all &= one;
    }
    if (flag != NULL)
        *flag = all;
    return HG_UTIL_SUCCESS;
}
