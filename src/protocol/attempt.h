/*
 * What the attempts of all protocols on a Redis server have in common: when the request was built,
 * how long a holder may believe its answer, and how an attempt fails.
 */
#ifndef TL_ATTEMPT_H
#define TL_ATTEMPT_H

#include "protocol/protocol.h"

typedef struct {
    tl_result result; /**< first */
    tl_mono until;    /**< the asker moves on */
    tl_mono asked;    /**< when the request was built: no later than it was sent */
    tl_mono by;       /**< no answer by then: failed */
    uint16_t ticket;
    uint8_t op;
    bool bounded; /**< TAKE: the request says until when it may take effect, `by` */
    bool timing;  /**< the server's time is being asked for first */
} tl_try;

/** A protocol's init. */
void tl__try_init(void *attempt, tl_op op, uint16_t ticket, tl_mono until);

/** What a protocol has to say: its requests, and what an answer that is no error means. */
typedef struct {
    void (*send)(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    tl_status (*answered)(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    tl_needer who; /**< who can't do without what it sends */
    /** NULL, or: is the last reading of the server's clock too old for this? Then TIME first. */
    bool (*outdated)(const tl_try *a, const tl_job *job, const tl_event *e);
    /** NULL, or: is there a reason not to send at all? Then it ends the attempt. */
    bool (*refuses)(tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
} tl_try_words;

/** By how much the earliest that the server's clock can show at `at` has fallen back since it was
 *  looked at, for want of knowing its rate; 0 when nothing is known. */
int64_t tl__try_fallen_ns(const tl_event *e, tl_mono at);
/** Has it fallen back by more than half of the time that a request with a not_after has? Then the
 *  request might be refused as too late although it arrives in time. */
bool tl__try_is_outdated(const tl_try *a, const tl_event *e);

/** The event with what this step's answer has told of the server's clock, for another request that
 *  is built by it: the driver learns of it only after the step. */
tl_event tl__try_informed(const tl_event *e, const tl_out *out, tl_server *room);

/** A protocol's step. */
tl_status tl__try_step(tl_try *a, const tl_try_words *words, const tl_job *job, const tl_event *e,
                       tl_out *out);

/* ---- asking ------------------------------------------------------------------------------------ */

void tl__try_add(tl_command *c, tl_bytes arg);

/** The next command of a send: empty but for its form. */
tl_command *tl__try_command(tl_send *send);
tl_command *tl__try_script(tl_send *send, tl_script script);

/** The replicas must confirm: ask on the same connection, right after the write. */
void tl__try_add_wait(tl_send *send, const tl_job *job, tl_out *out);

/** The earliest and the latest that the server's clock can show at `at`, us; 0 when unknown. */
tl_interval tl__try_server_us(const tl_event *e, tl_mono at);

/** Until when the server may carry the request out, us; 0: without limit. It is the earliest that
 *  the server's clock can show at `by`. But a KEEP that doesn't `bind` itself to it touches only
 *  what is still ours, and does no worse when it is late than to prolong a dead holder's lock once:
 *  where that earliest has fallen back too far it has until the latest, rather than being refused
 *  although it comes in time. */
int64_t tl__try_not_after_us(const tl_try *a, const tl_event *e, bool binds);

/* ---- answers ----------------------------------------------------------------------------------- */

/** All of these end the attempt. */
tl_status tl__try_fail(tl_try *a, tl_err code, bool maybe, tl_bytes words, tl_out *out);
tl_status tl__try_malformed(tl_try *a, tl_out *out);
/** The server answered with an error; who: NULL, or as in tl_try_words. */
tl_status tl__try_refused(tl_try *a, tl_bytes error, bool maybe, const tl_needer *who, tl_out *out);
/** The server refused a request that came after `by`. */
tl_status tl__try_too_late(tl_try *a, tl_out *out);
/** Another holds it; left_ms as of PTTL, negative when unknown. */
tl_status tl__try_busy(tl_try *a, const tl_event *e, int64_t left_ms);
/** Ours, and K has left_ms, as of PTTL: if the replicas and, for a take, the server's age allow. */
tl_status tl__try_held(tl_try *a, const tl_job *job, const tl_event *e, int64_t left_ms,
                       uint64_t fence, tl_out *out);
/** KEEP and DROP that found K another's (status 0) or absent (-1). */
tl_status tl__try_not_kept(tl_try *a, int64_t status, tl_out *out);
tl_status tl__try_not_dropped(tl_try *a, int64_t status, tl_out *out);

#endif
