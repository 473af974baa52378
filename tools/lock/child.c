/*
 * Tidelock's side of the link to the supervisor, and the terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/below.h"
#include "lock/child.h"

static void lost_supervisor(child *child) {
    if (child->seen.ended && (child->seen.empty || !child->ending))
        return;
    /* The kernel kills the command then. Nothing reaches what else it started. */
    child->lost = child->seen.empty = true;
    if (child->seen.ended)
        return;
    child->seen.ended = true;
    child->seen.ended_by = SIGKILL;
    child->seen.exit_status = STATUS_SIGNAL + SIGKILL;
}

static void ask(child *child, supervisor_request request) {
    (void)send(child->link, &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int child_start(child *ret, const supervisor_plan *plan) {
    *ret = (child){.link = -1, .tty = -1};
    ret->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    ret->in_front = ret->tty >= 0 && tcgetpgrp(ret->tty) == getpgrp();
    ret->until_ms = plan->until_ms;
    ret->supervisor = supervisor_start(plan, &ret->link);
    if (ret->supervisor > 0)
        return 0;
    int why = errno;
    child_close(ret);
    errno = why;
    return -1;
}

void child_signal(child *child, int sig, bool had_it) {
    ask(child, (supervisor_request){.what = ASK_SIGNAL, .sig = sig, .had_it = had_it});
}

/* If the supervisor has ended and was reaped, its pid may be another process's. */
static bool is_supervisor_there(const child *child) {
    below_process process;

    return below_look(child->supervisor, &process) && process.parent == getpid();
}

void child_end_all(child *child, int sig) {
    int64_t until_ms = sig == SIGKILL ? MOMENT_NEVER : child->until_ms;
    child->ending = true;
    bool had_it = is_supervisor_there(child) && below_end(child->supervisor, until_ms, sig, 0);
    ask(child, (supervisor_request){.what = ASK_ALL, .sig = sig, .had_it = had_it});
}

void child_until(child *child, int64_t until_ms) {
    child->until_ms = until_ms;
    ask(child, (supervisor_request){.what = ASK_UNTIL, .until_ms = until_ms});
}

void child_halt(child *child, bool halt) {
    ask(child, (supervisor_request){.what = ASK_HALT, .sig = halt ? SIGSTOP : SIGCONT});
}

void child_continue(child *child) {
    child->seen.stopped_by = 0;
    ask(child, (supervisor_request){.what = ASK_SIGNAL, .sig = SIGCONT});
}

void child_collect(child *child) {
    supervisor_report report;

    for (;;) {
        ssize_t n = recv(child->link, &report, sizeof report, MSG_DONTWAIT);
        if (n == (ssize_t)sizeof report) {
            child->seen = report;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n == 0 || errno != EAGAIN)
                lost_supervisor(child);
            return;
        }
    }
}

static void note_stopped(void *ctx, const below_process *process) {
    bool *stopped = ctx;

    *stopped = *stopped || process->state == 'T';
}

/* A shell can't stop after a vfork() until its child runs on. If that child is stopped, the command counts
 * as stopped. */
bool child_is_stopped(const child *child) {
    below_process now;
    bool stopped = false;

    if (child->seen.ended || child->seen.pid <= 0)
        return false;
    if (!below_look(child->seen.pid, &now))
        return child->seen.stopped_by != 0;
    if (now.state == 'D')
        (void)below_each(child->seen.pid, MOMENT_NEVER, note_stopped, &stopped);
    return stopped || now.state == 'T';
}

/* A command that was killed can't return a terminal that it took for a process group of its own. */
static void restore_terminal(const child *child) {
    pid_t now = child->in_front ? tcgetpgrp(child->tty) : -1;

    if (now > 0 && now != getpgrp() && kill(-now, 0) && errno == ESRCH)
        (void)tcsetpgrp(child->tty, getpgrp());
}

void child_close(child *child) {
    if (child->link >= 0) {
        ask(child, (supervisor_request){.what = ASK_LEAVE});
        close(child->link);
    }
    restore_terminal(child);
    if (child->tty >= 0)
        close(child->tty);
    child->link = child->tty = -1;
}
