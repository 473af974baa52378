/*
 * Starting the command and its life as a job: process group, terminal, stopping and continuing.
 * Between fork and exec only calls that are safe after a fork with threads are made.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/child.h"

static bool own_group_in_front(int tty) {
    return tty >= 0 && tcgetpgrp(tty) == getpgrp();
}

/* In the child. Never returns. */
static void become(const child *c, const signals *s, pid_t parent, int report, char **argv,
                   char **env) {
    (void)setpgid(0, 0);
    /* If the parent died before the call, nobody is left to send the signal. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(STATUS_INTERNAL);
    if (c->foreground)
        (void)tcsetpgrp(c->tty, getpid());
    signals_restore(s);
    (void)execvpe(argv[0], argv, env);
    int why = errno;
    (void)!write(report, &why, sizeof why);
    _exit(why == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

int child_start(child *c, const signals *s, char **argv, char **env) {
    int report[2];
    pid_t parent = getpid();

    *c = (child){.pid = -1, .tty = -1, .failure = -1};
    if (pipe2(report, O_CLOEXEC | O_NONBLOCK))
        return -1;
    c->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    c->foreground = own_group_in_front(c->tty);
    c->pid = fork();
    if (c->pid == 0)
        become(c, s, parent, report[1], argv, env);
    int why = errno;
    close(report[1]);
    c->failure = report[0];
    if (c->pid < 0) {
        c->foreground = false;
        child_close(c);
        errno = why;
        return -1;
    }
    (void)setpgid(c->pid, c->pid); /* the child does so too: whoever comes first */
    return 0;
}

void child_signal(const child *c, int sig) {
    if (kill(-c->pid, sig) && !c->ended)
        (void)kill(c->pid, sig);
}

void child_continue(child *c) {
    if (own_group_in_front(c->tty) && !c->ended) {
        (void)tcsetpgrp(c->tty, c->pid);
        c->foreground = true;
    }
    c->stopped_by = 0;
    child_signal(c, SIGCONT);
}

/* One change of its state; false when there is none to be had. */
static bool collect_one(child *c) {
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) ||
        info.si_pid == 0)
        return false;
    switch (info.si_code) {
    case CLD_STOPPED:
    case CLD_TRAPPED: c->stopped_by = info.si_status; return true;
    case CLD_CONTINUED: c->stopped_by = 0; return true;
    case CLD_EXITED: c->exit_status = info.si_status; break;
    default: c->ended_by = info.si_status; c->exit_status = STATUS_SIGNAL + info.si_status;
    }
    c->ended = true;
    if (read(c->failure, &c->start_failed, sizeof c->start_failed) != sizeof c->start_failed)
        c->start_failed = 0;
    return true;
}

void child_collect(child *c) {
    while (!c->ended && collect_one(c))
        ;
}

bool child_group_left(const child *c) {
    return kill(-c->pid, 0) == 0 || errno == EPERM;
}

void child_take_terminal(child *c) {
    if (c->foreground && tcgetpgrp(c->tty) == c->pid)
        (void)tcsetpgrp(c->tty, getpgrp());
    c->foreground = false;
}

void child_close(child *c) {
    child_take_terminal(c);
    if (c->tty >= 0)
        close(c->tty);
    if (c->failure >= 0)
        close(c->failure);
    c->tty = c->failure = -1;
}
