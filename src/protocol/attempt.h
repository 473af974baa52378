/*
 * What the attempts of all protocols on a Redis server have in common: when the request was built,
 * how long a holder may believe its answer, and how an attempt fails.
 */
#pragma once

#include "protocol/protocol.h"

/** An attempt, as far as it is the same for all. */
typedef struct tl_try {
    tl_result result;       /**< first */
    const tl_protocol *row; /**< whose it is; it may become another's */
    tl_mono until;          /**< the asker moves on */
    tl_mono asked;          /**< when the request was built: no later than it was sent */
    tl_mono by;             /**< no answer by then: failed */
    uint16_t ticket;
    bool bounded; /**< ACQUIRE: the request says until when it may take effect, `by` */
    bool timing;  /**< the server's time is being asked for first */
    bool reaches; /**< nothing has been asked but to reach the server */
    bool alone;   /**< what is asked has one key: see alone.h */
    bool asking;  /**< it goes where a redirection of the kind TL_ASK has led */
    bool again;   /**< what was answered there is asked once more where the slot is: see alone.c */
    uint8_t hops; /**< redirections in a row */
    bool
        confirming; /**< it was answered well, and the server is being confirmed as the one to ask */
} tl_try;

/** Make ready. `until`: when the asker will have moved on; it bounds the wait for the answer, and what
 *  a delayed request may still do. `ticket`: its sends'. */
void tl__attempt_init(void *attempt, const tl_protocol *row, tl_op op, uint16_t ticket,
                      tl_mono until);

/** The only step. START leads to a send, or to TL_END when nothing may be asked; an answer to another
 *  send or to TL_END. The same job each time. */
tl_status tl__attempt_step(void *attempt, const tl_job *job, const tl_event *event, tl_out *out);

/** Both: make ready, and ask. */
static inline tl_status tl__attempt_begin(void *attempt, const tl_job *job, tl_op op,
                                          uint16_t ticket, tl_mono until, const tl_event *event,
                                          tl_out *out) {
    const tl_event start = {.kind = TL_START, .now = event->now, .server = event->server};
    tl__attempt_init(attempt, job->protocol, op, ticket, until);
    return tl__attempt_step(attempt, job, &start, out);
}

/** When a request in flight is refused by a server that checks: TL_NEVER when it carries no limit. */
tl_mono tl__attempt_harmless(const void *attempt);

/** The answer is an error, and means what it says. */
tl_status tl__attempt_refused(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out);

/** By how much the earliest that the server's clock can show at `at` has fallen back since it was
 *  looked at, for want of knowing its rate; 0 when nothing is known. */
int64_t tl__try_fallen_ns(const tl_event *event, tl_mono at);
/** Has it fallen back by more than half of the time that a request with a not_after has? Then the
 *  request might be refused as too late although it arrives in time. */
bool tl__try_is_outdated(const tl_try *attempt, const tl_event *event);
/** For tl_protocol.outdated, where only a take depends on it. */
bool tl__try_outdated_take(const tl_try *attempt, const tl_job *job, const tl_event *event);

/** The event with what this step's answer has told of the server's clock, for another request that
 *  is built by it: the driver learns of it only after the step. */
tl_event tl__try_informed(const tl_event *event, const tl_out *out, tl_server *room);

/* ---- asking ------------------------------------------------------------------------------------ */

void tl__try_add(tl_command *command, tl_bytes arg);
void tl__try_add_all(tl_command *command, const tl_bytes *args, size_t count);
/** Append these, in this order. What they are is evaluated in any. */
#define TL_ADD(c, ...)                                                                             \
    tl__try_add_all((c), (const tl_bytes[]){__VA_ARGS__},                                          \
                    sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes))

/** The next command of a send: empty but for its form. */
tl_command *tl__try_command(tl_send *send);
tl_command *tl__try_script(tl_send *send, tl_script script);

/** The replicas must confirm: ask on the same connection, right after the write. */
void tl__try_add_wait(tl_send *send, const tl_job *job, tl_out *out);

/** The earliest and the latest that the server's clock can show at `at`, us; 0 when unknown. */
tl_interval tl__try_server_us(const tl_event *event, tl_mono at);

/** Until when the server may carry the request out, us; 0: without limit. It is the earliest that
 *  the server's clock can show at `by`. But a RENEW that doesn't `bind` itself to it touches only
 *  what is still ours, and does no worse when it is late than to prolong a dead holder's lock once:
 *  where that earliest has fallen back too far it has until the latest, rather than being refused
 *  although it comes in time. */
int64_t tl__try_not_after_us(const tl_try *attempt, const tl_event *event, bool binds);

/* ---- answers ----------------------------------------------------------------------------------- */

/** All of these end the attempt. */
tl_status tl__try_fail(tl_try *attempt, tl_err code, bool maybe, tl_bytes message, tl_out *out);
tl_status tl__try_malformed(tl_try *attempt, tl_out *out);
/** It was answered, but too late to ask once more. */
tl_status tl__try_no_time(tl_try *attempt, tl_out *out);
/** The server answered with an error; who: NULL, or as in tl_protocol. */
tl_status tl__try_refused(tl_try *attempt, tl_bytes error, bool maybe, const tl_needer *who,
                          tl_out *out);
/** Does the error say that a script could not ask who the server is, as quiet_ms needs? */
bool tl__try_may_not_ask(const tl_job *job, tl_bytes error);
/** The server refused a request that came after `by`. */
tl_status tl__try_too_late(tl_try *attempt, tl_out *out);
/** A take with quiet_ms: nothing is given for so long yet, and what K holds is not believed. */
tl_status tl__try_quiet(tl_try *attempt, const tl_event *event, int64_t left_ms, tl_out *out);
/** The same where the server can't be told from what it was. Nothing has been taken by this request; `maybe`
 *  says whether an earlier one may have. */
tl_status tl__try_never_quiet(tl_try *attempt, bool maybe, tl_out *out);
/** Another holds it; left_ms as of PTTL, negative when unknown. */
tl_status tl__try_busy(tl_try *attempt, const tl_event *event, int64_t left_ms);
/** Ours, and K has left_ms, as of PTTL: if the replicas have confirmed it. */
tl_status tl__try_held(tl_try *attempt, const tl_job *job, const tl_event *event, int64_t left_ms,
                       uint64_t fence, tl_out *out);
/** RENEW and RELEASE that found K another's (status 0) or absent (-1). */
tl_status tl__try_not_renewed(tl_try *attempt, int64_t status, tl_out *out);
tl_status tl__try_not_released(tl_try *attempt, int64_t status, tl_out *out);
