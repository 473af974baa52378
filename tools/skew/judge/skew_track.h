/*
 * What is known of the offset of a host's wall clock from the server's: an interval with the truth
 * inside, from brackets that are intersected, aged and, after a step or a resume, thrown away. Pure.
 */
#pragma once

#include "wire/interval.h"

/** The host's clocks at one moment, each read between two readings of the deadline clock. */
typedef struct {
    tl_mono before, after; /**< the moment is between them */
    int64_t wall_us;       /**< CLOCK_REALTIME, rounded down */
    tl_interval wall;      /**< CLOCK_REALTIME - deadline clock, us: only a step moves it */
    tl_interval slept;     /**< deadline clock - CLOCK_MONOTONIC, us: only a suspend moves it */
} skew_reading;

/** The reading, from what the clocks said in this order: deadline, real-time, monotonic, deadline. */
skew_reading skew_read(tl_mono before, int64_t wall_us, int64_t monotonic_ns, tl_mono after);

/** An edge of the offset as one exchange proved it. It ages from then on, in one piece: each rounding
 *  goes outwards, and one at each sample would eat what is gained by many. */
typedef struct {
    int64_t us;
    tl_mono since;
} skew_edge;

typedef struct {
    bool known;
    tl_interval offset; /**< wall clock - server, us, as of `at` */
    tl_mono at;
    skew_edge lo, hi;  /**< what `offset` comes from */
    int32_t rate_ppm;  /**< that they have aged by */
    int64_t stamp_us;  /**< the server's clock when it last answered */
    tl_interval first; /**< the oldest bracket that still counts, as of first_at */
    tl_mono first_at;
    tl_interval wall, slept; /**< of all readings since */
    bool has_reading;
    uint32_t samples;          /**< since the evidence begins */
    uint32_t steps;            /**< of the host's own clock */
    uint32_t resumes;          /**< from a suspend */
    uint32_t server_steps;     /**< contradictions that no step of our own explains */
    int64_t server_stepped_us; /**< the server's clock when the last of those was seen; 0 never */
    int64_t
        set_by_us; /**< by how much the host's clock was set at most, the largest since that was taken (0) */
    tl_interval
        best; /**< the narrowest bracket since skew_track_round, or the last step; as of best_at */
    tl_mono best_at;
    bool has_best;
} skew_track;

/** A new round begins, of which there is no bracket yet. */
void skew_track_round(skew_track *track);

/**
 * Learn from one answer: the server's stamp, between two readings of our clocks. rate_ppm bounds how
 * fast the two wall clocks may move against each other. A reading that shows a step or a resume
 * throws away what was known; a bracket that contradicts it does too, and counts as the server's
 * step. Where the host's clock was set during the exchange, its end alone counts. A step of the server that is smaller than the uncertainty can't be seen: it makes the
 * interval wrong by no more than the step.
 */
void skew_learn(skew_track *track, const skew_reading *sent, int64_t stamp_us,
                const skew_reading *received, int32_t rate_ppm);

/** The same for an answer with two stamps, of when the question came and when the answer left. Stamps
 *  that are further apart than the exchange took count as a step of the server and prove nothing. */
void skew_learn_two(skew_track *track, const skew_reading *sent, int64_t first_us, int64_t last_us,
                    const skew_reading *received, int32_t rate_ppm);

/** How fast a clock that its daemon may slew by slew_ppm, and drifts by drift_ppm, moves against another in the
 *  time that passes on it: when it is slewed to run slower, more time has passed than it shows. */
int32_t skew_rate(int32_t drift_ppm, int32_t slew_ppm);

/** Has this host's clock not been set, nor the host slept, since the track's readings? */
bool skew_unbroken(const skew_track *track, const skew_reading *now);

/** The offset at `now`; call only when known. */
tl_interval skew_offset(const skew_track *track, tl_mono now, int32_t rate_ppm);

/** How the offset moved, in parts per billion, since the evidence begins; false when that is less
 *  than a second ago. */
bool skew_drift(const skew_track *track, tl_interval *ret_ppb);
