/*
 * A connection whose site may change: it is made to the server that the site leads to, and ends when the site
 * changes. Nothing may be sent to a server that it wasn't built for.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

#define LOOK_MS 5  /* while the server is unknown, check this often */
#define NAMED_MS 2 /* the same while a confirmation is expected */

/* ---- where to -------------------------------------------------------------------------------- */

/* If no server will be found, fail the requests. true: so it is. */
static bool is_refused(tl_conn *conn) {
    char message[TL_STREAM_MESSAGE_SIZE];
    const tl_slot *first = conn->slots.head;
    tl_err why = first ? tl__site_refusal(conn->limits.site, first->queued, message, sizeof message)
                       : TL_OK;
    if (why)
        tl__conn_lose(conn, why, message, false);
    return why != TL_OK;
}

bool tl__conn_lead(tl_conn *conn) {
    tl_site *site = conn->limits.site;
    if (!site)
        return true;
    tl_spot *was = conn->spot, *spot = tl__site_spot(site, conn->message, sizeof conn->message);
    if (GUARD(left_is_not_awaited) && !spot && tl__site_is_left(site)) {
        char message[TL_STREAM_MESSAGE_SIZE];
        (void)snprintf(message, sizeof message, "%s: %.*s", conn->endpoint->label,
                       TL_SITE_MESSAGE_SIZE, conn->message);
        tl__conn_lose(conn, TL_EELSEWHERE, message, false);
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
    char message[TL_STREAM_MESSAGE_SIZE];
    (void)snprintf(message, sizeof message, "%s: another server is the master now",
                   conn->endpoint->label);
    tl__conn_lose(conn, TL_EUNAVAILABLE, message, true);
}

/* ---- generations ----------------------------------------------------------------------------- */

uint32_t tl__conn_generation(const tl_conn *conn) {
    return conn->limits.site && conn->spot ? conn->spot->generation : 0;
}

int64_t tl__conn_epoch(const tl_conn *conn) {
    return conn->limits.site && conn->spot ? conn->spot->epoch : TL_NO_EPOCH;
}

void tl__conn_refuse_foreign(tl_conn *conn) {
    static const char message[] = "the master has changed: the request is built again";
    tl_slot *slot = conn->limits.site ? conn->slots.head : NULL, *before = NULL;
    while (slot) {
        tl_slot *next = slot->next;
        if (slot->quiet || slot->given_up || !tl__conn_is_foreign(conn, slot->generation)) {
            before = slot;
        } else {
            tl__conn_refuse(conn, tl__slots_cut(&conn->slots, before), TL_EELSEWHERE, message);
            next = before ? before->next : conn->slots.head; /* the callback may have sent more */
        }
        slot = next;
    }
}

/* ---- confirmation ---------------------------------------------------------------------------- */

/* The caller may have been stopped between reaching the server and sending, or have sent twice since; or the
 * server may have replied late. The confirmation is checked before the generation: put() in site.c relies on
 * that order. */
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

static bool is_named(const tl_conn *conn, const tl_slot *slot) {
    bool named = slot->confirms && GUARD(confirmed_after_reply)
                     ? tl__site_is_confirmed(conn->limits.site, slot->queued, slot->adopted,
                                             conn->now)
                     : tl__conn_is_named(conn, conn->now);
    return named && tl__conn_is_current(conn);
}

/* The first waiting request whose master is confirmed, or whose limit has passed. */
static tl_slot *cut_decided(tl_conn *conn, bool *ret_named) {
    for (tl_slot **at = &conn->naming; *at; at = &(*at)->next) {
        tl_slot *slot = *at;
        *ret_named = is_named(conn, slot);
        if (!*ret_named && tl__mono_before(conn->now, slot->by))
            continue;
        *at = slot->next;
        return slot;
    }
    return NULL;
}

void tl__conn_drive_naming(tl_conn *conn) {
    char message[TL_SITE_MESSAGE_SIZE];
    bool named = false;
    for (tl_slot *slot; conn->naming && (slot = cut_decided(conn, &named));) {
        if (!named) {
            tl__site_message(conn->limits.site, message, sizeof message);
            tl__conn_refuse(conn, slot, TL_EUNAVAILABLE, message);
            continue;
        }
        tl__conn_answer(conn, slot,
                        (tl_answer){.cookie = slot->cookie,
                                    .ticket = slot->ticket,
                                    .ok = true,
                                    .sent = slot->confirms ? slot->queued : conn->now,
                                    .received = conn->now,
                                    .run = conn->run,
                                    .generation = tl__conn_generation(conn),
                                    .message = tl__bytes_of(conn->endpoint->label)});
    }
}

void tl__conn_forget_naming(tl_conn *conn, const void *cookie) {
    for (tl_slot **at = &conn->naming; *at;) {
        tl_slot *slot = *at;
        if (slot->cookie != cookie) {
            at = &slot->next;
            continue;
        }
        *at = slot->next;
        tl__slot_free(&conn->slots, slot);
    }
}

void tl__conn_lose_naming(tl_conn *conn, tl_err why, const char *message, bool wait) {
    tl_slot *list = conn->naming;
    conn->naming = NULL;
    for (tl_slot *slot = list, *next; slot; slot = next) {
        next = slot->next;
        if (wait && !slot->confirms)
            tl__conn_enqueue(conn, slot);
        else
            tl__conn_refuse(conn, slot, why, message);
    }
}

tl_mono tl__conn_naming_until(const tl_conn *conn) {
    return conn->naming ? tl__mono_add_ms(conn->now, NAMED_MS) : TL_NEVER;
}
