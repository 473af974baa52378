/*
 * The keeper's thread and its life. Everything it touches is under its mutex, which it lets
 * go only to poll and to report. It must never block anywhere else: a deadline of some lock is always
 * near.
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

#define OWN_FDS 5          /* without the fleet's */
#define REPORTS_MAX 64     /* told in one go */
#define LOOK_AGAIN_MS 10   /* without memory to poll */
#define LOG_AGAIN_MS 10000 /* a connection that comes and goes is logged no more often */

void tl__keeper_lock(tl_keeper *k) {
    tl__mutex_lock(&k->mutex);
}

void tl__keeper_unlock(tl_keeper *k) {
    tl__keeper_flush(k);
    tl__mutex_unlock(&k->mutex);
}

void tl__keeper_rouse(tl_keeper *k) {
    tl__wake_post(k->wake);
}

void tl__keeper_wake(tl_keeper *k) {
    if (!GUARD(keeper_is_woken) || !k->polling || k->roused)
        return;
    k->roused = true;
    tl__keeper_rouse(k);
}

/* ---- reports --------------------------------------------------------------------------------- */

void tl__keeper_report(tl_keeper *k, tl_report *report) {
    if (GUARD(reported_once) && report->queued)
        return;
    report->queued = true;
    report->next = NULL;
    *k->reports_end = report;
    k->reports_end = &report->next;
    if (k->ready < 0)
        tl__keeper_wake(k);
    else if (!k->turning)
        tl__keeper_ring(k);
}

void tl__keeper_withdraw(tl_keeper *k, tl_report *report) {
    if (GUARD(withdrawn_if_queued) && !report->queued)
        return;
    tl_report **at = &k->reports;
    while (*at != report)
        at = &(*at)->next;
    *at = report->next;
    if (GUARD(reports_end_withdrawn) && !*at)
        k->reports_end = at;
    report->queued = false;
}

void tl__keeper_unreport(tl_keeper *k, tl_report *report) {
    tl__keeper_withdraw(k, report);
    tl__keeper_await_told(k, report->owner);
}

void tl__keeper_await_told(tl_keeper *k, const void *owner) {
    tl__keeper_flush(k); /* the wait lets the mutex go */
    while (GUARD(callback_awaited) && k->telling == owner &&
           !(GUARD(own_callback_not_awaited) && tl__thread_is_self(k->deliverer)))
        tl__cond_wait(&k->delivered, &k->mutex);
}

/* A bound, since a callback may bring about the next report: the loop that called has other work. */
unsigned tl__keeper_deliver(tl_keeper *k, unsigned most) {
    unsigned n = 0;
    while (k->reports && !k->telling && n < most) {
        tl_report *report = k->reports;
        k->reports = report->next;
        if (GUARD(reports_end_delivered) && !k->reports)
            k->reports_end = &k->reports;
        report->queued = false;
        k->telling = report->owner;
        k->deliverer = tl__thread_self();
        tl__keeper_unlock(k);
        report->call(report);
        n++;
        tl__keeper_lock(k);
        k->telling = NULL;
        if (GUARD(callback_end_wakes))
            tl__cond_wake_all(&k->delivered);
    }
    return n;
}

void tl__keeper_rejudge_in(tl_keeper *k) {
    k->rejudge = true;
    if (k->running)
        tl__keeper_wake(k);
}

