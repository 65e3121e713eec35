/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_time.h"

#include <string.h>
#include <time.h>

#ifdef CLOCK_MONOTONIC_COARSE
#define COARSE CLOCK_MONOTONIC_COARSE
#else
#define COARSE CLOCK_MONOTONIC
#endif

static int now(clockid_t clock, hg_time_t* tv) {
    return tv != NULL && clock_gettime(clock, tv) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

int hg_time_get_current(hg_time_t* tv) {
    return now(CLOCK_MONOTONIC, tv);
}

int hg_time_get_current_ms(hg_time_t* tv) {
    return now(COARSE, tv);
}

int hg_time_sleep(const hg_time_t rqt) {
    return nanosleep(&rqt, NULL) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

char* hg_time_stamp(void) {
    static _Thread_local char text[128];
    const time_t t = time(NULL);
    struct tm parts;

    if (localtime_r(&t, &parts) == NULL ||
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S %Z", &parts) == 0)
        text[0] = '\0';
    return text;
}
