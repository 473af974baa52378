/*
 * How requests fail: by their limit, or with their connection. Each still gets exactly one result. It must
 * never report too little of what may have been sent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

static tl_answer failure(const tl_conn *conn, const tl_slot *slot, tl_err why, int sys_errno,
                         const char *message) {
    return (tl_answer){.cookie = slot->cookie,
                       .ticket = slot->ticket,
                       .sent = slot->sent,
                       .count = slot->count,
                       .run = conn->run,
                       .generation = tl__conn_generation(conn),
                       .native = slot->native,
                       .id = conn->id,
                       .maybe_sent = (!tl__slot_unsent(slot) && !conn->foreign) || slot->effect,
                       .why = why,
                       .sys_errno = sys_errno,
                       .message = tl__bytes_of(message)};
}

void tl__conn_refuse(tl_conn *conn, tl_slot *slot, tl_err why, const char *message) {
    tl__conn_answer(conn, slot, failure(conn, slot, why, 0, message));
}

/* ---- the end of a connection ------------------------------------------------------------------- */

static void close_stream(tl_conn *conn) {
    if (conn->calls.closing && conn->state == TL_CONN_UP)
        conn->calls.closing(conn->calls.ctx);
    tl__conn_closed(conn);
    tl__stream_close(&conn->stream);
    tl__conn_end_login(conn);
    conn->state = TL_CONN_DOWN;
    if (GUARD(raised_by_connection))
        memset(conn->raised, 0, sizeof conn->raised);
    conn->broken = conn->more = conn->stale = conn->served = false;
    conn->leaving = NULL;
}

/* Queue again the requests of the list that can wait for the next connection; returns the others. */
static tl_slot *requeue(tl_conn *conn, tl_slot *list) {
    tl_slot *left = NULL, **end = &left;
    while (list) {
        tl_slot *slot = list;
        list = slot->next;
        bool pinned = (slot->pin && slot->pin->closes) ||
                      (GUARD(native_is_not_moved) &&
                       slot->here); /* bound to the connection that has ended */
        if (tl__slot_unsent(slot) && !slot->effect && !slot->quiet && !slot->given_up && !pinned) {
            tl__conn_enqueue(conn, slot);
            continue;
        }
        *end = slot;
        end = &slot->next;
    }
    *end = NULL;
    return left;
}

/* Everything is copied first, since a callback may begin the next connection. */
static void lose(tl_conn *conn, tl_err why, int sys_errno, bool absent, const char *message,
                 bool wait) {
    char copy[TL_STREAM_MESSAGE_SIZE];
    bool led_on = GUARD(login_goes_on) && conn->state != TL_CONN_DOWN &&
                  !tl__conn_is_current(conn); /* not the server's fault */
    bool served = conn->served || led_on;
    bool next = conn->codec->goes_on && !conn->freeing && conn->codec->goes_on(conn);
    absent = absent && !next;
    (void)snprintf(copy, sizeof copy, "%s", message);
    (void)snprintf(conn->message, sizeof conn->message, "%s", copy);
    conn->why = why;
    conn->sys_errno = sys_errno;
    conn->retry_at = served || next ? conn->now
                                    : tl__mono_add_ns(conn->now, tl__backoff_ns(&conn->backoff));
    close_stream(conn);
    tl_slot *list = tl__slots_cut_all(&conn->slots);
    conn->soonest = TL_NEVER;
    if ((served || next) && wait)
        list = requeue(conn, list);
    if (conn->calls.down && !conn->freeing)
        conn->calls.down(conn->calls.ctx, tl__bytes_of(copy));
    tl__conn_lose_naming(conn, why, copy, served && wait);
    while (list) {
        tl_slot *slot = list;
        list = slot->next;
        tl_answer answer = failure(conn, slot, why, sys_errno, copy);
        answer.absent = absent;
        tl__conn_answer(conn, slot, answer);
    }
}

