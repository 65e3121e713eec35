/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_dlog.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*print_t)(FILE*, const char*, ...);

static bool locked(struct hg_dlog* d, int trylock, const char* who) {
    if (trylock) {
        if (hg_thread_mutex_try_lock(&d->dlock) != HG_UTIL_SUCCESS) {
            fprintf(stderr, "%s: somebody has the lock of this log, which is not dumped\n", who);
            return false;
        }
    } else {
        hg_thread_mutex_lock(&d->dlock);
    }
    return true;
}

/* The name is not terminated where a C initialiser of eight characters was used. */
static int name_length(const struct hg_dlog* d) {
    const size_t magic = sizeof HG_DLOG_STDMAGIC - 1;

    return (int)strnlen(d->dlog_magic + magic, sizeof d->dlog_magic - magic);
}

static const char* name_of(const struct hg_dlog* d) {
    return d->dlog_magic + sizeof HG_DLOG_STDMAGIC - 1;
}

static const struct hg_dlog_entry* oldest(const struct hg_dlog* d, unsigned int n) {
    return &d->le[(d->lefree + d->lesize - d->leadds + n) % d->lesize];
}

static void print_counters(const struct hg_dlog* d, print_t print, FILE* stream) {
    const struct hg_dlog_dcount32* c32;
    const struct hg_dlog_dcount64* c64;

    SLIST_FOREACH(c32, &d->cnts32, l) {
        print(stream, "# %s: %" PRId32 " [%s]\n", c32->name, hg_atomic_get32(&c32->c), c32->descr);
    }
    SLIST_FOREACH(c64, &d->cnts64, l) {
        print(stream, "# %s: %" PRId64 " [%s]\n", c64->name, hg_atomic_get64(&c64->c), c64->descr);
    }
}

struct hg_dlog* hg_dlog_alloc(char* name, unsigned int lesize, int leloop) {
    struct hg_dlog* d = calloc(1, sizeof *d);
    struct hg_dlog_entry* entries = calloc(lesize != 0 ? lesize : 1, sizeof *entries);

    if (d == NULL || entries == NULL || hg_thread_mutex_init(&d->dlock) != HG_UTIL_SUCCESS) {
        free(entries);
        free(d);
        return NULL;
    }
    (void)snprintf(d->dlog_magic, sizeof d->dlog_magic, "%s%s", HG_DLOG_STDMAGIC, name);
    SLIST_INIT(&d->cnts32);
    SLIST_INIT(&d->cnts64);
    d->le = entries;
    d->lesize = lesize;
    d->leloop = leloop;
    d->mallocd = 1;
    return d;
}

void hg_dlog_free(struct hg_dlog* d) {
    if (d == NULL) {
        return;
    }
    while (!SLIST_EMPTY(&d->cnts32)) {
        struct hg_dlog_dcount32* c = SLIST_FIRST(&d->cnts32);
        SLIST_REMOVE_HEAD(&d->cnts32, l);
        free(c);
    }
    while (!SLIST_EMPTY(&d->cnts64)) {
        struct hg_dlog_dcount64* c = SLIST_FIRST(&d->cnts64);
        SLIST_REMOVE_HEAD(&d->cnts64, l);
        free(c);
    }
    if (d->mallocd) {
        (void)hg_thread_mutex_destroy(&d->dlock);
        free(d->le);
        free(d);
    }
}

/* Callers have nowhere to go without their counter. */
static void* new_counter(size_t size, const char* name) {
    void* counter = calloc(1, size);

    if (counter == NULL) {
        fprintf(stderr, "hg_dlog: out of memory for the counter %s\n", name);
        abort();
    }
    return counter;
}

