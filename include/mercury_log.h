/* SPDX-License-Identifier: BSD-3-Clause */
/* The log for programs: outlets of their own, which obey the level, the list of outlets, the
 * function and the streams that are set for the library (HG_Set_log_level, HG_Set_log_subsys,
 * HG_Set_log_func, HG_Set_log_stream, and HG_LOG_LEVEL, HG_LOG_SUBSYS in the environment).
 *
 *     HG_LOG_DECL_REGISTER(service);                  in one file; below hg_all
 *     extern HG_LOG_OUTLET_DECL(service);             in others
 *     HG_LOG_WRITE(service, HG_LOG_LEVEL_ERROR, "no space left on %s", name);
 *
 *     HG_LOG_SUBSYS_DECL_REGISTER(disk, service);     below that one
 *     HG_LOG_SUBSYS_WRITE(disk, service, HG_LOG_LEVEL_ERROR, ...);
 *
 * An outlet may have a log in memory (mercury_dlog.h), which takes what goes by on level debug from
 * level min_debug on, and is printed with the next error. Any thread. C99 and C++. */
#ifndef MERCURY_LOG_H
#define MERCURY_LOG_H

#include <stdarg.h>
#include <stdio.h>

#include "mercury_dlog.h"
#include "mercury_queue.h"
#include "mercury_util.h"
#include "mercury_util_config.h"

/* From silent to talkative; a level includes those before it. Constant, name, short name, and where
 * its lines go: for who defines X. */
#define HG_LOG_LEVELS                                        \
    X(HG_LOG_LEVEL_NONE, "", "", NULL)                       \
    X(HG_LOG_LEVEL_FATAL, "fatal", "ftl", &stderr)           \
    X(HG_LOG_LEVEL_ERROR, "error", "err", &stderr)           \
    X(HG_LOG_LEVEL_WARNING, "warning", "warn", &stderr)      \
    X(HG_LOG_LEVEL_MIN_DEBUG, "min_debug", "trace", &stderr) \
    X(HG_LOG_LEVEL_INFO, "info", "inf", &stderr)             \
    X(HG_LOG_LEVEL_DEBUG, "debug", "dbg", &stderr)           \
    X(HG_LOG_LEVEL_MAX, "", "", NULL)

#define X(constant, name, brief, stream) constant,
enum hg_log_level { HG_LOG_LEVELS };
#undef X

/* Whether an outlet that is not in the list of outlets writes: as its parent does; never; always.
 */
enum hg_log_state { HG_LOG_PASS, HG_LOG_OFF, HG_LOG_ON };

/* An outlet; lives until it is deregistered. */
struct hg_log_outlet {
    const char* name;
    enum hg_log_state state;
    enum hg_log_level level;      /* what it writes now; set by the library */
    struct hg_log_outlet* parent; /* NULL: none */
    struct hg_dlog* debug_log;    /* NULL: none */
    bool registered;
    STAILQ_ENTRY(hg_log_outlet) entry; /* the library's */
};

typedef int (*hg_log_func_t)(FILE* stream, const char* format, ...);

#define HG_UTIL_CAT(x, y) x##y
#define HG_UTIL_CATU(x, y) x##_##y
#define HG_UTIL_STRINGIFY(x) #x
#if defined(__GNUC__)
#define HG_UTIL_CONSTRUCTOR __attribute__((__constructor__))
#define HG_UTIL_DESTRUCTOR __attribute__((__destructor__))
#else
#define HG_UTIL_CONSTRUCTOR
#define HG_UTIL_DESTRUCTOR
#endif

/* The variable of an outlet, and its declaration; of one below another. */
#define HG_LOG_OUTLET(name) HG_UTIL_CATU(name, log_outlet_g)
#define HG_LOG_OUTLET_DECL(name) struct hg_log_outlet HG_LOG_OUTLET(name)
#define HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) \
    struct hg_log_outlet HG_LOG_OUTLET(HG_UTIL_CATU(parent_name, name))

#define HG_LOG_OUTLET_ROOT_NAME hg_all
#define HG_LOG_STR_INITIALIZER(name) HG_UTIL_STRINGIFY(name)

/* parent, debug_log: NULL or an address. */
#define HG_LOG_OUTLET_INITIALIZER(name, state, parent, debug_log)                      \
    {                                                                                  \
        HG_UTIL_STRINGIFY(name), state, HG_LOG_LEVEL_NONE, parent, debug_log, false, { \
            NULL                                                                       \
        }                                                                              \
    }
