/*
 * The machine that extends or releases a lock: it asks until there is a reply, within one attempt limit.
 */
#pragma once

#include "protocol/retry.h"

typedef struct {
    tl_result result; /**< final at END or DETACH: the codes of RENEW or RELEASE */
    tl_job job;
    tl_attempt attempt;
    tl_retrier retry;
    tl_mono believed; /**< until when the caller believed the lock */
    tl_mono end;      /**< RELEASE, detached: after this trying is useless */
    uint16_t ticket;
    bool detached;
    bool maybe;   /**< an earlier request may have taken effect */
    bool in_time; /**< RELEASE: first sent while the lock was still believed */
} tl_settle;

/** Is the reply final? A lock that was extended too late to be of use is asked for again. */
bool tl__settle_is_final(tl_op op, const tl_result *result, tl_mono now);
/** Does this reply to a repeated release mean success? If the first one worked, the second finds the lock
 *  free, or already another's. in_time: as below. */
bool tl__settle_has_worked(tl_op op, tl_err code, bool maybe, bool in_time);

/** op: TL_RENEW or TL_RELEASE. */
void tl__settle_init(tl_settle *settlement, const tl_job *job, tl_op op, tl_mono believed,
                     uint64_t seed);

tl_status tl__settle_step(void *machine, const tl_event *event, tl_out *out);