void tl__conn_lose(tl_conn *conn, tl_err why, const char *message, bool wait) {
    lose(conn, why, 0, false, message, wait);
}

void tl__conn_lose_stream(tl_conn *conn) {
    const tl_stream *stream = &conn->stream;
    char message[TL_STREAM_MESSAGE_SIZE + 64];
    bool unanswered = conn->state == TL_CONN_UP && !conn->served && stream->why == TL_EUNAVAILABLE;
    (void)snprintf(message, sizeof message, "%s%s", stream->message,
                   unanswered ? conn->codec->unanswered : "");
    lose(conn, stream->why, stream->sys_errno, stream->absent, message, true);
}

void tl__conn_leave(tl_conn *conn) {
    char message[TL_STREAM_MESSAGE_SIZE];
    for (const tl_slot *slot = conn->slots.head; slot; slot = slot->next)
        if (!tl__slot_unsent(slot))
            return;
    (void)snprintf(message, sizeof message, "%s: connection closed, since another %s",
                   conn->endpoint->label, conn->leaving);
    tl__conn_lose(conn, TL_EUNAVAILABLE, message, true);
}

void tl__conn_lose_at_place(tl_conn *conn, tl_err why, const char *problem) {
    char message[TL_STREAM_MESSAGE_SIZE];
    (void)snprintf(message, sizeof message, "%s: %s", conn->endpoint->label, problem);
    tl__conn_lose(conn, why, message, false);
}

void tl__conn_lose_nonsense(tl_conn *conn, const char *what) {
    char problem[200];
    (void)snprintf(problem, sizeof problem, "this is no %s: %s", conn->codec->reply, what);
    conn->foreign = GUARD(stranger_did_nothing) && conn->codec->strangers_do_nothing &&
                    (!conn->served || !GUARD(etcd_may_have_done));
    tl__conn_lose_at_place(conn, TL_ESERVER, problem);
    conn->foreign = false;
}

void tl__conn_lose_late(tl_conn *conn, const char *doing, int64_t limit_ms) {
    char message[TL_STREAM_MESSAGE_SIZE];
    (void)snprintf(message, sizeof message, "%s: %s in %lld ms", conn->endpoint->label, doing,
                   (long long)limit_ms);
    /* A request that waits for the login goes on to the next member, if there is one. */
    lose(conn, TL_EUNAVAILABLE, ETIMEDOUT, false, message, conn->state == TL_CONN_LOGIN);
}

/* ---- limits ------------------------------------------------------------------------------------ */

/* The time that a request was given, for a message. It is rounded up, since the limit was set a little before
 * the request was queued. */
static int64_t limit_ms_of(const tl_slot *slot) {
    return tl__ms_until(slot->queued, tl__mono_add_ns(slot->by, TL_NS_PER_MS - 1));
}

/* The reason why there is no reply to a request yet. */
static void describe(const tl_conn *conn, const tl_slot *slot, char *message, size_t size) {
    int64_t limit_ms = limit_ms_of(slot);
    if (conn->state == TL_CONN_DOWN)
        (void)snprintf(message, size, "%s", conn->message);
    else if (slot->count == 0 && conn->state == TL_CONN_UP && conn->limits.site)
        tl__site_message(conn->limits.site, message, size);
    else if (conn->state == TL_CONN_OPENING)
        tl__stream_describe(&conn->stream, limit_ms, message, size);
    else
        (void)snprintf(message, size, "%s: %s in %lld ms", conn->endpoint->label,
                       conn->state == TL_CONN_LOGIN ? "no reply to the login"
                       : tl__slot_unsent(slot)      ? "not sent"
                                                    : "no reply",
                       (long long)limit_ms);
}