#define HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name) \
    HG_LOG_OUTLET_INITIALIZER(name, HG_LOG_PASS, &HG_LOG_OUTLET(parent_name), NULL)
#define HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state) \
    HG_LOG_OUTLET_INITIALIZER(name, state, &HG_LOG_OUTLET(parent_name), NULL)

/* Registers an outlet when the program (or the library that it is in) is loaded, and takes it off
 * the list at the end. A semicolon follows. */
#define HG_LOG_REGISTER(name)                                                     \
    static void HG_UTIL_CATU(hg_log_outlet_reg, name)(void) HG_UTIL_CONSTRUCTOR;  \
    static void HG_UTIL_CATU(hg_log_outlet_reg, name)(void) {                     \
        hg_log_outlet_register(&HG_LOG_OUTLET(name));                             \
    }                                                                             \
    static void HG_UTIL_CATU(hg_log_outlet_dereg, name)(void) HG_UTIL_DESTRUCTOR; \
    static void HG_UTIL_CATU(hg_log_outlet_dereg, name)(void) {                   \
        hg_log_outlet_deregister(&HG_LOG_OUTLET(name));                           \
    }                                                                             \
    void HG_UTIL_CATU(hg_log_outlet_semicolon, name)(void)
#define HG_LOG_SUBSYS_REGISTER(name, parent_name) HG_LOG_REGISTER(HG_UTIL_CATU(parent_name, name))

/* Before 2.4 the variable of an outlet had its own name only, without that of its parent: C
 * programs that call it so find it there. (Weak: many files may have a `cls`.) */
#if !defined(__cplusplus) && defined(__GNUC__) && defined(__ELF__)
#define HG_LOG_OUTLET_ALSO(name, of)                \
    extern struct hg_log_outlet HG_LOG_OUTLET(name) \
        __attribute__((__weak__, __alias__(HG_LOG_OUTLET_STRING(of))));
#define HG_LOG_OUTLET_STRING(of) HG_LOG_STR_INITIALIZER(of)
#else
#define HG_LOG_OUTLET_ALSO(name, of)
#endif

#define HG_LOG_DECL_REGISTER(name)                                                              \
    HG_LOG_OUTLET_DECL(name) = HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, HG_LOG_OUTLET_ROOT_NAME); \
    HG_LOG_REGISTER(name)
#define HG_LOG_SUBSYS_DECL_REGISTER(name, parent_name)                       \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) =                           \
        HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name);                 \
    HG_LOG_OUTLET_ALSO(name, HG_LOG_OUTLET(HG_UTIL_CATU(parent_name, name))) \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)
#define HG_LOG_SUBSYS_DECL_STATE_REGISTER(name, parent_name, state)          \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) =                           \
        HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state);    \
    HG_LOG_OUTLET_ALSO(name, HG_LOG_OUTLET(HG_UTIL_CATU(parent_name, name))) \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)

/* Writes a line where it is wanted; the arguments are those of printf. */
#define HG_LOG_WRITE(name, log_level, ...) \
    HG_LOG_WRITE_FUNC(name, log_level, NULL, __FILE__, __LINE__, __func__, false, __VA_ARGS__)
#define HG_LOG_SUBSYS_WRITE(name, parent_name, log_level, ...)                              \
    HG_LOG_WRITE_FUNC(HG_UTIL_CATU(parent_name, name), log_level, NULL, __FILE__, __LINE__, \
                      __func__, false, __VA_ARGS__)
/* module: written instead of the outlet's name, unless NULL; no_return: the line does not end. */
#define HG_LOG_WRITE_FUNC(name, log_level, module, file, line, func, no_return, ...)           \
    do {                                                                                       \
        if (hg_log_kept(&HG_LOG_OUTLET(name), log_level))                                      \
            (void)hg_dlog_addlog(HG_LOG_OUTLET(name).debug_log, file, line, func, NULL, NULL); \
        if (hg_log_enabled(&HG_LOG_OUTLET(name), log_level))                                   \
            hg_log_write(&HG_LOG_OUTLET(name), log_level, module, file, line, func, no_return, \
                         __VA_ARGS__);                                                         \
    } while (0)
#define HG_LOG_VWRITE_FUNC(name, log_level, module, file, line, func, no_return, message, ap)   \
    do {                                                                                        \
        if (hg_log_kept(&HG_LOG_OUTLET(name), log_level))                                       \
            (void)hg_dlog_addlog(HG_LOG_OUTLET(name).debug_log, file, line, func, NULL, NULL);  \
        if (hg_log_enabled(&HG_LOG_OUTLET(name), log_level))                                    \
            hg_log_vwrite(&HG_LOG_OUTLET(name), log_level, module, file, line, func, no_return, \
                          message, ap);                                                         \
    } while (0)

