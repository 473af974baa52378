/*
 * The machine that extends or releases a lock of a majority. It asks all servers until a majority has
 * replied, within one attempt limit, and then sees to the others. An extension also asks servers without our
 * vote for one.
 */
#pragma once

#include "protocol/quorum.h"
#include "protocol/settle.h"

typedef struct {
    tl_attempt attempt;
    tl_mono next;    /**< when to ask; TL_NEVER while a request is in flight, or when it is done */
    uint16_t ticket; /**< ticket of the request in flight; 0: there is none */
    bool maybe;      /**< an earlier request may have taken effect */
    bool voting;     /**< RENEW: it asks for a missing vote */
    bool done;       /**< the server has given a final reply (`code`), or can't give one */
    tl_err code;
} tl_quorum_plea;

typedef struct {
    tl_result result;   /**< final at END or DETACH: the codes of RENEW or RELEASE */
    tl_ballots ballots; /**< RENEW, OK: the votes after it */
    tl_job job;
    tl_job child; /**< the job of the request that is being built or read */
    tl_quorum_plea plea[TL_QUORUM_MAX];
    tl_retrier retry;
    tl_mono end;   /**< RELEASE, detached: after this trying is useless */
    tl_mono grace; /**< a majority has replied: it waits for the others until then */
    uint16_t ticket;
    uint8_t voted; /**< a bit for each server whose vote was valid when it began */
    bool detached;
    bool rests;   /**< RELEASE: the lock still has to rest */
    bool in_time; /**< RELEASE: first sent while the lock was still believed */
} tl_quorum_settlement;

/** op: TL_RENEW or TL_RELEASE. */
void tl__quorum_settle_init(tl_quorum_settlement *settlement, const tl_job *job,
                            const tl_ballots *ballots, tl_op op, uint64_t seed);

tl_status tl__quorum_settle_step(void *machine, const tl_event *event, tl_out *out);
