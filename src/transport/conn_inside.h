/*
 * The inside of a connection, for its files: conn, how requests are answered, conn_fail, how they fail,
 * conn_site, where it leads if that may change, and the codecs.
 */
#pragma once

#include "transport/backoff.h"
#include "transport/codec.h"
#include "transport/conn.h"
#include "transport/gateway.h"
#include "transport/login.h"
#include "transport/resp.h"
#include "transport/slot.h"
#include "transport/stream.h"

#define TL_RAISED_SETS 128 /* by the slot, */
#define TL_LED_MS 50
#define TL_RAISED_WAYS 4 /* and of each the latest so many */

/** When a slot's counter was raised last. */
typedef struct {
    tl_slot_tag slot;
    tl_mono at;
} tl_raised;

struct tl_conn {
    const tl_endpoint *endpoint;
    tl_conn_limits limits;
    tl_conn_calls calls;
    enum { TL_CONN_DOWN, TL_CONN_OPENING, TL_CONN_LOGIN, TL_CONN_UP } state;
    bool broken;         /* found while sending; the next drive tells */
    bool more;           /* perhaps there is more to read than poll shows */
    bool stale;          /* has been idle: look whether the server has closed before writing */
    bool served;         /* this connection has answered something */
    bool foreign;        /* it leads to a stranger: nothing that it was sent has been executed */
    const char *leaving; /* it closes after what was sent: since another ...; NULL: it doesn't */
    bool held;           /* requests are queued only */
    bool freeing;
    const tl_pin
        *pinned; /* it was opened, and the answer is being given that may close it; NULL: not */
    tl_stream stream;
    const tl_codec *codec;
    union {
        struct { /* of tl__codec_resp */
            tl_resp *resp;
            uint64_t texts; /* limits.in_order: scripts that were sent by their text, by bits */
            size_t line_n;  /* limits.line_most: bytes of the present line so far */
        };
        struct { /* of tl__codec_etcd */
            tl_gateway *gateway;
            tl_etcd_via via; /* of the present connection; its token is ours */
            unsigned member; /* whom it leads to */
        };
    };
    unsigned others; /* places that it goes on to when one fails */
    unsigned passed; /* how many in a row have failed */
    tl_login *login; /* while logging in */
    tl_mono login_by;
    uint64_t bytes; /* read so far */
    uint64_t run;   /* of the server, if it was asked for */
    int64_t id;     /* of the present connection, if it was asked for */
    tl_raised raised[TL_RAISED_SETS][TL_RAISED_WAYS]; /* over the present connection */
    tl_slots slots;
    tl_spot *spot;      /* limits.site: whom it led to last */
    tl_opened opened;   /* while it is up */
    tl_slot *naming;    /* requests that ask for no more than to wait until it is named */
    tl_mono now;        /* of the present drive: all limits go by it */
    tl_mono soonest;    /* no limit of a request passes before */
    tl_mono heard;      /* when something was read last */
    tl_mono retry_at;   /* connect not before */
    tl_backoff backoff; /* attempts to connect that did not serve */
    tl_err why;         /* with sys_errno and words: of the last failure */
    int sys_errno;
    char message[TL_STREAM_MESSAGE_SIZE];
    tl_reply reply[TL_COMMANDS_MAX]; /* of the oldest request */
};

/** Queue a slot. */
void tl__conn_enqueue(tl_conn *conn, tl_slot *slot);

/** Give the answer for a slot that is in no queue any more, unless nobody waits for one. The slot is
 *  freed first, so that what the answer leads to can use it again. */
void tl__conn_answer(tl_conn *conn, tl_slot *slot, tl_answer answer);

/** Forget the login and its secrets. */
void tl__conn_end_login(tl_conn *conn);

/** The connection is over, or was not to be had: fail its requests. After one that had served, the
 *  next begins at once, and `wait`: requests of which nothing was sent wait for it. */
void tl__conn_lose(tl_conn *conn, tl_err why, const char *message, bool wait);

/** Answer those who only wait until the server is reached, as far as they are the oldest. */
void tl__conn_answer_reached(tl_conn *conn);

/* conn_site: */

/** Before connecting: whom to. false: nobody knows, and it is to look again. */
bool tl__conn_lead(tl_conn *conn);
/** While it is being made: when to look whether it is still to lead there, no later than the limit of a request. */
static inline tl_mono tl__conn_led_until(const tl_conn *conn) {
    tl_mono look = conn->limits.site ? tl__mono_add_ms(conn->now, TL_LED_MS) : TL_NEVER;
    return tl__mono_min(conn->soonest, look);
}
/** It is up, or not any more. */
void tl__conn_opened(tl_conn *conn);
void tl__conn_closed(tl_conn *conn);
/** Is this the generation that the site leads to? */
static inline bool tl__conn_is_current(const tl_conn *conn) {
    return !conn->limits.site ||
           (conn->spot && tl__site_is(conn->limits.site, conn->spot->generation));
}
/** Was this built for another server than the connection leads to? One that isn't up finds out when it is. */
static inline bool tl__conn_is_foreign(const tl_conn *conn, uint32_t generation) {
    return generation != 0 && conn->state == TL_CONN_UP && conn->limits.site &&
           conn->spot->generation != generation;
}
/** Another server is the one to ask now. */
void tl__conn_lose_master(tl_conn *conn);
/** The server was named so lately that a lock may be asked for. */
static inline bool tl__conn_is_named(const tl_conn *conn, tl_mono now) {
    return !conn->limits.site || conn->limits.subscriber ||
           tl__site_is_fresh(conn->limits.site, now);
}
/** By an answer that was received then: no question that led here was asked TL_NAMED_MS before or later. */
bool tl__conn_is_unnamed(const tl_conn *conn, tl_mono received);
/** Requests that were built for another server are answered so. */
void tl__conn_refuse_foreign(tl_conn *conn);
/** One waits until the server is named, lately, or with `confirms` by a question asked later than this; answer those
 *  of which that is so or won't be any more; when to look again. */
void tl__conn_await_name(tl_conn *conn, tl_slot *slot);
void tl__conn_drive_naming(tl_conn *conn);
tl_mono tl__conn_naming_until(const tl_conn *conn);
/** Nobody wants the answers to those of this cookie. */
void tl__conn_forget_naming(tl_conn *conn, const void *cookie);
/** The connection is over: all fail, but with `wait` those without `confirms` wait for the next. */
void tl__conn_lose_naming(tl_conn *conn, tl_err why, const char *message, bool wait);

/** Fail a request that is in no queue any more, of which nothing was sent. */
void tl__conn_refuse(tl_conn *conn, tl_slot *slot, tl_err why, const char *message);

/** The stream has failed. */
void tl__conn_lose_stream(tl_conn *conn);

/** The server isn't the one to ask any more: close as soon as nothing that was sent waits for its
 *  reply. The rest waits for the next connection, for which the name is looked up again. */
void tl__conn_leave(tl_conn *conn);

/** With "place: problem". */
void tl__conn_lose_at_place(tl_conn *conn, tl_err why, const char *problem);

/** The server said what it can't have. */
void tl__conn_lose_nonsense(tl_conn *conn, const char *what);

/** "doing in limit_ms ms" */
void tl__conn_lose_late(tl_conn *conn, const char *doing, int64_t limit_ms);

/** When a place that has answered nothing yet is left for one that wasn't tried yet, so that the time of the request is enough for both.
 *  TL_NEVER: it isn't. */
tl_mono tl__conn_hurries_at(const tl_conn *conn);

/** Fail the requests whose limit has passed, and the connection if the oldest is among them. */
void tl__conn_expire(tl_conn *conn, tl_mono now);
