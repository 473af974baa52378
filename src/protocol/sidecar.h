/*
 * What protocols with a sidecar say: the scripts take, keep and drop, and their answers.
 */
#pragma once

#include "protocol/attempt.h"

#define TL_FENCE_END (INT64_C(1) << 53) /**< from here on Lua's numbers stand still */
#define TL_SIDECAR_IDLE_MS 3600000 /**< S outlives its last use by an hour; the scripts know it */

/** What a take or a keep is to write. */
typedef struct {
    tl_bytes value; /**< for K */
    tl_bytes
        expect; /**< ACQUIRE: what K must hold, as the script wants it: nothing, or '=' and bytes */
    int64_t px_ms;    /**< K's lifetime */
    int64_t until_us; /**< server time until when S binds others; 0: for px_ms */
    bool binds;       /**< RENEW: must not be carried out after its limit */
} tl_sidecar_write;

/** An answer of take or keep. */
typedef struct {
    int64_t status;
    tl_bytes value; /**< what K holds; p NULL: nothing, or no string */
    int64_t left_ms;
    int64_t server_us; /**< the server's TIME */
    uint64_t fence;    /**< ACQUIRE: the first of those reserved */
    bool known;        /**< ACQUIRE: S knows K's value */
} tl_sidecar_answer;

/** Is S written by the take already? A first one by script may leave it to the first renewal; where an earlier one
 *  may still be on its way, S must know of the token, or that one would find it nobody's. */
bool tl__sidecar_binds(const tl_job *job);

void tl__sidecar_send_acquire(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                              const tl_event *event, tl_out *out);
/** Stand in line, or look how far it has come. */
void tl__sidecar_send_join(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
void tl__sidecar_send_renew(tl_try *attempt, const tl_job *job, const tl_sidecar_write *write,
                            const tl_event *event, tl_out *out);
/** Extend what a renewal has written into S before, and nothing else has become of. */
void tl__sidecar_send_refresh(tl_try *attempt, const tl_job *job, const tl_event *event,
                              tl_out *out);
void tl__sidecar_send_release(tl_try *attempt, const tl_job *job, tl_out *out);

/** Its entry in the line. */
tl_bytes tl__sidecar_entry(const tl_job *job, tl_out *out);

/** This answer says that a script has drawn from the counter. */
void tl__sidecar_raised(const tl_job *job, tl_out *out);

/** Read an answer, and tell the driver its time. false: it is malformed. */
bool tl__sidecar_acquired(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out,
                          tl_sidecar_answer *ret);
/** Of a join; status -3: this server can't have a line. */
bool tl__sidecar_joined(tl_try *attempt, const tl_event *event, tl_out *out,
                        tl_sidecar_answer *ret);
bool tl__sidecar_renewed(const tl_event *event, tl_out *out, tl_sidecar_answer *ret);

/** What has become of one lock that was to be refreshed. */
typedef enum {
    TL_REFRESHED,
    TL_REFRESHED_NOT,   /**< it has to be renewed the long way */
    TL_REFRESHED_LATE,  /**< the request came past its limit */
    TL_REFRESHED_NEVER, /**< this server can't */
    TL_REFRESHED_MALFORMED
} tl_refreshed;

tl_refreshed tl__sidecar_refreshed(const tl_event *event, tl_out *out);

/** What the answer of a take, or of a keep, is to who writes nothing but tokens; ends the attempt. */
tl_status tl__sidecar_judge(tl_try *attempt, const tl_job *job, const tl_sidecar_answer *answer,
                            const tl_event *event, tl_out *out);
tl_status tl__sidecar_kept(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** What a take's status below 0 means, and any that is unknown; ends the attempt. */
tl_status tl__sidecar_refused(tl_try *attempt, const tl_sidecar_answer *answer,
                              const tl_event *event, tl_out *out);
/** The answer of a drop; ends the attempt. */
tl_status tl__sidecar_released(tl_try *attempt, const tl_event *event, tl_out *out);
