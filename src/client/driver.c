/*
 * The blocking driver. It borrows a connection while a request is in flight, and returns it for pauses.
 * Every wait ends: at the limit of a request, or at the machine's own timer.
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

/* As long as it has a share, each step runs with the share's mutex locked. */
typedef struct tl_drive {
    tl_run run;
    tl_waiter *waiter; /* NULL: nobody posts anything */
    tl_out *out;
    tl_pooled *pooled; /* while something is in flight: either this */
    tl_share *share;   /* or this */
    tl_sharer sharer;
    const tl_on_cancel *on_cancel; /* NULL: the thread is not cancelled */
    bool shares, cancelled;
    tl_node *from;      /* the node whose reply the next event is; NULL: it is no reply */
    bool turns;         /* the last send goes to another node than the one connected to */
    bool alone;         /* tl_send.alone of the last send */
    tl_mono cancel_by;  /* cancelled: the machine gets TL_CANCEL by then */
    unsigned in_flight; /* sends that are not answered yet */
    unsigned answers;   /* so far */
    tl_status status;
} tl_drive;

static void advance(tl_drive *drive, const tl_event *event);
static void answered(void *user, const tl_answer *answer);

static void refuse(tl_drive *drive, tl_event refused) {
    refused.now = tl__mono_now();
    advance(drive, &refused);
}

/* A caller with little time left doesn't share: without a reply in time it might end a connection
 * that others use. */
static bool may_share(const tl_drive *drive, tl_mono by, tl_mono now) {
    return drive->shares && !drive->pooled && !drive->share &&
           tl__ms_until(now, by) >= drive->run.client->attempt_ms / 2;
}

static bool have_conn(tl_drive *drive, tl_mono by, tl_mono now) {
    tl_client *client = drive->run.client;
    if (drive->run.node->site &&
        tl__keeper_ready(&client->keeper)) /* its thread finds out where the site leads */
        return false;
    if (may_share(drive, by, now))
        drive->share = tl__share_enter(drive->run.node);
    if (drive->share)
        return true;
    if (!drive->pooled)
        drive->pooled = tl__pool_take(drive->run.node, drive->waiter, by, now);
    if (!drive->pooled)
        return false;
    drive->pooled->user = drive;
    drive->pooled->answered = answered;
    return true;
}

static tl_node *node_of(const tl_drive *drive) {
    return drive->share ? tl__share_node(drive->share) : drive->pooled ? drive->pooled->node : NULL;
}

static tl_conn *conn_of(const tl_drive *drive) {
    return drive->share ? tl__share_conn(drive->share) : drive->pooled ? drive->pooled->conn : NULL;
}

/* Would a request be written at once, to a server that has answered lately? */
static bool is_fresh(const tl_drive *drive, tl_mono now) {
    return drive->share ? tl__conn_lively(conn_of(drive), now)
                        : tl__conn_fresh(conn_of(drive), now);
}

static void ask(tl_drive *drive, const tl_send *send, tl_mono now) {
    static const char busy[] = "all connections are busy";
    if (node_of(drive) && node_of(drive) != drive->run.node) {
        drive->turns = true; /* later: this may run within an answer over the old connection */
        return;
    }
    drive->alone = send->alone;
    if (!have_conn(drive, send->by, now)) {
        refuse(drive, (tl_event){.kind = TL_FAILED,
                                 .asked = {.ticket = send->ticket},
                                 .failed = {.why = TL_EUNAVAILABLE, .message = TL_LITERAL(busy)}});
        return;
    }
    if (send->count == 0 && (!send->confirm || !GUARD(confirms_anew)) && is_fresh(drive, now)) {
        tl_event reached = {
            .kind = TL_REPLY, .now = now, .asked = {.ticket = send->ticket, .sent = now}};
        reached.asked.run = tl__conn_run(conn_of(drive));
        drive->from = drive->run.node;
        advance(drive, &reached); /* the server has answered lately: no need to ask it again */
        return;
    }
    tl__node_asked(drive->run.node, now);
    tl_err why = drive->share ? tl__share_send(drive->share, &drive->sharer, send, now)
                              : tl__conn_send(drive->pooled->conn, send, NULL, now);
    if (why)
        refuse(drive, tl__run_refused(send, why, now));
    else
        drive->in_flight++;
}

