/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs in memory, mercury_dlog.h, and outlets that have one. */
#include <mercury_dlog.h>
#include <mercury_log.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

static struct hg_dlog_entry entries[3];
static struct hg_dlog table = HG_DLOG_INITIALIZER("table", entries, 3, 0);
static struct hg_dlog_entry ring_entries[3];
static struct hg_dlog ring = HG_DLOG_INITIALIZER("ring", ring, ring_entries, 3, 1);

static HG_LOG_DEBUG_DECL_LE(service, 8);
static HG_LOG_DEBUG_DECL_DLOG(service) = HG_LOG_DLOG_INITIALIZER(service, 8);
HG_LOG_DLOG_DECL_REGISTER(service);
HG_LOG_SUBSYS_DECL_REGISTER(disk, service);

/* The attributes come with each of the utility headers. */
static int ended;
static void at_end(void) HG_ATTR_DESTRUCTOR;
static void at_end(void) {
    ended = 1;
}
HG_UTIL_PLUGIN int plugin_value(void);
HG_UTIL_PLUGIN int plugin_value(void) {
    return ended;
}

static char text[8192];
static int lines;

static int keep(FILE* stream, const char* format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    int size;

    (void)stream;
    va_start(arguments, format);
    size = vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    lines++;
    return size;
}

static int says(const char* what) {
    const int found = strstr(text, what) != NULL;

    text[0] = '\0';
    return found;
}

static void tables(void) {
    struct hg_dlog* made = hg_dlog_alloc((char*)"a name that is too long", 0, 1);
    hg_atomic_int32_t* small = NULL;
    hg_atomic_int32_t* same;
    hg_atomic_int64_t* large = NULL;
    unsigned int n;

    EXPECT(memcmp(table.dlog_magic, HG_DLOG_STDMAGIC "table", 13) == 0);
    for (n = 0; n < 5; n++) {
        EXPECT(hg_dlog_addlog(&table, "t.c", n, "run", NULL, NULL) == (n < 3));
        EXPECT(hg_dlog_addlog(&ring, "r.c", n, "run", "message", &n) == 1);
    }
    hg_dlog_dump(&table, keep, stdout, 0);
    EXPECT(strstr(text, "(table)") != NULL && strstr(text, "entries: 3\n") != NULL);
    EXPECT(strstr(text, "t.c:0\n") < strstr(text, "t.c:2\n"));
    EXPECT(says("## run()"));
    hg_dlog_dump(&ring, keep, stdout, 1);
    EXPECT(strstr(text, "r.c:2\n") < strstr(text, "r.c:4\n") && strstr(text, "r.c:1\n") == NULL);
    text[0] = '\0';
    hg_dlog_setlogstop(&ring, 1);
    EXPECT(hg_dlog_addlog(&ring, "r.c", 9, "run", NULL, NULL) == 0);
    hg_dlog_setlogstop(&ring, 0);
    hg_dlog_resetlog(&ring);
    hg_dlog_dump(&ring, keep, stdout, 0);
    EXPECT(text[0] == '\0');

    hg_dlog_mkcount32(&ring, &small, "small", "of 32 bits");
    hg_dlog_mkcount64(&ring, &large, "large", "of 64 bits");
    same = small;
    hg_dlog_mkcount32(&ring, &same, "small", "of 32 bits");
    EXPECT(same == small);
    (void)hg_atomic_incr32(small);
    hg_atomic_set64(large, INT64_MIN);
    hg_dlog_dump_counters(&ring, keep, stdout, 0);
    EXPECT(strstr(text, "# small: 1 [of 32 bits]\n") != NULL);
    EXPECT(says("# large: -9223372036854775808 [of 64 bits]\n"));

    hg_dlog_rmcount32(&ring, small);
    hg_dlog_rmcount64(&ring, large);
    hg_dlog_dump_counters(&ring, keep, stdout, 0);
    EXPECT(text[0] == '\0');
    large = NULL;
    hg_dlog_mkcount64(&ring, &large, "large", "again");
    hg_dlog_rmcount64(&table, large); /* not one of its own */
    hg_dlog_dump_counters(&ring, keep, stdout, 0);
    EXPECT(says("# large: 0 [again]\n"));

    hg_thread_mutex_lock(&ring.dlock);
    hg_dlog_dump(&ring, keep, stdout, 1); /* says on stderr that it cannot */
    hg_thread_mutex_unlock(&ring.dlock);
    EXPECT(text[0] == '\0');

    EXPECT(made != NULL && hg_dlog_addlog(made, "m.c", 1, "run", NULL, NULL) == 0);
    hg_dlog_free(made);
    hg_dlog_free(&ring);
}

static void to_file(void) {
    char base[] = "/tmp/dlogXXXXXX";
    char path[64];
    char content[1024];
    size_t size;
    FILE* file;
    const int fd = mkstemp(base);

    EXPECT(fd >= 0);
    EXPECT(close(fd) == 0 && remove(base) == 0);
    (void)snprintf(path, sizeof path, "%s-%d.log", base, (int)getpid());
    hg_dlog_dump_file(&table, base, 1, 0);
    file = fopen(path, "r");
    EXPECT(file != NULL);
    size = fread(content, 1, sizeof content - 1, file);
    content[size] = '\0';
    EXPECT(fclose(file) == 0 && remove(path) == 0);
    EXPECT(strstr(content, "# START COUNTERS\n# END COUNTERS\n") == content);
    EXPECT(strstr(content, "# NLOGS 3 FOR ") != NULL && strstr(content, " t.c 1 run ") != NULL);
}

/* What went by on level debug comes with the next error. */
static void with_outlets(void) {
    hg_atomic_int32_t* calls = NULL;
    hg_atomic_int64_t* gone = NULL;

    hg_log_set_func(keep);
    EXPECT(HG_LOG_OUTLET(service_disk).debug_log == &HG_LOG_DEBUG_DLOG(service));
    HG_LOG_ADD_COUNTER32(service, &calls, "calls", "that came");
    HG_LOG_ADD_COUNTER64(service, &gone, "gone", "that went");
    HG_LOG_DEL_COUNTER64(service, gone);
    (void)hg_atomic_incr32(calls);
    hg_log_set_level(HG_LOG_LEVEL_ERROR);
    HG_LOG_WRITE(service, HG_LOG_LEVEL_DEBUG, "not kept");
    hg_log_dump_counters(&HG_LOG_OUTLET(service));
    EXPECT(text[0] == '\0');
    hg_log_set_level(HG_LOG_LEVEL_MIN_DEBUG);
    HG_LOG_SUBSYS_WRITE(disk, service, HG_LOG_LEVEL_DEBUG, "kept");
    EXPECT(text[0] == '\0');
    HG_LOG_WRITE(service, HG_LOG_LEVEL_ERROR, "and now %s", "this");
    EXPECT(strstr(text, "and now this\n") != NULL && strstr(text, "entries: 1\n") != NULL);
    EXPECT(says("with_outlets()"));
    hg_log_dump_counters(&HG_LOG_OUTLET(service));
    EXPECT(says("# calls: 1 [that came]\n"));
    hg_log_outlet_deregister(&HG_LOG_OUTLET(service_disk));
    EXPECT(text[0] == '\0');
    hg_log_outlet_deregister(&HG_LOG_OUTLET(service));
    EXPECT(says("# calls: 1 [that came]\n"));
    hg_log_set_func(NULL);
}

int main(void) {
    tables();
    to_file();
    with_outlets();
    return 0;
}
