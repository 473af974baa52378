/*
 * A lock by requests that have one key each. While a cluster's slot is being moved, its keys may be at two
 * nodes, and no node executes a script with two of them.
 */
#pragma once

#include "protocol/attempt.h"

/** Acquire K by the script `hold` (take), or renew it. If the token holds K already, acquiring changes
 *  nothing. */
void tl__alone_send_hold(tl_try *attempt, const tl_job *job, bool take, const tl_event *event,
                         tl_out *out);
/** Release K. */
void tl__alone_send_free(tl_try *attempt, const tl_job *job, tl_out *out);
/** Two requests before the release of K. `leave` removes our entry from the queue and notifies the first
 *  waiters to look. `unbind` frees S from our token, so that it keeps nobody out. */
void tl__alone_send_leave(tl_try *attempt, const tl_job *job, tl_out *out);
void tl__alone_send_unbind(tl_try *attempt, const tl_job *job, tl_out *out);
/** Handle the replies to `hold` and `free`. Each ends the attempt, or sends the same request once more. */
tl_status tl__alone_held(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
tl_status tl__alone_freed(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** Did the reply come from a node that an ASK had named, and may the request be sent once more to the slot's
 *  owner? */
bool tl__alone_may_repeat(const tl_try *attempt, const tl_event *event);
/** Send it there once more. */
tl_status tl__alone_repeat(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** An acquire that succeeded has sent a renewal. Handle its reply: success, or K is not the token's. */
tl_status tl__alone_has_again(tl_try *attempt, const tl_event *event, tl_out *out);

/** The stage of an acquire. */
typedef enum {
    TL_ALONE_KEY,
    TL_ALONE_NUMBER,
    TL_ALONE_BIND,
    TL_ALONE_AGAIN,
    TL_ALONE_BACK
} tl_alone_stage;

/** The stage of a release. */
typedef enum { TL_ALONE_LINE, TL_ALONE_SIDECAR, TL_ALONE_LAST } tl_alone_drop;

/** The state of such an attempt. From TL_ALONE_NUMBER on the token holds K. */
typedef struct {
    uint8_t stage;
    uint8_t gone;    /**< RELEASE: the stage, a tl_alone_drop */
    uint64_t last;   /**< the last of the fencing numbers */
    int64_t left_ms; /**< TL_ALONE_BACK: for this long S keeps K for another client */
} tl_alone;

/** Send the request of the present stage. */
void tl__alone_send(tl_try *attempt, tl_alone *alone, const tl_job *job, const tl_event *event,
                    tl_out *out);
/** Handle the reply: go to the next stage, or end. */
tl_status tl__alone_answered(tl_try *attempt, tl_alone *alone, const tl_job *job,
                             const tl_event *event, tl_out *out);
