/*
 * The machine that keeps a held lock: renews it in time, and says at once when it is at risk or lost.
 */
#pragma once

#include "protocol/protocol.h"

/** What there is to remember while no request is in flight, beside the deadline, and the job with its proof. */
typedef struct {
    tl_mono next; /**< when to renew; TL_NEVER while a request is in flight, or by hand */
    tl_mono hold; /**< the lock ends by then */
    uint64_t random;
    uint32_t failures;
    uint16_t ticket;
    bool by_hand : 1;
    bool at_risk : 1;
    bool mended : 1; /**< by an extension, which the owner is to be told of */
    bool asking : 1; /**< a request is in flight */
    bool
        again : 1; /**< ask once more after it: it may have been executed before the clock stepped */
} tl_rest;

typedef struct {
    tl_result result; /**< deadline: the present one, after each step; at END code TL_ELOST, why */
    tl_job job;
    tl_attempt attempt; /**< while rest.asking */
    tl_rest rest;
} tl_renew;

#define TL_RENEW_PARTS 3 /**< renew at a third of what is left */
#define TL_RENEW_FIRST_NS                                                                          \
    1000000000 /**< the first is due by then, where S is to know of the lock */
#define TL_LOST_EARLY_NS                                                                           \
    1000000 /**< LOST is said so early, so that a late timer is still in time */

/** No answer to a renewal by then: it failed. A third of what is left until `end`, or attempt_ms. */
tl_mono tl__renew_by(tl_mono now, tl_mono end, int64_t attempt_ms);
/** A renewal has failed, so many in a row: when to ask again. */
tl_mono tl__renew_again(tl_mono now, tl_mono end, uint32_t failures, uint64_t *random);

/** To begin with. hold: TL_NEVER, or when the lock is to be lost at the latest. by_hand: only watch the deadline. */
tl_rest tl__rest_begin(tl_mono hold, bool by_hand, uint64_t seed);
/** A machine that goes on with it: one that wasn't asking may be thrown away after any step, if the deadline,
 *  job.hold.proof and rest are kept. The job is to be there, and the attempt if it is asking. */
void tl__renew_resume(tl_renew *renewal, tl_mono deadline, const tl_rest *rest);

/** Besides the common events: TL_WOKEN makes it renew now (the server's clock has stepped). */
tl_status tl__renew_step(void *machine, const tl_event *event, tl_out *out);

/** The lock was extended by hand: a new lifetime and deadline. What is in flight is given up, since
 *  its answer is older. Then give it a TL_TIMER: the note that it is HELD again comes with that. */
void tl__renew_extended(tl_renew *renewal, int64_t ttl_ms, tl_mono deadline, tl_mono now);
