/*
 * Starts the redis-server of local:, the only place that makes a process. Between fork and exec it calls only
 * functions that are safe while other threads of the program hold any lock. It must never run a program named
 * by a relative PATH entry. The server must share nothing with its starter: no descriptors, signals,
 * terminal, session.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ground/bytes.h"
#include "ground/guard.h"
#include "transport/local/local_inside.h"

#define PROGRAM "redis-server"
#define PATH_DEFAULT "/usr/local/bin:/usr/bin"
#define FD_ABOVE 10        /* descriptors for the server are first moved above 0, 1 and 2 */
#define FD_REPORT 3        /* in the child; exec closes it */
#define FD_NAME 4          /* in the server: holds its name */
#define FD_MOST (1L << 20) /* on an old kernel descriptors below this are closed one by one */
#define SIGNALS 64

typedef enum { STEP_OK, STEP_FORK, STEP_TAKEN, STEP_HIDDEN, STEP_PREPARE, STEP_EXEC } launch_step;

/* The child's report if it fails to become the server; nothing if all went well. */
typedef struct {
    launch_step step;
    int sys_errno;
} report;

/* Everything that the child needs, prepared before the fork. */
typedef struct {
    int dir, log, report;
    long fd_most;
    struct sockaddr_un name;
    socklen_t name_size; /* 0: it has none */
    const char *program;
    char *const *argv;
} plan;

static char *const environment[] = {
    (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C",
    NULL};

/* ---- which program ----------------------------------------------------------------------------- */

static bool is_program(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

static bool find_program(char to[PATH_MAX]) {
    const char *path = secure_getenv("PATH");
    if (!path || !*path)
        path = PATH_DEFAULT;
    while (*path) {
        size_t n = strcspn(path, ":");
        int used = path[0] == '/' ? snprintf(to, PATH_MAX, "%.*s/%s", (int)n, path, PROGRAM) : 0;
        if (used > 0 && used < PATH_MAX && is_program(to))
            return true;
        path += path[n] ? n + 1 : n;
    }
    return false;
}

/* ---- in the child ------------------------------------------------------------------------------ */

static void give_up(int to, launch_step step) {
    report r = {step, errno};
    ssize_t n = write(to, &r, sizeof r);
    (void)n; /* if it fails, the starter has stopped reading */
    _exit(127);
}

static void reset_signals(void) {
    struct sigaction as_ever = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int n = 1; n <= SIGNALS; n++)
        (void)sigaction(n, &as_ever, NULL); /* some don't exist, or can't be changed */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void write_pid(int dir) {
    char text[TL_INT_SIZE];
    tl_bytes pid = tl__bytes_from_int(text, getpid());
    int fd = openat(dir, TL_LOCAL_PID, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                    S_IRUSR | S_IWUSR);
    ssize_t n = fd >= 0 ? write(fd, pid.p, pid.n) : -1;
    (void)n; /* it only informs people */
    if (fd >= 0)
        close(fd);
}

static void close_from(int first, long most) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
#endif
    for (long fd = first; fd < most; fd++)
        close((int)fd);
}

/* Lock the directory for the server's life, through the descriptor that becomes its standard input. */
static int take_directory(const plan *p) {
    int low = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, FD_ABOVE) : -1;
    if (low >= 0)
        close(low);
    if (fd < 0)
        give_up(p->report, STEP_PREPARE);
    if (GUARD(one_server_a_directory) && flock(fd, LOCK_EX | LOCK_NB) != 0)
        give_up(p->report, errno == EWOULDBLOCK ? STEP_TAKEN : STEP_PREPARE);
    return fd;
}

/* Bind its name; -1: it has none. */
static int take_name(const plan *p) {
    if (p->name_size == 0)
        return -1;
    int low = tl__local_take_name(&p->name, p->name_size);
    if (low < 0)
        give_up(p->report, errno == EADDRINUSE ? STEP_HIDDEN : STEP_PREPARE);
    int fd = fcntl(low, F_DUPFD_CLOEXEC, FD_ABOVE);
    if (fd < 0)
        give_up(p->report, STEP_PREPARE);
    return fd;
}

static void become_server(const plan *p) {
    reset_signals();
    (void)umask(S_IRWXG | S_IRWXO);
    if (fchdir(p->dir) != 0)
        give_up(p->report, STEP_PREPARE);
    int guard = take_directory(p), name = take_name(p);
    (void)unlinkat(p->dir, TL_LOCAL_SOCKET, 0); /* nothing listens on it */
    write_pid(p->dir);
    if (dup2(guard, STDIN_FILENO) < 0 || dup2(p->log, STDOUT_FILENO) < 0 ||
        dup2(p->log, STDERR_FILENO) < 0 || dup3(p->report, FD_REPORT, O_CLOEXEC) < 0 ||
        (name >= 0 && dup2(name, FD_NAME) < 0))
        give_up(p->report, STEP_PREPARE);
    close_from(name >= 0 ? FD_NAME + 1 : FD_NAME, p->fd_most);
    (void)execve(p->program, p->argv, environment);
    give_up(FD_REPORT, STEP_EXEC);
}