void tl__keeper_rejudge(tl_keeper *k) {
    tl__keeper_lock(k);
    tl__keeper_rejudge_in(k);
    tl__keeper_unlock(k);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void run_due(tl_keeper *k) {
    tl_mono now = tl__mono_now();
    while (!tl__mono_before(now, tl__tasks_until(&k->tasks))) {
        tl_event e = {.kind = TL_TIMER, .now = now};
        tl__tasks_fetch_next(&k->tasks);
        tl__keeper_run(k, tl__tasks_first(&k->tasks), &e);
    }
}

/* Every lock is renewed now, at all of its servers. A task can end itself here, but no other. */
static void rejudge(tl_keeper *k) {
    tl_event woken = {.kind = TL_WOKEN, .now = tl__mono_now()};
    uint32_t n = 0;
    k->rejudge = false;
    tl_task **all = malloc((k->tasks.count + (size_t)1) * sizeof(tl_task *));
    if (!all)
        return; /* the regular renewals find out */
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        if (k->tasks.heap[i].task->kind->renews)
            all[n++] = k->tasks.heap[i].task;
    for (woken.from = 0; woken.from < k->client->fleet.servers; woken.from++)
        for (uint32_t i = 0; i < n; i++)
            if (all[i]->at != 0)
                tl__keeper_run(k, all[i], &woken);
    free(all);
}

/* Room for what all links have, too; without memory for that only the others are waited for, and the links looked
 * after now and then. */
static struct pollfd *room_for_fds(tl_keeper *k, struct pollfd *own, bool *ret_all) {
    unsigned n = OWN_FDS + TL_FLEET_FDS + 2 * tl__links_count(k);
    *ret_all = true;
    if (!k->links)
        return own;
    if (k->fds_room < n) {
        free(k->fds);
        k->fds = malloc(n * sizeof *k->fds);
        k->fds_room = k->fds ? n : 0;
    }
    *ret_all = k->fds != NULL;
    if (k->fds)
        memcpy(k->fds, own, OWN_FDS * sizeof *own);
    return k->fds ? k->fds : own;
}

static void await(tl_keeper *k) {
    tl__keeper_flush(k);
    tl__keeper_lend(k);
    if (k->lent && !k->turning)
        tl__conn_write(k->first.conn, tl__mono_now());
    struct pollfd own[OWN_FDS + TL_FLEET_FDS] = {
        {.fd = k->wake, .events = POLLIN},
        {.fd = k->timer, .events = POLLIN},
        {.fd = k->lent ? -1 : tl__conn_fd(k->first.conn), .events = tl__conn_events(k->first.conn)},
        {.fd = tl__wakeup_fd(k->first.wakeup), .events = tl__wakeup_events(k->first.wakeup)},
        tl__keeper_holds_fd(k),
    };
    tl_mono next = tl__mono_min(tl__conn_until(k->first.conn), tl__wakeup_until(k->first.wakeup));
    next = tl__mono_min(next, tl__tasks_until(&k->tasks));
    next = tl__mono_min(next, tl__keeper_singly_until(k));
    next = tl__mono_min(next, tl__inbox_until(&k->first.inbox));
    next = tl__mono_min(next, tl__keeper_holds_until(k));
    next = tl__mono_min(next, tl__keeper_loop_until(k));
    next = tl__mono_min(next, tl__fleet_until(&k->client->fleet));
    bool all;
    struct pollfd *fds = room_for_fds(k, own, &all);
    unsigned more_fds = tl__fleet_fds(&k->client->fleet, fds + OWN_FDS);
    if (k->links) {
        next = tl__mono_min(next, tl__links_until(k));
        more_fds += all ? tl__links_fds(k, fds + OWN_FDS + more_fds) : 0;
        next = all ? next : tl__mono_min(next, tl__mono_add_ms(tl__mono_now(), LOOK_AGAIN_MS));
    }
    if (k->closing)
        next = tl__mono_min(next, k->close_by);
    /* To look too early once costs less than to be woken for each lock that is held for a moment. */
    if (!tl__mono_before(k->planned, next) || !tl__mono_before(tl__mono_now(), k->planned))
        k->planned = next;
    tl__timer_set(k->timer, k->planned);
    const tl_mono at_once = {0};
    bool more = k->ready < 0 && k->reports;
    k->polling = true;
    k->roused = false;
    tl__keeper_unlock(k);
    tl__wait(fds, OWN_FDS + more_fds, more ? at_once : TL_NEVER);
    tl__keeper_lock(k);
    k->polling = false;
    for (unsigned i = 0; i < 2; i++)
        if (fds[i].revents)
            tl__wake_clear(fds[i].fd);
}

/* What the client keeps up ends last: others may have to wait while a request of ours is still being
 * undone, as it may take effect until then. */
static bool is_over(tl_keeper *k) {
    if (!k->closing)
        return false;
    if (k->detached == 0 && !k->left) {
        k->left = true;
        if (k->client->upkeep)
            k->client->protocol->upkeep->leave(k->client);
    }
    return k->detached == 0 || !GUARD(close_awaits_cleanup) ||
           !tl__mono_before(tl__mono_now(), k->close_by);
}

static void *keep(void *ctx) {
    tl_keeper *k = ctx;
    (void)tl__cancel_off(); /* a callback knows which thread this is */
    tl__keeper_lock(k);
    while (!is_over(k)) {
        tl__keeper_run_posts(k);
        run_due(k);
        if (k->rejudge)
            rejudge(k);
        if (k->ready < 0)
            (void)tl__keeper_deliver(k, REPORTS_MAX);
        if (k->rejudge)
            continue;
        await(k);
        uint64_t heard = tl__conn_bytes(k->first.conn);
        tl__fleet_drive(&k->client->fleet, tl__mono_now());
        if (GUARD(lent_loop_is_driven) || !k->lent)
            tl__conn_drive(k->first.conn, tl__mono_now());
        tl__keeper_mind_loop(k, tl__conn_bytes(k->first.conn) != heard);
        tl__wakeup_drive(k->first.wakeup, tl__mono_now());
        if (k->holds)
            tl__wakeup_drive(k->holds, tl__mono_now());
        tl__links_drive(k);
        tl__keeper_expire_singly(k, tl__mono_now());
        tl__link_leave_inbox(&k->first, tl__mono_now());
    }
    tl__keeper_unlock(k);
    return NULL;
}

static unsigned count_held(const tl_keeper *k) {
    unsigned n = 0;
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        n += k->tasks.heap[i].task->kind->renews;
    return n;
}

/* Once, and not for each attempt to have it back. */
void tl__keeper_log_lost(tl_keeper *k, tl_loss *loss, tl_bytes words) {
    tl_mono now = tl__mono_now();
    bool lately = loss->at.ns != 0 && tl__mono_before(now, tl__mono_add_ms(loss->at, LOG_AGAIN_MS));
    unsigned held = loss->missed || lately ? 0 : count_held(k);
    if (held == 0)
        return;
    loss->missed = true;
    loss->at = now;
    tl__log(k->client, TL_LOG_WARNING, "the connection under %u held lock%s is lost: %.*s", held,
            held == 1 ? "" : "s", (int)words.n, words.p);
}

void tl__keeper_log_back(tl_keeper *k, tl_loss *loss, const tl_node *node, tl_mono now) {
    char label[TL_LABEL_SIZE];
    if (loss->missed)
        tl__log(k->client, TL_LOG_WARNING, "%s: connected again after %lld ms",
                tl__node_label(node, label), (long long)tl__ms_until(loss->at, now));
    loss->missed = false;
}

static tl_err make_connections(tl_keeper *k) {
    bool all = tl__keeper_make_first(k) &&
               (!k->client->backend->holder->listen || tl__keeper_make_holds(k));
    return all && tl__keeper_have_renewal(k) ? TL_OK : TL_ENOMEM;
}

tl_err tl__keeper_ready(tl_keeper *k) {
    tl__keeper_lock(k);
    tl_err code = TL_OK;
    if (!k->running) {
        code = make_connections(k);
        if (!code && tl__thread_start(keep, k, &k->thread))
            code = TL_ENOMEM;
        k->running = !code;
    }
    tl__keeper_unlock(k);
    return code;
}

static void end_watching(tl_keeper *k) {
    if (k->watching)
        k->watching->end(k->watch);
}

static void close_descriptors(tl_keeper *k) {
    if (k->ready >= 0 && k->gather >= 0)
        tl__gather_drop(k->gather, k->ready);
    const int fds[] = {k->wake, k->timer, k->gather, k->ready};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            tl__wake_close(fds[i]);
}

tl_err tl__keeper_init(tl_keeper *k, tl_client *client, bool dispatch) {
    k->client = client;
    (void)snprintf(k->inbox.name, sizeof k->inbox.name, "tidelock:inbox:%s",
                   tl__client_token(client).text);
    k->inbox.name_n = (uint8_t)strlen(k->inbox.name);
    k->planned = TL_NEVER;
    k->reports_end = &k->reports;
    k->singly_end = &k->singly;
    k->wake = tl__wake_open();
    k->timer = tl__timer_open();
    k->ready = dispatch ? tl__wake_open() : -1;
    k->gather = dispatch ? tl__gather_open() : -1;
    k->watching = client->backend->watches ? client->protocol->watching : NULL;
    k->watch = k->watching ? k->watching->begin(k) : NULL;
    bool loops = !dispatch ||
                 (k->ready >= 0 && k->gather >= 0 && tl__gather_add(k->gather, k->ready));
    if (k->wake < 0 || k->timer < 0 || !loops || (k->watching && !k->watch)) {
        end_watching(k);
        close_descriptors(k);
        return TL_ENOMEM;
    }
    tl__mutex_init(&k->mutex);
    tl__mutex_init(&k->posts_mutex);
    tl__cond_init(&k->delivered);
    return TL_OK;
}

void tl__keeper_close(tl_keeper *k, int64_t grace_ms) {
    tl__keeper_lock(k);
    k->closing = true;
    tl__keeper_take_back(k);
    k->close_by = tl__mono_add_ms(tl__mono_now(), grace_ms);
    tl__keeper_wake(k);
    bool running = k->running;
    tl__keeper_unlock(k);
    if (running)
        tl__thread_join(k->thread);
    tl__keeper_end_tasks(k);
    tl__links_free(k);
    tl__wakeup_free(k->first.wakeup);
    tl__wakeup_free(k->holds);
    tl__conn_free(k->first.conn);
    free(k->fds);
    tl__keeper_free_spares(k);
    end_watching(k);
    close_descriptors(k);
    tl__mutex_end(&k->mutex);
    tl__mutex_end(&k->posts_mutex);
    tl__cond_end(&k->delivered);
}
