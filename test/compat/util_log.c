/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of a program, mercury_log.h: outlets of its own, what switches them, and where lines go;
 * and the small headers that programs include for their macros. */
#include <mercury_byteswap.h>
#include <mercury_compiler_attributes.h>
#include <mercury_inet.h>
#include <mercury_log.h>
#include <mercury_param.h>
#include <stdarg.h>
#include <string.h>

#include "expect.h"

/* By the name that it has for other files: as programs before 2.4 call an outlet, and since then.
 */
extern HG_UTIL_PRIVATE HG_LOG_OUTLET_DECL(service);
extern HG_UTIL_PRIVATE HG_LOG_OUTLET_DECL(own);
HG_LOG_DECL_REGISTER(own);
HG_LOG_SUBSYS_DECL_REGISTER(service, HG_LOG_OUTLET_ROOT_NAME);
HG_LOG_SUBSYS_DECL_REGISTER(storage, service);
HG_LOG_SUBSYS_DECL_STATE_REGISTER(always, HG_LOG_OUTLET_ROOT_NAME, HG_LOG_ON);
HG_LOG_SUBSYS_DECL_STATE_REGISTER(never, HG_LOG_OUTLET_ROOT_NAME, HG_LOG_OFF);

static char line[4096];
static int lines;
static FILE* last_stream;

static int keep(FILE* stream, const char* format, ...) {
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    last_stream = stream;
    lines++;
    return size;
}

/* Which of the outlets write an error now. */
static int written(void) {
    int before = lines;
    int which = 0;

    HG_LOG_WRITE(service, HG_LOG_LEVEL_ERROR, "%d", 1);
    which |= lines != before;
    before = lines;
    HG_LOG_WRITE(storage, HG_LOG_LEVEL_ERROR, "%d", 2);
    which |= (lines != before) << 1;
    before = lines;
    HG_LOG_WRITE(always, HG_LOG_LEVEL_ERROR, "%d", 3);
    which |= (lines != before) << 2;
    before = lines;
    HG_LOG_WRITE(never, HG_LOG_LEVEL_ERROR, "%d", 4);
    which |= (lines != before) << 3;
    return which;
}

static void with_list(const char* format, ...) {
    va_list arguments;

    va_start(arguments, format);
    HG_LOG_VWRITE_FUNC(own, HG_LOG_LEVEL_ERROR, "module", "file.c", 5, "func", true, format,
                       arguments);
    va_end(arguments);
}

/* As programs for 2.4 write it. */
static void since_2_4(void) {
    int before;

    hg_log_set_level(HG_LOG_LEVEL_WARNING);
    hg_log_set_subsys("");
    EXPECT(strcmp(hg_log_get_subsys(), "hg_all") == 0);
    EXPECT(HG_LOG_OUTLET(own).registered && HG_LOG_OUTLET(own).level == HG_LOG_LEVEL_WARNING);
    before = lines;
    HG_LOG_SUBSYS_WRITE(service, hg_all, HG_LOG_LEVEL_ERROR, "%d", 1);
    EXPECT(lines == before + 1);
    with_list("%s", "listed");
    EXPECT(strstr(line, "->module [error] file.c:5 func() listed") != NULL);
    EXPECT(line[strlen(line) - 1] == 'd');
    HG_LOG_WRITE_DEBUG_EXT(own, "head", "not %s", "seen");
    EXPECT(lines == before + 2);
    hg_log_set_level(HG_LOG_LEVEL_DEBUG);
    EXPECT(HG_LOG_OUTLET(own).level == HG_LOG_LEVEL_DEBUG);
    HG_LOG_WRITE_DEBUG_EXT(own, "head", "%s", "below it");
    EXPECT(lines == before + 5 && strcmp(line, "---\n") == 0);
    HG_LOG_SUBSYS_WRITE_DEBUG_EXT(service, hg_all, "head", "%s", "below it");
    EXPECT(lines == before + 8);

    hg_log_set_subsys("hg,storage");
    EXPECT(strcmp(hg_log_get_subsys(), "hg,storage") == 0);
    EXPECT(HG_LOG_OUTLET(own).level == HG_LOG_LEVEL_NONE);
    hg_log_set_subsys_level("own", HG_LOG_LEVEL_ERROR);
    EXPECT(strcmp(hg_log_get_subsys(), "hg,storage,own") == 0);
    EXPECT(HG_LOG_OUTLET(own).level == HG_LOG_LEVEL_ERROR);
    hg_log_set_subsys("never"); /* asked for by name */
    EXPECT(HG_LOG_OUTLET(never).level == HG_LOG_LEVEL_ERROR);
    HG_Util_set_log_level("none");
    EXPECT(HG_LOG_OUTLET(never).level == HG_LOG_LEVEL_NONE);

    EXPECT(strcmp(hg_log_level_to_string(HG_LOG_LEVEL_FATAL), "fatal") == 0);
    EXPECT(strcmp(hg_log_level_to_string(HG_LOG_LEVEL_MIN_DEBUG), "min_debug") == 0);
    EXPECT(strcmp(hg_log_level_to_string(HG_LOG_LEVEL_NONE), "") == 0);
    EXPECT(strcmp(hg_log_level_to_string(HG_LOG_LEVEL_MAX), "") == 0);
    EXPECT(hg_log_get_func() == keep);
    hg_log_outlet_deregister(&HG_LOG_OUTLET(own));
    EXPECT(!HG_LOG_OUTLET(own).registered);
}