/* ---- in the program ---------------------------------------------------------------------------- */

/* The child exits at once. Its own child becomes the server, so no process has to wait for it. */
static bool make_process(const plan *p) {
    pid_t pid = fork();
    if (pid == 0) {
        (void)setsid();
        pid = fork();
        if (pid == 0)
            become_server(p);
        if (pid < 0)
            give_up(p->report, STEP_FORK);
        _exit(0);
    }
    int sys_errno = errno;
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    errno = sys_errno;
    return pid > 0;
}

/* The child's report, or STEP_OK if there is none, because it is the server now. */
static report await_report(int fd, tl_mono by) {
    report r = {STEP_OK, 0};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t left_ms;
    while ((left_ms = tl__ms_until(tl__mono_now(), by)) > 0) {
        if (poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) <= 0)
            continue;
        if (read(fd, &r, sizeof r) != (ssize_t)sizeof r)
            r.step = STEP_OK;
        break;
    }
    return r;
}

static bool above(int *fd) {
    int low = *fd;
    *fd = fcntl(low, F_DUPFD_CLOEXEC, FD_ABOVE);
    int saved = errno;
    close(low);
    errno = saved;
    return *fd >= 0;
}

static long most_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > FD_MOST)
        return FD_MOST;
    return (long)limit.rlim_cur;
}

static report launch(plan *p, tl_mono by) {
    int fds[2];
    report r = {STEP_FORK, 0};
    if (pipe2(fds, O_CLOEXEC) != 0)
        return (report){STEP_FORK, errno};
    p->report = fds[1];
    if (above(&p->report) && make_process(p))
        r.step = STEP_OK;
    r.sys_errno = errno;
    if (p->report >= 0)
        close(p->report);
    if (r.step == STEP_OK)
        r = await_report(fds[0], by);
    close(fds[0]);
    return r;
}

static tl_launch_result judge(const report *r, const char *program, const char *path,
                              tl_local_problem *problem) {
    switch (r->step) {
    case STEP_OK: return TL_LAUNCHED;
    case STEP_TAKEN: return TL_LAUNCH_TAKEN;
    case STEP_HIDDEN: return TL_LAUNCH_HIDDEN;
    case STEP_FORK:
        (void)tl__local_failed(problem, TL_ENOMEM, "local: no process for %s: %s", program,
                               strerror(r->sys_errno));
        break;
    case STEP_PREPARE:
        (void)tl__local_failed(problem, TL_EUNAVAILABLE, "local: %s: %s", path,
                               strerror(r->sys_errno));
        break;
    case STEP_EXEC:
        (void)tl__local_failed(problem, TL_EUNAVAILABLE, "local: %s: %s", program,
                               strerror(r->sys_errno));
        break;
    }
    return TL_LAUNCH_FAILED;
}

tl_launch_result tl__local_launch(const char *path, int dir, int log, tl_mono by,
                                  tl_local_problem *problem) {
    char program[PATH_MAX], socket[PATH_MAX], logfile[PATH_MAX];
    if (!find_program(program)) {
        (void)tl__local_failed(problem, TL_EUNAVAILABLE,
                               "local: no " PROGRAM
                               " in PATH: install it (Debian: apt install " PROGRAM
                               "), or give the URL of a server");
        return TL_LAUNCH_FAILED;
    }
    (void)snprintf(socket, sizeof socket, "%s/" TL_LOCAL_SOCKET, path);
    (void)snprintf(logfile, sizeof logfile, "%s/" TL_LOCAL_LOG, path);
    /* Locks must last until they expire: nothing is evicted, and writes are on disk within a second. Options
     * that old servers don't know stay at their defaults. */
    const char *const argv[] = {program,      "--port",
                                "0",          "--unixsocket",
                                socket,       "--unixsocketperm",
                                "700",        "--dir",
                                path,         "--logfile",
                                logfile,      "--loglevel",
                                "notice",     "--daemonize",
                                "no",         "--databases",
                                "1",          "--timeout",
                                "0",          "--save",
                                "",           "--appendonly",
                                "yes",        "--appendfsync",
                                "everysec",   "--aof-load-truncated",
                                "yes",        "--auto-aof-rewrite-min-size",
                                "16mb",       "--maxmemory",
                                "0",          "--maxmemory-policy",
                                "noeviction", NULL};
    plan p = {.dir = fcntl(dir, F_DUPFD_CLOEXEC, FD_ABOVE),
              .log = fcntl(log, F_DUPFD_CLOEXEC, FD_ABOVE),
              .fd_most = most_descriptors(),
              .program = program,
              .argv = (char *const *)(uintptr_t)argv};
    p.name_size = tl__local_name(path, &p.name);
    report r = {STEP_PREPARE, errno};
    if (p.dir >= 0 && p.log >= 0)
        r = launch(&p, by);
    if (p.dir >= 0)
        close(p.dir);
    if (p.log >= 0)
        close(p.log);
    return judge(&r, program, path, problem);
}