/* Fail a request whose limit has passed. One that was sent stays in the queue, so that it takes its reply. */
static void give_up(tl_conn *conn, tl_slot *slot, tl_slot *before) {
    char message[TL_STREAM_MESSAGE_SIZE];
    describe(conn, slot, message, sizeof message);
    bool down = conn->state == TL_CONN_DOWN;
    tl_answer a = failure(conn, slot, down ? conn->why : TL_EUNAVAILABLE,
                          down ? conn->sys_errno : ETIMEDOUT, message);
    if (tl__slot_unsent(slot)) {
        tl__conn_answer(conn, tl__slots_cut(&conn->slots, before), a);
        return;
    }
    slot->given_up = true;
    conn->calls.answer(conn->calls.ctx, &a);
}

/* A host accepts connections and bytes for a process that is stopped. So a member that has answered nothing
 * yet gets only half of the time. */
tl_mono tl__conn_hurries_at(const tl_conn *conn) {
    const tl_slot *slot = conn->slots.head;
    bool untried = GUARD(untried_member_hurries) && !conn->served && conn->state == TL_CONN_UP &&
                   conn->passed < conn->others;
    if (!untried || !slot || slot->count == 0 || tl__slot_unsent(slot) ||
        slot->by.ns == TL_NEVER.ns)
        return TL_NEVER;
    return tl__mono_add_ns(slot->sent, tl__ns_until(slot->sent, slot->by) / 2);
}

/* The same for one that accepts a connection and says nothing: the requests that wait for it need time for
 * the next one. */
tl_mono tl__conn_login_until(const tl_conn *conn) {
    tl_mono until = conn->login_by;
    bool untried = GUARD(silent_login_hurries) && conn->passed < conn->others;
    for (const tl_slot *slot = conn->slots.head; slot && untried; slot = slot->next)
        if (slot->by.ns != TL_NEVER.ns)
            until = tl__mono_min(
                until, tl__mono_add_ns(slot->queued, tl__ns_until(slot->queued, slot->by) / 2));
    return until;
}

/* When the connection is closed for lack of a reply to its oldest request. */
static tl_mono overdue_at(const tl_conn *conn, const tl_slot *slot) {
    if (conn->limits.patience_ms == 0 || tl__slot_unsent(slot))
        return slot->by;
    return tl__mono_max(slot->by, tl__mono_add_ms(slot->sent, conn->limits.patience_ms));
}

void tl__conn_expire(tl_conn *conn, tl_mono now) {
    tl_conn *over = conn;
    if (tl__mono_before(now, over->soonest))
        return;
    tl_slot *slot = over->slots.head, *before = NULL;
    over->soonest = tl__conn_hurries_at(over);
    if (over->soonest.ns != TL_NEVER.ns && !tl__mono_before(now, over->soonest)) {
        tl__conn_lose_late(over, "no reply", tl__ms_until(slot->sent, now));
        return;
    }
    while (slot) {
        tl_slot *next = slot->next;
        bool counts = !slot->given_up || slot == over->slots.head;
        bool late = counts && !tl__mono_before(now, slot->by);
        bool pinned = GUARD(unwritten_close_ends) && slot->pin &&
                      slot->pin->closes; /* otherwise a transaction would stay open */
        bool ends = slot == over->slots.head &&
                    (!tl__slot_unsent(slot) || pinned || slot->given_up);
        if (late && ends && !tl__mono_before(now, overdue_at(over, slot))) {
            tl__conn_lose_late(over, tl__slot_unsent(slot) ? "not sent" : "no reply",
                               limit_ms_of(slot));
            return;
        }
        bool goes = late && tl__slot_unsent(slot);
        if (late && !slot->given_up)
            give_up(over, slot, before);
        if (counts && !late)
            over->soonest = tl__mono_min(over->soonest, slot->by);
        else if (counts && !goes && slot == over->slots.head)
            over->soonest = tl__mono_min(over->soonest, overdue_at(over, slot));
        if (!goes) {
            before = slot;
            next = slot->next; /* the callback may have sent more */
        }
        slot = next;
    }
}
