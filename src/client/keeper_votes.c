/*
 * How the keeper runs a task that asks several independent servers. A step asks one of them; the next step
 * follows at once while there is another to ask. All requests to one server, the renewals among them, use one
 * connection, so that the server executes them in order. All of it is under keeper.mutex.
 */
#include <stdio.h>

#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "client/run.h"
#include "ground/guard.h"

/* 12 h: a server whose clock is further from most others' can't agree with them on fencing numbers. */
#define APART_US INT64_C(43200000000)
#define US_PER_HOUR INT64_C(3600000000)

/* ---- connections ----------------------------------------------------------------------------- */

/* All machines share each connection, those with little time left too. That such a machine has no reply in
 * time says nothing about the server yet, so the connection stays. And requests on their way to a slow server
 * stay before later ones. */
static void limit(const tl_client *client, tl_conn_limits *limits) {
    limits->patience_ms = client->attempt_ms / 2;
    limits->in_order = GUARD(votes_in_order);
}

/* conn NULL: there was no memory for it, and nothing was queued. */
static void write_to(tl_conn *conn, tl_mono now) {
    if (conn)
        tl__conn_write(conn, now);
}

static void write_all(tl_keeper *keeper, unsigned asked, tl_mono now) {
    for (unsigned i = 0; i < keeper->client->fleet.servers; i++)
        if (asked & 1U << i)
            write_to(tl__keeper_conn(keeper, keeper->client->fleet.server[i]), now);
}

/* ---- identities ------------------------------------------------------------------------------ */

/* Two addresses of the URL may lead to one server, whose vote must not count twice. Its votes belong to the
 * address by which it answered first, even while there is no connection to that: the votes given there stay
 * valid. True: this is the other one. */
static bool is_anothers(tl_keeper *keeper, unsigned index, uint64_t run) {
    const tl_fleet *fleet = &keeper->client->fleet;
    for (unsigned i = 0; i < fleet->servers; i++)
        if (i != index && atomic_load(&fleet->server[i]->run) == run && GUARD(votes_once))
            return true;
    atomic_store(&fleet->server[index]->run, run);
    return false;
}

/* Reject the reply of a server whose vote must not count. A server that doesn't report its run may be the
 * same as another. */
static void judge(tl_keeper *keeper, unsigned index, uint64_t run, tl_event *event) {
    static const char same[] =
        "another server of the URL is the same: it has one vote only; name each server once";
    static const char nameless[] =
        "it doesn't report its run_id, so it may be another server of the URL: allow its user INFO";
    const char *message = run == 0 ? nameless : same;
    char line[TL_MESSAGE_SIZE];
    event->from = (uint8_t)index;
    if (event->kind != TL_REPLY ||
        (run == 0 ? !GUARD(nameless_server_votes_not) : !is_anothers(keeper, index, run)))
        return;
    event->failed = (tl_failure){.why = run == 0 ? TL_EDENIED : TL_EINVALID,
                                 .maybe_sent = event->replied.count > 0,
                                 .message = tl__bytes_of(message)};
    event->kind = TL_FAILED;
    (void)snprintf(line, sizeof line, "%.100s: %s",
                   keeper->client->fleet.server[index]->endpoint.label, message);
    tl__client_warn(keeper->client, line, event->now);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static int64_t clock_us(const tl_server *server, tl_mono now) {
    return tl__anchor_server_time(&server->anchor, now, server->drift_ppm).lo;
}

/* Is this clock the median of those that are known? */
static bool is_middle(const tl_server *all, unsigned count, unsigned index, tl_mono now) {
    unsigned known = 0, before = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!all[i].anchor.known)
            continue;
        int64_t than = clock_us(&all[i], now) - clock_us(&all[index], now);
        known++;
        before += than < 0 || (than == 0 && i < index);
    }
    return known >= tl__quorum_of(count) && before == known / 2;
}

