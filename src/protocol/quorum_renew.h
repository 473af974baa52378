/*
 * The machine that renews a lock of a majority. It renews each server's vote in time, and asks servers that
 * lost their vote to vote again. It reports at once when fewer than all servers hold the lock (AT_RISK), or
 * no majority (LOST).
 */
#pragma once

#include "protocol/quorum.h"
#include "protocol/renew.h"

typedef struct {
    tl_attempt attempt;
    /** when to ask; TL_NEVER while a request is in flight, or if renewals are manual */
    tl_mono next;
    uint32_t failures;
    uint16_t ticket; /**< ticket of the request in flight; 0: there is none */
    bool voting;     /**< it asks for the vote again */
    bool bound;      /**< S has the hold there */
    /** ask once more after this request, which may have been executed before the clock stepped */
    bool again;
} tl_quorum_seat;

typedef struct {
    /** deadline, proved: the present ones, after each step; at END code TL_ELOST, with the reason */
    tl_result result;
    tl_job job;
    tl_job child;       /**< the job of the request that is being built or read */
    tl_ballots ballots; /**< the present votes */
    tl_quorum_seat seat[TL_QUORUM_MAX];
    tl_mono hold; /**< the lock is lost at the latest then */
    uint64_t random;
    uint16_t ticket;
    uint8_t gone,
        /** a bit for each server that replied that K is nobody's (gone), or another's (taken) */
        taken;
    bool by_hand, at_risk;
    bool mended;  /**< an extension has fixed the risk: notify the owner */
    bool stalled; /**< as in tl_rest */
    /** the disruption that has put the hold in doubt; ns 0: none has */
    tl_mono doubted;
    tl_mono stalls; /**< as in tl_renew; set before each step */
} tl_quorum_renewal;

/** job.hold.fence: the hold's. hold: when the lock is lost at the latest, or TL_NEVER. by_hand: never renew,
 *  only watch the deadline. Before each step set `stalls`, which is TL_NEVER at first, and job.hold.disrupted and
 *  .copied. */
void tl__quorum_renew_init(tl_quorum_renewal *renewal, const tl_job *job, const tl_ballots *ballots,
                           tl_mono hold, bool by_hand, uint64_t seed);

/** Besides the common events: TL_WOKEN makes it renew now at the server event->from, whose clock has
 *  stepped. */
tl_status tl__quorum_renew_step(void *machine, const tl_event *event, tl_out *out);

/** As tl__renew_extended, with the votes of the extension. */
void tl__quorum_renew_extended(tl_quorum_renewal *renewal, int64_t ttl_ms,
                               const tl_ballots *ballots, tl_mono now);
