/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for operations with callbacks: a request is completed by a callback, and whoever waits
 * for it makes progress meanwhile. Any thread; of those that wait one at a time makes progress. C99
 * and C++. */
#ifndef MERCURY_REQUEST_H
#define MERCURY_REQUEST_H

#include "mercury_atomic.h"
#include "mercury_util_config.h"

typedef struct hg_request_class hg_request_class_t; /* who makes progress, and how */
typedef struct hg_request hg_request_t;             /* one operation to wait for */

/* Advances whatever completes requests, for at most `timeout` ms (HG_Progress, say). What it
 * returns is not used: that nothing came is no error. */
typedef int (*hg_request_progress_func_t)(unsigned int timeout, void* arg);

/* Runs callbacks (HG_Trigger, say), waiting at most `timeout` ms; *flag: whether any ran. A return
 * value other than HG_UTIL_SUCCESS counts as none. */
typedef int (*hg_request_trigger_func_t)(unsigned int timeout, unsigned int* flag, void* arg);

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: a function is NULL, or out of memory. */
HG_UTIL_PUBLIC hg_request_class_t* hg_request_init(hg_request_progress_func_t progress,
                                                   hg_request_trigger_func_t trigger, void* arg);

/* After the last request. *arg (arg may be NULL) gets the argument of hg_request_init. */
HG_UTIL_PUBLIC void hg_request_finalize(hg_request_class_t* request_class, void** arg);

/* A request that is not complete. NULL: out of memory. */
HG_UTIL_PUBLIC hg_request_t* hg_request_create(hg_request_class_t* request_class);
HG_UTIL_PUBLIC void hg_request_destroy(hg_request_t* request);

/* Not complete again, for the next operation. */
HG_UTIL_PUBLIC void hg_request_reset(hg_request_t* request);

/* Complete: whoever waits for it returns. The request may be gone then. */
HG_UTIL_PUBLIC void hg_request_complete(hg_request_t* request);

/* Waits for at most `timeout` ms (0: looks once, and runs what is there). *flag (may be NULL):
 * whether the request is complete. HG_UTIL_FAIL: NULL. */
HG_UTIL_PUBLIC int hg_request_wait(hg_request_t* request, unsigned int timeout, unsigned int* flag);

/* The same for `count` requests, all of them within `timeout` ms. */
HG_UTIL_PUBLIC int hg_request_waitall(int count, hg_request_t* request[], unsigned int timeout,
                                      unsigned int* flag);

/* A pointer of the program's. */
HG_UTIL_PUBLIC void hg_request_set_data(hg_request_t* request, void* data);
HG_UTIL_PUBLIC void* hg_request_get_data(hg_request_t* request);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_REQUEST_H */