void tl__run_compare_clocks(tl_client *client, const tl_server *all, tl_mono now) {
    const tl_fleet *fleet = &client->fleet;
    unsigned middle = 0;
    char message[TL_MESSAGE_SIZE];
    while (middle < fleet->servers &&
           !(all[middle].anchor.known && is_middle(all, fleet->servers, middle, now)))
        middle++;
    for (unsigned i = 0; middle < fleet->servers && i < fleet->servers; i++) {
        if (!all[i].anchor.known)
            continue;
        int64_t ahead = clock_us(&all[i], now) - clock_us(&all[middle], now);
        if (ahead <= APART_US && ahead >= -APART_US)
            continue;
        (void)snprintf(
            message, sizeof message,
            "%.60s: its clock is %lld h %s that of most servers of the quorum: set it, or "
            "its vote counts for less",
            fleet->server[i]->endpoint.label,
            (long long)((ahead < 0 ? -ahead : ahead) / US_PER_HOUR),
            ahead < 0 ? "behind" : "ahead of");
        if (GUARD(clock_apart_is_logged))
            tl__client_warn(client, message, now);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static tl_err submit(tl_keeper *keeper, tl_task *task, const tl_send *send, tl_conn *conn,
                     unsigned index, tl_mono now) {
    tl_exchange *exchange = conn ? tl__keeper_take_exchange(keeper) : NULL;
    if (!exchange)
        return TL_ENOMEM;
    *exchange = (tl_exchange){.server = (uint8_t)index};
    tl_err why = tl__conn_send(conn, send, exchange, now);
    tl__keeper_wake_writer(keeper);
    if (why) {
        tl__keeper_give_exchange(keeper, exchange);
        return why;
    }
    exchange->task = task;
    exchange->next = task->exchange;
    task->exchange = exchange;
    return TL_OK;
}

/* true: *ret is the reply already. Nothing is sent to a server whose votes belong to another address: a
 * release that it executed twice would report the vote as lost. */
static bool ask(tl_keeper *keeper, tl_task *task, const tl_send *send, tl_mono now, tl_event *ret) {
    unsigned index = (unsigned)__builtin_ctz(send->to);
    tl_node *node = keeper->client->fleet.server[index];
    tl_conn *conn = tl__keeper_conn(keeper, node);
    tl_event reached = {
        .kind = TL_REPLY, .now = now, .asked = {.ticket = send->ticket, .sent = now}};
    reached.from = (uint8_t)index;
    reached.asked.run = conn ? tl__conn_run(conn) : 0;
    if (conn && tl__conn_up(conn)) /* else its run is not known yet */
        judge(keeper, index, reached.asked.run, &reached);
    else if (!GUARD(run_is_remembered))
        atomic_store(&node->run, 0);
    if (reached.kind != TL_REPLY || (conn && send->count == 0 && tl__conn_lively(conn, now))) {
        *ret = reached;
        return true;
    }
    tl__node_asked(node, now);
    tl_err why = submit(keeper, task, send, conn, index, now);
    if (!why)
        return false;
    *ret = tl__run_refused(send, why, now);
    ret->from = (uint8_t)index;
    return true;
}

static void run(tl_keeper *keeper, tl_task *task, const tl_event *event, tl_node *node) {
    tl_event e = *event;
    unsigned asked = 0;
    (void)node; /* event->from says which */
    for (bool more = true; more;) {
        tl_machine machine = task->kind->machine(task);
        tl_run one = {.client = keeper->client,
                      .machine = &machine,
                      .listener = task->listener,
                      .in = true,
                      .all = true,
                      .node = keeper->client->fleet.server[e.from]};
        tl_event next = {.kind = TL_TIMER, .now = e.now};
        tl_out out;
        tl_status status = tl__run_step(&one, &e, &out);
        if (!tl__keeper_stepped(keeper, task, &out, status))
            break;
        asked |= out.sends > 0 ? out.send.to : 0;
        more = out.sends > 0 &&
               (ask(keeper, task, &out.send, e.now, &next) || !tl__mono_before(e.now, out.until));
        e = next;
    }
    write_all(keeper, asked, e.now);
}

const tl_runner tl__runner_of_votes = {
    .asks_all = true,
    .limit = limit,
    .run = run,
    .judge = judge,
    .forget = tl__keeper_forget_all_in,
};
