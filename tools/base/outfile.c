/*
 * Files that other processes read while this one writes them. A line is written under the file's lock, so that a line
 * that did not fit can be removed without touching another process's line.
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

#define TRIES 200 /* while another process locks the file, or doesn't read the pipe */
#define PAUSE_MS 10
#define BESIDE_MAX                                                                                 \
    100 /* temporary files of other processes with the same id, in use or left behind */

const char *outfile_why(int why) {
    return why == EPIPE         ? "nobody reads it"
           : why == EWOULDBLOCK ? "its reader does not read"
                                : strerror(why);
}

static int complain(const char *what, const char *path, int why) {
    return fail(STATUS_CONFIG, "%s %.200s: %s", what, path, outfile_why(why));
}

static void pause_shortly(void) {
    (void)poll(NULL, 0, PAUSE_MS);
}

/* ---- replacing ---------------------------------------------------------------------------------- */

/* Fill the stream and close it; 0, or an errno. */
static int fill(FILE *out, void (*write)(const void *ctx, FILE *out), const void *ctx) {
    errno = 0;
    write(ctx, out);
    int why = ferror(out) ? (errno ? errno : EIO) : 0;
    if (fclose(out) && !why)
        why = errno;
    return why;
}

/* The descriptor that the path names, if the process inherited it; else -1. */
static int given_fd(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t len = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], len) != 0 || path[len] < '0' || path[len] > '9')
            continue;
        errno = 0;
        long fd = strtol(path + len, &end, 10);
        return *end || errno || fd > INT_MAX ? -1 : (int)fd;
    }
    return -1;
}

/* The tool's own descriptors are closed on exec; so a connection to a server is never mistaken for an output. */
static bool is_given(int fd) {
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* A copy of the descriptor: opening the file again would write from its start, over what others wrote. */
static int copy_given(int fd) {
    if (is_given(fd))
        return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    errno = EBADF;
    return -1;
}

static FILE *open_given(int fd) {
    int copy = copy_given(fd);
    FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
    if (!out && copy >= 0)
        close(copy);
    return out;
}

bool outfile_is_plain(const char *path) {
    struct stat st;
    return given_fd(path) < 0 && (stat(path, &st) || S_ISREG(st.st_mode));
}

/* The file's path, and the path of the temporary file beside it. */
typedef struct {
    char place[PATH_MAX], beside[PATH_MAX];
} places;

static bool find_place(places *places, const char *path) {
    if (strlen(path) >= sizeof places->place)
        return false;
    if (!realpath(path, places->place)) /* replace the target of a link, not the link */
        (void)snprintf(places->place, sizeof places->place, "%s", path);
    return true;
}

static bool name_beside(places *places, int nth) {
    int n = snprintf(places->beside, sizeof places->beside, nth ? "%s.%lld.%d" : "%s.%lld",
                     places->place, (long long)getpid(), nth);
    return n > 0 && (size_t)n < sizeof places->beside;
}

/* A new file, or -1. A killed process may have left one, and processes in containers often have the same id. */
static int open_beside(places *places, const char *path) {
    if (!find_place(places, path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (int nth = 0; nth < BESIDE_MAX; nth++) {
        if (!name_beside(places, nth)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(places->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* For a path that is not a regular file: 0, or why it can't be written. For the superuser access() permits a directory. */
static int why_not(const char *path) {
    struct stat st;
    int fd = given_fd(path);
    if (fd >= 0)
        return is_given(fd) ? 0 : EBADF;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return EISDIR;
    return access(path, W_OK) ? errno : 0;
}

static int check_name(const char *what, const char *path) {
    return *path ? 0 : fail(STATUS_CONFIG, "%s: the name of the file is empty", what);
}

int outfile_check(const char *what, const char *path) {
    places places;
    if (check_name(what, path))
        return STATUS_CONFIG;
    if (!outfile_is_plain(path)) {
        int why = why_not(path);
        return why ? complain(what, path, why) : 0;
    }
    int fd = open_beside(&places, path);
    if (fd < 0)
        return errno == ENAMETOOLONG ? fail(STATUS_USAGE, "%s: too long a path", what)
                                     : complain(what, path, errno);
    (void)unlink(places.beside);
    close(fd);
    return 0;
}

static int replace_plain(const char *path, void (*write)(const void *ctx, FILE *out),
                         const void *ctx) {
    places places;
    int fd = open_beside(&places, path);
    if (fd < 0)
        return errno;
    FILE *out = fdopen(fd, "w");
    int why = out ? fill(out, write, ctx) : errno;
    if (!out)
        close(fd);
    if (!why && rename(places.beside, places.place))
        why = errno;
    if (why)
        (void)unlink(places.beside);
    return why;
}

/* A pipe or a device. The wait has a limit, since a pipe may have no reader. */
static int open_special(const char *path) {
    static const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat st;
    int fd = open(path, flags);
    for (int i = 0; fd < 0 && errno == ENXIO && i < TRIES; i++) {
        pause_shortly();
        fd = open(path, flags);
    }
    if (fd < 0 && errno == ENXIO && stat(path, &st) == 0)
        errno = S_ISFIFO(st.st_mode) ? EPIPE : ENXIO;
    return fd;
}

static int write_special(const char *path, const char *text, size_t len) {
    int fd = open_special(path), why = fd < 0 ? errno : 0;
    for (int tries = 0; !why && len > 0;) {
        ssize_t n = write(fd, text, len);
        if (n > 0) {
            text += n;
            len -= (size_t)n;
            tries = 0;
        } else if (n < 0 && errno == EWOULDBLOCK && ++tries < TRIES) {
            pause_shortly();
        } else if (n == 0 || errno != EINTR) {
            why = n == 0 ? EIO : errno;
        }
    }
    if (fd >= 0 && close(fd) && !why)
        why = errno;
    return why;
}

static int replace_special(const char *path, void (*write)(const void *ctx, FILE *out),
                           const void *ctx) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return errno;
    int why = fill(out, write, ctx);
    if (!why)
        why = write_special(path, text, len);
    free(text);
    return why;
}

int outfile_replace_quietly(const char *path, void (*write)(const void *ctx, FILE *out),
                            const void *ctx) {
    int given = given_fd(path);
    if (given >= 0) {
        FILE *out = open_given(given);
        return out ? fill(out, write, ctx) : errno;
    }
    return outfile_is_plain(path) ? replace_plain(path, write, ctx)
                                  : replace_special(path, write, ctx);
}

int outfile_replace(const char *what, const char *path, void (*write)(const void *ctx, FILE *out),
                    const void *ctx) {
    if (check_name(what, path))
        return STATUS_CONFIG;
    int why = outfile_replace_quietly(path, write, ctx);
    if (why == ENAMETOOLONG)
        return fail(STATUS_USAGE, "%s: too long a path", what);
    return why ? complain(what, path, why) : 0;
}

/* ---- adding a line ------------------------------------------------------------------------------ */

/* 0, or an errno: EWOULDBLOCK when another process holds the lock all the time. */
static int lock(int fd) {
    for (int i = 0; i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        pause_shortly();
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

/* Does the file end in the middle of a line? Its writer was killed, or does not write whole lines. */
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
    if (why && ftruncate(fd, st.st_size)) /* the earlier content stays, even if the line failed */
        return why;
    return why;
}

int outfile_append(const char *what, const char *path, const char *text, size_t len) {
    static const int flags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int given = given_fd(path);
    if (check_name(what, path))
        return STATUS_CONFIG;
    int fd = given < 0 ? open(path, flags, 0666) : copy_given(given);

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
