/*
 * A lock by requests of one key each. Where a cluster's slot is being moved, no script of two keys is executed before
 * all of it has moved, as they may be at two nodes.
 */
#pragma once

#include "protocol/attempt.h"

/** K by the script `hold`: take it (a token that has it already keeps what there is) or keep it. */
void tl__alone_send_hold(tl_try *attempt, const tl_job *job, bool take, const tl_event *event,
                         tl_out *out);
/** K is given up. */
void tl__alone_send_free(tl_try *attempt, const tl_job *job, tl_out *out);
/** What comes before that, each of a key of its own: its entry leaves the line, where others are called to look, S binds
 *  nobody for it any more. */
void tl__alone_send_leave(tl_try *attempt, const tl_job *job, tl_out *out);
void tl__alone_send_unbind(tl_try *attempt, const tl_job *job, tl_out *out);
/** Their answers; each ends the attempt, or has the same asked once more. */
tl_status tl__alone_held(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
tl_status tl__alone_freed(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** Was it answered where an ASK had led, and can be asked once more where the slot is? */
bool tl__alone_may_repeat(const tl_try *attempt, const tl_event *event);
/** It is. */
tl_status tl__alone_repeat(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out);
/** A take that was answered well has asked once more, to keep: it ends well, or says that K isn't the token's. */
tl_status tl__alone_has_again(tl_try *attempt, const tl_event *event, tl_out *out);

/** How far an acquire has come. */
typedef enum {
    TL_ALONE_KEY,
    TL_ALONE_NUMBER,
    TL_ALONE_BIND,
    TL_ALONE_AGAIN,
    TL_ALONE_BACK
} tl_alone_stage;

/** And a drop. */
typedef enum { TL_ALONE_LINE, TL_ALONE_SIDECAR, TL_ALONE_LAST } tl_alone_drop;

/** What it has come to; K is the token's from TL_ALONE_NUMBER on. */
typedef struct {
    uint8_t stage;
    uint8_t gone;    /**< RELEASE: how far it has come, a tl_alone_drop */
    uint64_t last;   /**< of the fencing numbers */
    int64_t left_ms; /**< TL_ALONE_BACK: for so long S binds another */
} tl_alone;

/** Ask for the stage that it has come to. */
void tl__alone_send(tl_try *attempt, tl_alone *alone, const tl_job *job, const tl_event *event,
                    tl_out *out);
/** What was answered: the next stage, or the end. */
tl_status tl__alone_answered(tl_try *attempt, tl_alone *alone, const tl_job *job,
                             const tl_event *event, tl_out *out);
