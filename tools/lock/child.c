/*
 * Tidelock's end of the link to the supervisor, and the terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/below.h"
#include "lock/child.h"

static void lost_supervisor(child *c) {
    if (c->seen.ended)
        return;
    /* The kernel kills the command then. What else it started is out of reach. */
    c->seen.ended = c->seen.empty = true;
    c->seen.ended_by = SIGKILL;
    c->seen.exit_status = STATUS_SIGNAL + SIGKILL;
}

static void ask(child *c, supervisor_request r) {
    (void)send(c->link, &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int child_start(child *c, const supervisor_plan *plan) {
    *c = (child){.link = -1, .tty = -1};
    c->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    c->in_front = c->tty >= 0 && tcgetpgrp(c->tty) == getpgrp();
    c->until_ms = plan->until_ms;
    c->supervisor = supervisor_start(plan, &c->link);
    if (c->supervisor > 0)
        return 0;
    int why = errno;
    child_close(c);
    errno = why;
    return -1;
}

void child_signal(child *c, int sig, bool had_it) {
    ask(c, (supervisor_request){.what = ASK_SIGNAL, .sig = sig, .had_it = had_it});
}

/* If it has ended, and somebody has reaped it, its number may be another's. */
static bool is_supervisor_there(const child *c) {
    below_process p;

    return below_look(c->supervisor, &p) && p.parent == getpid();
}

void child_end_all(child *c, int sig) {
    int64_t until_ms = sig == SIGKILL ? MOMENT_NEVER : c->until_ms;
    bool had_it = is_supervisor_there(c) && below_end(c->supervisor, until_ms, sig, 0);
    ask(c, (supervisor_request){.what = ASK_ALL, .sig = sig, .had_it = had_it});
}

void child_until(child *c, int64_t until_ms) {
    c->until_ms = until_ms;
    ask(c, (supervisor_request){.what = ASK_UNTIL, .until_ms = until_ms});
}

void child_continue(child *c) {
    c->seen.stopped_by = 0;
    ask(c, (supervisor_request){.what = ASK_SIGNAL, .sig = SIGCONT});
}

void child_collect(child *c) {
    supervisor_report r;

    for (;;) {
        ssize_t n = recv(c->link, &r, sizeof r, MSG_DONTWAIT);
        if (n == (ssize_t)sizeof r) {
            c->seen = r;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n == 0 || errno != EAGAIN)
                lost_supervisor(c);
            return;
        }
    }
}

static void note_stopped(void *ctx, const below_process *p) {
    bool *stopped = ctx;

    *stopped = *stopped || p->state == 'T';
}

/* A shell that has just forked by vfork() can't stop before its child goes on, which is stopped. */
bool child_is_stopped(const child *c) {
    below_process now;
    bool stopped = false;

    if (c->seen.ended || c->seen.pid <= 0)
        return false;
    if (!below_look(c->seen.pid, &now))
        return c->seen.stopped_by != 0;
    if (now.state == 'D')
        (void)below_each(c->seen.pid, MOMENT_NEVER, note_stopped, &stopped);
    return stopped || now.state == 'T';
}

/* A command that is killed can't give back a terminal that it took for a group of its own. */
static void restore_terminal(const child *c) {
    pid_t now = c->in_front ? tcgetpgrp(c->tty) : -1;

    if (now > 0 && now != getpgrp() && kill(-now, 0) && errno == ESRCH)
        (void)tcsetpgrp(c->tty, getpgrp());
}

void child_close(child *c) {
    if (c->link >= 0) {
        ask(c, (supervisor_request){.what = ASK_LEAVE});
        close(c->link);
    }
    restore_terminal(c);
    if (c->tty >= 0)
        close(c->tty);
    c->link = c->tty = -1;
}
