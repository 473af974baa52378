/*
 * What only tests ask of the machines that renew: to begin at once, and how many votes are good.
 */
#pragma once

#include "protocol/quorum.h"
#include "protocol/renew.h"

/** hold: TL_NEVER, or when the lock is to be lost at the latest. by_hand: only watch the deadline. */
static inline void renew_begin(tl_renew *r, const tl_job *job, tl_mono deadline, tl_mono hold,
                               bool by_hand, uint64_t seed) {
    tl_rest rest = tl__rest_begin(hold, by_hand, seed);
    *r = (tl_renew){.job = *job};
    tl__renew_resume(r, deadline, TL_NEVER, &rest);
}

/** So many votes are good at `now`. */
static inline unsigned ballots_live(const tl_ballots *b, tl_mono now) {
    unsigned live = 0;
    for (unsigned i = 0; i < b->count; i++)
        live += tl__mono_before(now, b->until[i]);
    return live;
}
