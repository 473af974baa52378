/*
 * Reads ClockBound's file. The daemon writes through a mapping, and counts a generation: odd while it
 * writes, 0 before it has written. The file is read by calls, not mapped: where somebody cuts a mapped
 * file, a signal ends the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/moment.h"
#include "ground/guard.h"
#include "skew/skew_clockbound.h"

#define FILE_3 "/var/run/clockbound/shm1"
#define FILE_2 "/var/run/clockbound/shm0"
#define GENERATION 14 /* its place in every layout */
#define TRIES 10      /* a write takes less than a microsecond */
#define PAUSE_MS 1

static bool fail_with(clockbound_report *report, const char *status, const char *what,
                      const char *why) {
    report->status = status;
    (void)snprintf(report->why, sizeof report->why, "%s%s", what, why);
    return false;
}

static bool generation_of(int fd, uint16_t *ret) {
    *ret = 0;
    return pread(fd, ret, sizeof *ret, GENERATION) == (ssize_t)sizeof *ret;
}

typedef enum { WHOLE, TORN, EMPTY, SHORT } copied;

/* Copies the file between two readings of its generation. */
static copied copy(int fd, uint8_t bytes[CLOCKBOUND_SIZE], size_t *ret_n) {
    uint16_t before, after;

    if (!generation_of(fd, &before))
        return SHORT;
    if (before == 0)
        return EMPTY;
    __sync_synchronize();
    ssize_t n = pread(fd, bytes, CLOCKBOUND_SIZE, 0);
    __sync_synchronize();
    if (n < 0 || !generation_of(fd, &after))
        return SHORT;
    *ret_n = (size_t)n;
    /* Half of one bound and half of the next may be smaller than both. */
    return GUARD(clockbound_whole) && (before % 2 == 1 || before != after) ? TORN : WHOLE;
}

static bool take(clockbound_report *report, int fd) {
    uint8_t bytes[CLOCKBOUND_SIZE];
    size_t n = 0;
    copied copied = copy(fd, bytes, &n);

    for (int i = 1; copied == TORN && i < TRIES; i++) {
        (void)poll(NULL, 0, PAUSE_MS);
        copied = copy(fd, bytes, &n);
    }
    report->at.counter_before = moment_counter();
    moments now = moment_all();
    report->at.counter_after = moment_counter();
    report->at.has_counter = report->at.counter_before != 0;
    report->at.reading = skew_read((tl_mono){now.before_ns}, now.wall_us, now.monotonic_ns,
                                   (tl_mono){now.after_ns});
    report->at.monotonic_ns = now.monotonic_ns;
    if (copied == TORN)
        return fail_with(report, "unreadable", "ClockBound's file ",
                         "was being written at each of 10 tries: has its daemon died?");
    if (copied == EMPTY)
        return fail_with(report, "unsynchronised", "ClockBound's daemon ",
                         "has written nothing yet");
    if (copied == SHORT)
        return fail_with(report, "unreadable", "ClockBound's file ", "is too short");
    return clockbound_read(bytes, n, &report->state, &report->status, report->why);
}

/* A file that anybody may write is nobody's word. */
static bool is_trusted(clockbound_report *report, int fd) {
    struct stat st;

    if (fstat(fd, &st))
        return fail_with(report, "silent", "ClockBound's file: ", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail_with(report, "unreadable", "ClockBound's file ", "is not a regular file");
    if (GUARD(clockbound_owner_writes) && st.st_mode & S_IWOTH)
        return fail_with(report, "refused", "ClockBound's file ", "is writable by every user");
    return true;
}

void clockbound_ask(clockbound_report *report, const char *path) {
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK; /* a FIFO must not hold us up */
    const char *tried = path[0] ? path : FILE_3;
    int fd = open(tried, flags);

    *report = (clockbound_report){.status = "silent"};
    if (fd < 0 && errno == ENOENT && !path[0])
        fd = open(tried = FILE_2, flags);
    if (fd < 0) {
        (void)snprintf(report->why, sizeof report->why, "%.100s: %s", tried, strerror(errno));
        return;
    }
    report->known = is_trusted(report, fd) && take(report, fd);
    close(fd);
}
