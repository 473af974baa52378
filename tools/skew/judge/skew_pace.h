/*
 * How a host's clock behaves from round to round: whether it runs faster or slower against the
 * server's than a clock can, and whether it is set repeatedly. If so, the record counts for less,
 * even before the next measurement. Pure.
 */
#pragma once

#include "skew/judge/skew_record.h"
#include "skew/judge/skew_track.h"

#define SKEW_PACE_LEAST_MS 900 /**< rounds closer together say too little about a rate */

typedef struct {
    int64_t us; /**< upper bound of the step; 0: none */
    tl_mono at;
} skew_set;

typedef struct {
    bool known; /**< what the last round measured by itself: */
    tl_interval offset;
    tl_mono at;
    uint32_t breaks;  /**< contradictions counted up to that round, */
    uint32_t seen;    /**< and up to the last round of all */
    bool blind;       /**< it runs wrong within a single round, at a rate not known yet */
    uint32_t rounds;  /**< rounds that could be compared with the one before */
    bool was_off;     /**< after some round the clock had moved more than a clock can, */
    uint32_t even;    /**< and for so many rounds since then (or from the start) it had not; */
    tl_interval from; /**< the offset measured in that round, or in the first, */
    int64_t may_us;   /**< and how far the clock may have moved since */
    int64_t ppb;      /**< its fastest recent rate in rounds with too much movement; 0: none */
    bool wrong;       /**< it happened once, and soon again */
    skew_set set[2];  /**< its last two steps */
} skew_pace;

/** Call after a round. bound_ppm: how fast a clock can move if its daemon may slew it. */
void skew_pace_learn(skew_pace *pace, skew_track *track, int32_t bound_ppm);

/** Another server is the reference from now on: rates are forgotten. */
void skew_pace_forget(skew_pace *pace);

/** Is it unclear whether the last round saw a step or the beginning of a wrong rate? Another round
 *  soon shows. */
bool skew_pace_wonders(const skew_pace *pace);

/** The observed rate, in ppm, at which the clock and the server's may drift apart beyond the usual;
 *  0: nothing observed. */
int32_t skew_pace_ppm(const skew_pace *pace);

/** By how much, in us, the clock may have been set since it was measured, judging by earlier steps.
 *  A step counts for 15 minutes. If the clock is set again within 25 hours, it counts for that
 *  long. */
int64_t skew_pace_step_us(const skew_pace *pace, tl_mono now);

/** Write these observations into a record. */
void skew_pace_mark(const skew_pace *pace, tl_mono now, skew_record *record);
