/*
 * Files that others read while we write them. A line is written under the file's lock, so that one that
 * did not fit can be taken back without touching another's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/outfile.h"
#include "base/tool.h"

#define LOCK_TRIES 200
#define LOCK_PAUSE_MS 10

static int complain(const char *what, const char *path, int why) {
    return fail(STATUS_CONFIG, "%s %.200s: %s", what, path, strerror(why));
}

/* ---- replacing ---------------------------------------------------------------------------------- */

/* Fill the stream and close it; 0, or what went wrong. */
static int fill(FILE *out, void (*write)(const void *ctx, FILE *out), const void *ctx) {
    errno = 0;
    write(ctx, out);
    int why = ferror(out) ? (errno ? errno : EIO) : 0;
    if (fclose(out) && !why)
        why = errno;
    return why;
}

int outfile_replace(const char *what, const char *path, void (*write)(const void *ctx, FILE *out),
                    const void *ctx) {
    char real[PATH_MAX], beside[PATH_MAX];
    struct stat st;
    bool there = stat(path, &st) == 0;
    const char *place = there && realpath(path, real) ? real : path; /* a link stays one */

    if (there && !S_ISREG(st.st_mode)) {
        FILE *out = fopen(path, "we");
        int why = out ? fill(out, write, ctx) : errno;
        return why ? complain(what, path, why) : 0;
    }
    int n = snprintf(beside, sizeof beside, "%s.%lld", place, (long long)getpid());
    if (n < 0 || (size_t)n >= sizeof beside)
        return fail(STATUS_USAGE, "%s: too long a path", what);
    FILE *out = fopen(beside, "wxe");
    if (!out)
        return complain(what, path, errno);
    int why = fill(out, write, ctx);
    if (!why && rename(beside, place))
        why = errno;
    if (!why)
        return 0;
    (void)unlink(beside);
    return complain(what, path, why);
}

/* ---- adding a line ------------------------------------------------------------------------------ */

/* 0, or why not: EWOULDBLOCK when another keeps it all the time. */
static int lock(int fd) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        (void)poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return EWOULDBLOCK;
}

static int write_whole(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Does the file end in the middle of a line? Somebody was killed, or has no such manners. */
static bool is_torn(int fd, off_t size) {
    char last = '\n';

    return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

static int append(int fd, const char *text, size_t len) {
    struct stat st;

    if (fstat(fd, &st))
        return errno;
    if (!S_ISREG(st.st_mode))
        return write_whole(fd, text, len);
    int why = is_torn(fd, st.st_size) ? write_whole(fd, "\n", 1) : 0;
    if (!why)
        why = write_whole(fd, text, len);
    if (why && ftruncate(fd, st.st_size)) /* what there was stays, whatever became of the line */
        return why;
    return why;
}

int outfile_append(const char *what, const char *path, const char *text, size_t len) {
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);

    if (fd < 0)
        return complain(what, path, errno);
    int why = lock(fd);
    if (why == EWOULDBLOCK) {
        close(fd);
        return fail(STATUS_CONFIG, "%s %.200s: another process keeps it locked", what, path);
    }
    if (!why)
        why = append(fd, text, len);
    if (close(fd) && !why)
        why = errno;
    return why ? complain(what, path, why) : 0;
}
