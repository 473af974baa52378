/*
 * The blocking driver. It borrows a connection while something is in flight and gives it
 * back for the pauses. Every wait ends: at the limit of a request, or at the machine's own timer.
 */
#include "client/driver.h"

#include <stddef.h>
#include <stdint.h>

#include "client/run.h"
#include "client/share.h"
#include "ground/cancel.h"
#include "ground/error.h"
#include "ground/guard.h"
#include "ground/wait.h"

/* While it has a share, whoever runs a step has the share's mutex. */
typedef struct tl_drive {
    tl_run run;
    tl_waiter *waiter; /* NULL: nobody posts anything */
    tl_out *out;
    tl_pooled *pooled; /* while something is in flight, either this */
    tl_share *share;   /* or this */
    tl_sharer sharer;
    const tl_on_cancel *on_cancel; /* NULL: the thread is not to be cancelled */
    bool shares, cancelled;
    tl_node *from; /* whose answer the next event is; NULL: nobody's */
    bool turns;    /* what was asked for last goes to another node than the connection leads to */
    bool alone;    /* and has one key */
    tl_mono cancel_by;  /* cancelled: it must be told by then */
    unsigned in_flight; /* sends without an answer yet */
    unsigned answers;   /* so far */
    tl_status status;
} tl_drive;

static void advance(tl_drive *d, const tl_event *event);
static void answered(void *user, const tl_answer *answer);

static void refuse(tl_drive *d, tl_event refused) {
    refused.now = tl__mono_now();
    advance(d, &refused);
}

/* One that is in haste might end a connection that others use, for want of an answer. */
static bool may_share(const tl_drive *d, tl_mono by, tl_mono now) {
    return d->shares && !d->pooled && !d->share &&
           tl__ms_until(now, by) >= d->run.client->attempt_ms / 2;
}

static bool have_conn(tl_drive *d, tl_mono by, tl_mono now) {
    tl_client *c = d->run.client;
    if (d->run.node->site && tl__keeper_ready(&c->keeper)) /* whose thread finds out where to */
        return false;
    if (may_share(d, by, now))
        d->share = tl__share_enter(d->run.node);
    if (d->share)
        return true;
    if (!d->pooled)
        d->pooled = tl__pool_take(d->run.node, d->waiter, by);
    if (!d->pooled)
        return false;
    d->pooled->user = d;
    d->pooled->answered = answered;
    return true;
}

static tl_node *node_of(const tl_drive *d) {
    return d->share ? tl__share_node(d->share) : d->pooled ? d->pooled->node : NULL;
}

static tl_conn *conn_of(const tl_drive *d) {
    return d->share ? tl__share_conn(d->share) : d->pooled ? d->pooled->conn : NULL;
}

/* A request would be written at once, to a server that was heard of lately. */
static bool is_fresh(const tl_drive *d, tl_mono now) {
    return d->share ? tl__conn_lively(conn_of(d), now) : tl__conn_fresh(conn_of(d), now);
}

static void ask(tl_drive *d, const tl_send *send, tl_mono now) {
    static const char busy[] = "all connections are busy";
    if (node_of(d) && node_of(d) != d->run.node) {
        d->turns = true; /* not from within an answer, which comes over that connection */
        return;
    }
    d->alone = send->alone;
    if (!have_conn(d, send->by, now)) {
        refuse(d, (tl_event){.kind = TL_FAILED,
                             .asked = {.ticket = send->ticket},
                             .failed = {.why = TL_EUNAVAILABLE, .message = TL_LITERAL(busy)}});
        return;
    }
    if (send->count == 0 && (!send->confirm || !GUARD(confirms_anew)) && is_fresh(d, now)) {
        tl_event reached = {
            .kind = TL_REPLY, .now = now, .asked = {.ticket = send->ticket, .sent = now}};
        reached.asked.run = tl__conn_run(conn_of(d));
        d->from = d->run.node;
        advance(d, &reached); /* it has just been heard of: no need to have that confirmed */
        return;
    }
    tl__node_asked(d->run.node, now);
    tl_err why = d->share ? tl__share_send(d->share, &d->sharer, send, now)
                          : tl__conn_send(d->pooled->conn, send, NULL, now);
    if (why)
        refuse(d, tl__run_refused(send, why, now));
    else
        d->in_flight++;
}

