/*
 * Signals as events, and a wait for a lock that they can end. The library blocks in acquire and
 * must not be called from a signal handler, so acquire has a thread of its own while the main
 * thread, which alone forks and reads signals, stays free to cancel it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/tool.h"

static const int read_here[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGCHLD, SIGCONT, SIGTSTP};

static void note_ignored(signals *s) {
    sigemptyset(&s->ignored);
    for (size_t i = 0; i < sizeof read_here / sizeof read_here[0]; i++) {
        struct sigaction old;
        if (sigaction(read_here[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            sigaddset(&s->ignored, read_here[i]);
    }
}

int signals_begin(signals *s) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    note_ignored(s);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof read_here / sizeof read_here[0]; i++)
        sigaddset(&set, read_here[i]);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return -1;
    /* A background process that sets the terminal's foreground group would be stopped by TTOU. */
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, &s->old_mask);
    sigaction(SIGPIPE, &ignore, &s->old_pipe);
    sigaction(SIGCHLD, &usual, &s->old_child); /* ignored, a child's status would be lost */
    return 0;
}

void signals_end(signals *s) {
    close(s->fd);
    s->fd = -1;
}

void signals_restore(const signals *s) {
    sigaction(SIGPIPE, &s->old_pipe, NULL);
    sigaction(SIGCHLD, &s->old_child, NULL);
    sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

int signals_next(signals *s) {
    struct signalfd_siginfo info;

    for (;;) {
        ssize_t n = read(s->fd, &info, sizeof info);
        if (n == (ssize_t)sizeof info)
            return (int)info.ssi_signo;
        if (n >= 0 || errno != EINTR)
            return 0;
    }
}

bool signals_ends(const signals *s, int sig) {
    bool ends = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;

    return ends && !sigismember(&s->ignored, sig);
}

void signals_stop(int sig, bool group) {
    sigset_t set, old;

    if (group)
        (void)kill(0, sig);
    else
        (void)raise(sig);
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_UNBLOCK, &set, &old); /* stops here, and goes on after SIGCONT */
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Read what has come; the first that asks us to end, or 0. */
static int ending_signal(signals *s) {
    int sig;

    while ((sig = signals_next(s)) != 0) {
        if (sig == SIGTSTP && !sigismember(&s->ignored, SIGTSTP))
            signals_stop(SIGTSTP, false);
        else if (signals_ends(s, sig))
            return sig;
    }
    return 0;
}

int signals_pause(signals *s, int64_t ms) {
    int64_t until = moment_ms() + ms;
    int sig = ending_signal(s);

    for (int64_t left = ms; sig == 0 && left > 0; left = until - moment_ms()) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        (void)poll(&p, 1, left > 60000 ? 60000 : (int)left);
        sig = ending_signal(s);
    }
    return sig;
}

/* ---- acquire ------------------------------------------------------------------------------- */

typedef struct {
    tl_lock *lock;
    int64_t wait_ms;
    tl_err result;
    tl_error err;
    int done; /* an eventfd */
} waiter;

static void *wait_for_lock(void *ctx) {
    waiter *w = ctx;
    uint64_t one = 1;

    w->result = tl_lock_acquire(w->lock, w->wait_ms, &w->err);
    (void)!write(w->done, &one, sizeof one);
    return NULL;
}

/* Until the waiter is done; returns the signal that cancelled it, or 0. */
static int watch(signals *s, const waiter *w) {
    struct pollfd p[] = {{.fd = w->done, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
    int cancelled_by = 0;

    for (;;) {
        (void)poll(p, 2, -1);
        int sig = ending_signal(s);
        if (sig && !cancelled_by) {
            cancelled_by = sig;
            tl_lock_cancel(w->lock);
        }
        if (p[0].revents)
            return cancelled_by;
    }
}

static tl_err no_thread(tl_error *err, int why) {
    *err = (tl_error){.code = TL_ENOMEM, .sys_errno = why};
    (void)snprintf(err->message, sizeof err->message, "start a thread: %s", strerror(why));
    return TL_ENOMEM;
}

tl_err signals_acquire(signals *s, tl_lock *lock, int64_t wait_ms, int *ret_signal, tl_error *err) {
    waiter w = {.lock = lock, .wait_ms = wait_ms, .done = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;

    *ret_signal = 0;
    if (w.done < 0)
        return no_thread(err, errno);
    int failed = pthread_create(&thread, NULL, wait_for_lock, &w);
    if (failed) {
        close(w.done);
        return no_thread(err, failed);
    }
    int sig = watch(s, &w);
    pthread_join(thread, NULL);
    close(w.done);
    if (sig) {
        if (w.result == TL_OK)
            (void)tl_lock_release(lock, NULL);
        *ret_signal = sig;
        return TL_ECANCELLED;
    }
    if (w.result)
        *err = w.err;
    return w.result;
}
