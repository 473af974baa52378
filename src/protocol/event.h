/*
 * What a machine is told: one event for each step. protocol.h says what each kind means.
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

/** A lock is given to one who stands in line: what the message says, and how it came. */
typedef struct {
    /** The first of those reserved. */
    uint64_t fence;
    /** When, by the server's clock; and for so long from then on it is kept for him. */
    int64_t at_us;
    int64_t lease_ms;
    /** Who stand in line behind him. */
    int64_t others;
    /** Of the server that sent it, as tl_asked's. */
    uint64_t run;
    tl_mono arrived;
} tl_grant;

/** The request that an event is about. */
typedef struct {
    uint16_t ticket;
    /** It was sent in its native form. */
    bool native;
    /** Of the server that was asked; 0: no other can take its place, or none was asked. */
    uint32_t generation;
    /** Before its first byte left. */
    tl_mono sent;
    /** The run of the server that was asked, and the number by which it knows the connection; 0: not known. */
    uint64_t run;
    int64_t id;
} tl_asked;

/** REPLY */
typedef struct {
    /** `count` of them, valid during this step only. */
    const tl_reply *reply;
    uint8_t count;
    /** A native form: too long after the counter was raised for its number to be believed. */
    bool stale;
    /** The server wasn't named as the one to ask lately when it answered. */
    bool unnamed;
    /** Who answered, for people; or empty. */
    tl_bytes place;
} tl_replied;

/** FAILED */
typedef struct {
    /** TL_EUNAVAILABLE, TL_EDENIED, TL_EELSEWHERE ... */
    tl_err why;
    /** Behind it, or 0. */
    int sys_errno;
    /** TL_EELSEWHERE: a tl_redirect_kind, as a cluster's node has said it; 0: none has. */
    uint8_t redirect;
    /** Some byte may have reached the server. */
    bool maybe_sent;
    /** Nobody is there to connect to, and will not be in a moment. */
    bool absent;
    tl_bytes message;
} tl_failure;

typedef struct {
    tl_event_kind kind;
    /** Of several independent servers, which one sent ARMED, WATCHED or WOKEN. */
    uint8_t from;
    tl_mono now;
    const tl_server *server;
    /** Of several independent servers all, in the order of the URL; else NULL. */
    const tl_server *servers;
    /** REPLY and FAILED. CANCEL: what is in flight: its `native`, `run` and `id`. */
    tl_asked asked;
    /** One of them, by `kind`. */
    union {
        tl_replied replied;
        tl_failure failed;
        /** ARMED and WATCHED */
        bool armed;
        /** CHANGED: what the key of a hold holds, or an error. */
        const tl_reply *value;
        /** GRANTED */
        const tl_grant *grant;
    };
} tl_event;
