/*
 * The directory of local:, its files and its locks. It must never use a directory that another user owns or
 * may enter, since that user could put another server in place. The default may depend only on the user: two
 * directories are two holders of one lock.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ground/bytes.h"
#include "ground/guard.h"
#include "transport/local/local_inside.h"

#define LOG_MAX 65536 /* a larger log is renamed before a start; so about twice this is stored */
#define LOG_ASIDE TL_LOCAL_LOG ".old"
#define EVERYBODYS "/tmp"
#define TAIL 2048 /* bytes of the log that are searched for its last line */

bool tl__local_failed(tl_local_problem *problem, tl_err code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->message, sizeof problem->message, format, args);
    va_end(args);
    for (char *c = problem->message; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?'; /* a path may contain them */
    problem->code = code;
    return false;
}

/* Not the session's directory, which is removed with the last session. Nor one below the home directory,
 * which several hosts may share, and which may not be mounted yet when cron runs. */
void tl__local_default_dir(char *to) {
    (void)snprintf(to, TL_LOCAL_DIR_SIZE, EVERYBODYS "/tidelock-%lu", (unsigned long)geteuid());
}

static bool is_default(const char *path) {
    char dir[TL_LOCAL_DIR_SIZE];
    tl__local_default_dir(dir);
    return strcmp(path, dir) == 0;
}

/* ---- trust ------------------------------------------------------------------------------------- */

static bool may_be_trusted(const char *path, int fd, tl_local_problem *problem) {
    struct stat s;
    if (fstat(fd, &s) != 0)
        return tl__local_failed(problem, TL_EUNAVAILABLE, "local: %s: %s", path, strerror(errno));
    if (s.st_uid != geteuid())
        return tl__local_failed(problem, TL_EDENIED,
                                "local: %s is refused, because it belongs to user %lu, not %lu",
                                path, (unsigned long)s.st_uid, (unsigned long)geteuid());
    if (GUARD(directory_is_private) && (s.st_mode & (S_IRWXG | S_IRWXO)))
        return tl__local_failed(problem, TL_EDENIED,
                                "local: %s is refused, because others may enter it: chmod 700 it",
                                path);
    return true;
}

/* In a directory where every user may write, only the sticky bit keeps others from moving ours. */
static bool may_stay(const char *path, tl_local_problem *problem) {
    struct stat s;
    if (!is_default(path) || stat(EVERYBODYS, &s) != 0 || (s.st_mode & S_ISVTX) ||
        !(s.st_mode & (S_IWGRP | S_IWOTH)))
        return true;
    return tl__local_failed(
        problem, TL_EDENIED,
        "local: %s is refused, because others may move it away: chmod +t " EVERYBODYS, path);
}

static bool not_opened(const char *path, tl_local_problem *problem) {
    if (errno == ELOOP || errno == ENOTDIR)
        return tl__local_failed(
            problem, TL_EDENIED,
            "local: %s is refused, because it is a symbolic link or no directory", path);
    return tl__local_failed(problem, errno == EACCES ? TL_EDENIED : TL_EUNAVAILABLE,
                            "local: %s: %s", path, strerror(errno));
}

int tl__local_open_dir(const char *path, bool make, tl_local_problem *problem) {
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    *problem = (tl_local_problem){.code = TL_OK};
    int fd = open(path, how);
    if (fd < 0 && errno == ENOENT && !make)
        return -1;
    if (fd < 0 && errno == ENOENT && (mkdir(path, S_IRWXU) == 0 || errno == EEXIST))
        fd = open(path, how);
    if (fd < 0) {
        (void)not_opened(path, problem);
        return -1;
    }
    if (may_be_trusted(path, fd, problem) && may_stay(path, problem))
        return fd;
    close(fd);
    return -1;
}

