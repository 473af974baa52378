/*
 * Runs chronyc: without a shell, reading only its standard output, with limits on time and text.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skew/skew_sample.h"
#include "skew/skew_chrony.h"

#define LIMIT_MS 5000
#define OUTPUT_MOST 2048 /* bytes; its line has some 150 */
#define REAP_MS 5

extern char **environ;

static void fail_with(chrony_report *report, const char *status, const char *why) {
    report->status = status;
    (void)snprintf(report->why, sizeof report->why, "%s", why);
}

/* In its own process group, so that its children end with it, and without the signals that a watch
 * blocks. */
static int prepare(posix_spawnattr_t *attr) {
    sigset_t none, usual;

    (void)sigemptyset(&none);
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGINT);
    (void)sigaddset(&usual, SIGTERM);
    (void)sigaddset(&usual, SIGPIPE);
    int why = posix_spawnattr_setsigmask(attr, &none);
    why = why ? why : posix_spawnattr_setsigdefault(attr, &usual);
    return why ? why
               : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
}

/* Returns 0 or an errno. */
static int start(const char *socket, int out, pid_t *ret) {
    const char *const there[] = {"chronyc", "-n", "-c", "-h", socket, "tracking", NULL},
                      *const own[] = {"chronyc", "-n", "-c", "tracking", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int why = posix_spawn_file_actions_init(&files);

    if (why)
        return why;
    why = posix_spawnattr_init(&attr);
    if (why) {
        (void)posix_spawn_file_actions_destroy(&files);
        return why;
    }
    why = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    why = why ? why : posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    why = why ? why
              : posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    why = why ? why : prepare(&attr);
    why = why ? why
              : posix_spawnp(ret, "chronyc", &files, &attr,
                             (char *const *)(uintptr_t)(socket[0] ? there : own), environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return why;
}

/* Reads up to the end or the limit. False: the limit was reached, or there is too much text. */
static bool read_all(int fd, char *text, size_t room, size_t *used, tl_mono limit) {
    for (*used = 0; *used < room;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t ms = tl__ms_until(tl__mono_now(), limit);
        if (ms <= 0)
            return false;
        if (poll(&p, 1, (int)ms) <= 0)
            continue;
        ssize_t n = read(fd, text + *used, room - *used);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        *used += n > 0 ? (size_t)n : 0;
    }
    return false;
}

/* The exit status; -1: the process had to be killed. */
static int collect(pid_t pid, bool whole, tl_mono limit) {
    int status = 0;
    pid_t got = 0;

    while (whole && (got = waitpid(pid, &status, WNOHANG)) == 0 &&
           tl__mono_before(tl__mono_now(), limit))
        (void)poll(NULL, 0, REAP_MS);
    if (got == 0) {
        (void)kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        return -1;
    }
    return got == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* "506 Cannot talk to daemon" and the like: its first line. */
static void complain(chrony_report *report, const char *text, size_t n) {
    char said[100];
    const char *end = n ? memchr(text, '\n', n) : NULL;

    tl__bytes_print(said, sizeof said, tl__bytes(text, end ? (size_t)(end - text) : n));
    report->status = "silent";
    (void)snprintf(report->why, sizeof report->why, "chronyc fails: %s",
                   said[0] ? said : "is chronyd there?");
}

static void look(chrony_report *report, int fd, pid_t pid) {
    char text[OUTPUT_MOST];
    size_t used;
    tl_mono limit = tl__mono_add_ms(tl__mono_now(), LIMIT_MS);
    bool whole = read_all(fd, text, sizeof text, &used, limit);
    int status = collect(pid, whole, limit);

    report->at = skew_reading_now();
    if (!whole && used == sizeof text)
        fail_with(report, "unreadable", "the output of chronyc is not understood");
    else if (!whole || status < 0)
        fail_with(report, "silent", "chronyc did not respond in 5 s");
    else if (status != 0)
        complain(report, text, used);
    else
        report->known = chrony_read(text, used, report->at.wall_us, &report->state, &report->status,
                                    report->why);
}

void chrony_ask(chrony_report *report, const char *socket) {
    int out[2];
    pid_t pid = -1;

    *report = (chrony_report){.status = "unknown"};
    if (pipe2(out, O_CLOEXEC)) {
        fail_with(report, "unknown", strerror(errno));
        return;
    }
    int why = start(socket, out[1], &pid);
    close(out[1]);
    if (why == 0)
        look(report, out[0], pid);
    else if (why == ENOENT)
        fail_with(report, "silent", "chronyc is not on the PATH: is chrony installed?");
    else
        fail_with(report, "silent", strerror(why));
    close(out[0]);
}
