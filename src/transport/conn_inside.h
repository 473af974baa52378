/*
 * The inside of a connection, for its files: conn (how requests are answered), conn_fail (how they fail),
 * conn_site (where it leads if that may change), and the codecs.
 */
#pragma once

#include "transport/backoff.h"
#include "transport/codec.h"
#include "transport/conn.h"
#include "transport/gateway.h"
#include "transport/grpc.h"
#include "transport/login.h"
#include "transport/reply_room.h"
#include "transport/resp.h"
#include "transport/slot.h"
#include "transport/stream.h"

#define TL_RAISED_SETS 128 /* sets of entries, chosen by the slot, */
#define TL_LED_MS 50
#define TL_RAISED_WAYS 4 /* with the latest entries in each */

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
    bool broken; /* broke while sending; the next drive reports it */
    bool more;   /* there may be more to read than poll shows */
    bool stale;  /* has been idle: check whether the server has closed before writing */
    bool served; /* this connection has received a reply to a request */
    /* While it is lost: the peer is no such server, and has executed nothing */
    bool foreign;
    const char *leaving; /* closes once what was sent is answered: since another ...; NULL: no */
    bool held;           /* tl__conn_hold */
    bool freeing;
    const tl_pin *pinned; /* its transaction is open, while the callback runs; NULL: none */
    tl_stream stream;
    const tl_codec *codec;
    union {
        struct { /* for tl__codec_resp */
            tl_resp *resp;
            /* limits.in_order: scripts that were sent by their text, one bit each */
            uint64_t texts;
            size_t line_n; /* limits.line_most: bytes of the present line so far */
        };
        struct { /* for tl__codec_etcd and tl__codec_grpc */
            tl_gateway *gateway;
            tl_etcd_via via; /* of the present connection; we own its token */
            unsigned member; /* index of the member that it leads to */
            tl_grpc *grpc;   /* and of tl__codec_grpc alone: */
            tl_reply_room room;
            const char *odd; /* a reply made no sense; NULL: none */
            unsigned taken;  /* replies that point into their calls */
            bool blocked;    /* what is to be written must not wait for a request */
            bool http1;      /* the member speaks no HTTP/2: the next connection is the gateway's */
            /* connections to a gateway, 2 at most, since a member greeted in HTTP/2 last */
            uint8_t fallbacks;
        };
    };
    unsigned others; /* other members to go on to if one fails */
    unsigned passed; /* members that failed in a row */
    tl_login *login; /* while logging in */
    tl_mono login_by;
    uint64_t bytes; /* read so far */
    uint64_t run;   /* of the server, if it was asked for */
    int64_t id;     /* of the present connection, if it was asked for */
    tl_raised raised[TL_RAISED_SETS][TL_RAISED_WAYS]; /* over the present connection */
    tl_slots slots;
    tl_spot *spot;      /* limits.site: the server that it led to last */
    tl_opened opened;   /* while it is up */
    tl_slot *naming;    /* requests that only wait until the master is confirmed */
    tl_mono now;        /* of the present drive: limits are compared with it */
    tl_mono soonest;    /* no limit of a request passes before */
    tl_mono heard;      /* when bytes were read last */
    tl_mono retry_at;   /* connect not before */
    tl_backoff backoff; /* attempts to connect that did not serve */
    tl_err why;         /* with sys_errno and message: of the last failure */
    int sys_errno;
    char message[TL_STREAM_MESSAGE_SIZE];
    tl_reply reply[TL_COMMANDS_MAX]; /* of the oldest request */
};

/** Queue a slot. */
void tl__conn_enqueue(tl_conn *conn, tl_slot *slot);

/** Call back for a slot that is in no queue, unless its result is no longer wanted. The slot is freed first,
 *  so that a request sent from the callback can use it again. */
void tl__conn_answer(tl_conn *conn, tl_slot *slot, tl_answer answer);

/** Is there a request to write, and may it be written now? */
bool tl__conn_has_to_write(const tl_conn *conn);

/** Forget the login and its secrets. */
void tl__conn_end_login(tl_conn *conn);

/** The connection has ended, or could not be made: fail its requests. If it had served, the next one begins
 *  at once, and with `wait` requests of which nothing was sent wait for that. */
