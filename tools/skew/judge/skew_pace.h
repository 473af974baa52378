/*
 * How a host's clock behaves from round to round: whether it runs faster or slower against the server's than a
 * clock may, and whether it is set again and again. What was measured counts for less then, before anybody can
 * measure again. Pure.
 */
#pragma once

#include "skew/judge/skew_record.h"
#include "skew/judge/skew_track.h"

#define SKEW_PACE_LEAST_MS 900 /**< rounds that follow sooner say too little of a rate */

typedef struct {
    int64_t us; /**< how large it was at most; 0: there was none */
    tl_mono at;
} skew_set;

typedef struct {
    bool known; /**< what the last round measured by itself: */
    tl_interval offset;
    tl_mono at;
    uint32_t breaks;  /**< what contradicted the evidence before then, */
    uint32_t seen;    /**< and before the last round of all */
    bool blind;       /**< it runs wrong within a single round, and by how much is not known yet */
    uint32_t rounds;  /**< that could be compared with the one before */
    bool was_off;     /**< after one the clock was where no clock may be, */
    uint32_t even;    /**< and for so many in a row since then, or from the first on, it was not; */
    tl_interval from; /**< this was measured in that one, or in the first, */
    int64_t may_us;   /**< and it may have moved so far since */
    int64_t ppb; /**< the fastest that it moved in rounds of the first kind, lately; 0: in none */
    bool wrong;  /**< once, and soon again */
    skew_set set[2]; /**< when it was set last, and before */
} skew_pace;

/** After a round. bound_ppm: how fast a clock may move, that its daemon may slew. */
void skew_pace_learn(skew_pace *pace, skew_track *track, int32_t bound_ppm);

/** Another server is measured against from now on: rates are forgotten. */
void skew_pace_forget(skew_pace *pace);

/** The last round may have seen a step, or the beginning of a wrong rate: another soon tells. */
bool skew_pace_wonders(const skew_pace *pace);

/** By how much the clock and the server's may part besides the usual, ppm: as it was seen to; 0: nothing was seen. */
int32_t skew_pace_ppm(const skew_pace *pace);

/** By so much the clock may have been set since it was measured, us: as it was before. A step counts for 15 minutes; of a
 *  clock that is set again within 25 hours, for as long. */
int64_t skew_pace_step_us(const skew_pace *pace, tl_mono now);

/** Put all of it into a record. */
void skew_pace_mark(const skew_pace *pace, tl_mono now, skew_record *record);
