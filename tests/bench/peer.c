/*
 * Its standard input and output are one socket: it is told a line, and answers with a line. When the
 * socket closes, however the benchmark ends, it ends by itself.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define LINE_SIZE 65536
#define LINE_S 60 /* a machine of Java's and its hundred clients take their time */
#define END_MS 5000

struct peer {
    pid_t pid;
    int n;
    const char *path;
    FILE *from;
    char line[LINE_SIZE];
};

/* What it says on stderr goes to PATH.log. */
__attribute__((noreturn)) static void become(const char *path, int end, char **argv) {
    char log[1024];
    (void)snprintf(log, sizeof log, "%s.log", path);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* however stuck it is */
    (void)dup2(end, 0);
    (void)dup2(end, 1);
    (void)dup2(fd, 2);
    (void)execv(path, argv);
    _exit(127);
}

static const char *answer_of(peer *p, const char *begins) {
    size_t n = strlen(begins);
    if (!fgets(p->line, sizeof p->line, p->from))
        die("%s: it says no more; see %s.log", p->path, p->path);
    if (strncmp(p->line, begins, n) != 0)
        die("%s: it says '%.60s' instead of '%s'", p->path, p->line, begins);
    return p->line + n;
}

static void say(const peer *p, const char *line) {
    size_t n = strlen(line);
    if (send(fileno(p->from), line, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("%s: it has ended; see %s.log", p->path, p->path);
}

peer *peer_open(const char *path, int port, int n, int64_t hold_us) {
    const struct timeval limit = {.tv_sec = LINE_S};
    char words[3][24], key[64];
    char *argv[] = {(char *)path, words[0], words[1], words[2], key, NULL};
    int ends[2];
    peer *p = calloc(1, sizeof *p);
    (void)snprintf(words[0], sizeof words[0], "%d", port);
    (void)snprintf(words[1], sizeof words[1], "%d", n);
    (void)snprintf(words[2], sizeof words[2], "%lld", (long long)hold_us);
    (void)snprintf(key, sizeof key, "bench:%s", basename(path));
    if (!p || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        die("%s: %s", path, strerror(errno));
    (void)setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    p->n = n;
    p->path = path;
    p->pid = fork();
    if (p->pid < 0)
        die("fork: %s", strerror(errno));
    if (p->pid == 0)
        become(path, ends[1], argv);
    (void)close(ends[1]);
    p->from = fdopen(ends[0], "r");
    if (!p->from)
        die("%s: %s", path, strerror(errno));
    (void)answer_of(p, "ready");
    return p;
}

void peer_close(peer *p) {
    if (!p)
        return;
    (void)fclose(p->from);
    for (int ms = 0; ms < END_MS && waitpid(p->pid, NULL, WNOHANG) == 0; ms += 10)
        if (poll(NULL, 0, 10) < 0 || ms + 10 >= END_MS)
            (void)kill(p->pid, SIGKILL);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) {}
    free(p);
}

void peer_begin(peer *p) {
    say(p, "go\n");
    (void)answer_of(p, "ok");
}

void peer_end(peer *p) {
    say(p, "stop\n");
    (void)answer_of(p, "ok");
}

double peer_turns(peer *p, double *ret_turns) {
    char *rest;
    say(p, "turns\n");
    double held_ns = strtod(answer_of(p, "turns "), &rest);
    for (int i = 0; i < p->n; i++)
        ret_turns[i] = strtod(rest, &rest);
    return held_ns;
}
