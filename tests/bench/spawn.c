/*
 * Starts the command that is to be measured ($TIDELOCK, or build/tidelock). It must never leave one
 * behind, however the benchmark ends.
 */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define WORDS_MAX 16
#define LINE_MS 20000
#define VERDICT_MOST 3
#define NOT_FOUND 127

/* Descriptors 1 and 2 go nowhere, but `from` to `to`. */
static void become(char **argv, int from, int to, pid_t parent) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)dup2(from == 1 ? to : nowhere, 1);
    (void)dup2(from == 2 ? to : nowhere, 2);
    (void)execv(argv[0], argv);
    _exit(NOT_FOUND);
}

static pid_t begin(const char *const *words, int from, int to) {
    const char *tool = getenv("TIDELOCK");
    char *argv[WORDS_MAX + 2] = {(char *)(tool && *tool ? tool : "build/tidelock")};
    pid_t parent = getpid();
    for (int i = 0; i < WORDS_MAX && words[i]; i++)
        argv[i + 1] = (char *)words[i];
    if (setenv("TIDELOCK_URL", bench_url(), 1) != 0)
        die("setenv: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0)
        become(argv, from, to, parent);
    return pid;
}

double spawn_run(const char *const *words) {
    int status;
    int64_t begun = now_ns();
    pid_t pid = begin(words, 0, -1);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(status) || WEXITSTATUS(status) > VERDICT_MOST)
        die("tidelock %s: wait status %d", words[0], status);
    return (double)(now_ns() - begun) / MS;
}

/* ---- one that goes on ------------------------------------------------------------------------ */

spawn spawn_start(const char *const *words, int from) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        die("pipe: %s", strerror(errno));
    spawn s = {.pid = begin(words, from, ends[1]), .fd = ends[0]};
    (void)close(ends[1]);
    return s;
}

void spawn_await(const spawn *s, int n) {
    char bytes[4096];
    while (n > 0) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        ssize_t got = poll(&p, 1, LINE_MS) > 0 ? read(s->fd, bytes, sizeof bytes) : 0;
        if (got <= 0)
            die("tidelock: it says no more");
        for (ssize_t i = 0; i < got; i++)
            n -= bytes[i] == '\n';
    }
}

int64_t spawn_cpu_ns(const spawn *s) {
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(s->pid, &clock) == 0)
        (void)clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

double spawn_memory_mb(const spawn *s) {
    char path[64], line[256];
    double kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)s->pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtod(line + 6, NULL);
    if (status)
        (void)fclose(status);
    return kb / 1024;
}

void spawn_stop(spawn *s) {
    int status;
    (void)kill(s->pid, SIGTERM);
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {}
    (void)close(s->fd);
}
