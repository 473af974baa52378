/*
 * Signals as events, and a wait for a lock that they can end. An acquire blocks, and the library
 * must not be called from a signal handler. So another thread acquires, while the main
 * thread, the only one that forks and reads signals, can cancel it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "ground/guard.h"
#include "base/tool.h"

/*
 * Every signal of the system except KILL and STOP. Signals without a row, as the real-time signals,
 * are passed on. A fault of the tool itself (SEGV and the like) still ends the process at once, blocked
 * or not; a signal that is read here was sent by kill(2).
 */
static const struct {
    int sig;
    signal_role role;
} table[] = {
    {SIGINT, SIGNAL_ENDING},   {SIGTERM, SIGNAL_ENDING},  {SIGHUP, SIGNAL_ENDING},
    {SIGQUIT, SIGNAL_ENDING},  {SIGALRM, SIGNAL_ENDING},  {SIGVTALRM, SIGNAL_ENDING},
    {SIGPROF, SIGNAL_ENDING},  {SIGXCPU, SIGNAL_ENDING},  {SIGPWR, SIGNAL_ENDING},
    {SIGIO, SIGNAL_ENDING},    {SIGABRT, SIGNAL_ENDING},  {SIGSEGV, SIGNAL_ENDING},
    {SIGBUS, SIGNAL_ENDING},   {SIGFPE, SIGNAL_ENDING},   {SIGILL, SIGNAL_ENDING},
    {SIGTRAP, SIGNAL_ENDING},  {SIGSYS, SIGNAL_ENDING},   {SIGSTKFLT, SIGNAL_ENDING},
    {SIGTSTP, SIGNAL_JOB},     {SIGTTIN, SIGNAL_JOB},     {SIGTTOU, SIGNAL_JOB},
    {SIGPIPE, SIGNAL_IGNORED}, {SIGXFSZ, SIGNAL_IGNORED}, {SIGCHLD, SIGNAL_OURS},
    {SIGCONT, SIGNAL_OURS},    {SIGUSR1, SIGNAL_PASSED},  {SIGUSR2, SIGNAL_PASSED},
    {SIGWINCH, SIGNAL_PASSED}, {SIGURG, SIGNAL_PASSED},
};

signal_role signals_role(int sig) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (GUARD(signals_have_roles) && table[i].sig == sig)
            return table[i].role;
    return SIGNAL_PASSED;
}

/* The terminal sends these to the whole foreground process group, so the command receives them too. */
static bool is_of_terminals(int sig) {
    switch (sig) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGWINCH: return true;
    case SIGHUP: return getsid(0) != getpid(); /* only the leader of a session receives it */
    default: return false;
    }
}

/*
 * The C library reserves two signals, and does not let a program block or change them. Their
 * default action would end the process. The system call changes them; the struct is zero except for its
 * first member, the handler.
 */
#define KERNEL_ACTION_SIZE 64
#define KERNEL_SET_SIZE 8
static const int reserved[] = {32, 33};
#define RESERVED (sizeof reserved / sizeof reserved[0])
typedef struct {
    void (*handler)(int);
    char rest[KERNEL_ACTION_SIZE];
} kernel_action;

static void set_reserved(void (*from)(int), void (*to)(int)) {
    for (size_t i = 0; i < RESERVED; i++) {
        kernel_action now = {.handler = SIG_DFL}, then = {.handler = to};
        if (syscall(SYS_rt_sigaction, reserved[i], NULL, &now, (size_t)KERNEL_SET_SIZE) == 0 &&
            now.handler == from)
            (void)syscall(SYS_rt_sigaction, reserved[i], &then, NULL, (size_t)KERNEL_SET_SIZE);
    }
}

static void note_ignored(signals *signals) {
    sigemptyset(&signals->ignored);
    for (int sig = 1; sig <= SIGRTMAX; sig++) {
        struct sigaction old;
        if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            sigaddset(&signals->ignored, sig);
    }
}

int signals_begin(signals *signals) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    note_ignored(signals);
    sigfillset(&set);
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return -1;
    sigprocmask(SIG_BLOCK, &set, &signals->old_mask);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGCHLD, &usual, NULL); /* if it were ignored, a child's status would be lost */
    set_reserved(SIG_DFL, SIG_IGN);
    return 0;
}

void signals_end(signals *signals) {
    close(signals->fd);
    signals->fd = -1;
}

void signals_restore(const signals *signals) {
    static const int changed[] = {SIGPIPE, SIGCHLD};

    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        bool ignored = sigismember(&signals->ignored, changed[i]) == 1;
        struct sigaction old = {.sa_handler = ignored ? SIG_IGN : SIG_DFL};
        sigaction(changed[i], &old, NULL);
    }
    set_reserved(SIG_IGN, SIG_DFL);
    sigprocmask(SIG_SETMASK, &signals->old_mask, NULL);
}