void hg_dlog_mkcount32(struct hg_dlog* d, hg_atomic_int32_t** cptr, const char* name,
                       const char* descr) {
    hg_thread_mutex_lock(&d->dlock);
    if (*cptr == NULL) {
        struct hg_dlog_dcount32* c = new_counter(sizeof *c, name);
        c->name = name;
        c->descr = descr;
        SLIST_INSERT_HEAD(&d->cnts32, c, l);
        *cptr = &c->c;
    }
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_mkcount64(struct hg_dlog* d, hg_atomic_int64_t** cptr, const char* name,
                       const char* descr) {
    hg_thread_mutex_lock(&d->dlock);
    if (*cptr == NULL) {
        struct hg_dlog_dcount64* c = new_counter(sizeof *c, name);
        c->name = name;
        c->descr = descr;
        SLIST_INSERT_HEAD(&d->cnts64, c, l);
        *cptr = &c->c;
    }
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_rmcount32(struct hg_dlog* d, hg_atomic_int32_t* counter) {
    struct hg_dlog_dcount32* c;

    hg_thread_mutex_lock(&d->dlock);
    SLIST_FOREACH(c, &d->cnts32, l) {
        if (&c->c == counter) {
            SLIST_REMOVE(&d->cnts32, c, hg_dlog_dcount32, l);
            free(c);
            break;
        }
    }
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_rmcount64(struct hg_dlog* d, hg_atomic_int64_t* counter) {
    struct hg_dlog_dcount64* c;

    hg_thread_mutex_lock(&d->dlock);
    SLIST_FOREACH(c, &d->cnts64, l) {
        if (&c->c == counter) {
            SLIST_REMOVE(&d->cnts64, c, hg_dlog_dcount64, l);
            free(c);
            break;
        }
    }
    hg_thread_mutex_unlock(&d->dlock);
}

unsigned int hg_dlog_addlog(struct hg_dlog* d, const char* file, unsigned int line,
                            const char* func, const char* msg, const void* data) {
    bool added = false;

    hg_thread_mutex_lock(&d->dlock);
    if (!d->lestop && d->lesize != 0 && (d->leloop || d->leadds < d->lesize)) {
        struct hg_dlog_entry* e = &d->le[d->lefree];
        e->file = file;
        e->line = line;
        e->func = func;
        e->msg = msg;
        e->data = data;
        (void)hg_time_get_current(&e->time);
        d->lefree = (d->lefree + 1) % d->lesize;
        if (d->leadds < d->lesize) {
            d->leadds++;
        }
        added = true;
    }
    hg_thread_mutex_unlock(&d->dlock);
    return added ? 1 : 0;
}

void hg_dlog_setlogstop(struct hg_dlog* d, int stop) {
    hg_thread_mutex_lock(&d->dlock);
    d->lestop = stop;
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_resetlog(struct hg_dlog* d) {
    hg_thread_mutex_lock(&d->dlock);
    d->lefree = 0;
    d->leadds = 0;
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_dump(struct hg_dlog* d, print_t log_func, FILE* stream, int trylock) {
    const print_t print = log_func != NULL ? log_func : (print_t)fprintf;
    unsigned int n;

    if (!locked(d, trylock, "hg_dlog_dump")) {
        return;
    }
    if (d->leadds > 0) {
        print(stream,
              "### ----------------------\n"
              "### (%.*s) debug log summary\n"
              "### ----------------------\n",
              name_length(d), name_of(d));
        if (!SLIST_EMPTY(&d->cnts32) || !SLIST_EMPTY(&d->cnts64)) {
            print(stream, "# Counters\n");
            print_counters(d, print, stream);
            print(stream, "# -\n");
        }
        print(stream, "# Number of log entries: %u\n", d->leadds);
        for (n = 0; n < d->leadds; n++) {
            const struct hg_dlog_entry* e = oldest(d, n);
            print(stream, "# [%f] %s:%u\n## %s()\n", hg_time_to_double(e->time), e->file, e->line,
                  e->func);
        }
    }
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_dump_counters(struct hg_dlog* d, print_t log_func, FILE* stream, int trylock) {
    const print_t print = log_func != NULL ? log_func : (print_t)fprintf;

    if (!locked(d, trylock, "hg_dlog_dump_counters")) {
        return;
    }
    if (!SLIST_EMPTY(&d->cnts32) || !SLIST_EMPTY(&d->cnts64)) {
        print(stream,
              "### --------------------------\n"
              "### (%.*s) counter log summary\n"
              "### --------------------------\n",
              name_length(d), name_of(d));
        print_counters(d, print, stream);
    }
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_dump_file(struct hg_dlog* d, const char* base, int addpid, int trylock) {
    const int pid = (int)getpid();
    char path[4096];
    FILE* file;
    const struct hg_dlog_dcount32* c32;
    const struct hg_dlog_dcount64* c64;
    unsigned int n;
    const int size = addpid ? snprintf(path, sizeof path, "%s-%d.log", base, pid)
                            : snprintf(path, sizeof path, "%s.log", base);

    if (size < 0 || (size_t)size >= sizeof path) {
        fprintf(stderr, "hg_dlog_dump_file: the name \"%s\" is too long\n", base);
        return;
    }
    file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return;
    }
    if (locked(d, trylock, "hg_dlog_dump_file")) {
        fprintf(file, "# START COUNTERS\n");
        SLIST_FOREACH(c32, &d->cnts32, l) {
            fprintf(file, "%s %d %" PRId32 " # %s\n", c32->name, pid, hg_atomic_get32(&c32->c),
                    c32->descr);
        }
        SLIST_FOREACH(c64, &d->cnts64, l) {
            fprintf(file, "%s %d %" PRId64 " # %s\n", c64->name, pid, hg_atomic_get64(&c64->c),
                    c64->descr);
        }
        fprintf(file, "# END COUNTERS\n\n# NLOGS %u FOR %d\n", d->leadds, pid);
        for (n = 0; n < d->leadds; n++) {
            const struct hg_dlog_entry* e = oldest(d, n);
            fprintf(file, "%f %d %s %u %s %s %p\n", hg_time_to_double(e->time), pid, e->file,
                    e->line, e->func, e->msg != NULL ? e->msg : "(null)", e->data);
        }
        hg_thread_mutex_unlock(&d->dlock);
    }
    (void)fclose(file);
}
