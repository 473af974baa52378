/*
 * The common part of attempts, for all protocols on a Redis server. It notes when the request was built, how
 * long a holder may believe the reply, and how an attempt fails.
 */
#pragma once

#include "protocol/protocol.h"

/** The common part of an attempt. */
typedef struct tl_try {
    tl_result result;       /**< first */
    const tl_protocol *row; /**< its protocol; it may become another's attempt */
    tl_mono until;          /**< the caller goes on by then */
    tl_mono asked;          /**< when the request was built: no later than it was sent */
    tl_mono by;             /**< without a reply by then it has failed */
    uint16_t ticket;
    bool bounded; /**< ACQUIRE: the request carries `by` as its not_after */
    bool resting; /**< RELEASE: the request in flight lets the lock rest */
    bool timing;  /**< it asks for the server's time first */
    bool reaches; /**< nothing has been sent but "reach the server" */
    bool alone;   /**< it sends requests of one key each: see alone.h */
    bool asking;  /**< the request goes to the node that a redirection of the kind TL_ASK named */
    bool again;   /**< that node has replied, and the slot's owner is asked, too: see alone.c */
    uint8_t hops; /**< redirections in a row */
    uint8_t differed; /**< how often its condition did not hold */
    /** the reply was a success, and the driver confirms that the server is the master */
    bool confirming;
    /** what it believes of its condition (tl_protocol.condition), in the protocol's own terms */
    int64_t believes;
} tl_try;

/** Is its acquire executed only under a condition? */
static inline bool tl__job_has_condition(const tl_job *job) {
    return job->protocol->condition && job->rules.nodes;
}

/** Initialize it. `until`: when the caller goes on; it limits the wait for the reply, and until when the
 *  server may execute a delayed request. `ticket`: of its sends. */
void tl__attempt_init(void *attempt, const tl_protocol *row, tl_op op, uint16_t ticket,
                      tl_mono until);

/** The only step. START leads to a send, or to TL_END when nothing may be sent. A reply leads to another send
 *  or to TL_END. All calls get the same job. */
tl_status tl__attempt_step(void *attempt, const tl_job *job, const tl_event *event, tl_out *out);

/** Initialize it, and make the first step. */
static inline tl_status tl__attempt_begin(void *attempt, const tl_job *job, tl_op op,
                                          uint16_t ticket, tl_mono until, const tl_event *event,
                                          tl_out *out) {
    const tl_event start = {.kind = TL_START, .now = event->now, .server = event->server};
    tl__attempt_init(attempt, job->protocol, op, ticket, until);
    return tl__attempt_step(attempt, job, &start, out);
}

/** When a server that checks rejects a request in flight; TL_NEVER if it carries no limit. */
tl_mono tl__attempt_harmless(const void *attempt);

/** The reply is an error without a special meaning: end the attempt with it. */
tl_status tl__attempt_refused(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out);

/** How far the earliest possible value of the server's clock at `at` lags, in ns. The lag grows with the age
 *  of the last reading, since the clock's rate is not known exactly. 0 without a reading. */
int64_t tl__try_fallen_ns(const tl_event *event, tl_mono at);
/** Is that lag more than half of the time that a request with a not_after has? Then the server might reject
 *  the request as too late although it arrives in time. */
bool tl__try_is_outdated(const tl_try *attempt, const tl_event *event);
/** For tl_protocol.outdated of protocols where only an acquire depends on the lag. */
bool tl__try_outdated_take(const tl_try *attempt, const tl_job *job, const tl_event *event);

/** The event with the server's clock updated by this step's reply. A request built within this step needs it:
 *  the driver updates the clock only after the step. */
tl_event tl__try_informed(const tl_event *event, const tl_out *out, tl_server *room);

/* ---- sending ----------------------------------------------------------------------------------- */

void tl__try_add(tl_command *command, tl_bytes arg);
void tl__try_add_all(tl_command *command, const tl_bytes *args, size_t count);
/** Append these, in this order. The arguments may be evaluated in any order. */
#define TL_ADD(c, ...)                                                                             \
    tl__try_add_all((c), (const tl_bytes[]){__VA_ARGS__},                                          \
                    sizeof((const tl_bytes[]){__VA_ARGS__}) / sizeof(tl_bytes))

/** Begin the next command of a send: empty but for its form. */
tl_command *tl__try_command(tl_send *send);
tl_command *tl__try_script(tl_send *send, tl_script script);

/** If replicas or disks must confirm, add the command that waits for them, right behind the write. */
void tl__try_add_wait(tl_send *send, const tl_job *job, tl_out *out);

/** The earliest and the latest value in us that the server's clock can show at `at`; 0 when unknown. */
tl_interval tl__try_server_us(const tl_event *event, tl_mono at);

/** The not_after of the request: until when the server may execute it, server time in us; 0: no limit. It is
 *  the earliest value that the server's clock can show at `by`. Exception: a renewal without `binds` changes
 *  only what is still ours. Executed late, it can only prolong a dead holder's lock once. So if the earliest
 *  value lags too much, the latest one is used, lest the server reject a renewal that comes in time. */
int64_t tl__try_not_after_us(const tl_try *attempt, const tl_event *event, bool binds);

/* ---- replies ----------------------------------------------------------------------------------- */

/** All of these end the attempt. */
tl_status tl__try_fail(tl_try *attempt, tl_err code, bool maybe, tl_bytes message, tl_out *out);
tl_status tl__try_malformed(tl_try *attempt, tl_out *out);
/** A reply came, but too late to send another request. */
tl_status tl__try_no_time(tl_try *attempt, tl_out *out);
/** The server replied with an error; who: NULL, or as in tl_protocol. */
tl_status tl__try_refused(tl_try *attempt, tl_bytes error, bool maybe, const tl_needer *who,
                          tl_out *out);
/** Does the error say that a script may not use INFO, which quiet_ms needs? */
bool tl__try_may_not_ask(const tl_job *job, tl_bytes error);
/** The server rejected a request that came after `by`. */
tl_status tl__try_too_late(tl_try *attempt, tl_out *out);
/** An acquire with quiet_ms: the server grants nothing for left_ms yet, and the content of K is not
 *  believed. */
tl_status tl__try_quiet(tl_try *attempt, const tl_event *event, int64_t left_ms, tl_out *out);
/** The same on a server that can't tell whether it restarted. This request has acquired nothing; `maybe` says
 *  whether an earlier one may have. */
tl_status tl__try_never_quiet(tl_try *attempt, bool maybe, tl_out *out);
/** Another holds it; left_ms as PTTL returns it, negative when unknown. */
tl_status tl__try_busy(tl_try *attempt, const tl_event *event, int64_t left_ms);
/** The lock is ours if the replicas have confirmed it; left_ms: K's lifetime, as PTTL returns it. */
tl_status tl__try_held(tl_try *attempt, const tl_job *job, const tl_event *event, int64_t left_ms,
                       uint64_t fence, tl_out *out);
/** The end of a renewal or release where K is another's (status 0) or absent (-1). */
tl_status tl__try_not_renewed(tl_try *attempt, int64_t status, tl_out *out);
tl_status tl__try_not_released(tl_try *attempt, int64_t status, tl_out *out);
/** The end of a release where the lock rests, if the replicas have confirmed it. */
tl_status tl__try_rested(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
