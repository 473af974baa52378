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
    tl_grant grant;    /**< granted: has come while a look was in flight */
    uint64_t run;      /**< of the server that it joined the line at last */
    uint64_t kill_run; /**< of the server where a native take of ours went unanswered, */
    int64_t kill_id;   /**< and the connection, which is to be ended there; 0: none */
    tl_mono harmless;  /**< uncertain: after this no take of ours is still in flight */
    tl_mono
        unkillable; /**< as harmless, of those that don't end with the connection to be killed */
    uint16_t ticket;
    bool uncertain; /**< a take of ours without an answer may have taken effect, or may yet */
    bool unwanted;  /**< the server has said that ours took effect, but it can't be had */
    bool listening, armed;
    bool watching;    /* changes of K are told */
    bool inbox_armed; /**< messages to the inbox come in, as far as was known before it listened */
    bool lining;      /**< it waits in line; job.queue.stands: and may stand there by now */
    bool granted;
    bool near;    /**< it has become one of the first three since the look in flight was sent */
    bool killing; /**< it cleans: the connection is being ended */
    bool woken;   /**< since the take in flight was sent */
    bool called;  /**< and by a message, not because listening has begun or ended */
} tl_acquisition;

/**
 * job         inbox: it may wait in line; join: it does so from the beginning; stands false
 * wait_ms     as for tl_lock_acquire
 * connect_ms  how long to try to reach the server when wait_ms is 0 or TL_FOREVER
 * seed        for jitter
 */
void tl__acquire_init(tl_acquisition *acquisition, const tl_job *job, const tl_retry *retry,
                      int64_t wait_ms, int64_t connect_ms, uint64_t seed);

/** Messages to the inbox come in already. After init. */
static inline void tl__acquire_armed(tl_acquisition *acquisition) {
    acquisition->inbox_armed = true;
}

tl_status tl__acquire_step(void *machine, const tl_event *event, tl_out *out);