int main(void) {
    char large[3000];
    int ran = 0;

    hg_log_set_func(keep);
    hg_log_set_subsys("");
    HG_Util_set_log_level("warning");
    EXPECT(hg_log_get_level() == HG_LOG_LEVEL_WARNING);
    HG_LOG_WRITE(storage, HG_LOG_LEVEL_WARNING, "%s is %d%% full", "disk", 90);
    EXPECT(lines == 1 && strstr(line, "disk is 90% full") != NULL);
    EXPECT(strstr(line, "storage") != NULL && strstr(line, "[warning]") != NULL);
    EXPECT(strstr(line, "util_log.c") != NULL && strstr(line, "main") != NULL);
    EXPECT(last_stream == stderr && hg_log_get_stream_warning() == stderr);
    HG_LOG_WRITE(storage, HG_LOG_LEVEL_INFO, "too much");
    EXPECT(lines == 1);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    HG_LOG_WRITE(storage, HG_LOG_LEVEL_ERROR, "%s", large);
    EXPECT(lines == 2 && strstr(line, large) != NULL && last_stream == stderr);

    hg_log_set_stream_error(stdout);
    EXPECT(hg_log_get_stream_error() == stdout && hg_log_get_stream_debug() == stderr);
    HG_LOG_WRITE(service, HG_LOG_LEVEL_ERROR, "there");
    EXPECT(last_stream == stdout);
    hg_log_set_stream_error(NULL);
    EXPECT(hg_log_get_stream_error() == stderr);

    EXPECT(written() == 7);
    hg_log_set_subsys("hg,na");
    EXPECT(written() == 4);
    hg_log_set_subsys("hg,service");
    EXPECT(written() == 7); /* what descends from it, too */
    hg_log_set_subsys("hg,service,~storage");
    EXPECT(written() == 5);
    hg_log_set_subsys("~service");
    EXPECT(written() == 4);
    hg_log_set_subsys("hg_all");
    EXPECT(written() == 7);

    hg_log_set_level(HG_LOG_LEVEL_DEBUG);
    HG_LOG_WRITE_DEBUG(service, ran = 1, "%s", "seen");
    EXPECT(ran == 1 && strstr(line, "seen") != NULL);
    hg_log_set_level(HG_LOG_LEVEL_INFO);
    HG_LOG_WRITE_DEBUG(service, ran = 2, "%s", "not seen");
    EXPECT(ran == 1 && written() == 7);
    hg_log_set_level(HG_LOG_LEVEL_NONE);
    EXPECT(written() == 0);
    EXPECT(hg_log_name_to_level("warn") == HG_LOG_LEVEL_WARNING);
    EXPECT(hg_log_name_to_level("trace") == HG_LOG_LEVEL_MIN_DEBUG);
    EXPECT(hg_log_name_to_level("much") == HG_LOG_LEVEL_NONE);
    EXPECT(hg_log_name_to_level(NULL) == HG_LOG_LEVEL_NONE);
    since_2_4();
    hg_log_set_func(NULL);
    EXPECT(hg_log_get_func() != NULL && hg_log_get_func() != keep);

    EXPECT(powerof2(64) && !powerof2(65) && MAX(2, 3) == 3 && MIN(2, 3) == 2);
    EXPECT(ntohll(htonll(UINT64_C(0x0102030405060708))) == UINT64_C(0x0102030405060708));
    EXPECT(bswap_32(UINT32_C(0x01020304)) == UINT32_C(0x04030201));
    return 0;
}