static void advance(tl_drive *drive, const tl_event *event) {
    drive->run.node = drive->from;
    drive->from = NULL;
    drive->turns = false; /* a send that was still to turn is given up */
    drive->status = tl__run_step(&drive->run, event, drive->out);
    if (drive->out->raised && conn_of(drive))
        tl__conn_raised(conn_of(drive), drive->out->slot, event->asked.sent);
    if (drive->status == TL_GO && drive->out->sends > 0)
        ask(drive, &drive->out->send, event->now);
}

static void answered(void *user, const tl_answer *answer) {
    tl_drive *drive = user;
    if (drive->status != TL_GO)
        return;
    drive->in_flight--;
    drive->answers++;
    drive->from = node_of(drive);
    tl_event e = tl__run_answered(&drive->from, answer, drive->alone);
    advance(drive, &e);
}

/* TL_CANCEL gives up the request in flight and closes the connection: tell the machine which connection it
 * was, if the request may be native. On a shared connection it is not known which requests are native. */
static void tell_in_flight(const tl_drive *drive, tl_event *event) {
    const tl_conn *conn = drive->in_flight > 0 ? conn_of(drive) : NULL;
    if (event->kind != TL_CANCEL || !conn || !(drive->share || tl__conn_is_native(conn)))
        return;
    event->asked.native = true;
    event->asked.id = tl__conn_id(conn);
    event->asked.run = tl__conn_run(conn);
}

static void answered_shared(tl_sharer *sharer, const tl_answer *answer) {
    answered((char *)sharer - offsetof(tl_drive, sharer), answer);
}

/* A request on a shared connection is executed even if its caller gives up. So a cancelled caller waits a
 * moment for the reply: else it might undo what is done only later. */
static unsigned defer_cancel(tl_drive *drive, unsigned flags) {
    tl_mono now = tl__mono_now();
    if (flags & TL_WAKE_CANCEL && !drive->cancelled) {
        drive->cancelled = true;
        drive->cancel_by = tl__mono_add_ms(now, drive->run.client->attempt_ms / 4);
    }
    flags = drive->cancelled ? flags | TL_WAKE_CANCEL : flags;
    bool defer = drive->share && drive->in_flight > 0 && tl__mono_before(now, drive->cancel_by);
    return defer ? flags & ~(unsigned)TL_WAKE_CANCEL : flags;
}

static void poll_pooled(tl_drive *drive, tl_mono until) {
    struct pollfd fds[2] = {
        {.fd = tl__conn_fd(drive->pooled->conn), .events = tl__conn_events(drive->pooled->conn)},
        {.fd = drive->waiter ? drive->waiter->fd : -1, .events = POLLIN}};
    if (drive->on_cancel)
        tl__cancel_back(&drive->on_cancel->state);
    tl__wait(fds, 2, until);
    if (drive->on_cancel)
        (void)tl__cancel_off();
    if (fds[1].revents)
        tl__wake_clear(fds[1].fd);
}

static void await(tl_drive *drive) {
    tl_mono until = drive->out->until;
    if (!drive->pooled) {
        tl__waiter_await(drive->waiter, until, drive->on_cancel ? &drive->on_cancel->state : NULL);
        return;
    }
    poll_pooled(drive, tl__mono_min(until, tl__conn_until(drive->pooled->conn)));
    tl__conn_drive(drive->pooled->conn, tl__mono_now());
}

/* Look for the reply without sleeping: a near server answers sooner than a thread falls asleep and wakes.
 * True: there was a reply. */
static bool spin(tl_drive *drive) {
    if (!drive->pooled || drive->in_flight == 0 || !tl__conn_up(drive->pooled->conn))
        return false;
    atomic_uint *spinning = &drive->run.client->spinning;
    unsigned answers = drive->answers, others = atomic_fetch_add(spinning, 1);
    int64_t limit_ns = tl__spin_ns(&drive->pooled->spin, others);
    tl_mono now = tl__mono_now(), end = tl__mono_add_ns(now, limit_ns);
    while (tl__mono_before(now, end) && drive->answers == answers &&
           tl__conn_up(drive->pooled->conn)) {
        tl__thread_yield();
        now = tl__mono_now();
        tl__conn_drive(drive->pooled->conn, now);
    }
    (void)atomic_fetch_sub(spinning, 1);
    bool there = drive->answers != answers;
    if (limit_ns > 0)
        tl__spin_learn(&drive->pooled->spin, there);
    return there;
}

