/*
 * The offset of a host's wall clock from the server's, as an interval that contains the truth. It
 * is made of brackets (the bounds that one exchange proves), which are intersected and aged. After
 * a step or a resume they are thrown away. Pure.
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

/** Make a reading of clocks that were read in this order: deadline, real-time, monotonic,
 *  deadline. */
skew_reading skew_read(tl_mono before, int64_t wall_us, int64_t monotonic_ns, tl_mono after);

/** An edge of the offset, as proved by one exchange. It ages from then on in a single calculation:
 *  rounding at each sample would lose what many samples gain. */
typedef struct {
    int64_t us;
    tl_mono since;
} skew_edge;

typedef struct {
    bool known;
    tl_interval offset; /**< wall clock - server, us, as of `at` */
    tl_mono at;
    skew_edge lo, hi;   /**< the edges that make `offset` */
    int32_t rate_ppm;   /**< the rate by which they have aged */
    int32_t kernel_ppm; /**< the caller's: the rate that the kernel reported at the last sample */
    int64_t slewed_us;  /**< the caller's: how far the kernel had slewed the clock by then */
    int64_t stamp_us;   /**< the server's clock in its last reply */
    tl_interval first;  /**< the oldest bracket still valid, as of first_at */
    tl_mono first_at;
    tl_interval wall, slept; /**< of all readings since */
    bool has_reading;
    uint32_t samples;          /**< since the evidence began */
    uint32_t steps;            /**< of the host's own clock */
    uint32_t resumes;          /**< from a suspend */
    uint32_t server_steps;     /**< contradictions that no step of our own clock explains */
    int64_t server_stepped_us; /**< the server's clock at the last of those; 0 never */
    int64_t set_by_us; /**< us; largest step of the host's clock since a caller reset this to 0 */
    tl_interval
        best; /**< narrowest bracket since skew_track_round or the last step, as of best_at */
    tl_mono best_at;
    bool has_best;
} skew_track;

/** Begin a new round, which has no bracket yet. */
void skew_track_round(skew_track *track);

/**
 * Add one reply to the track: the server's time, between two readings of our clocks. rate_ppm
 * bounds how fast the two wall clocks may drift apart. A reading that shows a step or a resume
 * discards the former evidence. So does a bracket that contradicts it; that counts as a step of the
 * server. If the host's clock was set during the exchange, only the exchange's end counts. A step
 * of the server that is smaller than the uncertainty can't be noticed: the interval is then wrong
 * by at most the step.
 */
void skew_learn(skew_track *track, const skew_reading *sent, int64_t stamp_us,
                const skew_reading *received, int32_t rate_ppm);

/** The same for a reply with two times: when the request arrived, and when the reply left.
 *  Times that are further apart than the exchange took count as a step of the server, and prove
 *  nothing. */
void skew_learn_two(skew_track *track, const skew_reading *sent, int64_t first_us, int64_t last_us,
                    const skew_reading *received, int32_t rate_ppm);

/** The rate of a clock with drift drift_ppm and slew of up to slew_ppm, against another clock. It
 *  is relative to the time that the clock itself shows: a clock that is slewed to run slower shows
 *  less time than has passed. */
int32_t skew_rate(int32_t drift_ppm, int32_t slew_ppm);

/** True if since the track's readings this host's clock was not set, and the host was not
 *  suspended. */
bool skew_unbroken(const skew_track *track, const skew_reading *now);

/** The offset at `now`. Only for a known track. */
tl_interval skew_offset(const skew_track *track, tl_mono now, int32_t rate_ppm);

/** The offset's drift, in parts per billion, since the evidence began. False: that is less than a
 *  second. */
bool skew_drift(const skew_track *track, tl_interval *ret_ppb);