static void advance(tl_drive *d, const tl_event *event) {
    d->run.node = d->from;
    d->from = NULL;
    d->turns = false; /* what it asked for is given up */
    d->status = tl__run_step(&d->run, event, d->out);
    if (d->out->raised && conn_of(d))
        tl__conn_raised(conn_of(d), d->out->slot, event->asked.sent);
    if (d->status == TL_GO && d->out->sends > 0)
        ask(d, &d->out->send, event->now);
}

static void answered(void *user, const tl_answer *answer) {
    tl_drive *d = user;
    if (d->status != TL_GO)
        return;
    d->in_flight--;
    d->answers++;
    d->from = node_of(d);
    tl_event e = tl__run_answered(&d->from, answer, d->alone);
    advance(d, &e);
}

/* A cancel leaves what is in flight, and closes the connection; which of those on a shared one are native
 * isn't known. */
static void tell_in_flight(const tl_drive *d, tl_event *e) {
    const tl_conn *conn = d->in_flight > 0 ? conn_of(d) : NULL;
    if (e->kind != TL_CANCEL || !conn || !(d->share || tl__conn_is_native(conn)))
        return;
    e->asked.native = true;
    e->asked.id = tl__conn_id(conn);
    e->asked.run = tl__conn_run(conn);
}

static void answered_shared(tl_sharer *sharer, const tl_answer *answer) {
    answered((char *)sharer - offsetof(tl_drive, sharer), answer);
}

/* What is asked for on a shared connection is carried out whoever waits for it: whoever is cancelled
 * had better wait until it is, for a moment, than undo what is only about to be done. */
static unsigned defer_cancel(tl_drive *d, unsigned flags) {
    tl_mono now = tl__mono_now();
    if (flags & TL_WAKE_CANCEL && !d->cancelled) {
        d->cancelled = true;
        d->cancel_by = tl__mono_add_ms(now, d->run.client->attempt_ms / 4);
    }
    flags = d->cancelled ? flags | TL_WAKE_CANCEL : flags;
    bool defer = d->share && d->in_flight > 0 && tl__mono_before(now, d->cancel_by);
    return defer ? flags & ~(unsigned)TL_WAKE_CANCEL : flags;
}

static void poll_pooled(tl_drive *d, tl_mono until) {
    struct pollfd fds[2] = {
        {.fd = tl__conn_fd(d->pooled->conn), .events = tl__conn_events(d->pooled->conn)},
        {.fd = d->waiter ? d->waiter->fd : -1, .events = POLLIN}};
    if (d->on_cancel)
        tl__cancel_back(&d->on_cancel->state);
    tl__wait(fds, 2, until);
    if (d->on_cancel)
        (void)tl__cancel_off();
    if (fds[1].revents)
        tl__wake_clear(fds[1].fd);
}

static void await(tl_drive *d) {
    tl_mono until = d->out->until;
    if (!d->pooled) {
        tl__waiter_await(d->waiter, until, d->on_cancel ? &d->on_cancel->state : NULL);
        return;
    }
    poll_pooled(d, tl__mono_min(until, tl__conn_until(d->pooled->conn)));
    tl__conn_drive(d->pooled->conn, tl__mono_now());
}

/* A near server answers sooner than it takes to fall asleep and be woken. True: so it did. */
static bool spin(tl_drive *d) {
    if (!d->pooled || d->in_flight == 0 || !tl__conn_up(d->pooled->conn))
        return false;
    atomic_uint *spinning = &d->run.client->spinning;
    unsigned answers = d->answers, others = atomic_fetch_add(spinning, 1);
    int64_t limit_ns = tl__spin_ns(&d->pooled->spin, others);
    tl_mono now = tl__mono_now(), end = tl__mono_add_ns(now, limit_ns);
    while (tl__mono_before(now, end) && d->answers == answers && tl__conn_up(d->pooled->conn)) {
        tl__thread_yield();
        now = tl__mono_now();
        tl__conn_drive(d->pooled->conn, now);
    }
    (void)atomic_fetch_sub(spinning, 1);
    bool there = d->answers != answers;
    if (limit_ns > 0)
        tl__spin_learn(&d->pooled->spin, there);
    return there;
}

static void give_pooled_back(tl_drive *d) {
    if (!d->pooled)
        return;
    d->pooled->user = NULL;
    tl__pool_give(d->pooled, GUARD(broken_not_pooled) && d->in_flight > 0);
    d->pooled = NULL;
}

