/*
 * How requests fail: by their limit, or with their connection. Each is answered exactly once
 * even so, and what it says of having been sent is never too little.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

static tl_answer failure(const tl_conn *c, const tl_slot *s, tl_err why, int sys_errno,
                         const char *words) {
    return (tl_answer){.cookie = s->cookie,
                       .ticket = s->ticket,
                       .sent = s->sent,
                       .count = s->count,
                       .run = c->run,
                       .generation = tl__conn_generation(c),
                       .native = s->native,
                       .id = c->id,
                       .maybe_sent = (!tl__slot_unsent(s) && !c->foreign) || s->effect,
                       .why = why,
                       .sys_errno = sys_errno,
                       .words = tl__bytes_of(words)};
}

void tl__conn_refuse(tl_conn *conn, tl_slot *slot, tl_err why, const char *words) {
    tl__conn_answer(conn, slot, failure(conn, slot, why, 0, words));
}

/* ---- the end of a connection ------------------------------------------------------------------- */

static void close_stream(tl_conn *c) {
    if (c->calls.closing && c->state == TL_CONN_UP)
        c->calls.closing(c->calls.ctx);
    tl__conn_closed(c);
    tl__stream_close(&c->stream);
    tl__conn_end_login(c);
    c->state = TL_CONN_DOWN;
    if (GUARD(raised_by_connection))
        memset(c->raised, 0, sizeof c->raised);
    c->broken = c->more = c->stale = c->served = false;
    c->leaving = NULL;
}

/* Queue again those of the list that can wait for the next connection; the others are left. */
static tl_slot *requeue(tl_conn *c, tl_slot *list) {
    tl_slot *left = NULL, **end = &left;
    while (list) {
        tl_slot *s = list;
        list = s->next;
        bool pinned = (s->pin && s->pin->closes) ||
                      (GUARD(native_is_not_moved) && s->here); /* to the connection that is over */
        if (tl__slot_unsent(s) && !s->effect && !s->quiet && !s->given_up && !pinned) {
            tl__conn_enqueue(c, s);
            continue;
        }
        *end = s;
        end = &s->next;
    }
    *end = NULL;
    return left;
}

/* Copies of all: an answer may lead to the next. */
static void lose(tl_conn *c, tl_err why, int sys_errno, bool absent, const char *words, bool wait) {
    char copy[TL_STREAM_WORDS];
    bool led_on = GUARD(login_goes_on) && c->state != TL_CONN_DOWN &&
                  !tl__conn_is_current(c); /* no fault of the server's */
    bool served = c->served || led_on;
    bool next = c->codec->goes_on && !c->freeing && c->codec->goes_on(c);
    absent = absent && !next;
    (void)snprintf(copy, sizeof copy, "%s", words);
    (void)snprintf(c->words, sizeof c->words, "%s", copy);
    c->why = why;
    c->sys_errno = sys_errno;
    c->retry_at = served || next ? c->now : tl__mono_add_ns(c->now, tl__backoff_ns(&c->backoff));
    close_stream(c);
    tl_slot *list = tl__slots_cut_all(&c->slots);
    c->soonest = TL_NEVER;
    if ((served || next) && wait)
        list = requeue(c, list);
    if (c->calls.down && !c->freeing)
        c->calls.down(c->calls.ctx, tl__bytes_of(copy));
    tl__conn_lose_naming(c, why, copy, served && wait);
    while (list) {
        tl_slot *s = list;
        list = s->next;
        tl_answer answer = failure(c, s, why, sys_errno, copy);
        answer.absent = absent;
        tl__conn_answer(c, s, answer);
    }
}

void tl__conn_lose(tl_conn *conn, tl_err why, const char *words, bool wait) {
    lose(conn, why, 0, false, words, wait);
}

void tl__conn_lose_stream(tl_conn *conn) {
    const tl_stream *s = &conn->stream;
    char words[TL_STREAM_WORDS + 64];
    bool unanswered = conn->state == TL_CONN_UP && !conn->served && s->why == TL_EUNAVAILABLE;
    (void)snprintf(words, sizeof words, "%s%s", s->words,
                   unanswered ? conn->codec->unanswered : "");
    lose(conn, s->why, s->sys_errno, s->absent, words, true);
}

void tl__conn_leave(tl_conn *conn) {
    char words[TL_STREAM_WORDS];
    for (const tl_slot *s = conn->slots.head; s; s = s->next)
        if (!tl__slot_unsent(s))
            return;
    (void)snprintf(words, sizeof words, "%s: left, since another %s", conn->endpoint->label,
                   conn->leaving);
    tl__conn_lose(conn, TL_EUNAVAILABLE, words, true);
}

