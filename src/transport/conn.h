/*
 * A connection to one server. It resolves the name, connects, starts TLS and logs in; with Redis it also
 * selects the database and asks for the TIME. Then it sends requests and pairs the replies with them.
 * Non-blocking: the owner polls tl__conn_fd for tl__conn_events until tl__conn_until, and calls
 * tl__conn_drive. One thread at a time. Nothing here waits without a limit.
 *
 * The callback `answer` runs exactly once for each request, in the order of the requests, and only within
 * tl__conn_drive or tl__conn_free. A request whose limit passes fails at once; a reply that still arrives is
 * discarded. When the oldest request is overdue the connection is closed, so that a late reply never meets
 * another request. (With limits.patience_ms it is closed later: the short limit of one caller must not harm
 * the others.)
 *
 * A lost connection fails the requests that were sent. Requests of which nothing was sent wait for the next
 * connection if this one had served, and fail with it otherwise. The next request connects again: at once
 * after a connection that had served, else after a back-off.
 *
 * A server may report that it is not responsible now (it is a replica, or is loading). Then the connection is
 * closed as soon as that server has answered what it was sent. The next connection resolves the name again.
 *
 * A request with a tl_pin has the connection to itself: other requests are written only after its end. A
 * request that closes a transaction must be sent from within the callback for the one that opened it, and
 * goes over that connection only. At any other time it is rejected (TL_EUNAVAILABLE). A transaction that is
 * left open is undone by the connection itself; that reply is ignored.
 *
 * With limits.site the connection leads to the server that the site names, once that is known. The server
 * must report itself as a master. The connection ends as soon as the site leads elsewhere. A request of
 * another generation than its connection's is never sent: it fails with TL_EELSEWHERE, from tl__conn_send or
 * in its answer. A request with count 0 succeeds only if the master was confirmed recently; with `confirm`
 * only after a question asked later than the request has confirmed it. That one does not wait for the
 * requests before it.
 *
 * A request with a native form goes in that form if the counter of its slot was raised recently over this
 * very connection. Nothing of it is then sent over another connection.
 *
 * With limits.codec of etcd, requests are commands of wire/etcd.h. The connection sends them over HTTP to one
 * of limits.members. It goes on to the next member if one can't be reached, leaves a request without a reply,
 * or reports that it can't serve. Requests of which nothing was sent go on with it, until all members have
 * been tried.
 *
 * A script that the server doesn't know is sent again by its text, behind what was sent meanwhile. Then
 * `sent` is the time of the second sending, which is the one that was executed.
 */
#pragma once

#include "protocol/protocol.h"
#include "transport/endpoint.h"
#include "transport/members.h"
#include "transport/site.h"

typedef struct tl_conn tl_conn;

/** The protocol of one kind of server (codec.h). */
typedef struct tl_codec tl_codec;
extern const tl_codec tl__codec_resp, tl__codec_etcd, tl__codec_grpc;

/** The result of a request. */
typedef struct {
    void *cookie;
    uint16_t ticket;
    bool ok;               /**< a reply was read; else see `maybe_sent`, `why` and `message` */
    tl_mono sent;          /**< the clock just before the first byte was passed to the kernel */
    tl_mono received;      /**< ok: the clock just after the last byte was read */
    const tl_reply *reply; /**< ok: `count` of them, valid during the callback */
    uint8_t count;
    uint64_t run;        /**< as tl__conn_run */
    uint32_t generation; /**< of the site; 0: there is no site */
    /** ok, native: at `received` the counter had been raised longer than TL_RAISED_MS ago */
    bool stale;
    /** ok, with a site: no question asked in the TL_NAMED_MS before `received` has confirmed the master */
    bool unnamed;
    bool maybe_sent;
    bool native; /**< it went in its native form */
    /** Not ok: tl__conn_id of the connection that it went over, to the server of `run` */
    int64_t id;
    tl_err why;
    int sys_errno; /**< not ok: the cause, or 0 */
    /** Not ok: nothing listens there, and a retry in a moment would find the same */
    bool absent;
    tl_bytes message; /**< not ok: the reason; ok: the server that answered */
} tl_answer;

typedef struct {
    /** A request has its result. The callback may send further requests, but not free the connection. */
    void (*answer)(void *ctx, const tl_answer *answer);
    /** A handshake is complete; no request has been sent yet. The bracket of its TIME, or NULL if the server
     *  doesn't know TIME. */
    void (*up)(void *ctx, const tl_interval *bracket, tl_mono now);
    /** The connection was lost or closed, or could not be made; called before its requests get their results.
     *  Not called by tl__conn_free. It may call tl__conn_send and tl__conn_say. May be NULL. */
    void (*down)(void *ctx, tl_bytes message);
    /** A reply that belongs to no request, in subscriber mode. May be NULL. */
    void (*push)(void *ctx, const tl_reply *reply);
    void *ctx;
    /** A connection that was up is about to be closed; its descriptor has not changed while it was up. May be
     *  NULL. */
    void (*closing)(void *ctx);
} tl_conn_calls;