static void give_pooled_back(tl_drive *drive) {
    if (!drive->pooled)
        return;
    drive->pooled->user = NULL;
    tl__pool_give(drive->pooled, GUARD(broken_not_pooled) && drive->in_flight > 0);
    drive->pooled = NULL;
}

static void leave_share(tl_drive *drive) {
    if (drive->share)
        tl__share_leave(drive->share, &drive->sharer);
    drive->share = NULL;
    drive->sharer.in_flight = 0;
}

/* Send to the other node, and give up what is in flight at this one. */
static void turn(tl_drive *drive) {
    while (drive->status == TL_GO && drive->turns) {
        drive->turns = false;
        leave_share(drive);
        give_pooled_back(drive);
        drive->in_flight = 0;
        ask(drive, &drive->out->send, tl__mono_now());
    }
}

/* If an event makes the machine ask another node, send that before the next event: the step for
 * that would drop it. */
static void take_posts(tl_drive *drive) {
    unsigned flags = defer_cancel(drive, drive->waiter ? tl__waiter_posts(drive->waiter) : 0);
    tl_event e;
    while (drive->status == TL_GO && tl__run_posted(&flags, &e)) {
        tl_grant grant;
        if (e.kind == TL_GRANTED) {
            grant = tl__keeper_grant(&drive->run.client->keeper, drive->run.listener);
            e.grant = &grant;
        }
        tell_in_flight(drive, &e);
        advance(drive, &e);
        if (GUARD(turn_before_next))
            turn(drive);
    }
}

static void look_around(tl_drive *drive) {
    if (drive->status == TL_GO)
        take_posts(drive);
    if (drive->status != TL_GO || drive->out->until.ns == INT64_MAX)
        return;
    tl_event e = {.kind = TL_TIMER, .now = tl__mono_now()};
    if (!tl__mono_before(e.now, drive->out->until))
        advance(drive, &e);
}

static void once(tl_drive *drive) {
    if (!spin(drive))
        await(drive);
    turn(drive);
    look_around(drive);
    turn(drive);
}

static void share(tl_drive *drive) {
    while (drive->status == TL_GO && drive->share && drive->in_flight > 0 && !drive->turns) {
        tl_mono by = drive->cancelled ? drive->cancel_by : TL_NEVER;
        tl__share_await(drive->share, &drive->sharer, tl__mono_min(drive->out->until, by));
        if (!drive->turns)
            look_around(drive);
    }
    leave_share(drive);
    turn(drive);
}

static void run(void *drive) {
    tl_drive *driving = drive;
    while (driving->status == TL_GO) {
        if (driving->in_flight == 0)
            give_pooled_back(driving);
        if (driving->share)
            share(driving);
        else
            once(driving);
    }
    leave_share(driving);
    give_pooled_back(driving);
}

/* The thread was cancelled while it waited: run the machine to its end. */
static void end_cancelled(void *drive) {
    tl_drive *driving = drive;
    const tl_on_cancel *on_cancel = driving->on_cancel;
    driving->on_cancel = NULL;
    tl__waiter_post(driving->waiter, TL_WAKE_CANCEL);
    run(driving);
    on_cancel->end(on_cancel->ctx, driving->status);
}

static void start(tl_drive *drive) {
    tl_event start = {.kind = TL_START, .now = tl__mono_now()};
    drive->run.listener = drive->waiter ? &drive->waiter->listener : NULL;
    drive->sharer = (tl_sharer){.answered = answered_shared, .waiter = drive->waiter};
    advance(drive, &start);
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
    return result->code ? tl__fail(err, result->code, out.sys_errno, "%s: %s", what, out.message)
                        : TL_OK;
}
