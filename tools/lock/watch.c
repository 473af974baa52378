/*
 * The time between the start of the command and its end: passes signals on, stops when the command is
 * stopped, and ends the command before the lock's deadline. A message that can't be written at once is
 * dropped: a reader of stderr that sleeps must not delay a KILL.
 */
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/tool.h"
#include "ground/bytes.h"
#include "lock/watch.h"

/* How long messages are read before the loop goes on: anybody may send many, from below many ancestors. */
#define SIGNS_MS 10
/* The same for those that an ended command has left, which are few; but what it leaves running may go on sending. */
#define LAST_SIGNS_MS 500
/* How long to wait after a KILL for the end of all processes of the command. */
#define KILLED_MS 1000
/* How long a program may take to stop itself by a STOP, after the terminal's TSTP. */
#define STOPPING_MS 5000
/* How often to look meanwhile. */
#define STOP_LOOK_MS 50
/* How often to look at a lock in doubt, and what its guard counts with meanwhile. */
#define DOUBT_LOOK_MS 50
#define FOR_NOW_MS (INT64_MAX / 2)
/* The pause before a command is continued when tidelock could not be stopped with it. */
#define NOT_STOPPED_MS 100
/* Bytes of a key in the library's messages; KEY_SHOWN shows more. */
#define LIBRARY_SHOWS 64

/* ---- events of the lock ---------------------------------------------------------------------- */