/* On level debug: a line, and under it what the other arguments make. */
#define HG_LOG_WRITE_DEBUG_EXT(name, header, ...)                                        \
    HG_LOG_WRITE_FUNC_DEBUG_EXT(name, header, NULL, __FILE__, __LINE__, __func__, false, \
                                __VA_ARGS__)
#define HG_LOG_SUBSYS_WRITE_DEBUG_EXT(name, parent_name, header, ...)                              \
    HG_LOG_WRITE_FUNC_DEBUG_EXT(HG_UTIL_CATU(parent_name, name), header, NULL, __FILE__, __LINE__, \
                                __func__, false, __VA_ARGS__)
#define HG_LOG_WRITE_FUNC_DEBUG_EXT(name, header, module, file, line, func, no_return, ...)  \
    do {                                                                                     \
        if (hg_log_enabled(&HG_LOG_OUTLET(name), HG_LOG_LEVEL_DEBUG)) {                      \
            const hg_log_func_t hg_log_print = hg_log_get_func();                            \
            hg_log_write(&HG_LOG_OUTLET(name), HG_LOG_LEVEL_DEBUG, module, file, line, func, \
                         no_return, "%s", header);                                           \
            (void)hg_log_print(hg_log_get_stream_debug(), __VA_ARGS__);                      \
            (void)hg_log_print(hg_log_get_stream_debug(), "---\n");                          \
        }                                                                                    \
    } while (0)

/* On level debug, and runs debug_func then. */
#define HG_LOG_WRITE_DEBUG(name, debug_func, ...)                       \
    do {                                                                \
        if (hg_log_enabled(&HG_LOG_OUTLET(name), HG_LOG_LEVEL_DEBUG)) { \
            HG_LOG_WRITE(name, HG_LOG_LEVEL_DEBUG, __VA_ARGS__);        \
            debug_func;                                                 \
        }                                                               \
    } while (0)

/* Outlets with logs in memory:
 *     static HG_LOG_DEBUG_DECL_LE(service, 64);
 *     static HG_LOG_DEBUG_DECL_DLOG(service) = HG_LOG_DLOG_INITIALIZER(service, 64);
 *     HG_LOG_DLOG_DECL_REGISTER(service); */
#define HG_LOG_DEBUG_DLOG(name) HG_UTIL_CATU(name, dlog_g)
#define HG_LOG_DEBUG_LE(name) HG_UTIL_CATU(name, dlog_entries_g)
#define HG_LOG_DEBUG_DECL_DLOG(name) struct hg_dlog HG_LOG_DEBUG_DLOG(name)
#define HG_LOG_DEBUG_DECL_LE(name, size) struct hg_dlog_entry HG_LOG_DEBUG_LE(name)[size]
#define HG_LOG_DLOG_INITIALIZER(name, size) \
    HG_DLOG_INITIALIZER(HG_UTIL_STRINGIFY(name), HG_LOG_DEBUG_LE(name), size, 1)
#define HG_LOG_OUTLET_SUBSYS_DLOG_INITIALIZER(name, parent_name)              \
    HG_LOG_OUTLET_INITIALIZER(name, HG_LOG_PASS, &HG_LOG_OUTLET(parent_name), \
                              &HG_LOG_DEBUG_DLOG(name))
#define HG_LOG_DLOG_DECL_REGISTER(name)                                       \
    HG_LOG_OUTLET_DECL(name) =                                                \
        HG_LOG_OUTLET_SUBSYS_DLOG_INITIALIZER(name, HG_LOG_OUTLET_ROOT_NAME); \
    HG_LOG_REGISTER(name)
#define HG_LOG_SUBSYS_DLOG_DECL_REGISTER(name, parent_name)                  \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) =                           \
        HG_LOG_OUTLET_SUBSYS_DLOG_INITIALIZER(name, parent_name);            \
    HG_LOG_OUTLET_ALSO(name, HG_LOG_OUTLET(HG_UTIL_CATU(parent_name, name))) \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)
#define HG_LOG_ADD_COUNTER32(name, counter_ptr, counter_name, counter_desc) \
    hg_dlog_mkcount32(HG_LOG_OUTLET(name).debug_log, counter_ptr, counter_name, counter_desc)
#define HG_LOG_ADD_COUNTER64(name, counter_ptr, counter_name, counter_desc) \
    hg_dlog_mkcount64(HG_LOG_OUTLET(name).debug_log, counter_ptr, counter_name, counter_desc)
