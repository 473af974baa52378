/*
 * A connection whose site may change: it is made to the server that the site leads to, and ends with that. Nothing
 * here may be sent to a server that it wasn't built for.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

#define LOOK_MS 5  /* where the server is not known yet, look so often */
#define NAMED_MS 2 /* the same while it is about to be named */

/* ---- where to -------------------------------------------------------------------------------- */

/* Who has waited for it is told, if nobody will ever say where. */
static bool is_refused(tl_conn *c) {
    char words[TL_STREAM_WORDS];
    const tl_slot *first = c->slots.head;
    tl_err why = first ? tl__site_refusal(c->limits.site, first->queued, words, sizeof words)
                       : TL_OK;
    if (why)
        tl__conn_lose(c, why, words, false);
    return why != TL_OK;
}

bool tl__conn_lead(tl_conn *conn) {
    tl_site *site = conn->limits.site;
    if (!site)
        return true;
    tl_spot *was = conn->spot, *spot = tl__site_spot(site, conn->words, sizeof conn->words);
    if (GUARD(left_is_not_awaited) && !spot && tl__site_is_left(site)) {
        char words[TL_STREAM_WORDS];
        (void)snprintf(words, sizeof words, "%s: %.*s", conn->endpoint->label, TL_SITE_WORDS,
                       conn->words);
        tl__conn_lose(conn, TL_EELSEWHERE, words, false);
        return false;
    }
    if (!spot && is_refused(conn))
        return false;
    if (!spot) {
        conn->why = TL_EUNAVAILABLE;
        conn->sys_errno = 0;
        conn->retry_at = tl__mono_add_ms(conn->now, LOOK_MS);
        return false;
    }
    conn->endpoint = &spot->endpoint;
    tl__stream_lead(&conn->stream, conn->endpoint);
    conn->spot = spot;
    tl__spot_give(was);
    return true;
}

void tl__conn_opened(tl_conn *conn) {
    tl_site *site = conn->limits.site;
    if (site)
        tl__site_opened(site, &conn->opened, tl__stream_fd(&conn->stream), conn->spot->generation);
}

void tl__conn_closed(tl_conn *conn) {
    if (conn->limits.site && conn->spot && conn->state != TL_CONN_DOWN && !conn->freeing)
        tl__site_doubt(conn->limits.site, conn->spot->generation);
    if (conn->limits.site)
        tl__site_closed(conn->limits.site, &conn->opened);
}

void tl__conn_lose_master(tl_conn *conn) {
    char words[TL_STREAM_WORDS];
    (void)snprintf(words, sizeof words, "%s: another server is the master now",
                   conn->endpoint->label);
    tl__conn_lose(conn, TL_EUNAVAILABLE, words, true);
}

/* ---- for whom -------------------------------------------------------------------------------- */

uint32_t tl__conn_generation(const tl_conn *conn) {
    return conn->limits.site && conn->spot ? conn->spot->generation : 0;
}

int64_t tl__conn_epoch(const tl_conn *conn) {
    return conn->limits.site && conn->spot ? conn->spot->epoch : TL_NO_EPOCH;
}

void tl__conn_refuse_foreign(tl_conn *conn) {
    static const char words[] = "the master has changed: asked for anew";
    tl_slot *s = conn->limits.site ? conn->slots.head : NULL, *before = NULL;
    while (s) {
        tl_slot *next = s->next;
        if (s->quiet || s->given_up || !tl__conn_is_foreign(conn, s->generation)) {
            before = s;
        } else {
            tl__conn_refuse(conn, tl__slots_cut(&conn->slots, before), TL_EELSEWHERE, words);
            next = before ? before->next : conn->slots.head; /* an answer may have sent more */
        }
        s = next;
    }
}

/* ---- named ----------------------------------------------------------------------------------- */

/* Whoever asks may have been stopped between reaching the server and sending, or have sent twice since, and the server
 * may have answered late. That it is named is looked at before whether it is still the one. */
bool tl__conn_is_unnamed(const tl_conn *conn, tl_mono received) {
    const tl_site *site = conn->limits.site;
    return GUARD(late_reply_unnamed) && site &&
           !(tl__site_was_fresh(site, received) && tl__conn_is_current(conn));
}

void tl__conn_await_name(tl_conn *conn, tl_slot *slot) {
    tl_slot **end = &conn->naming;
    while (*end)
        end = &(*end)->next;
    slot->next = NULL;
    *end = slot;
    if (slot->confirms)
        (void)tl__site_is_named(conn->limits.site, slot->queued);
}

static bool is_named(const tl_conn *c, const tl_slot *s) {
    bool named = s->confirms && GUARD(confirmed_after_reply)
                     ? tl__site_is_confirmed(c->limits.site, s->queued, c->now)
                     : tl__conn_is_named(c, c->now);
    return named && tl__conn_is_current(c);
}

/* The first of them whose server has been named, or whose time is up. */
static tl_slot *cut_decided(tl_conn *c, bool *ret_named) {
    for (tl_slot **at = &c->naming; *at; at = &(*at)->next) {
        tl_slot *s = *at;
        *ret_named = is_named(c, s);
        if (!*ret_named && tl__mono_before(c->now, s->by))
            continue;
        *at = s->next;
        return s;
    }
    return NULL;
}

void tl__conn_drive_naming(tl_conn *conn) {
    char words[TL_SITE_WORDS];
    bool named = false;
    for (tl_slot *s; conn->naming && (s = cut_decided(conn, &named));) {
        if (!named) {
            tl__site_words(conn->limits.site, words, sizeof words);
            tl__conn_refuse(conn, s, TL_EUNAVAILABLE, words);
            continue;
        }
        tl__conn_answer(conn, s,
                        (tl_answer){.cookie = s->cookie,
                                    .ticket = s->ticket,
                                    .ok = true,
                                    .sent = s->confirms ? s->queued : conn->now,
                                    .received = conn->now,
                                    .run = conn->run,
                                    .generation = tl__conn_generation(conn),
                                    .words = tl__bytes_of(conn->endpoint->label)});
    }
}

void tl__conn_forget_naming(tl_conn *conn, const void *cookie) {
    for (tl_slot **at = &conn->naming; *at;) {
        tl_slot *s = *at;
        if (s->cookie != cookie) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        tl__slot_free(&conn->slots, s);
    }
}

void tl__conn_lose_naming(tl_conn *conn, tl_err why, const char *words, bool wait) {
    tl_slot *list = conn->naming;
    conn->naming = NULL;
    for (tl_slot *s = list, *next; s; s = next) {
        next = s->next;
        if (wait && !s->confirms)
            tl__conn_enqueue(conn, s);
        else
            tl__conn_refuse(conn, s, why, words);
    }
}

tl_mono tl__conn_naming_until(const tl_conn *conn) {
    return conn->naming ? tl__mono_add_ms(conn->now, NAMED_MS) : TL_NEVER;
}