/* Reap children that have ended: supervisors, and orphans if this is process 1 of a container. A child whose
 * status matters is waited for where it is started, before the next signal is read. */
static void reap(void) {
    siginfo_t info;

    do
        info.si_pid = 0;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0);
}

int signals_next_from(signals *signals, bool *ret_by_terminal) {
    struct signalfd_siginfo info;

    for (;;) {
        ssize_t n = read(signals->fd, &info, sizeof info);
        if (n == (ssize_t)sizeof info) {
            if (info.ssi_signo == SIGCHLD)
                reap();
            *ret_by_terminal = info.ssi_code > 0 && is_of_terminals((int)info.ssi_signo);
            return (int)info.ssi_signo;
        }
        if (n >= 0 || errno != EINTR)
            return 0;
    }
}

int signals_next(signals *signals) {
    bool by_terminal;

    return signals_next_from(signals, &by_terminal);
}

bool signals_ends(const signals *signals, int sig) {
    return signals_role(sig) == SIGNAL_ENDING && sigismember(&signals->ignored, sig) != 1;
}

bool signals_continued(void) {
    sigset_t set;

    return sigpending(&set) == 0 && sigismember(&set, SIGCONT) == 1;
}

void signals_stop(int sig) {
    sigset_t set, old;

    (void)raise(sig);
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_UNBLOCK, &set, &old); /* the process stops here, and continues after SIGCONT */
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static int dies_of;

int signals_status(int sig) {
    dies_of = sig;
    return STATUS_SIGNAL + sig;
}

int signals_die(int status) {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    struct rlimit none = {0, 0};
    sigset_t set;

    if ((dies_of != SIGINT && dies_of != SIGQUIT) || status != STATUS_SIGNAL + dies_of)
        return status;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0); /* a core that is piped to a program ignores the limit */
    (void)sigaction(dies_of, &usual, NULL);
    (void)raise(dies_of);
    sigemptyset(&set);
    sigaddset(&set, dies_of);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return status;
}

/* Read the pending signals; returns the first that asks the tool to end, or 0. */
static int ending_signal(signals *signals) {
    int sig;

    while ((sig = signals_next(signals)) != 0) {
        if (signals_role(sig) == SIGNAL_JOB && sigismember(&signals->ignored, sig) != 1)
            signals_stop(sig);
        else if (signals_ends(signals, sig))
            return sig;
    }
    return 0;
}

int signals_pause_or(signals *signals, int fd, int64_t ms) {
    int64_t until = moment_ms() + ms;
    int sig = ending_signal(signals);
    bool ready = false;

    for (int64_t left = ms; sig == 0 && left > 0 && !ready; left = until - moment_ms()) {
        struct pollfd p[] = {{.fd = signals->fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        (void)poll(p, 2, left > 60000 ? 60000 : (int)left);
        ready = p[1].revents != 0;
        sig = ending_signal(signals);
    }
    return sig;
}

int signals_pause(signals *signals, int64_t ms) {
    return signals_pause_or(signals, -1, ms);
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
    waiter *waiter = ctx;
    uint64_t one = 1;

    waiter->result = tl_lock_acquire(waiter->lock, waiter->wait_ms, &waiter->err);
    (void)!write(waiter->done, &one, sizeof one);
    return NULL;
}

/* Until the waiter is done; returns the signal that cancelled it, or 0. */
static int watch(signals *signals, const waiter *waiter) {
    struct pollfd p[] = {{.fd = waiter->done, .events = POLLIN},
                         {.fd = signals->fd, .events = POLLIN}};
    int cancelled_by = 0;

    for (;;) {
        (void)poll(p, 2, -1);
        int sig = ending_signal(signals);
        if (sig && !cancelled_by) {
            cancelled_by = sig;
            tl_lock_cancel(waiter->lock);
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

tl_err signals_acquire(signals *signals, tl_lock *lock, int64_t wait_ms, int *ret_signal,
                       tl_error *err) {
    waiter waiter = {.lock = lock, .wait_ms = wait_ms, .done = eventfd(0, EFD_CLOEXEC)};
    pthread_t thread;

    *ret_signal = 0;
    if (waiter.done < 0)
        return no_thread(err, errno);
    int failed = pthread_create(&thread, NULL, wait_for_lock, &waiter);
    if (failed) {
        close(waiter.done);
        return no_thread(err, failed);
    }
    int sig = watch(signals, &waiter);
    pthread_join(thread, NULL);
    close(waiter.done);
    if (sig) {
        if (waiter.result == TL_OK)
            (void)tl_lock_release(lock, NULL);
        *ret_signal = sig;
        return TL_ECANCELLED;
    }
    if (waiter.result)
        *err = waiter.err;
    return waiter.result;
}
