/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_util.h"

#include "na.h"

void HG_Util_version_get(unsigned int* major, unsigned int* minor, unsigned int* patch) {
    if (major != NULL)
        *major = HG_UTIL_VERSION_MAJOR;
    if (minor != NULL)
        *minor = HG_UTIL_VERSION_MINOR;
    if (patch != NULL)
        *patch = HG_UTIL_VERSION_PATCH;
}

void HG_Util_set_log_level(const char* level) {
    NA_Set_log_level(level);
}
