/*
 * The supervisor's own code runs in a fork of a process with threads, so it makes only calls that are safe
 * there. It holds none of tidelock's descriptors. It has a session of its own, so that neither a terminal
 * nor a shell stops it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/below.h"
#include "lock/childenv.h"
#include "lock/supervisor.h"

#define NAME "tl-supervisor"
#define KILL_AGAIN_MS 10
#define TOO_LATE (-1) /* in place of an errno: the command was not started before its deadline */
#define ORPHANED_MS 60000 /* how long it tries to end all after tidelock has ended */

/* Its descriptors. */
enum { FD_LINK, FD_TIMER, FD_FAILURE, FD_SIGNALS, FD_OTHERS };

typedef struct {
    pid_t self, command, group; /* group: tidelock's */
    int64_t until_ms;
    bool killing, alone; /* alone: tidelock has ended */
    bool ending;         /* the command was asked to end; what it leaves must end, too */
    bool unsent;         /* a report is to be sent */
    supervisor_report report;
} supervisor;

/* ---- the command ----------------------------------------------------------------------------- */

/* In the child. Never returns. */
static void become(const supervisor_plan *plan, pid_t parent, int report) {
    if (plan->new_session)
        (void)setsid();
    /* If the parent died before the call, the kernel sends no signal. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(STATUS_INTERNAL);
    signals_restore(plan->signals);
    childenv_put_pid(plan->own_pid, getpid());
    int why = TOO_LATE;
    if (moment_ms() < plan->until_ms) {
        (void)execvpe(plan->argv[0], plan->argv, plan->env);
        why = errno;
    }
    (void)!write(report, &why, sizeof why);
    if (why == TOO_LATE)
        (void)raise(SIGKILL);
    _exit(why == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

static void begin_command(supervisor *supervisor, const supervisor_plan *plan,
                          const int failure[2]) {
    supervisor->command = fork();
    if (supervisor->command == 0)
        become(plan, supervisor->self, failure[1]);
    supervisor->report.pid = supervisor->command;
    if (supervisor->command < 0)
        supervisor->report = (supervisor_report){
            .ended = true, .empty = true, .no_process = true, .start_failed = errno};
}

static void note_end(supervisor *supervisor, const siginfo_t *info) {
    supervisor_report *report = &supervisor->report;

    report->ended = true;
    report->stopped_by = 0;
    if (info->si_code != CLD_EXITED)
        report->ended_by = info->si_status;
    report->exit_status = info->si_status + (report->ended_by ? STATUS_SIGNAL : 0);
    if (read(FD_FAILURE, &report->start_failed, sizeof report->start_failed) !=
        sizeof report->start_failed)
        report->start_failed = 0;
    if (report->start_failed == TOO_LATE) {
        report->expired = true;
        report->start_failed = 0;
    }
}

/* Note what has become of the command, and reap orphans: the supervisor is their parent now. */
static void collect(supervisor *supervisor) {
    siginfo_t info = {.si_pid = 0};
    int failed;

    while ((failed = waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG)) == 0 &&
           info.si_pid != 0) {
        if (info.si_pid == supervisor->command) {
            supervisor->unsent = true;
            if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED)
                supervisor->report.stopped_by = info.si_status;
            else if (info.si_code == CLD_CONTINUED)
                supervisor->report.stopped_by = 0;
            else
                note_end(supervisor, &info);
        }
        info.si_pid = 0;
    }
    if (failed && errno == ECHILD && !supervisor->report.empty)
        supervisor->report.empty = supervisor->unsent = true;
}

/* ---- signals --------------------------------------------------------------------------------- */

typedef struct {
    int sig;
    pid_t group; /* only this process group; 0: all */
    bool halted; /* all were sent STOP: one that is not stopped yet needs the CONT, too */
} delivery;

static void deliver(void *ctx, const below_process *process) {
    const delivery *delivery = ctx;

    if (process->state == 'Z' || (delivery->group && process->group != delivery->group))
        return;
    if (delivery->sig == SIGCONT && process->state != 'T' && !delivery->halted)
        return; /* the shell continues its whole job: one CONT is enough */
    (void)kill(process->pid, delivery->sig);
}

static void send_below(const supervisor *supervisor, delivery delivery) {
    if (!below_each(supervisor->self, supervisor->until_ms, deliver, &delivery) &&
        !supervisor->report.ended)
        (void)kill(supervisor->command, delivery.sig);
}

static void pass_on(const supervisor *supervisor, int sig, bool had_it) {
    if (supervisor->report.ended)
        return;
    pid_t group = getpgid(supervisor->command);
    if (had_it && group == supervisor->group)
        return;
    /* No shell watches over another group, so TSTP and its like have no effect there. */
    if (group != supervisor->group && signals_role(sig) == SIGNAL_JOB)
        sig = SIGSTOP;
    send_below(supervisor, (delivery){.sig = sig, .group = group});
}

/* Signal the command first, as there may be many processes to look at. */
static void end_now(const supervisor *supervisor, int64_t until_ms, int sig) {
    pid_t signalled = supervisor->report.ended ? 0 : supervisor->command;

    if (signalled)
        (void)kill(signalled, sig);
    (void)below_end(supervisor->self, until_ms, sig, signalled);
}

static void end_all(supervisor *supervisor, int sig, bool had_it) {
    supervisor->ending = true;
    if (sig == SIGKILL)
        supervisor->killing = true; /* serve() sends it, again and again */
    else if (!had_it)
        end_now(supervisor, supervisor->until_ms, sig);
}