void tl__conn_lose_at_place(tl_conn *conn, tl_err why, const char *problem) {
    char words[TL_STREAM_WORDS];
    (void)snprintf(words, sizeof words, "%s: %s", conn->endpoint->label, problem);
    tl__conn_lose(conn, why, words, false);
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
    char words[TL_STREAM_WORDS];
    (void)snprintf(words, sizeof words, "%s: %s in %lld ms", conn->endpoint->label, doing,
                   (long long)limit_ms);
    lose(conn, TL_EUNAVAILABLE, ETIMEDOUT, false, words, false);
}

/* ---- limits ------------------------------------------------------------------------------------ */

/* The time that a request was given, for a message: who set the limit did so a little before. */
static int64_t limit_ms_of(const tl_slot *s) {
    return tl__ms_until(s->queued, tl__mono_add_ns(s->by, TL_NS_PER_MS - 1));
}

/* Why there is no reply to a request yet. */
static void describe(const tl_conn *c, const tl_slot *s, char *words, size_t size) {
    int64_t limit_ms = limit_ms_of(s);
    if (c->state == TL_CONN_DOWN)
        (void)snprintf(words, size, "%s", c->words);
    else if (s->count == 0 && c->state == TL_CONN_UP && c->limits.site)
        tl__site_words(c->limits.site, words, size);
    else if (c->state == TL_CONN_OPENING)
        tl__stream_describe(&c->stream, limit_ms, words, size);
    else
        (void)snprintf(words, size, "%s: %s in %lld ms", c->endpoint->label,
                       c->state == TL_CONN_LOGIN ? "no reply to the login"
                       : tl__slot_unsent(s)      ? "not sent"
                                                 : "no reply",
                       (long long)limit_ms);
}

/* Answer a request whose limit has passed. One that was sent stays, so that its reply finds it. */
static void give_up(tl_conn *c, tl_slot *s, tl_slot *before) {
    char words[TL_STREAM_WORDS];
    describe(c, s, words, sizeof words);
    bool down = c->state == TL_CONN_DOWN;
    tl_answer a = failure(c, s, down ? c->why : TL_EUNAVAILABLE, down ? c->sys_errno : ETIMEDOUT,
                          words);
    if (tl__slot_unsent(s)) {
        tl__conn_answer(c, tl__slots_cut(&c->slots, before), a);
        return;
    }
    s->given_up = true;
    c->calls.answer(c->calls.ctx, &a);
}

tl_mono tl__conn_hurries_at(const tl_conn *conn) {
    const tl_slot *s = conn->slots.head;
    bool untried = GUARD(untried_member_hurries) && !conn->served && conn->state == TL_CONN_UP &&
                   conn->passed < conn->others;
    if (!untried || !s || s->count == 0 || tl__slot_unsent(s) || s->by.ns == TL_NEVER.ns)
        return TL_NEVER;
    return tl__mono_add_ns(s->sent, tl__ns_until(s->sent, s->by) / 2);
}

/* When the connection is given up for want of a reply to its oldest request. */
static tl_mono overdue_at(const tl_conn *c, const tl_slot *s) {
    if (c->limits.patience_ms == 0 || tl__slot_unsent(s))
        return s->by;
    return tl__mono_max(s->by, tl__mono_add_ms(s->sent, c->limits.patience_ms));
}

void tl__conn_expire(tl_conn *conn, tl_mono now) {
    tl_conn *c = conn;
    if (tl__mono_before(now, c->soonest))
        return;
    tl_slot *s = c->slots.head, *before = NULL;
    c->soonest = tl__conn_hurries_at(c);
    if (c->soonest.ns != TL_NEVER.ns && !tl__mono_before(now, c->soonest)) {
        tl__conn_lose_late(c, "no reply", tl__ms_until(s->sent, now));
        return;
    }
    while (s) {
        tl_slot *next = s->next;
        bool counts = !s->given_up || s == c->slots.head;
        bool late = counts && !tl__mono_before(now, s->by);
        bool pinned = GUARD(unwritten_close_ends) && s->pin &&
                      s->pin->closes; /* without it a transaction stays open */
        bool ends = s == c->slots.head && (!tl__slot_unsent(s) || pinned || s->given_up);
        if (late && ends && !tl__mono_before(now, overdue_at(c, s))) {
            tl__conn_lose_late(c, tl__slot_unsent(s) ? "not sent" : "no reply", limit_ms_of(s));
            return;
        }
        bool goes = late && tl__slot_unsent(s);
        if (late && !s->given_up)
            give_up(c, s, before);
        if (counts && !late)
            c->soonest = tl__mono_min(c->soonest, s->by);
        else if (counts && !goes && s == c->slots.head)
            c->soonest = tl__mono_min(c->soonest, overdue_at(c, s));
        if (!goes) {
            before = s;
            next = s->next; /* an answer may have sent more */
        }
        s = next;
    }
}
