/*
 * The events that a machine receives, one for each step. protocol.h says what each kind means.
 */
#pragma once

#include <tidelock/tidelock.h>

#include "ground/bytes.h"
#include "protocol/server.h"

typedef enum {
    TL_START,
    TL_REPLY,
    TL_FAILED,
    TL_ARMED,
    TL_WATCHED,
    TL_CHANGED,
    TL_WOKEN,
    TL_GRANTED,
    TL_NEAR,
    TL_TIMER,
    TL_CANCEL
} tl_event_kind;

/** A grant: the server gave the lock to a waiter. The content of the message, and how it arrived. */
typedef struct {
    /** The first of the reserved fencing numbers. */
    uint64_t fence;
    /** The server's time of the grant. From then on the server keeps K for the waiter for lease_ms. */
    int64_t at_us;
    int64_t lease_ms;
    /** The number of waiters behind this one. */
    int64_t others;
    /** The run of the server that sent it, as in tl_asked. */
    uint64_t run;
    tl_mono arrived;
} tl_grant;

/** The request that an event is about. */
typedef struct {
    uint16_t ticket;
    /** It was sent in its native form. */
    bool native;
    /** The generation (tl_server) of the server that was asked; 0: no other server can replace it, or none
     *  was asked. */
    uint32_t generation;
    /** A time before its first byte was sent. */
    tl_mono sent;
    /** The run of the server that was asked, and that server's number for the connection; 0: not known. */
    uint64_t run;
    int64_t id;
} tl_asked;

/** REPLY */
typedef struct {
    /** `count` replies, valid during this step only. */
    const tl_reply *reply;
    uint8_t count;
    /** A native form: its number counts no more, since too much time has passed since the counter was
     *  raised. */
    bool stale;
    /** No authority (Sentinels, the cluster) had named this server as the master shortly before it
     *  replied. */
    bool unnamed;
    /** The address of the server, for messages; or empty. */
    tl_bytes place;
} tl_replied;

/** FAILED */
typedef struct {
    /** TL_EUNAVAILABLE, TL_EDENIED, TL_EELSEWHERE ... */
    tl_err why;
    /** The errno behind it, or 0. */
    int sys_errno;
    /** TL_EELSEWHERE: a tl_redirect_kind, if a cluster's node has redirected the request; else 0. */
    uint8_t redirect;
    /** A byte of the request may have reached the server. */
    bool maybe_sent;
    /** No server is at this address, and a new attempt a moment later would find the same. */
    bool absent;
    tl_bytes message;
} tl_failure;

typedef struct {
    tl_event_kind kind;
    /** ARMED, WATCHED or WOKEN, of several independent servers: the index of the server that sent it. */
    uint8_t from;
    tl_mono now;
    const tl_server *server;
    /** All servers, in the order of the URL, if there are several independent ones; else NULL. */
    const tl_server *servers;
    /** REPLY and FAILED. CANCEL: the request in flight (its `native`, `run` and `id`). */
    tl_asked asked;
    /** One of them, by `kind`. */
    union {
        tl_replied replied;
        tl_failure failed;
        /** ARMED and WATCHED */
        bool armed;
        /** CHANGED: the present value of the hold's key, or an error. */
        const tl_reply *value;
        /** GRANTED */
        const tl_grant *grant;
    };
} tl_event;
