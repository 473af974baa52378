/*
 * The machine that acquires a lock of a majority of independent servers. It asks all of them for their votes,
 * counts them, and settles the fencing number. Between rounds it waits for the release, the expiry or its
 * next try.
 */
#pragma once

#include "protocol/retry.h"
#include "protocol/voter.h"

typedef struct {
    tl_result result;   /**< final at END or DETACH; code OK: held, with deadline and fence */
    tl_job job;         /**< token: the one it asks votes for now; at the end, of the hold */
    tl_ballots ballots; /**< OK: the votes it has */
    tl_retrier retry;   /**< an attempt is a round */
    tl_voter voter[TL_QUORUM_MAX];
    tl_mono proposed; /**< when votes were last requested */
    tl_mono grace;    /**< a majority has replied: it waits for the others until then */
    uint64_t least;   /**< the proposed number of this round; 0: none yet */
    uint64_t seen;    /**< the greatest number that a vote has had so far */
    uint32_t run;     /**< the number of tokens that votes were requested for */
    uint16_t ticket;
    uint8_t count;
    uint8_t patience; /**< the number of rounds for which it still keeps its votes */
    uint8_t wanted;   /**< servers whose votes are still missing; here and below a bit for each */
    uint8_t reached;  /**< servers reached in this round */
    uint8_t replied;  /**< servers that replied in this round, with a vote or another's name */
    uint8_t denied;   /**< servers that rejected the request, and will do so next time */
    tl_err why;       /**< the code of one such rejection */
    uint8_t skipped;  /**< servers where a vote could not be taken back in this round */
    /** armed: where it listens; woken: which servers have notified it since the round began */
    uint8_t armed, woken;
    bool listening;
    bool limited; /**< wait_ms 0: its limit counts from the first request for votes */
    bool raising; /**< a majority has voted, and is raising its counters to one number */
    bool keeping; /**< it pauses and keeps its votes */
    bool rests;   /**< by the replies of the last round the lock rests: for the message */
} tl_quorum_acquisition;

/** As tl__acquire_init. count: the number of servers, odd, TL_QUORUM_MIN to TL_QUORUM_MAX. The machine uses
 *  the token of job and others that differ from it in the last six digits. Once the votes for a token are
 *  taken back, it is never used again. */
void tl__quorum_acquire_init(tl_quorum_acquisition *acquisition, const tl_job *job, unsigned count,
                             const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                             uint64_t seed);

tl_status tl__quorum_acquire_step(void *machine, const tl_event *event, tl_out *out);
