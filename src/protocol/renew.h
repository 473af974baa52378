/*
 * The machine that renews a held lock in time, and reports at once when it is at risk or lost.
 */
#pragma once

#include "protocol/protocol.h"

/** The state between requests, beside the deadline and the job with its proof. */
typedef struct {
    tl_mono next; /**< when to renew; TL_NEVER while a request is in flight, or if by_hand */
    tl_mono hold; /**< the lock is lost at the latest then */
    uint64_t random;
    uint32_t failures;
    uint16_t ticket;
    bool by_hand : 1;
    bool at_risk : 1;
    bool mended : 1; /**< an extension has fixed the risk: notify the owner */
    bool asking : 1; /**< a request is in flight */
    /** the holder gives no sign of life: until it does, only the deadline is watched */
    bool stalled : 1;
    /** a disruption has put the hold in doubt: no request proves it that was built since */
    bool doubted : 1;
    /** ask once more after this request, which may have been executed before the clock stepped */
    bool again : 1;
} tl_rest;

typedef struct {
    /** deadline, proved: the present ones, after each step; at END code TL_ELOST, with the reason */
    tl_result result;
    tl_job job;
    tl_attempt attempt; /**< valid while rest.asking */
    /** without a further sign of life the lock stalls then; TL_NEVER: it never does */
    tl_mono stalls;
    tl_rest rest;
} tl_renew;

#define TL_RENEW_PARTS 3 /**< renew after a third of the remaining time */
/** The first renewal is due by then, if it has to write the lock into S. */
#define TL_RENEW_FIRST_NS 1000000000
/** LOST is reported this long before the deadline, so that a late timer is still in time. */
#define TL_LOST_EARLY_NS 1000000
/** A stalled lock looks for a sign of life at least so often. */
#define TL_STALL_LOOK_NS 100000000

/** When a renewal without a reply has failed: after attempt_ms, or a third of the time until `end`. */
tl_mono tl__renew_by(tl_mono now, tl_mono end, int64_t attempt_ms);
/** When to ask again after so many failed renewals in a row. */
tl_mono tl__renew_again(tl_mono now, tl_mono end, uint32_t failures, uint64_t *random);

/** The first state. hold: when the lock is lost at the latest, or TL_NEVER. by_hand: never renew, only watch
 *  the deadline. */
tl_rest tl__rest_begin(tl_mono hold, bool by_hand, uint64_t seed);
/** When a stalled lock, which is lost at `end`, looks for a sign of life again. */
tl_mono tl__stall_look_at(tl_mono now, tl_mono end);
/** Restore a machine from its state. A machine without a request in flight may be thrown away after any step,
 *  if the deadline, result.proved, job.hold.proof and rest are kept. Before the call set the job, and the
 *  attempt if a request is in flight. stalls: see tl_renew, for this step. After it set result.proved. */
void tl__renew_resume(tl_renew *renewal, tl_mono deadline, tl_mono stalls, const tl_rest *rest);

/** Besides the common events: TL_WOKEN makes it renew now (the server's clock has stepped). */
tl_status tl__renew_step(void *machine, const tl_event *event, tl_out *out);

/** The caller has extended the lock, which is a sign of life: set a new lifetime and deadline. A renewal in
 *  flight is abandoned, since its reply is older. Set result.proved, too. Then give the machine a TL_TIMER, which brings the note that
 *  the lock is HELD again. */
void tl__renew_extended(tl_renew *renewal, int64_t ttl_ms, tl_mono deadline, tl_mono now);