int news_begin(news *ret) {
    *ret = (news){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    return ret->fd < 0 || pthread_mutex_init(&ret->mutex, NULL) ? -1 : 0;
}

void news_end(news *news) {
    if (news->fd < 0)
        return;
    close(news->fd);
    pthread_mutex_destroy(&news->mutex);
}

void news_event(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    news *news = ctx;
    uint64_t one = 1;

    (void)lock;
    pthread_mutex_lock(&news->mutex);
    news->fresh = true;
    news->event = *event;
    (void)snprintf(news->detail, sizeof news->detail, "%s", event->detail ? event->detail : "");
    pthread_mutex_unlock(&news->mutex);
    (void)!write(news->fd, &one, sizeof one);
}

/* The newest report; false when there is none. */
static bool take_news(news *news, tl_lock_event *ret, char detail[sizeof news->detail]) {
    uint64_t count;

    (void)!read(news->fd, &count, sizeof count);
    pthread_mutex_lock(&news->mutex);
    bool fresh = news->fresh;
    news->fresh = false;
    *ret = news->event;
    memcpy(detail, news->detail, sizeof news->detail);
    pthread_mutex_unlock(&news->mutex);
    return fresh;
}

void news_clear(news *news) {
    tl_lock_event event;
    char detail[sizeof news->detail];

    (void)take_news(news, &event, detail);
}

/* The library's text begins with the key, which our messages begin with as well: its first 64 bytes, "..." if it is
 * longer, and '?' for each byte that is no printable ASCII. */
static const char *without_key(const char *detail, const char *key) {
    char shown[LIBRARY_SHOWS + 1], begin[sizeof shown + sizeof "...: "];
    size_t n = strlen(key);

    tl__bytes_print(shown, sizeof shown, tl__bytes(key, n));
    (void)snprintf(begin, sizeof begin, "%s%s", shown, n > LIBRARY_SHOWS ? "...: " : ": ");
    n = strlen(begin);
    return strncmp(detail, begin, n) == 0 ? detail + n : detail;
}

static void describe_stall(watch *watch) {
    char d[DURATION_SHOWN];

    if (watch->triggered)
        (void)snprintf(watch->trouble, sizeof watch->trouble,
                       "stalled: the command says so itself");
    else
        (void)snprintf(watch->trouble, sizeof watch->trouble, "stalled: no sign of life for %s",
                       show_ms(d, watch->watchdog_ms));
}

static void note_trouble(watch *watch, const tl_lock_event *event, const char *message) {
    if (watch->guard.for_loss && event->state == TL_HELD)
        return; /* the command is ended for what was the trouble */
    watch->stalled = event->state != TL_HELD && event->why == TL_LOST_STALLED;
    if (event->state == TL_HELD)
        watch->trouble[0] = '\0';
    else if (watch->stalled)
        describe_stall(watch);
    else
        (void)snprintf(watch->trouble, sizeof watch->trouble, "%s", message);
}

static void read_news(watch *watch) {
    char left[DURATION_SHOWN];
    char detail[sizeof watch->news->detail];
    tl_lock_event event;

    if (!take_news(watch->news, &event, detail))
        return;
    note_trouble(watch, &event, without_key(detail, watch->key));
    if (!watch->verbose)
        return;
    (void)show_ms(left, event.remaining_ms);
    if (event.state == TL_AT_RISK)
        say_if_free("%s: at risk, %s left: %s", watch->key, left, watch->trouble);
    else if (event.state == TL_HELD)
        say_if_free("%s: renewed again, %s left", watch->key, left);
    else
        say_if_free("%s: lost: %s", watch->key, watch->trouble);
}

void watch_last_news(watch *watch) {
    read_news(watch);
}

/* ---- signals -------------------------------------------------------------------------------- */

static void pass_on(watch *watch, int sig, bool by_terminal) {
    if (signals_ends(watch->signals, sig) && !watch->end_asked)
        watch->end_asked = sig;
    if (signals_role(sig) == SIGNAL_JOB && sigismember(&watch->signals->ignored, sig) != 1)
        watch->stop_asked = moment_ms();
    if (watch->child.seen.ended)
        return;
    if (watch->verbose && !by_terminal)
        say_if_free("%s: signal %d passed on", watch->key, sig);
    child_signal(&watch->child, sig, by_terminal);
}

static void read_signals(watch *watch) {
    bool by_terminal;
    int sig;

    while ((sig = signals_next_from(watch->signals, &by_terminal)) != 0) {
        signal_role role = signals_role(sig);
        if (sig == SIGCONT) {
            watch->continue_due = true;
            watch->stop_asked = 0;
        } else if (role != SIGNAL_OURS && role != SIGNAL_IGNORED) {
            pass_on(watch, sig, by_terminal);
        }
    }
    child_collect(&watch->child);
}

/* Was our job asked to stop a moment ago, so that the command may still do so? */
static bool awaits_stop(const watch *watch) {
    return watch->stop_asked && moment_ms() - watch->stop_asked < STOPPING_MS;
}

/* Was the whole job stopped, and not only the command by somebody's STOP? */
static bool is_job_stopped(const watch *watch) {
    int sig = watch->child.seen.stopped_by;
    bool by_terminal = watch->child.tty >= 0 && sig != 0 && signals_role(sig) == SIGNAL_JOB;

    return !watch->continue_due && (awaits_stop(watch) || by_terminal) &&
           child_is_stopped(&watch->child);
}

/*
 * A job that is stopped from the terminal stops as a whole, as the shell expects: first the command, then
 * tidelock. So the lock of a command that goes on in spite of the signal is still renewed. The supervisor
 * isn't stopped, and ends the command at the deadline. So a command that the shell continues still holds
 * its lock.
 */
static void follow_stop(watch *watch) {
    int sig = watch->child.seen.stopped_by;

    if (!is_job_stopped(watch))
        return;
    int64_t before = moment_ms();
    watch->stop_asked = 0;
    if (signals_continued()) /* just now; the next turn reads it */
        return;
    signals_stop(sig && signals_role(sig) == SIGNAL_JOB ? sig : SIGTSTP);
    if (moment_ms() == before) /* nobody would continue us: our group is orphaned */
        (void)poll(NULL, 0, NOT_STOPPED_MS);
    watch->continue_due = true;
}

/* ---- signs of life -------------------------------------------------------------------------- */

/* If the lock is lost all the same, its renewals have failed. A sign after TERM comes too late. */
static void note_life(watch *watch) {
    tl_lock_alive(watch->lock);
    watch->sign_at = moment_ms();
    if (!watch->stalled || watch->guard.for_loss)
        return;
    watch->stalled = false;
    watch->trouble[0] = '\0';
}

/* A command that has called itself stalled can't take that back: its lock must not be renewed again. */
static void note_signs(watch *watch, const notify_signs *signs) {
    if (signs->stalled) {
        watch->triggered = true;
        tl_lock_stall(watch->lock);
    } else if (signs->alive && !watch->triggered) {
        note_life(watch);
    }
    if (signs->timeout && !watch->timeout_said)
        say_if_free("%s: WATCHDOG_USEC of the command is ignored: --watchdog decides", watch->key);
    watch->timeout_said = watch->timeout_said || signs->timeout;
}

static void read_signs(watch *watch, int64_t most_ms) {
    int64_t until = moment_ms() + most_ms;
    notify_signs signs;

    if (!watch->notify)
        return;
    notify_flush(watch->notify);
    while (notify_read(watch->notify, watch->child.supervisor, watch->key, &signs)) {
        note_signs(watch, &signs);
        if (moment_ms() >= until)
            return;
    }
}

/* ---- doubt ----------------------------------------------------------------------------------- */

/* How long the lock is still ours. A pause of this virtual machine puts it in doubt: nothing remains until a renewal
 * succeeds, or the lock is lost. One that is HELD with nothing left has just been renewed, or ends within 1 ms. */
static int64_t look_at_lock(const watch *watch, bool *ret_doubt) {
    int64_t left;
    tl_state state;

    do {
        left = tl_lock_remaining_ms(watch->lock);
        state = tl_lock_state(watch->lock);
    } while (left == 0 && state == TL_HELD);
    *ret_doubt = left == 0 && state == TL_AT_RISK;
    return left;
}

/* In doubt the command is stopped, not ended: most locks are confirmed within milliseconds, and a live migration
 * would cost each job. Processes that it starts meanwhile are stopped at the next look. */
static bool halts(watch *watch, bool doubt) {
    bool halt = doubt && watch->guard.on_lost != ON_LOST_CONTINUE && !watch->guard.term_sent &&
                !watch->child.seen.ended;

    if (halt || watch->halted)
        child_halt(&watch->child, halt);
    if (halt != watch->halted && watch->verbose)
        say_if_free("%s: the command is %s", watch->key,
                    halt ? "stopped until the lock is renewed" : "continued");
    watch->halted = halt;
    return halt;
}

/* ---- the loop ------------------------------------------------------------------------------- */

/* Of a lock that was at risk already, such as one of several servers, one of which is down, the library does not
 * report that its holder stalls. Signs that came while tidelock was stopped count. A lock that is lost by now has
 * another trouble, or the library reports it. */
static void note_stall(watch *watch) {
    char before[sizeof watch->trouble];

    read_signs(watch, SIGNS_MS);
    if (watch->stalled || !watch->notify || tl_lock_state(watch->lock) == TL_LOST ||
        (!watch->triggered && moment_ms() - watch->sign_at < watch->watchdog_ms))
        return;
    memcpy(before, watch->trouble, sizeof before);
    describe_stall(watch);
    watch->stalled = true;
    size_t n = strlen(watch->trouble);
    if (before[0])
        (void)snprintf(watch->trouble + n, sizeof watch->trouble - n, " (%s)", before);
}

static void act(watch *watch, guard_action action) {
    if (action == GUARD_NOTHING)
        return;
    if (action == GUARD_KILL)
        watch->killed_at = moment_ms();
    child_end_all(&watch->child, action == GUARD_KILL ? SIGKILL : SIGTERM);
    if (watch->verbose)
        say_if_free("%s: %s sent to the command", watch->key,
                    action == GUARD_KILL ? "KILL" : "TERM");
    if (watch->guard.for_loss)
        note_stall(watch);
}

/*
 * The supervisor kills at half of our own lead, in case that we can't. It knows only the deadline that it
 * received last. So look at the lock again when half of the remaining time is over: it may have been
 * renewed.
 */
static int64_t tell_deadline(watch *watch, int64_t wake_ms) {
    bool doubt;
    int64_t left = look_at_lock(watch, &doubt);

    if (watch->guard.on_lost == ON_LOST_CONTINUE || watch->child.seen.ended)
        return wake_ms;
    if (doubt) /* it keeps the deadline that it has; and a short doubt may end without a report */
        return wake_ms > DOUBT_LOOK_MS ? DOUBT_LOOK_MS : wake_ms;
    if (watch->halted) /* the doubt has ended just now */
        return 0;
    int64_t until = moment_ms() + left - watch->guard.kill_lead_ms / 2;
    if (until != watch->until_ms)
        child_until(&watch->child, until);
    watch->until_ms = until;
    return wake_ms > left / 2 ? left / 2 + 1 : wake_ms;
}

/* The supervisor was first: tidelock was stopped, or the machine was busy. */
static void note_expiry(watch *watch) {
    if (!watch->child.seen.expired || watch->guard.kill_sent)
        return;
    watch->guard.for_loss = watch->guard.kill_sent = true;
    watch->killed_at = moment_ms();
    note_stall(watch);
}

/* The command has ended since we asked it to; all else that it started has the same grace. */
static bool lingers(const watch *watch) {
    if (watch->child.seen.empty || !(watch->guard.term_sent || watch->guard.kill_sent))
        return false;
    return !watch->killed_at || moment_ms() - watch->killed_at < KILLED_MS;
}

static void wait_for_something(watch *watch, int64_t wake_ms) {
    struct pollfd p[] = {{.fd = watch->signals->fd, .events = POLLIN},
                         {.fd = watch->news->fd, .events = POLLIN},
                         {.fd = watch->timer, .events = POLLIN},
                         {.fd = watch->child.link, .events = POLLIN},
                         {.fd = watch->notify ? watch->notify->fd : -1, .events = POLLIN},
                         {.fd = -1, .events = POLLOUT}};
    uint64_t count;

    if (watch->killed_at && wake_ms > KILLED_MS)
        wake_ms = KILLED_MS;
    if (awaits_stop(watch) && wake_ms > STOP_LOOK_MS)
        wake_ms = STOP_LOOK_MS;
    moment_timer_set(watch->timer, wake_ms);
    if (watch->notify && notify_is_pending(watch->notify))
        p[5].fd = watch->notify->outer_fd;
    (void)poll(p, sizeof p / sizeof p[0], -1);
    if (p[2].revents)
        (void)!read(watch->timer, &count, sizeof count);
}

void watch_command(watch *watch) {
    for (;;) {
        int64_t wake_ms;
        bool doubt;
        int64_t left = look_at_lock(watch, &doubt);
        bool halted = halts(watch, doubt);
        act(watch, guard_step(&watch->guard, moment_ms(), halted ? FOR_NOW_MS : left, &wake_ms));
        if (watch->child.seen.ended && !lingers(watch)) {
            read_signs(watch, LAST_SIGNS_MS);
            return;
        }
        if (watch->continue_due)
            child_continue(&watch->child);
        watch->continue_due = false;
        wait_for_something(watch, tell_deadline(watch, wake_ms));
        read_news(watch);
        read_signals(watch);
        read_signs(watch, SIGNS_MS);
        note_expiry(watch);
        follow_stop(watch);
    }
}
