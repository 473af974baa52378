/*
 * The time between the start of the command and its end: passes signals on, follows it when it is
 * stopped, and ends it before the lock's deadline. Whatever it says meanwhile is dropped rather
 * than waited for: a reader of stderr that sleeps must not keep a KILL from being sent.
 */
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/watch.h"

/* How long after a KILL to wait for the end of all that the command started. */
#define KILLED_MS 1000
/* How long a program may take, from the terminal's TSTP, to stop itself by a STOP. */
#define STOPPING_MS 5000
/* And how often to look meanwhile. */
#define STOP_LOOK_MS 50
/* The pause before a job that could not be stopped with us is continued. */
#define NOT_STOPPED_MS 100

/* ---- what the keeper reports ---------------------------------------------------------------- */

int news_begin(news *n) {
    *n = (news){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    return n->fd < 0 || pthread_mutex_init(&n->mutex, NULL) ? -1 : 0;
}

void news_end(news *n) {
    if (n->fd < 0)
        return;
    close(n->fd);
    pthread_mutex_destroy(&n->mutex);
}

void news_event(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    news *n = ctx;
    uint64_t one = 1;

    (void)lock;
    pthread_mutex_lock(&n->mutex);
    n->fresh = true;
    n->event = *event;
    (void)snprintf(n->detail, sizeof n->detail, "%s", event->detail ? event->detail : "");
    pthread_mutex_unlock(&n->mutex);
    (void)!write(n->fd, &one, sizeof one);
}

/* The newest report; false when there is none. */
static bool take_news(news *n, tl_lock_event *ret, char detail[sizeof n->detail]) {
    uint64_t count;

    (void)!read(n->fd, &count, sizeof count);
    pthread_mutex_lock(&n->mutex);
    bool fresh = n->fresh;
    n->fresh = false;
    *ret = n->event;
    memcpy(detail, n->detail, sizeof n->detail);
    pthread_mutex_unlock(&n->mutex);
    return fresh;
}

void news_clear(news *n) {
    tl_lock_event event;
    char detail[sizeof n->detail];

    (void)take_news(n, &event, detail);
}

static void read_news(watch *w) {
    char left[DURATION_SHOWN];
    char detail[sizeof w->news->detail];
    tl_lock_event event;

    if (!take_news(w->news, &event, detail))
        return;
    memcpy(w->trouble, detail, sizeof w->trouble);
    if (event.state == TL_HELD)
        w->trouble[0] = '\0';
    if (!w->verbose)
        return;
    (void)show_ms(left, event.remaining_ms);
    if (event.state == TL_AT_RISK)
        say_if_free("%s: at risk, %s left: %s", w->key, left, detail);
    else if (event.state == TL_HELD)
        say_if_free("%s: renewed again, %s left", w->key, left);
    else
        say_if_free("%s: lost: %s", w->key, detail);
}

void watch_last_news(watch *w) {
    read_news(w);
}

/* ---- signals -------------------------------------------------------------------------------- */

static void pass_on(watch *w, int sig, bool by_terminal) {
    if (signals_ends(w->signals, sig) && !w->end_asked)
        w->end_asked = sig;
    if (signals_role(sig) == SIGNAL_JOB && sigismember(&w->signals->ignored, sig) != 1)
        w->stop_asked = moment_ms();
    if (w->child.seen.ended)
        return;
    if (w->verbose && !by_terminal)
        say_if_free("%s: signal %d passed on", w->key, sig);
    child_signal(&w->child, sig, by_terminal);
}

static void read_signals(watch *w) {
    bool by_terminal;
    int sig;

    while ((sig = signals_next_from(w->signals, &by_terminal)) != 0) {
        signal_role role = signals_role(sig);
        if (sig == SIGCONT) {
            w->continue_due = true;
            w->stop_asked = 0;
        } else if (role != SIGNAL_OURS && role != SIGNAL_IGNORED) {
            pass_on(w, sig, by_terminal);
        }
    }
    child_collect(&w->child);
}

/* Was our job told to stop a moment ago, and is its command still to do so? */
static bool awaits_stop(const watch *w) {
    return w->stop_asked && moment_ms() - w->stop_asked < STOPPING_MS;
}

/* Is it our whole job that was stopped, and not the command alone by somebody's STOP? */
static bool is_job_stopped(const watch *w) {
    int sig = w->child.seen.stopped_by;
    bool by_terminal = w->child.tty >= 0 && sig != 0 && signals_role(sig) == SIGNAL_JOB;

    return !w->continue_due && (awaits_stop(w) || by_terminal) && child_is_stopped(&w->child);
}

/*
 * A job that is stopped from the terminal stops as a whole, as the shell expects: the command first,
 * and we once it has, so that a command that goes on in spite of it keeps its lock. The supervisor isn't
 * stopped, and ends the command at the deadline. So what the shell continues has its lock still.
 */
static void follow_stop(watch *w) {
    int sig = w->child.seen.stopped_by;

    if (!is_job_stopped(w))
        return;
    int64_t before = moment_ms();
    w->stop_asked = 0;
    if (signals_continued()) /* in this moment; it is read in the next turn */
        return;
    signals_stop(sig && signals_role(sig) == SIGNAL_JOB ? sig : SIGTSTP);
    if (moment_ms() == before) /* nobody would continue us: we are in an orphaned group */
        (void)poll(NULL, 0, NOT_STOPPED_MS);
    w->continue_due = true;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void act(watch *w, guard_action action) {
    if (action == GUARD_NOTHING)
        return;
    if (action == GUARD_KILL)
        w->killed_at = moment_ms();
    child_end_all(&w->child, action == GUARD_KILL ? SIGKILL : SIGTERM);
    if (w->verbose)
        say_if_free("%s: %s sent to the command", w->key, action == GUARD_KILL ? "KILL" : "TERM");
}

/*
 * The supervisor kills at half of our own lead, in case that we can't. It knows only what we have said
 * last: so we look at the lock anew when half of what remained is over, for a renewal in between.
 */
static int64_t tell_deadline(watch *w, int64_t wake_ms) {
    int64_t left = tl_lock_remaining_ms(w->lock);

    if (w->guard.on_lost == ON_LOST_CONTINUE || w->child.seen.ended)
        return wake_ms;
    int64_t until = moment_ms() + left - w->guard.kill_lead_ms / 2;
    if (until != w->until_ms)
        child_until(&w->child, until);
    w->until_ms = until;
    return wake_ms > left / 2 ? left / 2 + 1 : wake_ms;
}

/* The supervisor was first: we were stopped, or the machine was busy. */
static void note_expiry(watch *w) {
    if (!w->child.seen.expired || w->guard.kill_sent)
        return;
    w->guard.for_loss = w->guard.kill_sent = true;
    w->killed_at = moment_ms();
}

/* The command has ended because we told it to: all else that it started has the same grace. */
static bool lingers(const watch *w) {
    if (w->child.seen.empty || !(w->guard.term_sent || w->guard.kill_sent))
        return false;
    return !w->killed_at || moment_ms() - w->killed_at < KILLED_MS;
}

static void wait_for_something(watch *w, int64_t wake_ms) {
    struct pollfd p[] = {{.fd = w->signals->fd, .events = POLLIN},
                         {.fd = w->news->fd, .events = POLLIN},
                         {.fd = w->timer, .events = POLLIN},
                         {.fd = w->child.link, .events = POLLIN}};
    uint64_t count;

    if (w->killed_at && wake_ms > KILLED_MS)
        wake_ms = KILLED_MS;
    if (awaits_stop(w) && wake_ms > STOP_LOOK_MS)
        wake_ms = STOP_LOOK_MS;
    moment_timer_set(w->timer, wake_ms);
    (void)poll(p, 4, -1);
    if (p[2].revents)
        (void)!read(w->timer, &count, sizeof count);
}

void watch_command(watch *w) {
    for (;;) {
        int64_t wake_ms;
        act(w, guard_step(&w->guard, moment_ms(), tl_lock_remaining_ms(w->lock), &wake_ms));
        if (w->child.seen.ended && !lingers(w))
            return;
        if (w->continue_due)
            child_continue(&w->child);
        w->continue_due = false;
        wait_for_something(w, tell_deadline(w, wake_ms));
        read_news(w);
        read_signals(w);
        note_expiry(w);
        follow_stop(w);
    }
}
