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

/* How often to look whether the rest of an ended command's group is gone. */
#define LINGER_MS 20
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

static void pass_on(watch *w, int sig) {
    if (signals_ends(w->signals, sig) && !w->told_to_end)
        w->told_to_end = sig;
    if (w->child.ended)
        return;
    if (w->verbose)
        say_if_free("%s: signal %d passed on", w->key, sig);
    child_signal(&w->child, sig);
}

static void read_signals(watch *w) {
    int sig;

    while ((sig = signals_next(w->signals)) != 0) {
        if (sig == SIGCONT)
            w->continue_due = true;
        else if (sig != SIGCHLD)
            pass_on(w, sig);
    }
    child_collect(&w->child);
}

/*
 * A job that was stopped from the terminal takes us along, as the shell expects. Whether the lock
 * survived is seen before the command may go on.
 */
static void follow_stop(watch *w) {
    int sig = w->child.stopped_by;

    if (w->child.tty < 0 || w->child.ended || w->continue_due)
        return;
    if (sig != SIGTSTP && sig != SIGTTIN && sig != SIGTTOU)
        return;
    int64_t before = moment_ms();
    child_take_terminal(&w->child);
    signals_stop(sig, true);
    if (moment_ms() == before) /* nobody would continue us: we are in an orphaned group */
        (void)poll(NULL, 0, NOT_STOPPED_MS);
    w->continue_due = true;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void act(watch *w, guard_action action) {
    if (action == GUARD_NOTHING)
        return;
    child_signal(&w->child, action == GUARD_KILL ? SIGKILL : SIGTERM);
    child_signal(&w->child, SIGCONT); /* what is stopped must hear it */
    if (w->verbose)
        say_if_free("%s: %s sent to the command", w->key, action == GUARD_KILL ? "KILL" : "TERM");
}

/* The command has ended because we told it to: what it left of its group has the same grace. */
static bool lingers(const watch *w) {
    return w->guard.term_sent && !w->guard.kill_sent && child_group_left(&w->child);
}

static void wait_for_something(watch *w, int64_t wake_ms) {
    struct pollfd p[] = {{.fd = w->signals->fd, .events = POLLIN},
                         {.fd = w->news->fd, .events = POLLIN},
                         {.fd = w->timer, .events = POLLIN}};
    uint64_t count;

    if (w->child.ended && wake_ms > LINGER_MS)
        wake_ms = LINGER_MS;
    moment_timer_set(w->timer, wake_ms);
    (void)poll(p, 3, -1);
    if (p[2].revents)
        (void)!read(w->timer, &count, sizeof count);
}

void watch_command(watch *w) {
    for (;;) {
        int64_t wake_ms;
        act(w, guard_step(&w->guard, moment_ms(), tl_lock_remaining_ms(w->lock), &wake_ms));
        if (w->child.ended && !lingers(w))
            return;
        if (w->continue_due)
            child_continue(&w->child);
        w->continue_due = false;
        wait_for_something(w, wake_ms);
        read_news(w);
        read_signals(w);
        follow_stop(w);
    }
}
