/*
 * The machine that extends or releases a lock: asks until it is answered, within one attempt limit.
 */
#ifndef TL_SETTLE_H
#define TL_SETTLE_H

#include "protocol/retry.h"

typedef struct {
    tl_result result; /**< final at END or DETACH: the codes of RENEW or RELEASE */
    tl_job job;
    tl_attempt attempt;
    tl_retrier retry;
    tl_mono believed; /**< until when the caller believed the lock */
    tl_mono end;      /**< RELEASE, detached: no use in trying longer */
    uint16_t ticket;
    uint8_t op;
    bool detached;
    bool maybe;   /**< an earlier request may have taken effect */
    bool in_time; /**< RELEASE: first sent while the lock was still believed */
} tl_settle;

/** op: TL_RENEW or TL_RELEASE. */
void tl__settle_init(tl_settle *s, const tl_job *job, tl_op op, tl_mono believed, uint64_t seed);

tl_status tl__settle_step(void *machine, const tl_event *event, tl_out *out);

#endif
