/*
 * The keeper's thread: starting, running and ending it. All that it uses is under keeper.mutex, which
 * it unlocks only to poll and to call reports. It must never block anywhere else: some lock's
 * deadline is always near.
 */
#include "client/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "ground/cancel.h"
#include "ground/guard.h"
#include "ground/wait.h"

#define OWN_FDS 5         /* descriptors to poll, without those of the fleet and of further links */
#define REPORTS_MAX 64    /* reports that are called in one go */
#define LOOK_AGAIN_MS 10  /* without memory to poll the links, look after them so often */
#define DISRUPTED_MS 1000 /* with a VMClock, and something to do, look at it so often */
#define LOG_AGAIN_MS 10000 /* the least between two log lines about a lost connection */

void tl__keeper_lock(tl_keeper *keeper) {
    tl__mutex_lock(&keeper->mutex);
}

void tl__keeper_unlock(tl_keeper *keeper) {
    tl__keeper_flush(keeper);
    tl__mutex_unlock(&keeper->mutex);
}

void tl__keeper_rouse(tl_keeper *keeper) {
    tl__wake_post(keeper->wake);
}

void tl__keeper_wake(tl_keeper *keeper) {
    if (!GUARD(keeper_is_woken) || !keeper->polling || keeper->roused)
        return;
    keeper->roused = true;
    tl__keeper_rouse(keeper);
}

/* ---- reports --------------------------------------------------------------------------------- */

void tl__keeper_report(tl_keeper *keeper, tl_report *report) {
    if (GUARD(reported_once) && report->queued)
        return;
    report->queued = true;
    report->next = NULL;
    *keeper->reports_end = report;
    keeper->reports_end = &report->next;
    if (keeper->ready < 0)
        tl__keeper_wake(keeper);
    else if (!keeper->turning)
        tl__keeper_ring(keeper);
}

void tl__keeper_withdraw(tl_keeper *keeper, tl_report *report) {
    if (GUARD(withdrawn_if_queued) && !report->queued)
        return;
    tl_report **at = &keeper->reports;
    while (*at != report)
        at = &(*at)->next;
    *at = report->next;
    if (GUARD(reports_end_withdrawn) && !*at)
        keeper->reports_end = at;
    report->queued = false;
}

void tl__keeper_unreport(tl_keeper *keeper, tl_report *report) {
    tl__keeper_withdraw(keeper, report);
    tl__keeper_await_reported(keeper, report->owner);
}

void tl__keeper_await_reported(tl_keeper *keeper, const void *owner) {
    tl__keeper_flush(keeper); /* before the wait, which unlocks the mutex */
    while (GUARD(callback_awaited) && keeper->telling == owner &&
           !(GUARD(own_callback_not_awaited) && tl__thread_is_self(keeper->deliverer)))
        tl__cond_wait(&keeper->delivered, &keeper->mutex);
}

/* The number is limited, since a callback may cause the next report, and the calling loop has other work. */
unsigned tl__keeper_deliver(tl_keeper *keeper, unsigned most) {
    unsigned n = 0;
    while (keeper->reports && !keeper->telling && n < most) {
        tl_report *report = keeper->reports;
        keeper->reports = report->next;
        if (GUARD(reports_end_delivered) && !keeper->reports)
            keeper->reports_end = &keeper->reports;
        report->queued = false;
        keeper->telling = report->owner;
        keeper->deliverer = tl__thread_self();
        void (*called)(tl_report *) = report->called;
        tl__keeper_unlock(keeper);
        report->call(report);
        n++;
        tl__keeper_lock(keeper);
        if (called)
            called(report);
        keeper->telling = NULL;
        if (GUARD(callback_end_wakes))
            tl__cond_wake_all(&keeper->delivered);
    }
    return n;
}

void tl__keeper_rejudge_in(tl_keeper *keeper) {
    keeper->rejudge = true;
    if (keeper->running)
        tl__keeper_wake(keeper);
}