/* Processes that an ended command leaves running are left alone, unless the command was asked to end. */
static bool is_late(const supervisor *supervisor) {
    return !supervisor->killing && (!supervisor->report.ended || supervisor->ending) &&
           moment_ms() >= supervisor->until_ms;
}

/* ---- requests of tidelock -------------------------------------------------------------------- */

static void obey(supervisor *supervisor, const supervisor_request *request) {
    switch (request->what) {
    case ASK_SIGNAL: pass_on(supervisor, request->sig, request->had_it); break;
    case ASK_ALL: end_all(supervisor, request->sig, request->had_it); break;
    case ASK_HALT: send_below(supervisor, (delivery){.sig = request->sig, .halted = true}); break;
    case ASK_UNTIL: supervisor->until_ms = request->until_ms; break;
    case ASK_LEAVE: _exit(0);
    }
}

static void read_requests(supervisor *supervisor) {
    supervisor_request request;

    for (;;) {
        ssize_t n = recv(FD_LINK, &request, sizeof request, MSG_DONTWAIT);
        if (n == (ssize_t)sizeof request) {
            obey(supervisor, &request);
        } else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
            supervisor->alone = supervisor->killing = true;
            supervisor->until_ms = moment_ms() + ORPHANED_MS;
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void send_report(supervisor *supervisor) {
    if (!supervisor->unsent || supervisor->alone)
        return;
    ssize_t n = send(FD_LINK, &supervisor->report, sizeof supervisor->report,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    supervisor->unsent = n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void wait_for_something(const supervisor *supervisor) {
    struct pollfd p[] = {{.fd = supervisor->alone ? -1 : FD_LINK, .events = POLLIN},
                         {.fd = FD_TIMER, .events = POLLIN},
                         {.fd = FD_SIGNALS, .events = POLLIN}};
    struct signalfd_siginfo child;
    uint64_t count;
    int64_t left = supervisor->until_ms == INT64_MAX ? MOMENT_NEVER
                                                     : supervisor->until_ms - moment_ms();

    if (supervisor->unsent)
        p[0].events |= POLLOUT;
    if (supervisor->killing && !supervisor->report.empty)
        left = KILL_AGAIN_MS;
    else if (supervisor->killing ||
             (supervisor->report.ended && !supervisor->ending && !supervisor->alone))
        left = MOMENT_NEVER;
    moment_timer_set(FD_TIMER, left < 0 ? 0 : left);
    (void)poll(p, 3, -1);
    if (p[1].revents)
        (void)!read(FD_TIMER, &count, sizeof count);
    if (p[2].revents)
        (void)!read(FD_SIGNALS, &child, sizeof child);
}

static void serve(supervisor *supervisor) {
    for (;;) {
        collect(supervisor);
        if (supervisor->alone && (supervisor->report.empty || moment_ms() >= supervisor->until_ms))
            _exit(0);
        if (is_late(supervisor))
            supervisor->killing = supervisor->report.expired = supervisor->unsent = true;
        if (supervisor->killing && !supervisor->report.empty)
            end_now(supervisor, MOMENT_NEVER, SIGKILL);
        send_report(supervisor);
        wait_for_something(supervisor);
        if (!supervisor->alone)
            read_requests(supervisor);
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

static void close_others(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, FD_OTHERS, ~0U, 0) == 0)
        return;
#endif
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = FD_OTHERS; fd < most; fd++)
        close(fd);
}

/* Overwrite our copy of tidelock's command line: people, and pgrep, shall see one tidelock. */
static void rename_self(char **argv) {
    char *begin = program_invocation_name, *end = begin;

    (void)prctl(PR_SET_NAME, NAME);
    for (; *argv; argv++)
        end = *argv + strlen(*argv);
    if (end <= begin || (size_t)(end - begin) <= strlen(NAME))
        return;
    memset(begin, 0, (size_t)(end - begin));
    memcpy(begin, NAME, strlen(NAME));
}

/* Never returns. */
static void supervise(const supervisor_plan *plan, int link, int timer, const int failure[2]) {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    supervisor supervisor = {
        .self = getpid(), .group = getpgrp(), .until_ms = plan->until_ms, .unsent = true};
    sigset_t all;

    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    (void)sigaction(SIGCHLD, &usual, NULL); /* so that ends can be collected */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    begin_command(&supervisor, plan, failure);
    (void)setsid();
    rename_self(plan->argv);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    (void)dup2(link, FD_LINK);
    (void)dup2(timer, FD_TIMER);
    (void)dup2(failure[0], FD_FAILURE);
    int fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd != FD_SIGNALS)
        (void)dup2(fd, FD_SIGNALS);
    close_others();
    serve(&supervisor);
}

pid_t supervisor_start(const supervisor_plan *plan, int *ret_link) {
    int link[2] = {-1, -1}, failure[2] = {-1, -1};
    int timer = moment_timer();
    pid_t pid = -1;

    if (timer >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) == 0 &&
        pipe2(failure, O_CLOEXEC | O_NONBLOCK) == 0)
        pid = fork();
    if (pid == 0)
        supervise(plan, link[1], timer, failure);
    int why = errno;
    const int ours[] = {timer, link[1], failure[0], failure[1], pid < 0 ? link[0] : -1};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (ours[i] >= 0)
            close(ours[i]);
    *ret_link = pid < 0 ? -1 : link[0];
    errno = why;
    return pid;
}
