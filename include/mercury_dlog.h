/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs in memory: a table of the places that a program came by, which costs little enough to be
 * left on, and counters by name. Dumped when something went wrong, or read from a core file, where
 * the magic bytes at the beginning show the place. Any thread. C99 and C++. */
#ifndef MERCURY_DLOG_H
#define MERCURY_DLOG_H

#include <stdio.h>

#include "mercury_atomic.h"
#include "mercury_queue.h"
#include "mercury_thread_mutex.h"
#include "mercury_time.h"
#include "mercury_util_config.h"

#define HG_DLOG_MAGICLEN 16 /* the magic bytes, and the beginning of the name */
#define HG_DLOG_STDMAGIC ">D.LO.G<"

/* For a variable:
 *     struct hg_dlog_entry entries[128];
 *     struct hg_dlog log = HG_DLOG_INITIALIZER("name", entries, 128, loop);
 * A name has up to 7 characters. With loop not 0 the oldest entries are overwritten, otherwise it
 * ends when the table is full. Later versions of the interface want the variable, too:
 * HG_DLOG_INITIALIZER("name", log, entries, 128, loop). */
#define HG_DLOG_INITIALIZER(...) \
    HG_DLOG_SIXTH(__VA_ARGS__, HG_DLOG_OF_FIVE, HG_DLOG_OF_FOUR, 0)(__VA_ARGS__)
#define HG_DLOG_SIXTH(a, b, c, d, e, sixth, ...) sixth
#define HG_DLOG_OF_FIVE(name, log, entries, size, loop) HG_DLOG_OF_FOUR(name, entries, size, loop)
#define HG_DLOG_OF_FOUR(name, entries, size, loop)                                               \
    {                                                                                            \
        HG_DLOG_STDMAGIC name, HG_THREAD_MUTEX_INITIALIZER, {NULL}, {NULL}, entries, size, loop, \
            0, 0, 0, 0                                                                           \
    }

/* The strings are kept as they are, not copied. */
struct hg_dlog_entry {
    const char* file;
    unsigned int line;
    const char* func;
    const char* msg;  /* or NULL */
    const void* data; /* or NULL */
    hg_time_t time;
};

struct hg_dlog_dcount32 {
    const char* name;
    const char* descr;
    hg_atomic_int32_t c;
    SLIST_ENTRY(hg_dlog_dcount32) l;
};

struct hg_dlog_dcount64 {
    const char* name;
    const char* descr;
    hg_atomic_int64_t c;
    SLIST_ENTRY(hg_dlog_dcount64) l;
};

struct hg_dlog {
    char dlog_magic[HG_DLOG_MAGICLEN];
    hg_thread_mutex_t dlock; /* guards what follows */
    SLIST_HEAD(, hg_dlog_dcount32) cnts32;
    SLIST_HEAD(, hg_dlog_dcount64) cnts64;
    struct hg_dlog_entry* le;
    unsigned int lesize;
    int leloop;
    unsigned int lefree; /* the next entry to write */
    unsigned int leadds; /* entries in use */
    int lestop;          /* not 0: nothing is added */
    int mallocd;         /* made by hg_dlog_alloc() */
};

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: out of memory. */
HG_UTIL_PUBLIC struct hg_dlog* hg_dlog_alloc(char* name, unsigned int lesize, int leloop);

/* Its counters, and what hg_dlog_alloc() made. Nobody uses it any more. */
HG_UTIL_PUBLIC void hg_dlog_free(struct hg_dlog* d);

/* A counter that starts at 0 and lives as long as the log, where *cptr is NULL; otherwise nothing:
 * somebody has made it. Out of memory ends the program. */
HG_UTIL_PUBLIC void hg_dlog_mkcount32(struct hg_dlog* d, hg_atomic_int32_t** cptr, const char* name,
                                      const char* descr);
HG_UTIL_PUBLIC void hg_dlog_mkcount64(struct hg_dlog* d, hg_atomic_int64_t** cptr, const char* name,
                                      const char* descr);

/* Ends a counter of this log: removes it from the log and frees it, so that `counter` is dangling
 * afterwards. A pointer that is no counter of the log is left alone. */
HG_UTIL_PUBLIC void hg_dlog_rmcount32(struct hg_dlog* d, hg_atomic_int32_t* counter);
HG_UTIL_PUBLIC void hg_dlog_rmcount64(struct hg_dlog* d, hg_atomic_int64_t* counter);

/* 1: added; 0: full or stopped. */
HG_UTIL_PUBLIC unsigned int hg_dlog_addlog(struct hg_dlog* d, const char* file, unsigned int line,
                                           const char* func, const char* msg, const void* data);

HG_UTIL_PUBLIC void hg_dlog_setlogstop(struct hg_dlog* d, int stop);

/* Forgets the entries; counters stay as they are. */
HG_UTIL_PUBLIC void hg_dlog_resetlog(struct hg_dlog* d);

/* Entries (if any) and counters, and counters only. trylock not 0: nothing but a warning, where
 * somebody has the lock. */
HG_UTIL_PUBLIC void hg_dlog_dump(struct hg_dlog* d, int (*log_func)(FILE*, const char*, ...),
                                 FILE* stream, int trylock);
HG_UTIL_PUBLIC void hg_dlog_dump_counters(struct hg_dlog* d,
                                          int (*log_func)(FILE*, const char*, ...), FILE* stream,
                                          int trylock);

/* Both, to BASE.log, or BASE-PID.log. */
HG_UTIL_PUBLIC void hg_dlog_dump_file(struct hg_dlog* d, const char* base, int addpid, int trylock);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_DLOG_H */
