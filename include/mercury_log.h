/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that include it for the log of the library: HG_Util_set_log_level here, and
 * HG_Set_log_level, HG_Set_log_subsys, HG_Set_log_func and HG_Set_log_stream in mercury.h.
 * Mercury's own log (outlets for programs to define, HG_LOG_*) is not offered. C99 and C++. */
#ifndef MERCURY_LOG_H
#define MERCURY_LOG_H

#include <stdio.h>

#include "mercury_queue.h"
#include "mercury_util.h"

#endif /* MERCURY_LOG_H */
