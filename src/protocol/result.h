/*
 * The result of a job, or of a question.
 */
#pragma once

#include "ground/guard.h"
#include "protocol/job.h"

/** A result within the library only: the server that was asked is not, or no longer, the right one, and has
 *  certainly not executed the request. The caller builds the request again for the right server. */
#define TL_EELSEWHERE ((tl_err)64)

/** Of a failure: will the same server fail the same way until somebody changes its configuration? */
static inline bool tl__is_lasting(tl_err code) {
    return code == TL_EDENIED || code == TL_ESERVER || code == TL_EINVALID ||
           code == TL_EUNSUPPORTED;
}

/** May the same request succeed next time? */
static inline bool tl__may_pass(tl_err code) {
    return code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN || code == TL_EELSEWHERE;
}

/** Is this a failure of the server, so that a message should name the server? */
bool tl__is_of_server(tl_err code);

/** ACQUIRE */
typedef struct {
    /** OK: when the reply came, and the latest time, us, that the server's clock could show then; 0: not
     *  known. */
    tl_mono seen;
    int64_t seen_us;
    /** OK: the first of the reserved fencing numbers. */
    uint64_t fence;
    /** Not OK: the expected expiry of the holder, or the time from which the server grants locks again;
     *  TL_NEVER: not known. */
    tl_mono hint;
    /** In the queue: the waiter's rank, how many waiters are before it, how many there are, and the server's
     *  time then. */
    int64_t rank;
    int32_t before, waiting;
    int64_t server_us;
    /** The server has replied, and it rejects requests that arrive too late (not_after). */
    bool checked;
    /** EBUSY: the holder's release will be announced on the topic. */
    bool announced;
    /** EBUSY: nothing is ever announced on the topic. */
    bool silent;
    /** EBUSY: nobody holds it; it rests. */
    bool rests;
    /** EBUSY: no queue exists or it doesn't advance: look again soon. */
    bool polls;
    /** Not OK: a request that releases K may still be executed, until `hint`. */
    bool giving;
    /** OK: the only token is the expiry in the stamp, as text. */
    bool stamp_is_token;
} tl_acquire_result;

/** RENEW, ELOST */
typedef struct {
    tl_lost_why why;
    /** A client whose clock was this far ahead of the server's acquired the lock, if its lifetime is T. */
    bool stolen;
    int64_t thief_ahead_ms;
} tl_lost;

/** The result; the first member of every machine and of every attempt. */
typedef struct {
    /** ACQUIRE: OK, EBUSY. RENEW: OK, ELOST. RELEASE: OK, EEXPIRED, ETAKEN. All: EUNCERTAIN, EUNAVAILABLE,
     *  EDENIED, ESERVER */
    tl_err code;
    /** A tl_op. */
    uint8_t op;
    /** Not OK: a request may have taken effect or may still do so (EUNCERTAIN), or has taken effect (any
     *  other code). */
    bool maybe;
    /** EUNCERTAIN: a second request could do harm. */
    bool last;
    /** EUNAVAILABLE, but the server did not fail: the limit of the attempt passed before the request was sent,
     *  or before it arrived. */
    bool late;
    /** `maybe`: after this time a server that checks rejects a request in flight; TL_NEVER: the request
     *  carries no limit. */
    tl_mono harmless;
    /** ACQUIRE and RENEW, OK: the lock is held until `deadline`, with this proof. */
    tl_mono deadline;
    /** With it: when the earliest request was built that proves this. If the clock has stood still since, the
     *  deadline is not true. ns 0: not known. */
    tl_mono proved;
    tl_proof proof;
    /** One of them, by `op`. */
    union {
        tl_acquire_result acquire;
        tl_lost lost;
        /** RELEASE, EUNAVAILABLE: the lock can rest from then on; ns 0: not known. */
        tl_mono rests_from;
    };
} tl_result;

/** A disruption (client/disruption.h) was noticed at `disrupted`; ns 0: none was. Does this proof count no longer,
 *  since its request was built before that? */
static inline bool tl__is_disrupted(tl_mono proved, tl_mono disrupted) {
    return disrupted.ns != 0 && !tl__mono_before(disrupted, proved);
}

/** Is the job's hold believed at `now`, and not in doubt? */
static inline bool tl__job_believes(const tl_job *job, tl_mono believed, tl_mono now) {
    return tl__mono_before(now, believed) &&
           !(GUARD(doubted_release_is_late) &&
             tl__is_disrupted(job->hold.proved, job->hold.disrupted));
}

/** Why a lock is lost, if the result says so. */
static inline tl_lost tl__result_lost(const tl_result *result) {
    return result->op == TL_RENEW && result->code == TL_ELOST ? result->lost : (tl_lost){0};
}
