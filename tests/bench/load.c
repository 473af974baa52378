/*
 * Pipelined SETs over a few connections, in turn: while the answers of one are read, the commands of
 * the others wait in the server's sockets.
 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define CONNECTIONS 4
#define DEPTH 48      /* commands on their way in each */
#define ANSWER_SIZE 5 /* "+OK\r\n" */
#define NICE 10       /* what is looked for is a busy server, not a busy client */

static pid_t pid;

static char commands[DEPTH * 64];
static size_t commands_size;

/* Formatting and parsing would keep it busier than the server. */
static void make_commands(void) {
    for (int k = 0; k < DEPTH; k++)
        commands_size += (size_t)snprintf(
            commands + commands_size, sizeof commands - commands_size,
            "*3\r\n$3\r\nSET\r\n$12\r\nbench:load:%c\r\n$8\r\n01234567\r\n", '0' + k);
}

static void ask(int fd) {
    if (write(fd, commands, commands_size) != (ssize_t)commands_size)
        _exit(1);
}

static void take(int fd) {
    char bytes[DEPTH * ANSWER_SIZE];
    for (size_t had = 0; had < sizeof bytes;) {
        ssize_t got = read(fd, bytes + had, sizeof bytes - had);
        if (got <= 0 || bytes[0] != '+')
            _exit(1);
        had += (size_t)got;
    }
}

/* Until it is killed. */
static void work(int ready) {
    int fd[CONNECTIONS];
    make_commands();
    if (nice(NICE) < 0)
        _exit(1);
    for (int i = 0; i < CONNECTIONS; i++) {
        fd[i] = bench_connect_near()->fd;
        ask(fd[i]);
    }
    for (uint64_t turn = 0;; turn++) {
        for (int i = 0; i < CONNECTIONS; i++) {
            take(fd[i]);
            ask(fd[i]);
        }
        if (turn == 0 && write(ready, "", 1) != 1)
            _exit(1);
    }
}

void load_start(void) {
    int ends[2];
    char byte;
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0)
        die("load: %s", strerror(errno));
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        work(ends[1]);
    }
    (void)close(ends[1]);
    if (read(ends[0], &byte, 1) != 1)
        die("load: it did not begin");
    (void)close(ends[0]);
}

void load_stop(void) {
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}
