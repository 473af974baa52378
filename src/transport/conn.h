/*
 * A connection to one server: it resolves, connects, starts TLS, logs in, at Redis selects the
 * database and asks the TIME, and then sends requests and pairs the replies with them. Non-blocking:
 * the owner polls tl__conn_fd for tl__conn_events until tl__conn_until and calls tl__conn_drive.
 * One thread at a time. Nothing here is ever waited for without a limit.
 *
 * Answers come through the callback, from within tl__conn_drive or tl__conn_free only, in the order
 * of the requests. Each request is answered exactly once. A request whose limit passes is answered
 * FAILED at once; its reply, should it come, is thrown away; and when the oldest request is overdue
 * the connection is closed, so that a late reply never meets another question. (limits.patience_ms: later, as others
 * are not to suffer from one that is in haste.) A lost connection
 * fails the requests that were sent; those of which nothing was sent wait for the next connection
 * when this one had served before, and fail with it otherwise. The next request connects again:
 * at once after a connection that had served, else after a back-off.
 *
 * A server that says that another may be the one to ask by now (a replica, one that is loading) is
 * left as soon as it has answered what it was sent: the next connection resolves the name again.
 *
 * A request with a tl_pin has the connection to itself: what is sent meanwhile is written behind it. One
 * that closes must be sent from within the callback that answers the one that opens, goes on that
 * connection only, and is refused (TL_EUNAVAILABLE) at any other time. What isn't closed is undone, unheard.
 *
 * Where limits.site says where to, a connection leads there, as soon as that is known, to a server that says itself
 * that it is a master; it ends as soon as the site leads elsewhere. A request of another generation than
 * its connection's is never sent: TL_EELSEWHERE, from tl__conn_send or as its answer. One with count 0 is answered only
 * while the master was named lately, and with `confirm` when it has been named anew, out of turn.
 *
 * A request with a native form goes in that where the counter of its slot was raised lately over this very
 * connection; nothing of it is sent over another then.
 *
 * With limits.codec of etcd requests are words for it (see wire/etcd.h), which it says over HTTP to one of limits.members
 * after the other: to the next when one can't be reached, leaves a request without an answer, or says that it can't
 * serve. Requests of which nothing was sent go with it, until all have been tried.
 *
 * A script that the server doesn't know is sent again by its text, behind what was sent meanwhile:
 * then `sent` is that of the second sending, the one that was executed.
 */
#pragma once

#include "protocol/protocol.h"
#include "transport/endpoint.h"
#include "transport/members.h"
#include "transport/site.h"

typedef struct tl_conn tl_conn;

/** How it speaks with a kind of server. */
typedef struct tl_codec tl_codec;
extern const tl_codec tl__codec_resp, tl__codec_etcd;

/** What came of a request. */
typedef struct {
    void *cookie;
    uint16_t ticket;
    bool ok;               /**< a reply was read; else `maybe_sent`, `why` and `words` */
    tl_mono sent;          /**< the clock just before the first byte was handed to the kernel */
    tl_mono received;      /**< ok: the clock just after the last byte was read */
    const tl_reply *reply; /**< ok: `count` of them, valid during the callback */
    uint8_t count;
    uint64_t run;        /**< as of tl__conn_run */
    uint32_t generation; /**< of the site; 0: it has none */
    bool stale; /**< ok, native: the counter was raised longer ago than TL_RAISED_MS by now */
    bool
        unnamed; /**< ok: of a site's server that nobody was asked for in the TL_NAMED_MS before `received` */
    bool maybe_sent;
    bool native; /**< it went in its native form, */
    int64_t id;  /**< not ok: over the connection of this number, to that run */
    tl_err why;
    int sys_errno;    /**< not ok: behind it, or 0 */
    bool absent;      /**< not ok: nobody is there to connect to, and will not be in a moment */
    tl_bytes message; /**< not ok: what went wrong; ok: which server answered */
} tl_answer;

typedef struct {
    /** A request has been answered. It may send further requests, but not free the connection. */
    void (*answer)(void *ctx, const tl_answer *answer);
    /** A handshake is complete, before any request is sent: the bracket of its TIME, if the server
     *  knows TIME. */
    void (*up)(void *ctx, const tl_interval *bracket, tl_mono now);
    /** The connection was lost or closed, or could not be had; before its requests are answered.
     *  Not called by tl__conn_free. It may send or say. May be NULL. */
    void (*down)(void *ctx, tl_bytes message);
    /** Something that answers no request, in subscriber mode. May be NULL. */
    void (*push)(void *ctx, const tl_reply *reply);
    void *ctx;
    /** A connection that was up is about to be closed; until then its descriptor has been the same. May be NULL. */
    void (*closing)(void *ctx);
} tl_conn_calls;

