/*
 * The trace of locks, a line for each step: to the file that TIDELOCK_TRACE names, or to
 * standard error for `run -vv` and for "-". Renewal threads write these lines. They don't wait for a reader
 * of standard error or of a pipe, but they wait for a file's disk.
 */
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/moment.h"
#include "base/outfile.h"
#include "base/tool.h"

#define LINE_SIZE 1024

static int file = -1; /* until the process ends */
static bool on_stderr;

int trace_begin(const char *who, bool to_stderr) {
    const char *name = getenv("TIDELOCK_TRACE");

    bool dash = name && strcmp(name, "-") == 0;
    on_stderr = on_stderr || to_stderr || dash;
    if (file >= 0 || !name || !*name || dash)
        return 0;
    file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    return file >= 0 ? 0
                     : fail(STATUS_CONFIG, "%s: TIDELOCK_TRACE: %s: %s", who, name,
                            outfile_why(errno == ENXIO ? EPIPE : errno));
}

bool trace_wanted(void) {
    return file >= 0 || on_stderr;
}

static void tell_file(const char *message) {
    char text[LINE_SIZE], date[32];
    int64_t us = moment_all().wall_us;
    time_t seconds = (time_t)(us / 1000000);
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) ||
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        date[0] = '\0';
    int n = snprintf(text, sizeof text, "%s.%06dZ %ld %s\n", date, (int)(us % 1000000),
                     (long)getpid(), message);
    if (n >= (int)sizeof text) {
        n = (int)sizeof text - 1;
        text[n - 1] = '\n';
    }
    (void)!write(file, text,
                 (size_t)n); /* one write, so that lines of several processes don't mix */
}

void trace_tell(const char *message) {
    if (file >= 0)
        tell_file(message);
    if (on_stderr)
        say_if_free("%s", message);
}
