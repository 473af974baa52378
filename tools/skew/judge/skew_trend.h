/*
 * How the clocks develop: a host's drift, from its intervals over time; and when a lock can be
 * stolen, if that drift continues. Bounds, never estimates. Pure except for memory.
 */
#pragma once

#include "skew/judge/skew_past.h"

/** ppb; no clock drifts faster by itself. A faster one was set, or is being corrected. */
#define TREND_PPB_MOST 500000
/** So many points are used: all of the newest, and some of the older ones. */
#define TREND_POINTS 512
/** ms; nothing is predicted beyond this. */
#define TREND_FOREVER_MS (INT64_C(100) * 365 * 86400000)

/** A steady drift, and since when. */
typedef struct {
    bool known;
    tl_interval ppb;
    int64_t from_ms, to_ms;
    bool bent; /**< before from_ms the drift was different */
} skew_trend;

/** For points in order of time: the longest stretch up to the newest point for which one line
 *  passes through all intervals, and the possible slopes of such a line. Not known for less than
 *  two points. */
skew_trend trend_of(const past_point *point, size_t count);

typedef enum {
    TREND_UNSAFE,   /**< a theft is possible already */
    TREND_DOUBT,    /**< a theft can already not be ruled out */
    TREND_DRIFTING, /**< a theft comes nearer, or may */
    TREND_STEADY,   /**< no pair of clocks drifts towards it */
    TREND_UNKNOWN   /**< no drift is known */
} trend_state;

/** In ms from the latest run on; -1: not predicted. */
typedef struct {
    trend_state state;
    int64_t earliest_ms; /**< before this no theft is possible */
    /** from here on a theft is possible, wherever the truth lies in the intervals */
    int64_t latest_ms;
    /** the pair of earliest_ms, as indices of the latest run's hosts; -1: none */
    int holder, taker;
    int unknown;     /**< hosts without a known offset and drift; earliest_ms leaves them out */
    int one_unknown; /**< one of these, if possible of the worst pair */
} trend_outlook;

/** drift[i] is of the result's host i. */
trend_outlook trend_look_ahead(const skew_result *result, const skew_trend *drift);

/** The state's name for machines, such as "unsafe". */
const char *trend_state_name(trend_state s);
