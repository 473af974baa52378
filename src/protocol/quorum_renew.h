/*
 * The machine that keeps a lock of a majority: renews each server's vote in time, has those voted again that lost it, and
 * says at once when fewer than all hold it, or no majority.
 */
#pragma once

#include "protocol/quorum.h"
#include "protocol/renew.h"

typedef struct {
    tl_attempt attempt;
    tl_mono next; /**< when to ask; TL_NEVER while a request is in flight, or by hand */
    uint32_t failures;
    uint16_t ticket; /**< of the request in flight; 0: there is none */
    bool voting;     /**< it asks for the vote anew */
    bool bound;      /**< S knows of it there */
    bool again; /**< ask once more after it: it may have been executed before the clock stepped */
} tl_quorum_seat;

typedef struct {
    tl_result result; /**< deadline: the present one, after each step; at END code TL_ELOST, why */
    tl_job job;
    tl_job child;       /**< of the request that is being built or read */
    tl_ballots ballots; /**< as they are now */
    tl_quorum_seat seat[TL_QUORUM_MAX];
    tl_mono hold; /**< the lock ends by then */
    uint64_t random;
    uint16_t ticket;
    uint8_t gone,
        taken; /**< a bit for each server that has said that K isn't ours: nobody's, another's */
    bool by_hand, at_risk;
    bool mended; /**< by an extension, which the owner is to be told of */
} tl_quorum_renewal;

/** job.hold.fence: the hold's. hold: TL_NEVER, or when the lock is to be lost at the latest. by_hand: only watch the
 *  deadline. */
void tl__quorum_renew_init(tl_quorum_renewal *renewal, const tl_job *job, const tl_ballots *ballots,
                           tl_mono hold, bool by_hand, uint64_t seed);

/** Besides the common events: TL_WOKEN makes it renew now at that server, whose clock has stepped. */
tl_status tl__quorum_renew_step(void *machine, const tl_event *event, tl_out *out);

/** As tl__renew_extended, with the ballots of the extension. */
void tl__quorum_renew_extended(tl_quorum_renewal *renewal, int64_t ttl_ms,
                               const tl_ballots *ballots, tl_mono now);
