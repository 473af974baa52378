/*
 * Where the clocks are going: a host's drift from its intervals over time, and when, if all goes on like
 * that, a lock can be stolen. Bounds, never estimates. Pure but for memory.
 */
#pragma once

#include "skew/judge/skew_past.h"

/** No clock drifts faster by itself, ppb: what moves faster was set, or is being corrected. */
#define TREND_PPB_MOST 500000
/** So many points are looked at, the newest of all and of the older ones some. */
#define TREND_POINTS 512
/** Nothing is foreseen beyond that. */
#define TREND_FOREVER_MS (INT64_C(100) * 365 * 86400000)

/** A steady drift, and since when there has been one. */
typedef struct {
    bool known;
    tl_interval ppb;
    int64_t from_ms, to_ms;
    bool bent; /**< before from_ms it was another */
} skew_trend;

/** Of points in order of time: the longest stretch up to the newest for which one line passes through
 *  all intervals, and the slopes that it can have. Unknown for less than two points. */
skew_trend trend_of(const past_point *point, size_t count);

typedef enum {
    TREND_UNSAFE,   /**< a theft is possible already */
    TREND_DOUBT,    /**< it can't be ruled out already */
    TREND_DRIFTING, /**< it comes nearer, or may */
    TREND_STEADY,   /**< no pair of clocks drifts towards it */
    TREND_UNKNOWN   /**< there is no drift to go by */
} trend_state;

/** From the latest run on, ms; -1: not foreseen. */
typedef struct {
    trend_state state;
    int64_t earliest_ms; /**< before that none is possible */
    int64_t latest_ms;   /**< from then on one is, whatever the truth in the intervals */
    int holder, taker;   /**< the pair of the earliest, of the latest run's hosts; -1: none */
    int unknown; /**< hosts without a known offset and drift; then earliest is of the others alone */
    int one_unknown; /**< one of them */
} trend_outlook;

/** drift[i] is of the result's host i. */
trend_outlook trend_look_ahead(const skew_result *result, const skew_trend *drift);

/** "unsafe" and so on, for machines. */
const char *trend_state_name(trend_state s);