typedef struct {
    tl_site *
        site; /**< where it leads, and for how long, instead of the endpoint; NULL: it stays there */
    const tl_codec *codec; /**< of its server; NULL: tl__codec_resp */
    tl_members *members; /**< of an etcd: it leads to one of them, the endpoint only gives it a name
                                until then */
    int64_t connect_ms;  /**< resolve, connect, TLS and login together */
    bool ask_run;        /**< tl__conn_run; a server that doesn't tell is fine */
    bool ask_id;         /**< tl__conn_id */
    bool no_time;        /**< don't ask for the TIME: the server's clock stays unknown */
    int64_t
        patience_ms; /**< shared: requests are written by the next drive only, and one whose own limit has passed
                              doesn't end the connection before the server has had it for so long; 0: it isn't */
    bool in_order;   /**< a request is carried out before those sent behind it, or fails */
    bool subscriber; /**< tl__conn_say only, and every reply is a push */
    size_t
        line_most; /**< subscriber: replies are of one line, of which so many bytes are kept; 0: all */
} tl_conn_limits;

/** Neither connects nor blocks. The endpoint, which with a site only gives it a name until the first server is known,
 *  outlives it, and so does the site. NULL: out of memory. */
tl_conn *tl__conn_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                      const tl_conn_calls *calls);

/** Close; requests that are outstanding are answered FAILED first. NULL is fine. */
void tl__conn_free(tl_conn *conn);

/** Queue a request; it is encoded now and written by the next drive (or at once when idle). Begins
 *  to connect when down. After a failed connect, requests made before the back-off is over
 *  (20 ms doubling to 1 s, at random) wait for it as for the connect itself, up to their limit.
 *  A request with count 0 writes nothing: it is answered ok, with count 0, in its turn once the
 *  connection is up (so a machine reaches a server before it says anything; see protocol.h).
 *  TL_ENOMEM when it can't be queued, TL_EELSEWHERE or TL_EUNAVAILABLE (`here`, pins, `confirm`) when there is no such
 *  connection: then no answer comes. */
tl_err tl__conn_send(tl_conn *conn, const tl_send *send, void *cookie, tl_mono now);

/** Queue requests only, even when idle, until the next of the other, which writes all of them at once, without
 *  reading anything. A drive writes them, too. */
void tl__conn_hold(tl_conn *conn);
void tl__conn_write(tl_conn *conn, tl_mono now);

/** Nobody wants the answers to the requests of this cookie any more. One of which nothing was written isn't. */
void tl__conn_forget(tl_conn *conn, const void *cookie);

/** Subscriber mode: queue a command that expects no answer of its own; connects when down, and is
 *  forgotten when that fails or the connection is lost. */
tl_err tl__conn_say(tl_conn *conn, const tl_command *command, tl_mono now);

/** Close now, for a reason that the requests outstanding are told, in words without a place. The
 *  next connection is made after a back-off. No-op when down. Not from within a callback. */
void tl__conn_close(tl_conn *conn, const char *reason, tl_mono now);

/** Is the connection up, with nothing outstanding and nothing wrong with it? */
bool tl__conn_idle(const tl_conn *conn);
bool tl__conn_up(const tl_conn *conn);

#define TL_RAISED_MS 1000

/** A script that was sent over this very connection at `sent`, and answered, has raised a slot's counter. For
 *  TL_RAISED_MS from then on sends take their native form, and its answer says if it came later than that: what INCR
 *  counts up from is no further behind the clock of the server that executes it, whatever failover there was and
 *  whichever connection survived it. */
void tl__conn_raised(tl_conn *conn, tl_slot_tag slot, tl_mono sent);

/** Did the request that was sent last go in its native form, and is it unanswered? */
bool tl__conn_is_native(const tl_conn *conn);

/** The number by which the server knows this connection, where limits.ask_id; 0: unknown. */
int64_t tl__conn_id(const tl_conn *conn);

/** Which run of which server is at the other end, where limits.ask_run; 0: unknown. */
uint64_t tl__conn_run(const tl_conn *conn);

/** Of the site, whom the connection leads to; 0: it has none, or has never led anywhere. */
uint32_t tl__conn_generation(const tl_conn *conn);
/** Of the configuration that names its server the master; TL_NO_EPOCH: there is none. */
int64_t tl__conn_epoch(const tl_conn *conn);

/** How many bytes were read, on all of its connections. */
uint64_t tl__conn_bytes(const tl_conn *conn);

/** Idle, and heard of so lately that it is taken for alive: a request would be written at once. */
bool tl__conn_fresh(const tl_conn *conn, tl_mono now);
/** The same, though requests may be outstanding. */
bool tl__conn_lively(const tl_conn *conn, tl_mono now);

/** The descriptor to poll, which may change with each drive; -1: none at present. */
int tl__conn_fd(const tl_conn *conn);
short tl__conn_events(const tl_conn *conn);  /**< POLLIN, POLLOUT */
tl_mono tl__conn_until(const tl_conn *conn); /**< drive it then even if nothing happens */

/** Do what can be done now without blocking: connect, write, read, answer, time out. */
void tl__conn_drive(tl_conn *conn, tl_mono now);