void tl__conn_lose(tl_conn *conn, tl_err why, const char *message, bool wait);

/** Answer the requests that only wait until the server is reached, as long as the oldest is one of them. */
void tl__conn_answer_reached(tl_conn *conn);

/* conn_site: */

/** Choose the server to connect to. false: it is unknown yet; try again later. */
bool tl__conn_lead(tl_conn *conn);
/** While connecting: when to check whether it still leads there, no later than the limit of a request. */
static inline tl_mono tl__conn_led_until(const tl_conn *conn) {
    tl_mono look = conn->limits.site ? tl__mono_add_ms(conn->now, TL_LED_MS) : TL_NEVER;
    return tl__mono_min(conn->soonest, look);
}
/** The connection has come up; it is about to close. */
void tl__conn_opened(tl_conn *conn);
void tl__conn_closed(tl_conn *conn);
/** Does the site still lead to this connection's generation? */
static inline bool tl__conn_is_current(const tl_conn *conn) {
    return !conn->limits.site ||
           (conn->spot && tl__site_is(conn->limits.site, conn->spot->generation));
}
/** Was a request of this generation built for another server than the connection leads to? While it isn't up
 *  that is unknown: then it is checked when it comes up. */
static inline bool tl__conn_is_foreign(const tl_conn *conn, uint32_t generation) {
    return generation != 0 && conn->state == TL_CONN_UP && conn->limits.site &&
           conn->spot->generation != generation;
}
/** Close, since another server is the master now. */
void tl__conn_lose_master(tl_conn *conn);
/** Was the master confirmed so recently that a lock may be requested? */
static inline bool tl__conn_is_named(const tl_conn *conn, tl_mono now) {
    return !conn->limits.site || conn->limits.subscriber ||
           tl__site_is_fresh(conn->limits.site, now);
}
/** For a reply received then: has no question asked within TL_NAMED_MS before it, or later, confirmed this
 *  server? */
bool tl__conn_is_unnamed(const tl_conn *conn, tl_mono received);
/** Fail the queued requests that were built for another server with TL_EELSEWHERE. */
void tl__conn_refuse_foreign(tl_conn *conn);
/** Let a request wait until the master is confirmed: recently, or with `confirms` by a question asked after
 *  the request. Answer the requests that are confirmed or whose limit has passed. When to check again. */
void tl__conn_await_name(tl_conn *conn, tl_slot *slot);
void tl__conn_drive_naming(tl_conn *conn);
tl_mono tl__conn_naming_until(const tl_conn *conn);
/** Forget the waiting requests of this cookie. */
void tl__conn_forget_naming(tl_conn *conn, const void *cookie);
/** The connection has ended: fail these requests; but with `wait` those without `confirms` wait for the next
 *  connection. */
void tl__conn_lose_naming(tl_conn *conn, tl_err why, const char *message, bool wait);

/** Fail a request that is in no queue, and of which nothing was sent. */
void tl__conn_refuse(tl_conn *conn, tl_slot *slot, tl_err why, const char *message);

/** Close, since the stream has failed. */
void tl__conn_lose_stream(tl_conn *conn);

/** The server is not responsible now: close as soon as no sent request waits for its reply. The others wait
 *  for the next connection, which resolves the name again. */
void tl__conn_leave(tl_conn *conn);

/** Close with the message "ADDRESS: PROBLEM". */
void tl__conn_lose_at_place(tl_conn *conn, tl_err why, const char *problem);

/** Close, since the server sent something that is no reply. */
void tl__conn_lose_nonsense(tl_conn *conn, const char *what);

/** Close with the message "ADDRESS: DOING in LIMIT ms". */
void tl__conn_lose_late(tl_conn *conn, const char *doing, int64_t limit_ms);

/** When to leave a member that has answered nothing yet for one that was not tried yet, so that the request's
 *  time suffices for both. TL_NEVER: don't. */
tl_mono tl__conn_hurries_at(const tl_conn *conn);
/** When to leave a server that has not answered the login. */
tl_mono tl__conn_login_until(const tl_conn *conn);

/** Fail the requests whose limit has passed, and the connection if the oldest is among them. */
void tl__conn_expire(tl_conn *conn, tl_mono now);
