/*
 * The inside of a connection, for its two files: conn_redis, how requests are answered, and
 * conn_fail, how they fail.
 */
#ifndef TL_CONN_INSIDE_H
#define TL_CONN_INSIDE_H

#include "transport/backoff.h"
#include "transport/conn.h"
#include "transport/login.h"
#include "transport/resp.h"
#include "transport/slot.h"
#include "transport/stream.h"

#define TL_RAISED_MAX 128

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
    bool broken;  /* found while sending; the next drive tells */
    bool more;    /* perhaps there is more to read than poll shows */
    bool stale;   /* has been idle: look whether the server has closed before writing */
    bool served;  /* this connection has answered something */
    bool leaving; /* the server isn't the one to ask any more: close after what was sent */
    bool freeing;
    const tl_pin
        *pinned; /* it was opened, and the answer is being given that may close it; NULL: not */
    tl_stream stream;
    tl_resp *resp;
    tl_login *login; /* while logging in */
    tl_mono login_by;
    uint64_t bytes;                  /* read so far */
    size_t line_n;                   /* limits.line_most: bytes of the present line so far */
    uint64_t run;                    /* of the server, if it was asked for */
    int64_t id;                      /* of the present connection, if it was asked for */
    tl_raised raised[TL_RAISED_MAX]; /* over the present connection; by the slot's first letters */
    tl_slots slots;
    tl_mono now;        /* of the present drive: all limits go by it */
    tl_mono soonest;    /* no limit of a request passes before */
    tl_mono heard;      /* when something was read last */
    tl_mono retry_at;   /* connect not before */
    tl_backoff backoff; /* attempts to connect that did not serve */
    tl_err why;         /* with sys_errno and words: of the last failure */
    int sys_errno;
    char words[TL_STREAM_WORDS];
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
void tl__conn_lose(tl_conn *conn, tl_err why, const char *words, bool wait);

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

/** Fail the requests whose limit has passed, and the connection if the oldest is among them. */
void tl__conn_expire(tl_conn *conn, tl_mono now);

#endif