void tl__keeper_rejudge(tl_keeper *keeper) {
    tl__keeper_lock(keeper);
    tl__keeper_rejudge_in(keeper);
    tl__keeper_unlock(keeper);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void run_due(tl_keeper *keeper) {
    tl_mono now = tl__mono_now();
    while (!tl__mono_before(now, tl__tasks_until(&keeper->tasks))) {
        tl_event e = {.kind = TL_TIMER, .now = now};
        tl__tasks_fetch_next(&keeper->tasks);
        tl__keeper_run(keeper, tl__tasks_first(&keeper->tasks), &e);
    }
}

/* Give every lock this event. A task may end in its own step, but not in another's. */
static void tell_all(tl_keeper *keeper, tl_event_kind kind, unsigned servers) {
    tl_event event = {.kind = kind, .now = tl__mono_now()};
    uint32_t n = 0;
    tl_task **all = malloc((keeper->tasks.count + (size_t)1) * sizeof(tl_task *));
    if (!all)
        return; /* the regular renewals find out */
    for (uint32_t i = 1; i <= keeper->tasks.count; i++)
        if (keeper->tasks.heap[i].task->kind->renews)
            all[n++] = keeper->tasks.heap[i].task;
    for (event.from = 0; event.from < servers; event.from++)
        for (uint32_t i = 0; i < n; i++)
            if (all[i]->at != 0)
                tl__keeper_run(keeper, all[i], &event);
    free(all);
}

/* Renew every lock now, at all of its servers. */
static void rejudge(tl_keeper *keeper) {
    keeper->rejudge = false;
    tell_all(keeper, TL_WOKEN, keeper->client->fleet.servers);
}

void tl__keeper_notice(void *keeper) {
    tl__keeper_rouse(keeper);
}

/* Each lock finds out in its step, and is renewed at once. */
static void look_for_disruption(tl_keeper *keeper) {
    tl_mono at = tl__disrupted_at(&keeper->client->disruptions);
    if (at.ns == keeper->disrupted.ns || !GUARD(disruption_is_told))
        return;
    keeper->disrupted = at;
    tell_all(keeper, TL_TIMER, 1);
}

/* Room for the descriptors of all links. Without memory for that, *ret_all is false: only the others are
 * polled, and the links are driven every LOOK_AGAIN_MS. */
static struct pollfd *room_for_fds(tl_keeper *keeper, struct pollfd *own, bool *ret_all) {
    unsigned n = OWN_FDS + TL_FLEET_FDS + 2 * tl__links_count(keeper);
    *ret_all = true;
    if (!keeper->links)
        return own;
    if (keeper->fds_room < n) {
        free(keeper->fds);
        keeper->fds = malloc(n * sizeof *keeper->fds);
        keeper->fds_room = keeper->fds ? n : 0;
    }
    *ret_all = keeper->fds != NULL;
    if (keeper->fds)
        memcpy(keeper->fds, own, OWN_FDS * sizeof *own);
    return keeper->fds ? keeper->fds : own;
}

/* The thread wakes by then, also if no task is due. */
static tl_mono wakes_by(const tl_keeper *keeper) {
    bool looks = keeper->client->disruptions.page && keeper->tasks.count > 0;
    return tl__mono_min(keeper->closing ? keeper->close_by : TL_NEVER,
                        looks ? tl__mono_add_ms(tl__mono_now(), DISRUPTED_MS) : TL_NEVER);
}

static void await(tl_keeper *keeper) {
    tl__keeper_flush(keeper);
    tl__keeper_lend(keeper);
    if (keeper->lent && !keeper->turning)
        tl__conn_write(keeper->first.conn, tl__mono_now());
    struct pollfd own[OWN_FDS + TL_FLEET_FDS] = {
        {.fd = keeper->wake, .events = POLLIN},
        {.fd = keeper->timer, .events = POLLIN},
        {.fd = keeper->lent ? -1 : tl__conn_fd(keeper->first.conn),
         .events = tl__conn_events(keeper->first.conn)},
        {.fd = tl__wakeup_fd(keeper->first.wakeup),
         .events = tl__wakeup_events(keeper->first.wakeup)},
        tl__keeper_holds_fd(keeper),
    };
    tl_mono next = tl__mono_min(tl__conn_until(keeper->first.conn),
                                tl__wakeup_until(keeper->first.wakeup));
    next = tl__mono_min(next, tl__tasks_until(&keeper->tasks));
    next = tl__mono_min(next, tl__keeper_singly_until(keeper));
    next = tl__mono_min(next, tl__inbox_until(&keeper->first.inbox));
    next = tl__mono_min(next, tl__keeper_holds_until(keeper));
    next = tl__mono_min(next, tl__keeper_loop_until(keeper));
    next = tl__mono_min(next, tl__fleet_until(&keeper->client->fleet));
    bool all;
    struct pollfd *fds = room_for_fds(keeper, own, &all);
    unsigned more_fds = tl__fleet_fds(&keeper->client->fleet, fds + OWN_FDS);
    if (keeper->links) {
        next = tl__mono_min(next, tl__links_until(keeper));
        more_fds += all ? tl__links_fds(keeper, fds + OWN_FDS + more_fds) : 0;
        next = all ? next : tl__mono_min(next, tl__mono_add_ms(tl__mono_now(), LOOK_AGAIN_MS));
    }
    next = tl__mono_min(next, wakes_by(keeper));
    /* `planned` stays if `next` is later: one wake-up too early costs less than one for each
     * short-lived lock. */
    if (!tl__mono_before(keeper->planned, next) ||
        !tl__mono_before(tl__mono_now(), keeper->planned))
        keeper->planned = next;
    tl__timer_set(keeper->timer, keeper->planned);
    const tl_mono at_once = {0};
    bool more = keeper->ready < 0 && keeper->reports;
    keeper->polling = true;
    keeper->roused = false;
    tl__keeper_unlock(keeper);
    tl__wait(fds, OWN_FDS + more_fds, more ? at_once : TL_NEVER);
    tl__keeper_lock(keeper);
    keeper->polling = false;
    for (unsigned i = 0; i < 2; i++)
        if (fds[i].revents)
            tl__wake_clear(fds[i].fd);
}

/* May the thread end? The protocol's upkeep leaves last, after all detached machines have ended: other
 * clients may have to wait while a request of ours may still take effect and must be undone. */
static bool is_over(tl_keeper *keeper) {
    if (!keeper->closing)
        return false;
    if (keeper->detached == 0 && !keeper->left) {
        keeper->left = true;
        if (keeper->client->upkeep)
            keeper->client->protocol->upkeep->leave(keeper->client);
    }
    return keeper->detached == 0 || !GUARD(close_awaits_cleanup) ||
           !tl__mono_before(tl__mono_now(), keeper->close_by);
}

static void *keep(void *ctx) {
    tl_keeper *keeper = ctx;
    (void)tl__cancel_off(); /* a callback may pass this thread's id to pthread_cancel */
    tl__keeper_lock(keeper);
    while (!is_over(keeper)) {
        tl__keeper_run_posts(keeper);
        run_due(keeper);
        look_for_disruption(keeper);
        if (keeper->rejudge)
            rejudge(keeper);
        if (keeper->ready < 0)
            (void)tl__keeper_deliver(keeper, REPORTS_MAX);
        if (keeper->rejudge)
            continue;
        await(keeper);
        uint64_t heard = tl__conn_bytes(keeper->first.conn);
        tl__fleet_drive(&keeper->client->fleet, tl__mono_now());
        if (GUARD(lent_loop_is_driven) || !keeper->lent)
            tl__conn_drive(keeper->first.conn, tl__mono_now());
        tl__keeper_mind_loop(keeper, tl__conn_bytes(keeper->first.conn) != heard);
        tl__wakeup_drive(keeper->first.wakeup, tl__mono_now());
        if (keeper->holds)
            tl__wakeup_drive(keeper->holds, tl__mono_now());
        tl__links_drive(keeper);
        tl__keeper_expire_singly(keeper, tl__mono_now());
        tl__link_leave_inbox(&keeper->first, tl__mono_now());
    }
    tl__keeper_unlock(keeper);
    return NULL;
}

static unsigned count_held(const tl_keeper *keeper) {
    unsigned n = 0;
    for (uint32_t i = 1; i <= keeper->tasks.count; i++)
        n += keeper->tasks.heap[i].task->kind->renews;
    return n;
}

/* Log the loss once, not for each attempt to connect again. */
void tl__keeper_log_lost(tl_keeper *keeper, tl_loss *loss, tl_bytes message) {
    tl_mono now = tl__mono_now();
    bool lately = loss->at.ns != 0 && tl__mono_before(now, tl__mono_add_ms(loss->at, LOG_AGAIN_MS));
    unsigned held = loss->missed || lately ? 0 : count_held(keeper);
    if (held == 0)
        return;
    loss->missed = true;
    loss->at = now;
    tl__log(keeper->client, TL_LOG_WARNING, "the connection for %u held lock%s is lost: %.*s", held,
            held == 1 ? "" : "s", (int)message.n, message.p);
}

void tl__keeper_log_back(tl_keeper *keeper, tl_loss *loss, const tl_node *node, tl_mono now) {
    char label[TL_LABEL_SIZE];
    if (loss->missed)
        tl__log(keeper->client, TL_LOG_WARNING, "%s: connected again after %lld ms",
                tl__node_label(node, label), (long long)tl__ms_until(loss->at, now));
    loss->missed = false;
}

static tl_err make_connections(tl_keeper *keeper) {
    bool all = tl__keeper_make_first(keeper) &&
               (!keeper->client->backend->holder->listen || tl__keeper_make_holds(keeper));
    return all && tl__keeper_have_renewal(keeper) ? TL_OK : TL_ENOMEM;
}

tl_err tl__keeper_ready(tl_keeper *keeper) {
    if (atomic_load(&keeper->running))
        return TL_OK;
    tl__keeper_lock(keeper);
    tl_err code = TL_OK;
    if (!keeper->running) {
        code = make_connections(keeper);
        if (!code && tl__thread_start(keep, keeper, &keeper->thread))
            code = TL_ENOMEM;
        keeper->running = !code;
    }
    tl__keeper_unlock(keeper);
    return code;
}

static void end_watching(tl_keeper *keeper) {
    if (keeper->watching)
        keeper->watching->end(keeper->watch);
}

static void close_descriptors(tl_keeper *keeper) {
    if (keeper->ready >= 0 && keeper->gather >= 0)
        tl__gather_drop(keeper->gather, keeper->ready);
    const int fds[] = {keeper->wake, keeper->timer, keeper->gather, keeper->ready};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            tl__wake_close(fds[i]);
}

tl_err tl__keeper_init(tl_keeper *keeper, tl_client *client, bool dispatch) {
    keeper->client = client;
    (void)snprintf(keeper->inbox.name, sizeof keeper->inbox.name, "tidelock:inbox:%s",
                   tl__token_draw().text);
    keeper->inbox.name_n = (uint8_t)strlen(keeper->inbox.name);
    keeper->planned = TL_NEVER;
    keeper->reports_end = &keeper->reports;
    keeper->singly_end = &keeper->singly;
    keeper->wake = tl__wake_open();
    keeper->timer = tl__timer_open();
    keeper->ready = dispatch ? tl__wake_open() : -1;
    keeper->gather = dispatch ? tl__gather_open() : -1;
    keeper->watching = client->backend->watches ? client->protocol->watching : NULL;
    keeper->watch = keeper->watching ? keeper->watching->begin(keeper) : NULL;
    bool loops = !dispatch || (keeper->ready >= 0 && keeper->gather >= 0 &&
                               tl__gather_add(keeper->gather, keeper->ready));
    if (keeper->wake < 0 || keeper->timer < 0 || !loops || (keeper->watching && !keeper->watch)) {
        end_watching(keeper);
        close_descriptors(keeper);
        return TL_ENOMEM;
    }
    tl__mutex_init(&keeper->mutex);
    tl__mutex_init(&keeper->posts_mutex);
    tl__cond_init(&keeper->delivered);
    return TL_OK;
}

void tl__keeper_close(tl_keeper *keeper, int64_t grace_ms) {
    tl__keeper_lock(keeper);
    keeper->closing = true;
    tl__keeper_take_back(keeper);
    keeper->close_by = tl__mono_add_ms(tl__mono_now(), grace_ms);
    tl__keeper_wake(keeper);
    bool running = keeper->running;
    tl__keeper_unlock(keeper);
    if (running)
        tl__thread_join(keeper->thread);
    tl__keeper_end_tasks(keeper);
    tl__links_free(keeper);
    tl__wakeup_free(keeper->first.wakeup);
    tl__wakeup_free(keeper->holds);
    tl__conn_free(keeper->first.conn);
    free(keeper->fds);
    tl__keeper_free_spares(keeper);
    end_watching(keeper);
    close_descriptors(keeper);
    tl__mutex_end(&keeper->mutex);
    tl__mutex_end(&keeper->posts_mutex);
    tl__cond_end(&keeper->delivered);
}
