/*
 * The blocking driver. It borrows a connection while something is under way and gives it
 * back for the pauses. Every wait ends: at the limit of a request, or at the machine's own timer.
 */
#include "client/driver.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#define SLICE_NS INT64_C(1000000000)

typedef struct tl_drive {
    tl_client *client;
    void *machine;
    tl_step step;
    tl_waiter *waiter;
    tl_out *out;
    tl_line *line;
    unsigned under_way; /* sends without an answer yet */
    unsigned answers;   /* so far */
    tl_status status;
} tl_drive;

static void advance(tl_drive *d, const tl_event *event);

/* A send that could not even be queued. */
static void refuse(tl_drive *d, uint16_t ticket, tl_err why, tl_bytes words) {
    tl_event e = {.kind = TL_FAILED, .ticket = ticket, .why = why, .words = words};
    e.now = tl__mono_now();
    advance(d, &e);
}

/* The server has just been heard of: no need to have that confirmed. */
static void reached(tl_drive *d, uint16_t ticket, tl_mono now) {
    tl_event e = {.kind = TL_REPLY, .ticket = ticket, .sent = now, .now = now};
    advance(d, &e);
}

static void send_all(tl_drive *d, tl_mono now) {
    tl_out *out = d->out;
    unsigned n = out->sends;
    for (unsigned i = 0; i < n && d->status == TL_GO; i++) {
        const tl_send *send = &out->send[i];
        uint16_t ticket = send->ticket;
        if (!d->line) {
            d->line = tl__line_take(d->client, d->waiter, send->by);
            if (!d->line) {
                refuse(d, ticket, TL_EUNAVAILABLE, TL_LITERAL("all connections are busy"));
                return;
            }
            d->line->user = d;
        }
        if (send->count == 0 && tl__conn_fresh(d->line->conn, now)) {
            reached(d, ticket, now);
            return;
        }
        d->under_way++;
        tl__client_asked(d->client, now);
        if (tl__conn_send(d->line->conn, send, NULL, now) != TL_OK) {
            d->under_way--;
            refuse(d, ticket, TL_ENOMEM, TL_LITERAL("out of memory"));
            return;
        }
    }
}

/* One step, and what it asks for. */
static void advance(tl_drive *d, const tl_event *event) {
    tl_server server = tl__client_server(d->client, event->now);
    tl_out *out = d->out;
    tl_event e = *event;
    e.server = &server;
    tl__out_clear(out);
    d->status = d->step(d->machine, &e, out);
    if (out->has_bracket && tl__client_learn(d->client, out->bracket, e.now))
        tl__keeper_rejudge(&d->client->keeper);
    if (out->level)
        tl__client_level(d->client, out->level);
    if (out->clock_off)
        tl__client_clock_off(d->client, out->words_off, e.now);
    if (out->has_lease)
        tl__client_lease(d->client, out->leased, &out->lease);
    if (out->arm && d->waiter)
        tl__keeper_listen(&d->client->keeper, &d->waiter->listener, out->topic, out->watched);
    if (out->disarm && d->waiter)
        tl__keeper_forget(&d->client->keeper, &d->waiter->listener);
    if (d->status == TL_GO)
        send_all(d, e.now);
}

void tl__drive_answer(tl_drive *d, const tl_answer *answer) {
    if (d->status != TL_GO)
        return;
    d->under_way--;
    d->answers++;
    tl_event e = tl__client_event(d->client, answer);
    advance(d, &e);
}

