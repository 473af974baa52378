/*
 * The machine that acquires a lock: attempt, wait, back off, give up, clean up.
 */
#pragma once

#include "protocol/retry.h"

typedef struct {
    tl_result result; /**< final at END or DETACH; code OK: held, with deadline and fence */
    tl_job job;
    tl_retrier retry;
    tl_attempt attempt;
    tl_grant grant;    /**< valid if `granted`: a grant that came during a look */
    uint64_t run;      /**< the run of the server where it last joined the queue */
    uint64_t kill_run; /**< the run of the server where our native acquire is unanswered */
    /** that server's number of its connection, which must be closed there; 0: none */
    int64_t kill_id;
    tl_mono harmless; /**< valid if `uncertain`: after this no acquire of ours is in flight */
    /** as harmless, but only of acquires that don't end with the connection to be closed */
    tl_mono unkillable;
    uint16_t ticket;
    bool uncertain; /**< an unanswered acquire of ours may have taken effect, or may still do so */
    bool unwanted;  /**< the server has said that ours took effect, but we may not use the lock */
    bool listening, armed;
    bool watching; /* changes of K are reported */
    /** messages to the inbox arrived already before it subscribed, as far as was known */
    bool inbox_armed;
    bool lining; /**< it queues on the server; job.queue.stands: its entry may be there already */
    bool granted;
    bool near;    /**< it became one of the first three after the look in flight was sent */
    bool killing; /**< cleaning up: the connection is being closed on the server */
    bool woken;   /**< a notification came after the acquire in flight was sent */
    bool called;  /**< ... and it was a message, not the begin or end of listening */
} tl_acquisition;

/**
 * job         inbox: it may queue on the server. join: it queues from the beginning. stands: false
 * wait_ms     as for tl_lock_acquire
 * connect_ms  how long to try to reach the server when wait_ms is 0 or TL_FOREVER
 * seed        for random pauses
 */
void tl__acquire_init(tl_acquisition *acquisition, const tl_job *job, const tl_retry *retry,
                      int64_t wait_ms, int64_t connect_ms, uint64_t seed);

/** Note that messages to the inbox already arrive. Call it after init. */
static inline void tl__acquire_armed(tl_acquisition *acquisition) {
    acquisition->inbox_armed = true;
}

tl_status tl__acquire_step(void *machine, const tl_event *event, tl_out *out);