bool tl__local_may_enter(const char *path, tl_local_problem *problem) {
    int fd = tl__local_open_dir(path, false, problem);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool tl__local_is_ours(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* ---- its name --------------------------------------------------------------------------------- */

/* The default directory is identified by the root directory of this process. Another one is identified by its
 * parent directory and its last component, however the path was written. */
static bool place_of(const char *path, struct stat *ret_in, uint64_t *ret_name) {
    char in[TL_LOCAL_DIR_SIZE] = "/";
    const char *name = strrchr(path, '/');
    *ret_name = 0;
    if (!is_default(path) && name) {
        if (name > path)
            (void)snprintf(in, sizeof in, "%.*s", (int)(name - path), path);
        *ret_name = tl__bytes_hash(0, tl__bytes_of(name));
    }
    return stat(in, ret_in) == 0;
}

socklen_t tl__local_name(const char *path, struct sockaddr_un *ret) {
    struct stat in;
    uint64_t name;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!place_of(path, &in, &name))
        return 0;
    int n = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "tidelock-local-%lu-%llx-%llx",
                     (unsigned long)geteuid(), (unsigned long long)in.st_dev,
                     (unsigned long long)in.st_ino);
    if (name)
        n += snprintf(ret->sun_path + 1 + n, sizeof ret->sun_path - 1 - (size_t)n, "-%llx",
                      (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int tl__local_take_name(const struct sockaddr_un *name, socklen_t size) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)name, size) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

bool tl__local_hidden(const char *path, tl_local_problem *problem) {
    if (!is_default(path))
        return tl__local_failed(problem, TL_EUNAVAILABLE,
                                "local: the private server of %s runs, but not there: move its "
                                "directory back, or kill that redis-server",
                                path);
    return tl__local_failed(
        problem, TL_EUNAVAILABLE,
        "local: this user's private server runs, but not in %s: if that is another " EVERYBODYS
        " than its own, give all programs that share locks the URL local:/DIRECTORY; if it was "
        "removed, kill that redis-server",
        path);
}

bool tl__local_is_hidden(const char *path, tl_local_problem *problem) {
    struct sockaddr_un name;
    socklen_t size = tl__local_name(path, &name);
    int fd = size ? tl__local_take_name(&name, size) : -1;
    if (fd < 0 && size && errno == EADDRINUSE)
        return !tl__local_hidden(path, problem);
    if (fd >= 0)
        close(fd);
    return false;
}

/* ---- the server in it -------------------------------------------------------------------------- */

bool tl__local_is_alive(int dir) {
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return true; /* unknown, so start none */
    int result = flock(fd, LOCK_SH | LOCK_NB);
    bool alive = result != 0 && errno == EWOULDBLOCK;
    if (result == 0)
        (void)flock(fd, LOCK_UN); /* a process that was forked meanwhile may share the lock */
    close(fd);
    return alive;
}

static ssize_t read_at(int dir, const char *name, char *to, size_t size, int64_t from) {
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t n = pread(fd, to, size, from);
    close(fd);
    return n;
}

int64_t tl__local_pid(int dir) {
    char text[TL_INT_SIZE];
    int64_t pid = 0;
    ssize_t n = read_at(dir, TL_LOCAL_PID, text, sizeof text, 0);
    return n > 0 && tl__bytes_to_int(tl__bytes(text, (size_t)n), &pid) && pid > 0 ? pid : 0;
}

/* ---- its log ----------------------------------------------------------------------------------- */

static int open_log(int dir) {
    return openat(dir, TL_LOCAL_LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                  S_IRUSR | S_IWUSR);
}

int tl__local_open_log(int dir, int64_t *ret_size) {
    struct stat s;
    int fd = open_log(dir);
    if (fd >= 0 && fstat(fd, &s) == 0 && s.st_size > LOG_MAX &&
        renameat(dir, TL_LOCAL_LOG, dir, LOG_ASIDE) == 0) {
        close(fd);
        fd = open_log(dir);
    }
    *ret_size = fd >= 0 && fstat(fd, &s) == 0 ? s.st_size : 0;
    return fd;
}

/* "123:M 21 Nov 2026 13:40:00.123 # message": only the message. */
static tl_bytes without_stamp(tl_bytes line) {
    for (size_t i = 0; i + 2 < line.n && i < 64; i++)
        if (line.p[i] == ' ' && strchr("#*-.", line.p[i + 1]) && line.p[i + 2] == ' ')
            return tl__bytes(line.p + i + 3, line.n - i - 3);
    return line;
}

static tl_bytes last_line(tl_bytes text) {
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == ' '))
        text.n--;
    const char *newline = text.n ? memrchr(text.p, '\n', text.n) : NULL;
    size_t skip = newline ? (size_t)(newline + 1 - text.p) : 0;
    return without_stamp(tl__bytes(text.p + skip, text.n - skip));
}

void tl__local_last_line(int dir, int64_t from, char *line, size_t size) {
    char text[TAIL];
    struct stat s;
    line[0] = '\0';
    if (fstatat(dir, TL_LOCAL_LOG, &s, AT_SYMLINK_NOFOLLOW) != 0 || s.st_size <= from)
        return;
    ssize_t n = read_at(dir, TL_LOCAL_LOG, text, sizeof text,
                        s.st_size - from > TAIL ? s.st_size - TAIL : from);
    if (n > 0)
        tl__bytes_print(line, size, last_line(tl__bytes(text, (size_t)n)));
}
