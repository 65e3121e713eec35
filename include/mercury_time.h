/* SPDX-License-Identifier: BSD-3-Clause */
/* Times and durations. The clock is monotonic: it says nothing about the time of day. Any thread.
 * C99 and C++. */
#ifndef MERCURY_TIME_H
#define MERCURY_TIME_H

#include <sched.h> /* struct timespec, in strict C99 too */
#include <time.h>

#include "mercury_util_config.h"

/* Bytes that hg_time_stamp needs at most, its end included. */
#define HG_UTIL_STAMP_MAX 128

typedef struct timespec hg_time_t; /* tv_sec seconds, tv_nsec nanoseconds */

#ifdef __cplusplus
extern "C" {
#endif

/* Now; the second one is cheaper and some milliseconds behind. HG_UTIL_FAIL: tv is NULL. */
HG_UTIL_PUBLIC int hg_time_get_current(hg_time_t* tv);
HG_UTIL_PUBLIC int hg_time_get_current_ms(hg_time_t* tv);

/* Sleeps for a duration. HG_UTIL_FAIL: it is not one, or a signal came. */
HG_UTIL_PUBLIC int hg_time_sleep(const hg_time_t rqt);

/* The time of day as "Sun, 22 Nov 2026 05:46:07 UTC", names and zone as the program's locale and
 * the environment have them; good until the next call on this thread. */
HG_UTIL_PUBLIC char* hg_time_stamp(void);

/* Durations in seconds and milliseconds (rounded down). Negative ones are not meant. */
static HG_UTIL_INLINE double hg_time_to_double(hg_time_t tv) {
    return (double)tv.tv_sec + (double)tv.tv_nsec * 1e-9;
}

static HG_UTIL_INLINE hg_time_t hg_time_from_double(double d) {
    hg_time_t tv;

    tv.tv_sec = (time_t)d;
    tv.tv_nsec = (long)((d - (double)tv.tv_sec) * 1e9);
    return tv;
}

static HG_UTIL_INLINE unsigned int hg_time_to_ms(hg_time_t tv) {
    return (unsigned int)(tv.tv_sec * 1000 + tv.tv_nsec / 1000000);
}

static HG_UTIL_INLINE hg_time_t hg_time_from_ms(unsigned int ms) {
    hg_time_t tv;

    tv.tv_sec = (time_t)(ms / 1000);
    tv.tv_nsec = (long)(ms % 1000) * 1000000L;
    return tv;
}

/* Whether in1 is before in2. */
static HG_UTIL_INLINE bool hg_time_less(hg_time_t in1, hg_time_t in2) {
    return in1.tv_sec != in2.tv_sec ? in1.tv_sec < in2.tv_sec : in1.tv_nsec < in2.tv_nsec;
}

/* Seconds from in1 to in2. */
static HG_UTIL_INLINE double hg_time_diff(hg_time_t in2, hg_time_t in1) {
    return (double)(in2.tv_sec - in1.tv_sec) + (double)(in2.tv_nsec - in1.tv_nsec) * 1e-9;
}

static HG_UTIL_INLINE hg_time_t hg_time_add(hg_time_t in1, hg_time_t in2) {
    in1.tv_sec += in2.tv_sec;
    in1.tv_nsec += in2.tv_nsec;
    if (in1.tv_nsec >= 1000000000L) {
        in1.tv_nsec -= 1000000000L;
        in1.tv_sec++;
    }
    return in1;
}

/* in1 - in2. */
static HG_UTIL_INLINE hg_time_t hg_time_subtract(hg_time_t in1, hg_time_t in2) {
    in1.tv_sec -= in2.tv_sec;
    in1.tv_nsec -= in2.tv_nsec;
    if (in1.tv_nsec < 0) {
        in1.tv_nsec += 1000000000L;
        in1.tv_sec--;
    }
    return in1;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_TIME_H */
