/* SPDX-License-Identifier: BSD-3-Clause */
/* The log for programs: outlets of their own, which obey the level, the list of outlets, the
 * function and the streams that are set for the library (HG_Set_log_level, HG_Set_log_subsys,
 * HG_Set_log_func, HG_Set_log_stream, and HG_LOG_LEVEL, HG_LOG_SUBSYS in the environment).
 *
 *     HG_LOG_SUBSYS_DECL_REGISTER(service, HG_LOG_OUTLET_ROOT_NAME);   in one file
 *     extern HG_LOG_OUTLET_DECL(service);                              in others
 *     HG_LOG_WRITE(service, HG_LOG_LEVEL_ERROR, "no space left on %s", name);
 *
 * Mercury's logs in memory (mercury_dlog.h) are not offered. Any thread. C99 and C++. */
#ifndef MERCURY_LOG_H
#define MERCURY_LOG_H

#include <stdio.h>

#include "mercury_atomic.h"
#include "mercury_queue.h"
#include "mercury_thread_mutex.h"
#include "mercury_time.h"
#include "mercury_util.h"
#include "mercury_util_config.h"

/* From silent to talkative; a level includes those before it. */
enum hg_log_level {
    HG_LOG_LEVEL_NONE,
    HG_LOG_LEVEL_FATAL,
    HG_LOG_LEVEL_ERROR,
    HG_LOG_LEVEL_WARNING,
    HG_LOG_LEVEL_MIN_DEBUG,
    HG_LOG_LEVEL_INFO,
    HG_LOG_LEVEL_DEBUG,
    HG_LOG_LEVEL_MAX
};

/* Whether an outlet writes: as its parent, the list of outlets and the level say; never; as the
 * level says. */
enum hg_log_state { HG_LOG_PASS, HG_LOG_OFF, HG_LOG_ON };

/* An outlet; lives as long as the program. */
struct hg_log_outlet {
    const char* name;
    enum hg_log_state state;
    enum hg_log_level level;      /* at most; HG_LOG_LEVEL_NONE: the library's */
    struct hg_log_outlet* parent; /* NULL: none */
};

#define HG_UTIL_CAT(x, y) x##y
#define HG_UTIL_STRINGIFY(x) #x

/* The variable of an outlet, and its declaration. */
#define HG_LOG_OUTLET(name) HG_UTIL_CAT(name, _log_outlet_g)
#define HG_LOG_OUTLET_DECL(name) struct hg_log_outlet HG_LOG_OUTLET(name)

#define HG_LOG_OUTLET_ROOT_NAME hg_all
#define HG_LOG_STR_INITIALIZER(name) HG_UTIL_STRINGIFY(name)

/* parent: NULL or the address of an outlet; debug_log: not used. */
#define HG_LOG_OUTLET_INITIALIZER(name, state, parent, debug_log) \
    { HG_UTIL_STRINGIFY(name), state, HG_LOG_LEVEL_NONE, parent }
#define HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name) \
    HG_LOG_OUTLET_INITIALIZER(name, HG_LOG_PASS, &HG_LOG_OUTLET(parent_name), NULL)
#define HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state) \
    HG_LOG_OUTLET_INITIALIZER(name, state, &HG_LOG_OUTLET(parent_name), NULL)

/* Outlets need no registration; these are for those who write it. */
#define HG_LOG_SUBSYS_REGISTER(name) extern HG_LOG_OUTLET_DECL(name)
#define HG_LOG_SUBSYS_DECL_REGISTER(name, parent_name) \
    HG_LOG_OUTLET_DECL(name) = HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name)
#define HG_LOG_SUBSYS_DECL_STATE_REGISTER(name, parent_name, state) \
    HG_LOG_OUTLET_DECL(name) = HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state)

/* Writes a line where it is wanted; the arguments are those of printf. */
#define HG_LOG_WRITE(name, log_level, ...)                                                    \
    do {                                                                                      \
        if (hg_log_enabled(&HG_LOG_OUTLET(name), log_level))                                  \
            hg_log_write(&HG_LOG_OUTLET(name), log_level, __FILE__, __LINE__, __func__, NULL, \
                         __VA_ARGS__);                                                        \
    } while (0)

/* On level debug, and runs debug_func then. */
#define HG_LOG_WRITE_DEBUG(name, debug_func, ...)                       \
    do {                                                                \
        if (hg_log_enabled(&HG_LOG_OUTLET(name), HG_LOG_LEVEL_DEBUG)) { \
            HG_LOG_WRITE(name, HG_LOG_LEVEL_DEBUG, __VA_ARGS__);        \
            debug_func;                                                 \
        }                                                               \
    } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/* The level of all outlets, the library's included; and what it is. */
HG_UTIL_PUBLIC void hg_log_set_level(enum hg_log_level log_level);
HG_UTIL_PUBLIC enum hg_log_level hg_log_get_level(void);

/* "error", "warn", ... as in HG_LOG_LEVEL; HG_LOG_LEVEL_NONE for what is no level. */
HG_UTIL_PUBLIC enum hg_log_level hg_log_name_to_level(const char* log_level);

/* Which outlets write: names separated by commas, "~name" switches one off, "hg_all" all of them
 * on. */
HG_UTIL_PUBLIC void hg_log_set_subsys(const char* log_subsys);

/* What writes the lines; NULL: fprintf. */
HG_UTIL_PUBLIC void hg_log_set_func(int (*log_func)(FILE* stream, const char* format, ...));

/* Where to; NULL: stderr for errors, stdout for the rest. */
HG_UTIL_PUBLIC void hg_log_set_stream_error(FILE* stream);
HG_UTIL_PUBLIC void hg_log_set_stream_warning(FILE* stream);
HG_UTIL_PUBLIC void hg_log_set_stream_debug(FILE* stream);
HG_UTIL_PUBLIC FILE* hg_log_get_stream_error(void);
HG_UTIL_PUBLIC FILE* hg_log_get_stream_warning(void);
HG_UTIL_PUBLIC FILE* hg_log_get_stream_debug(void);

/* Nothing: see HG_LOG_SUBSYS_REGISTER. */
HG_UTIL_PUBLIC void hg_log_outlet_register(struct hg_log_outlet* outlet);

/* Whether a line of that level would be written. */
HG_UTIL_PUBLIC bool hg_log_enabled(const struct hg_log_outlet* outlet, enum hg_log_level log_level);

/* HG_LOG_WRITE without the question. module: written instead of the outlet's name, unless NULL. */
HG_UTIL_PUBLIC void hg_log_write(struct hg_log_outlet* outlet, enum hg_log_level log_level,
                                 const char* file, unsigned int line, const char* func,
                                 const char* module, const char* format, ...) HG_UTIL_PRINTF(7, 8);

/* What all outlets descend from. */
extern HG_UTIL_PUBLIC HG_LOG_OUTLET_DECL(hg_all);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_LOG_H */