static void leave_share(tl_drive *d) {
    if (d->share)
        tl__share_leave(d->share, &d->sharer);
    d->share = NULL;
    d->sharer.in_flight = 0;
}

/* Ask the other node; what is in flight here was given up. */
static void turn(tl_drive *d) {
    while (d->status == TL_GO && d->turns) {
        d->turns = false;
        leave_share(d);
        give_pooled_back(d);
        d->in_flight = 0;
        ask(d, &d->out->send, tl__mono_now());
    }
}

/* What an event has it ask for at another node is asked for before it is told of the next, which would know nothing of
 * that. */
static void take_posts(tl_drive *d) {
    unsigned flags = defer_cancel(d, d->waiter ? tl__waiter_posts(d->waiter) : 0);
    tl_event e;
    while (d->status == TL_GO && tl__run_posted(&flags, &e)) {
        tl_grant grant;
        if (e.kind == TL_GRANTED) {
            grant = tl__keeper_grant(&d->run.client->keeper, d->run.listener);
            e.grant = &grant;
        }
        tell_in_flight(d, &e);
        advance(d, &e);
        if (GUARD(turn_before_next))
            turn(d);
    }
}

static void look_around(tl_drive *d) {
    if (d->status == TL_GO)
        take_posts(d);
    if (d->status != TL_GO || d->out->until.ns == INT64_MAX)
        return;
    tl_event e = {.kind = TL_TIMER, .now = tl__mono_now()};
    if (!tl__mono_before(e.now, d->out->until))
        advance(d, &e);
}

static void once(tl_drive *d) {
    if (!spin(d))
        await(d);
    turn(d);
    look_around(d);
    turn(d);
}

static void share(tl_drive *d) {
    while (d->status == TL_GO && d->share && d->in_flight > 0 && !d->turns) {
        tl_mono by = d->cancelled ? d->cancel_by : TL_NEVER;
        tl__share_await(d->share, &d->sharer, tl__mono_min(d->out->until, by));
        if (!d->turns)
            look_around(d);
    }
    leave_share(d);
    turn(d);
}

static void run(void *drive) {
    tl_drive *d = drive;
    while (d->status == TL_GO) {
        if (d->in_flight == 0)
            give_pooled_back(d);
        if (d->share)
            share(d);
        else
            once(d);
    }
    leave_share(d);
    give_pooled_back(d);
}

/* The thread was cancelled while it waited. */
static void end_cancelled(void *drive) {
    tl_drive *d = drive;
    const tl_on_cancel *on_cancel = d->on_cancel;
    d->on_cancel = NULL;
    tl__waiter_post(d->waiter, TL_WAKE_CANCEL);
    run(d);
    on_cancel->end(on_cancel->ctx, d->status);
}

static void start(tl_drive *d) {
    tl_event start = {.kind = TL_START, .now = tl__mono_now()};
    d->run.listener = d->waiter ? &d->waiter->listener : NULL;
    d->sharer = (tl_sharer){.answered = answered_shared, .waiter = d->waiter};
    advance(d, &start);
}

tl_status tl__drive(tl_client *client, tl_node *node, const tl_machine *machine, bool shares,
                    tl_out *out) {
    tl_drive d = {
        .run = {.client = client, .machine = machine}, .out = out, .shares = shares, .from = node};
    start(&d);
    run(&d);
    return d.status;
}

tl_status tl__drive_cancellable(tl_client *client, const tl_machine *machine, tl_waiter *waiter,
                                bool shares, const tl_on_cancel *on_cancel, tl_out *out) {
    tl_drive d = {.run = {.client = client, .machine = machine},
                  .waiter = waiter,
                  .out = out,
                  .shares = shares,
                  .on_cancel = on_cancel};
    start(&d);
    tl__cancel_guard(run, end_cancelled, &d);
    return d.status;
}

tl_err tl__inquire(tl_client *client, tl_node *node, tl_bytes key, void *state, tl_step step,
                   const char *what, tl_error *err) {
    const tl_machine machine = {.state = state, .step = step, .does = what, .key = key};
    const tl_result *result = state;
    tl_out out;
    if (!tl__client_is_here(client))
        return tl__fail(err, TL_EINVALID, 0, "%s: the client belongs to the parent process", what);
    (void)tl__drive(client, node, &machine, false, &out);
    return result->code ? tl__fail(err, result->code, out.sys_errno, "%s: %s", what, out.words)
                        : TL_OK;
}
