/*
 * The machine that acquires a lock of a majority of independent servers: asks all of them for their votes, counts, sees
 * to the fencing number, and between rounds waits for the release, the expiry or its next try.
 */
#pragma once

#include "protocol/retry.h"
#include "protocol/voter.h"

typedef struct {
    tl_result result;   /**< final at END or DETACH; code OK: held, with deadline and fence */
    tl_job job;         /**< token: the one to ask for at present, and of the hold */
    tl_ballots ballots; /**< OK: whose votes it has */
    tl_retrier retry;   /**< an attempt is a round */
    tl_voter voter[TL_QUORUM_MAX];
    tl_mono proposed; /**< when votes were asked for last */
    tl_mono grace;    /**< a majority has answered: for so long the others are waited for */
    uint64_t least;   /**< the proposal of this round; 0: none yet */
    uint64_t seen;    /**< the greatest number so far */
    uint32_t run;     /**< how many tokens have been asked for */
    uint16_t ticket;
    uint8_t count;
    uint8_t patience; /**< so many more rounds to keep votes for */
    uint8_t
        wanted; /**< of these the votes are asked for, and not there yet; so below: a bit for each */
    uint8_t reached;      /**< in this round */
    uint8_t replied;      /**< with a vote or another's name, in this round */
    uint8_t denied;       /**< and by what will be the same next time, */
    tl_err why;           /**< of which one is told */
    uint8_t skipped;      /**< where a vote could not be taken back in this round */
    uint8_t armed, woken; /**< where it listens; who has called since the round began */
    bool listening;
    bool limited; /**< wait_ms 0: its limit counts from the first votes that were asked for */
    bool raising; /**< a majority has voted, and brings its counters up to one number */
    bool keeping; /**< it pauses: the votes so far are kept */
} tl_quorum_acquisition;

/** As tl__acquire_init. count: servers, odd, TL_QUORUM_MIN to TL_QUORUM_MAX. The token of job and others like it, which
 *  differ in their last six digits, are the machine's to use: what was given back is never asked for again. */
void tl__quorum_acquire_init(tl_quorum_acquisition *acquisition, const tl_job *job, unsigned count,
                             const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                             uint64_t seed);

tl_status tl__quorum_acquire_step(void *machine, const tl_event *event, tl_out *out);