static void take_wakes(tl_drive *d) {
    uint64_t count;
    if (read(d->waiter->fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
    unsigned flags = atomic_exchange(&d->waiter->flags, 0);
    tl_event e = {.now = tl__mono_now()};
    if (flags & TL_WAKE_CANCEL) {
        e.kind = TL_CANCEL;
        advance(d, &e);
    }
    if (d->status == TL_GO && (flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED))) {
        e.kind = TL_ARMED;
        e.armed = !(flags & TL_WAKE_DISARMED);
        advance(d, &e);
    }
    if (d->status == TL_GO && (flags & (TL_WAKE_WATCHED | TL_WAKE_UNWATCHED))) {
        e.kind = TL_WATCHED;
        e.armed = !(flags & TL_WAKE_UNWATCHED);
        advance(d, &e);
    }
    if (d->status == TL_GO && (flags & TL_WAKE_WOKEN)) {
        e.kind = TL_WOKEN;
        advance(d, &e);
    }
}

/* The clock of the poll stands still in suspend: so in slices, after which the deadline clock is read. */
static void await(tl_drive *d, tl_mono until) {
    struct pollfd fds[2] = {{.fd = -1}, {.fd = -1}};
    if (d->line) {
        fds[0].fd = tl__conn_fd(d->line->conn);
        fds[0].events = tl__conn_events(d->line->conn);
        until = tl__mono_min(until, tl__conn_until(d->line->conn));
    }
    if (d->waiter) {
        fds[1].fd = d->waiter->fd;
        fds[1].events = POLLIN;
    }
    int64_t left = tl__ns_until(tl__mono_now(), until);
    struct timespec limit = {0};
    if (left > SLICE_NS)
        left = SLICE_NS;
    if (left > 0) {
        limit.tv_sec = (time_t)(left / 1000000000);
        limit.tv_nsec = (long)(left % 1000000000);
    }
    (void)ppoll(fds, 2, until.ns == INT64_MAX ? NULL : &limit, NULL); /* EINTR: look again */
}

/* A near server answers sooner than it takes to fall asleep and be woken. True: so it did. */
static bool spin(tl_drive *d) {
    if (!d->line || d->under_way == 0 || !tl__conn_up(d->line->conn))
        return false;
    atomic_uint *spinning = &d->client->spinning;
    unsigned answers = d->answers, others = atomic_fetch_add(spinning, 1);
    int64_t limit_ns = tl__spin_ns(&d->line->spin, others);
    tl_mono now = tl__mono_now(), end = tl__mono_add_ns(now, limit_ns);
    while (tl__mono_before(now, end) && d->answers == answers && tl__conn_up(d->line->conn)) {
        (void)sched_yield();
        now = tl__mono_now();
        tl__conn_drive(d->line->conn, now);
    }
    (void)atomic_fetch_sub(spinning, 1);
    bool there = d->answers != answers;
    if (limit_ns > 0)
        tl__spin_learn(&d->line->spin, there);
    return there;
}

static void once(tl_drive *d) {
    if (!spin(d)) {
        await(d, d->out->until);
        if (d->line)
            tl__conn_drive(d->line->conn, tl__mono_now());
    }
    if (d->status == TL_GO && d->waiter && atomic_load(&d->waiter->flags))
        take_wakes(d);
    if (d->status != TL_GO || d->out->until.ns == INT64_MAX)
        return;
    tl_event e = {.kind = TL_TIMER, .now = tl__mono_now()};
    if (!tl__mono_before(e.now, d->out->until))
        advance(d, &e);
}

static void give_line_back(tl_drive *d) {
    if (!d->line)
        return;
    d->line->user = NULL;
    tl__line_give(d->line, d->under_way > 0);
    d->line = NULL;
}

tl_status tl__drive(tl_client *client, void *machine, tl_step step, tl_waiter *waiter,
                    tl_out *out) {
    tl_drive d = {.client = client, .machine = machine, .step = step, .waiter = waiter, .out = out};
    tl_event start = {.kind = TL_START, .now = tl__mono_now()};
    advance(&d, &start);
    while (d.status == TL_GO) {
        if (d.under_way == 0)
            give_line_back(&d);
        once(&d);
    }
    give_line_back(&d);
    if (waiter)
        tl__keeper_forget(&client->keeper, &waiter->listener);
    return d.status;
}