typedef struct {
    tl_site *site;         /**< determines the server, and for how long; NULL: the endpoint does */
    const tl_codec *codec; /**< of its kind of server; NULL: tl__codec_resp */
    /** Of an etcd: the connection leads to one of them; until then the endpoint only names it in messages */
    tl_members *members;
    int64_t connect_ms; /**< resolve, connect, TLS and login together */
    bool ask_run;       /**< ask for tl__conn_run; a server that doesn't report it is fine */
    bool ask_id;        /**< ask for tl__conn_id */
    bool no_time;       /**< don't ask for the TIME: the server's clock stays unknown */
    /** > 0: many callers share the connection. Requests are written by the next drive only, and one whose own
     *  limit has passed ends the connection only after the server has had it for so long. 0: not shared */
    int64_t patience_ms;
    bool in_order;   /**< a request is executed before those sent behind it, or fails */
    bool subscriber; /**< only tl__conn_say is used, and every reply goes to `push` */
    /** subscriber: each reply is one line, of which so many bytes are kept; 0: all */
    size_t line_most;
} tl_conn_limits;

/** Neither connects nor blocks. The endpoint and the site must outlive the connection. With a site the
 *  endpoint only names it in messages until the first server is known. NULL: out of memory. */
tl_conn *tl__conn_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                      const tl_conn_calls *calls);

/** Close; outstanding requests fail first. NULL is fine. */
void tl__conn_free(tl_conn *conn);

/** Queue a request. It is encoded now, and written by the next drive, or at once when the connection is idle.
 *  If the connection is down, begins to connect. After a failed connect a request waits for the end of the
 *  back-off (20 ms doubling to 1 s, partly random) and for the connect, up to its own limit.
 *
 *  A request with count 0 writes nothing: it succeeds in its turn, with count 0, once the connection is up.
 *  So a machine reaches a server before it sends it anything (protocol.h).
 *
 *  TL_ENOMEM; TL_EELSEWHERE or TL_EUNAVAILABLE (`here`, pins, `confirm`) if there is no such connection.
 *  TL_EUNAVAILABLE also if too many requests are outstanding: more for a send that `keeps`. In these
 *  cases the callback does not run. */
tl_err tl__conn_send(tl_conn *conn, const tl_send *send, void *cookie, tl_mono now);

/** From now on only queue requests, even when idle, until tl__conn_write, which writes all of them at once,
 *  without reading anything. A drive writes them, too. */
void tl__conn_hold(tl_conn *conn);
void tl__conn_write(tl_conn *conn, tl_mono now);

/** Forget the requests of this cookie: the callback does not run for them. A request of which nothing was
 *  written is removed. */
void tl__conn_forget(tl_conn *conn, const void *cookie);

/** Subscriber mode: queue a command whose reply is not paired with it. Connects when down. The command is
 *  discarded if that fails or the connection is lost. */
tl_err tl__conn_say(tl_conn *conn, const tl_command *command, tl_mono now);

/** Close now. The message of outstanding requests gives the reason, which names no server: the address is
 *  put before it. The next connection is made after a back-off. No effect when down. Not from within a
 *  callback. */
void tl__conn_close(tl_conn *conn, const char *reason, tl_mono now);

/** Is the connection up, with nothing outstanding and nothing wrong with it? */
bool tl__conn_idle(const tl_conn *conn);
bool tl__conn_up(const tl_conn *conn);

#define TL_RAISED_MS 1000

/** Note that a script, sent over this very connection at `sent` and answered, has raised a slot's counter.
 *  For TL_RAISED_MS from then on requests go in their native form, and the answer says if the reply was
 *  received later than that. Reason: until then the value that INCR counts up from is at most so far behind
 *  the clock of the server that executes it. That holds whatever failover there was and whichever connection
 *  survived it. */
void tl__conn_raised(tl_conn *conn, tl_slot_tag slot, tl_mono sent);

/** Did the last request that was sent go in its native form, and is it unanswered? */
bool tl__conn_is_native(const tl_conn *conn);

/** The server's number for this connection, with limits.ask_id; 0: unknown. */
int64_t tl__conn_id(const tl_conn *conn);

/** The run of the server at the other end, with limits.ask_run; 0: unknown. */
uint64_t tl__conn_run(const tl_conn *conn);

/** The site's generation that the connection leads to; 0: no site, or it has never led anywhere. */
uint32_t tl__conn_generation(const tl_conn *conn);
/** The epoch of the configuration that names its server the master; TL_NO_EPOCH: none. */
int64_t tl__conn_epoch(const tl_conn *conn);

/** The bytes read so far, on all of its connections. */
uint64_t tl__conn_bytes(const tl_conn *conn);

/** Is it idle, and did the server send something so recently that the connection counts as alive? Then a
 *  request would be written at once. */
bool tl__conn_fresh(const tl_conn *conn, tl_mono now);
/** The same, but requests may be outstanding. */
bool tl__conn_lively(const tl_conn *conn, tl_mono now);

/** The descriptor to poll, which may change with each drive; -1: none at present. */
int tl__conn_fd(const tl_conn *conn);
short tl__conn_events(const tl_conn *conn);  /**< POLLIN, POLLOUT */
tl_mono tl__conn_until(const tl_conn *conn); /**< drive it then, even without an event */

/** Do what can be done now without blocking: connect, write, read, run callbacks, time out. */
void tl__conn_drive(tl_conn *conn, tl_mono now);
/** The same, but while the connection is up the queued requests stay unwritten. */
void tl__conn_read(tl_conn *conn, tl_mono now);