/* counter: the pointer that HG_LOG_ADD_COUNTER32 or HG_LOG_ADD_COUNTER64 filled in. */
#define HG_LOG_DEL_COUNTER32(name, counter) \
    hg_dlog_rmcount32(HG_LOG_OUTLET(name).debug_log, counter)
#define HG_LOG_DEL_COUNTER64(name, counter) \
    hg_dlog_rmcount64(HG_LOG_OUTLET(name).debug_log, counter)

#ifdef __cplusplus
extern "C" {
#endif

/* The level of all outlets, the library's included; and what it is. */
HG_UTIL_PUBLIC void hg_log_set_level(enum hg_log_level log_level);
HG_UTIL_PUBLIC enum hg_log_level hg_log_get_level(void);

/* "error", "warn", ... as in HG_LOG_LEVEL; HG_LOG_LEVEL_NONE for what is no level. And back: "" for
 * none. */
HG_UTIL_PUBLIC enum hg_log_level hg_log_name_to_level(const char* log_level);
HG_UTIL_PUBLIC const char* hg_log_level_to_string(enum hg_log_level level);

/* Which outlets write: names separated by commas, "~name" switches one off, "hg_all" all of them
 * on. What is answered is valid until this thread asks again. */
HG_UTIL_PUBLIC void hg_log_set_subsys(const char* log_subsys);
HG_UTIL_PUBLIC const char* hg_log_get_subsys(void);

/* One more outlet writes, and all that write do so on that level. */
HG_UTIL_PUBLIC void hg_log_set_subsys_level(const char* subsys, enum hg_log_level log_level);

/* What writes the lines; NULL: fprintf. */
HG_UTIL_PUBLIC void hg_log_set_func(hg_log_func_t log_func);
HG_UTIL_PUBLIC hg_log_func_t hg_log_get_func(void);

/* Where to; NULL: stderr. */
HG_UTIL_PUBLIC void hg_log_set_stream_error(FILE* stream);
HG_UTIL_PUBLIC void hg_log_set_stream_warning(FILE* stream);
HG_UTIL_PUBLIC void hg_log_set_stream_debug(FILE* stream);
HG_UTIL_PUBLIC FILE* hg_log_get_stream_error(void);
HG_UTIL_PUBLIC FILE* hg_log_get_stream_warning(void);
HG_UTIL_PUBLIC FILE* hg_log_get_stream_debug(void);

/* For what HG_LOG_REGISTER does. An outlet without a log in memory takes its parent's.
 * Deregistering prints the counters of its log, from level min_debug on, and frees them. */
HG_UTIL_PUBLIC void hg_log_outlet_register(struct hg_log_outlet* outlet);
HG_UTIL_PUBLIC void hg_log_outlet_deregister(struct hg_log_outlet* outlet);

/* The counters of its log in memory, from level min_debug on. */
HG_UTIL_PUBLIC void hg_log_dump_counters(struct hg_log_outlet* outlet);

/* Whether a line of that level would be written. */
static HG_UTIL_INLINE bool hg_log_enabled(const struct hg_log_outlet* outlet,
                                          enum hg_log_level log_level) {
    enum hg_log_level now;

    __atomic_load(&outlet->level, &now, __ATOMIC_RELAXED);
    return now >= log_level;
}

/* Whether its log in memory takes it. */
static HG_UTIL_INLINE bool hg_log_kept(const struct hg_log_outlet* outlet,
                                       enum hg_log_level log_level) {
    return log_level == HG_LOG_LEVEL_DEBUG && outlet->debug_log != NULL &&
           hg_log_enabled(outlet, HG_LOG_LEVEL_MIN_DEBUG);
}

/* HG_LOG_WRITE_FUNC without the question. */
HG_UTIL_PUBLIC void hg_log_write(struct hg_log_outlet* outlet, enum hg_log_level log_level,
                                 const char* module, const char* file, unsigned int line,
                                 const char* func, bool no_return, const char* format, ...)
    HG_UTIL_PRINTF(8, 9);
HG_UTIL_PUBLIC void hg_log_vwrite(struct hg_log_outlet* outlet, enum hg_log_level log_level,
                                  const char* module, const char* file, unsigned int line,
                                  const char* func, bool no_return, const char* format, va_list ap)
    HG_UTIL_PRINTF(8, 0);

/* What all outlets descend from. */
extern HG_UTIL_PUBLIC HG_LOG_OUTLET_DECL(HG_LOG_OUTLET_ROOT_NAME);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_LOG_H */
