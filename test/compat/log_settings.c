/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of a program that calls the RPC layer only: what its environment says, what its calls
 * say, and where the lines go. Each case is a process of its own, as the environment is read
 * once. */
#include <mercury.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static int lines;
static FILE* last_stream;
static char last_line[512];

static int keep(FILE* stream, const char* format, ...) {
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(last_line, sizeof last_line, format, arguments);
    va_end(arguments);
    last_stream = stream;
    lines++;
    return size;
}

/* Makes the library log an error, on the outlet "cls"; how many lines it wrote. */
static int complain(void) {
    const int before = lines;

    EXPECT(HG_Init("no such protocol", HG_FALSE) == NULL);
    return lines - before;
}

/* Runs a case with the environment given; NULL: the variable is not set. */
static void with(const char* level, const char* subsys, void (*run)(void)) {
    int status = 0;
    const pid_t pid = fork();

    EXPECT(pid >= 0);
    if (pid == 0) {
        if (level == NULL)
            EXPECT(unsetenv("HG_LOG_LEVEL") == 0);
        else
            EXPECT(setenv("HG_LOG_LEVEL", level, 1) == 0);
        if (subsys == NULL)
            EXPECT(unsetenv("HG_LOG_SUBSYS") == 0);
        else
            EXPECT(setenv("HG_LOG_SUBSYS", subsys, 1) == 0);
        HG_Set_log_func(keep);
        run();
        exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void speaks(void) {
    EXPECT(complain() > 0);
    EXPECT(strncmp(last_line, "# [", 3) == 0 && strstr(last_line, "->cls [error] ") != NULL);
    EXPECT(last_line[strlen(last_line) - 1] == '\n');
}

static void is_silent(void) {
    EXPECT(complain() == 0);
}

static void by_calls(void) {
    static const char* const loud[] = {"error", "err",  "ERROR", "Warning", "warn",
                                       "trace", "info", "inf",   "debug",   "DBG"};
    static const char* const quiet[] = {"none", "fatal", "ftl", "FATAL", ""};
    size_t i;

    HG_Set_log_subsys("hg_all");
    for (i = 0; i < sizeof loud / sizeof loud[0]; i++) {
        HG_Set_log_level("none");
        HG_Set_log_level(loud[i]);
        EXPECT(complain() > 0);
    }
    for (i = 0; i < sizeof quiet / sizeof quiet[0]; i++) {
        HG_Set_log_level("error");
        HG_Set_log_level(quiet[i]);
        EXPECT(complain() == 0);
    }
    HG_Set_log_level("much"); /* neither of these changes anything */
    HG_Set_log_level(NULL);
    EXPECT(complain() == 0);
    HG_Set_log_level("error");
    HG_Set_log_level("much");
    EXPECT(complain() > 0);

    HG_Set_log_subsys("bulk,rpc");
    EXPECT(complain() == 0);
    HG_Set_log_subsys("bulk,cls");
    EXPECT(complain() > 0);
    HG_Set_log_subsys("~cls");
    EXPECT(complain() == 0);
    HG_Set_log_subsys("hg_all");
    EXPECT(complain() > 0);
}

static void by_streams(void) {
    FILE* mine = tmpfile();
    char text[256] = "";

    EXPECT(mine != NULL);
    EXPECT(complain() > 0 && last_stream == stderr);
    HG_Set_log_stream("warning", mine);
    EXPECT(complain() > 0 && last_stream == stderr);
    HG_Set_log_stream("error", mine);
    EXPECT(complain() > 0 && last_stream == mine);

    /* Without a function, lines go there themselves. */
    HG_Set_log_func(NULL);
    EXPECT(HG_Init("no such protocol", HG_FALSE) == NULL);
    rewind(mine);
    EXPECT(fgets(text, sizeof text, mine) != NULL && strncmp(text, "# [", 3) == 0);
    HG_Set_log_stream("error", NULL); /* stderr again */
    HG_Set_log_func(keep);
    EXPECT(complain() > 0 && last_stream == stderr);
    EXPECT(fclose(mine) == 0);
}

/* Turns the log off once it said something. */
static int keep_and_stop(FILE* stream, const char* format, ...) {
    (void)format;
    last_stream = stream;
    lines++;
    HG_Set_log_subsys("~cls");
    HG_Set_log_level("none");
    HG_Set_log_func(keep);
    return 0;
}

static void from_within(void) {
    (void)alarm(60);
    HG_Set_log_func(keep_and_stop);
    EXPECT(complain() == 1);
    EXPECT(complain() == 0);
    HG_Set_log_level("error");
    EXPECT(complain() == 0);
    HG_Set_log_subsys("cls");
    EXPECT(complain() > 0);
}

/* Counters are told on level info. */
static void counters(void) {
    hg_class_t* hg_class;

    HG_Set_log_level("error");
    hg_class = HG_Init("na+sm", HG_TRUE);
    if (hg_class == NULL)
        return; /* not built */
    lines = 0;
    HG_Diag_dump_counters();
    EXPECT(lines == 0);
    HG_Set_log_level("info");
    lines = 0;
    HG_Diag_dump_counters();
    EXPECT(lines > 0 && strstr(last_line, "->diag [info] ") != NULL);
    HG_Set_log_level("none");
    EXPECT(HG_Finalize(hg_class) == HG_SUCCESS);
}

/* Not in the log, yet known. */
static void last_error(void) {
    EXPECT(complain() == 0 && strlen(HG_Get_last_error()) > 0);
}

int main(void) {
    with(NULL, NULL, speaks);
    with("error", NULL, speaks);
    with("WARNING", NULL, speaks);
    with("debug", "cls", speaks);
    with("none", NULL, is_silent);
    with("fatal", NULL, is_silent);
    with("debug", "bulk", is_silent);
    with("error", "~cls", is_silent);
    with(NULL, NULL, by_calls);
    with("none", "bulk", by_calls); /* calls overrule it */
    with(NULL, NULL, by_streams);
    with(NULL, NULL, from_within);
    with(NULL, NULL, counters);
    with("none", NULL, last_error);
    return 0;
}
