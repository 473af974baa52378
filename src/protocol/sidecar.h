/*
 * The requests and replies of protocols with a sidecar: the scripts that acquire, renew and release.
 */
#pragma once

#include "protocol/attempt.h"

#define TL_FENCE_END (INT64_C(1) << 53) /**< from here on Lua's numbers can't count by one */
/** S lives for an hour after a script writes it; refresh, which does not prolong S, is used for half an hour. The
 * scripts have the same number. */
#define TL_SIDECAR_IDLE_MS 3600000

/** The values that an acquire or a renewal writes. */
typedef struct {
    tl_bytes value; /**< for K */
    /** ACQUIRE: the value that K must have, as the script expects it: empty (K is absent), or '=' and
     *  bytes */
    tl_bytes expect;
    int64_t px_ms;    /**< K's lifetime */
    int64_t until_us; /**< S keeps others out until this server time; 0: for px_ms */
    bool binds;       /**< RENEW: must not be executed after its not_after */
} tl_sidecar_write;

/** A reply to an acquire or a renewal. */
typedef struct {
    int64_t status;
    tl_bytes value; /**< K's value; p NULL: K is absent, or no string */
    int64_t left_ms;
    int64_t server_us; /**< the server's TIME */
    uint64_t fence;    /**< ACQUIRE: the first of the reserved numbers */
    bool known;        /**< ACQUIRE: S has K's value */
    bool rests;        /**< ACQUIRE: nobody holds the lock; it rests */
} tl_sidecar_answer;

/** Does the acquire write S? A first acquire by script may leave that to the first renewal. If an earlier one
 *  may still be executed, S must have the token: else the earlier one would find K set by a token that S
 *  doesn't have. */
bool tl__sidecar_binds(const tl_job *job);

void tl__sidecar_send_acquire(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                              const tl_event *event, tl_out *out);
/** Join the queue, or look how far the entry has advanced. */
void tl__sidecar_send_join(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
void tl__sidecar_send_renew(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                            const tl_event *event, tl_out *out);
/** Prolong a hold that an earlier renewal has written into S, if nothing else has changed since. */
void tl__sidecar_send_refresh(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out);
void tl__sidecar_send_release(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out);
/** The part of a release that lets no lock rest. */
void tl__sidecar_send_drop(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** For how long, ms, S stays after a release; empty: not known. */
tl_bytes tl__sidecar_stays(const tl_job *job, const tl_event *event, tl_out *out);
/** The part of a release that lets the lock rest (tl_job_release.rest_until); alone: of K alone. */
void tl__sidecar_send_rest(tl_try *attempt, const tl_job *job, bool alone, const tl_event *event,
                           tl_out *out);

/** The lock's entry in the queue. */
tl_bytes tl__sidecar_entry(const tl_job *job, tl_out *out);

/** Note in out that this reply proves that a script has raised the counter. */
void tl__sidecar_raised(const tl_job *job, tl_out *out);

/** Read a reply, and pass the server's time to the driver. false: the reply is malformed. */
bool tl__sidecar_acquired(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out,
                          tl_sidecar_answer *ret);
/** Read the reply to a join; status -3: this server does not support a queue. */
bool tl__sidecar_joined(tl_try *attempt, const tl_event *event, tl_out *out,
                        tl_sidecar_answer *ret);
bool tl__sidecar_renewed(const tl_event *event, tl_out *out, tl_sidecar_answer *ret);

/** The result of refreshing one lock. */
typedef enum {
    TL_REFRESHED,
    TL_REFRESHED_NOT,   /**< it needs a `renew`, the long form */
    TL_REFRESHED_LATE,  /**< the request came after its not_after */
    TL_REFRESHED_NEVER, /**< this server does not support `refresh` */
    TL_REFRESHED_MALFORMED
} tl_refreshed;

tl_refreshed tl__sidecar_refreshed(const tl_event *event, tl_out *out);

/** Handle the reply to an acquire (judge) or a renewal (kept) of a protocol that writes nothing but tokens;
 *  ends the attempt. */
tl_status tl__sidecar_judge(tl_try *attempt, const tl_job *job, const tl_sidecar_answer *answer,
                            const tl_event *event, tl_out *out);
tl_status tl__sidecar_kept(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** Handle an acquire's status that is negative or unknown; ends the attempt. */
tl_status tl__sidecar_refused(tl_try *attempt, const tl_job *job, const tl_sidecar_answer *answer,
                              const tl_event *event, tl_out *out);
/** Handle the reply to a release; ends the attempt. */
tl_status tl__sidecar_released(tl_try *attempt, const tl_job *job, const tl_event *event,
                               tl_out *out);
